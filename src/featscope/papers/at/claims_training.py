"""Claims about what training finds: AT-T4.3, AT-T4.4, AT-F3."""

from __future__ import annotations

import math
from operator import itemgetter

import numpy as np

from featscope.certificates.at import fooled
from featscope.claims.claim import Claim, Finding, Judge, Need, Reading, Runs, plain
from featscope.claims.judging import at_least, at_most, error_over_seeds, exactly, largest, smallest
from featscope.core.rules import MUCH, NEARLY, SMALL
from featscope.core.stats import Interval, wilson
from featscope.core.stored import labelled
from featscope.experiments.run import Run
from featscope.papers.at import printed
from featscope.papers.at.fig3_columns import ATTACKED_COLUMNS, DYNAMICS, RADII, Dynamics, Radii
from featscope.papers.at.fig3_summary import phase_switch
from featscope.papers.at.final_values import final_values
from featscope.papers.at.patch_batches import SWITCHES, Switches, median_switch
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.papers.at.runs import (
    ASSUMPTION,
    BATCHES,
    COORDINATE,
    DENSE_LAW,
    EUCLIDEAN,
    FIG3,
    FOR_ADVERSARIAL,
    FOR_STANDARD,
    FULL_BATCH,
    LONG_STEPS,
    MASKED,
    ON_MARGIN,
    PGD_TRAINING,
    QUARTIC,
    QUINTIC,
)


def _points(run: Run, column: str) -> int:
    """On how many test points of a seed a column was measured."""
    spec = PatchFig3.of(run)
    return min(spec.evaluation.points, spec.test_size) if column in ATTACKED_COLUMNS else spec.test_size


def _final_error(run: Run, arm: str, column: str) -> Interval:
    return error_over_seeds(final_values(run, arm, column).tolist(), _points(run, column))


def _small(arm: str, column: str) -> Judge:
    """The final error over seeds is at most SMALL."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        return at_most(
            _final_error(run, arm, column), SMALL, accuracy_by_seed=plain(final_values(run, arm, column))
        )

    return judge


def _large(arm: str, column: str) -> Judge:
    """The final error over seeds is at least 1 − SMALL."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        return at_least(
            _final_error(run, arm, column), 1 - SMALL, accuracy_by_seed=plain(final_values(run, arm, column))
        )

    return judge


def _perfect(arm: str, column: str) -> Judge:
    """No training point is wrong, in any seed."""

    def judge(runs: Runs) -> Finding:
        errors = 1 - final_values(runs["run"], arm, column)
        return exactly(largest(errors), 0.0, error_by_seed=plain(errors))

    return judge


def _bracketed(threat: str, points: str = "test") -> Judge:
    """The error over a threat: at least what attacks found, at most what is not certified; both over seeds.

    On test points the statement is o(1); on training points it is that none is wrong.
    """

    def judge(runs: Runs) -> Finding:
        run, spec = runs["run"], PatchFig3.of(runs["run"])
        # Where every seed diverged there are no rows, and so no columns.
        everything = run.part(RADII, arm="adversarial").to_dicts()
        chosen, place = (threat, points, spec.eps), itemgetter(Radii.threat, Radii.points, Radii.eps)
        rows = [row for row in everything if place(row) == chosen]
        count = min(spec.evaluation.curve_points, spec.train_size if points == "train" else spec.test_size)
        found = error_over_seeds([row[Radii.upper] for row in rows], count)
        possible = error_over_seeds([row[Radii.lower] for row in rows], count)
        shown = (Radii.upper, Radii.lower, Radii.cross_entropy_alone)
        extra = {str(key): [row[key] for row in rows] for key in shown}
        if points == "train":
            return at_most(Interval(found.value, found.value, possible.value), 0.0, **extra)
        return at_most(
            Interval(found.value, found.low, possible.high), SMALL, **extra, **_certificate(run, threat)
        )

    return judge


def _certificate(run: Run, threat: str) -> dict[str, object]:
    place = labelled(RADII, {Radii.arm: "adversarial"})
    if threat != "full-ball" or f"{place}/delta" not in run.tensors:
        return {}
    spec = PatchFig3.of(run)
    w, x, delta = (run.tensor(RADII, key, arm="adversarial").double().numpy() for key in ("w", "x", "delta"))
    y = run.tensor(RADII, "y", arm="adversarial").numpy()
    hits = fooled(w, x, y, delta, spec.eps, spec.net.q, spec.net.rho)
    interval = wilson(hits, len(y))
    return {
        "certificate": f"{place}/x, y, delta, w: explicit perturbations of the first run, re-verified",
        "fooled": f"{hits} of {len(y)}",
        "certified_error_at_least": interval.low,
    }


def dominance(arm: str, winner: str) -> Judge:
    """The smallest ratio of the winning to the other final correlation over classes and seeds, against ≫."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        u, v = (final_values(run, arm, column) for column in (Dynamics.u, Dynamics.v))
        ratio = (_times(u, v) if winner == Dynamics.u else _times(v, u)).ravel()
        switch = list(phase_switch(run.part(DYNAMICS, arm=arm)).values()) if arm != "standard" else None
        spread = Interval(smallest(ratio), smallest(ratio), largest(ratio))
        return at_least(spread, MUCH, u=plain(u), v=plain(v), phase_switch=switch)

    return judge


def _times(winner: np.ndarray, loser: np.ndarray) -> np.ndarray:
    """winner ÷ loser. What is not above zero is far below anything that is, and a winner that is not has not
    won: two negative numbers have no ratio."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(loser > 0, winner / loser, np.where(winner > 0, np.inf, -np.inf))
    return np.where(np.isnan(winner) | np.isnan(loser), np.nan, ratio)


def _adversarial(suffix: str, need: Need, text: str) -> tuple[Reading, ...]:
    """The items of Theorem 4.4 in one setting."""
    label = f" ({suffix})" if suffix else ""
    arm = "adversarial"
    return (
        Reading(
            f"perfect-fit{label}",
            f"right at X and X̃ on all training points; {text}",
            {"run": need},
            _perfect(arm, Dynamics.robust_train_training_attack),
        ),
        Reading(
            f"perfect-fit-full-ball{label}",
            f"no training point is wrong anywhere in its ball; {text}",
            {"run": need},
            _bracketed("full-ball", "train"),
        ),
        Reading(
            f"robust-features{label}",
            f"error on D_R; {text}",
            {"run": need},
            _small(arm, Dynamics.feature_robust),
        ),
        Reading(
            f"training-attack{label}",
            f"test error at X or X̃; {text}",
            {"run": need},
            _small(arm, Dynamics.robust_training_attack),
        ),
        Reading(
            f"feature-span{label}",
            f"test error over the ball within the features' span; {text}",
            {"run": need},
            _bracketed("feature-span"),
        ),
        Reading(
            f"full-ball{label}",
            f"test error over the whole ball; {text}",
            {"run": need},
            _bracketed("full-ball"),
        ),
    )


def _switch_epoch(runs: Runs) -> Finding:
    """How far the median epoch of the switch, over seeds and classes, is from the printed one, as a ratio."""
    run, sizes = runs["run"], runs["sizes"]
    by_seed = phase_switch(run.part(DYNAMICS, arm="adversarial"))
    ends = final_values(run, "adversarial", Dynamics.u)
    median = median_switch([switch for found in by_seed.values() for switch in found])
    told = printed.FIGURE_3_SWITCH_EPOCH
    off = max(_quotient(median, told), _quotient(told, median))
    if np.isnan(ends).any():  # a seed that diverged has no switch
        off = math.nan
    return at_most(
        Interval(off, off, off),
        NEARLY,
        median_epoch=median,
        phase_switch=list(by_seed.values()),
        batch_size=PatchFig3.of(run).adversarial.batch_size,
        note="the paper prints no batch size: 5 is inferred from its 150, which the other sizes miss",
        median_epoch_by_batch_size=_by_batch_size(sizes),
    )


def _quotient(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else math.inf


def _by_batch_size(run: Run) -> dict[str, object]:
    groups = run.part(SWITCHES).group_by(Switches.batch_size, maintain_order=True)
    return {str(size): median_switch(group[Switches.switch].to_list()) for (size,), group in groups}


#: the settings in which Figure 3's switch of phase is looked for
SWITCHING = (
    ("", FIG3, "η = 0.1, batches of 5, patch clip"),
    (" (full batch)", FULL_BATCH, "η = 0.1, full batch, patch clip"),
    (" (full batch, η = 1)", LONG_STEPS, "η = 1, full batch, patch clip"),
    (" (coordinate)", COORDINATE, "η = 0.1, batches of 5, coordinate clip"),
)


def _standard(suffix: str, need: Need, text: str) -> tuple[Reading, ...]:
    """The items of Theorem 4.3 in one setting."""
    label, arm = f" ({suffix})" if suffix else "", "standard"
    judges = {
        "perfect-fit": ("no training point is wrong", _perfect(arm, Dynamics.clean_train)),
        "non-robust-features": ("error on D_NR", _small(arm, Dynamics.feature_non_robust)),
        "clean": ("test error", _small(arm, Dynamics.clean_test)),
        "robust-bad": ("test error under the model-free Δ", _large(arm, Dynamics.robust_model_free)),
    }
    return tuple(
        Reading(f"{name}{label}", f"{measured}; {text}", {"run": need}, judge)
        for name, (measured, judge) in judges.items()
    )


DENSE_TEXT = "d = 40, P = 20 001, α = 12, ε = 1.1, σ0 = 0.001, η = 1/P"

CLAIMS = (
    Claim(
        id="AT-T4.3",
        paper="at",
        reference="AT Theorem 4.3",
        statement="Standard training fits perfectly, learns the non-robust features, generalises, and fails "
        "under a perturbation that looks at no model.",
        hypotheses=ASSUMPTION,
        assumes=FOR_STANDARD,
        readings=(
            *_standard("", FIG3, "η = 0.1, batches of 5"),
            *_standard("full batch", FULL_BATCH, "η = 0.1, full batch"),
            _standard("ℓ2", EUCLIDEAN, "η = 0.1, batches of 5, Δ in the ℓ2 ball of each patch")[-1],
            *_standard("q = 4", QUARTIC, "η = 0.1, batches of 5, q = 4, σ0 = 0.1"),
            *_standard("q = 5", QUINTIC, "η = 0.1, batches of 5, q = 5, σ0 = 0.1"),
            *_standard("all met but σ0", DENSE_LAW, f"{DENSE_TEXT}, full batch"),
        ),
    ),
    Claim(
        id="AT-T4.4",
        paper="at",
        reference="AT Theorem 4.4",
        statement="Adversarial training fits robustly, learns the robust features, and is robust on fresh "
        "data.",
        hypotheses=ASSUMPTION,
        assumes=FOR_ADVERSARIAL,
        readings=(
            *_adversarial("", FIG3, "η = 0.1, batches of 5, patch clip"),
            *_adversarial("full batch", FULL_BATCH, "η = 0.1, full batch, patch clip"),
            *_adversarial("full batch, η = 1", LONG_STEPS, "η = 1, full batch, patch clip"),
            *_adversarial("coordinate", COORDINATE, "η = 0.1, batches of 5, coordinate clip"),
            *_adversarial("masked", MASKED, "η = 10, full batch, coordinate clip, where the loss saturates"),
            *_adversarial(
                "pgd",
                PGD_TRAINING,
                "η = 0.1, batches of 5, PGD with three steps as the training attack, one seed",
            ),
            *_adversarial("ℓ2", EUCLIDEAN, "η = 0.1, batches of 5, patch clip, ℓ2 ball of each patch"),
            *_adversarial("margin", ON_MARGIN, "η = 0.1, batches of 5, patch clip, ascent on the margin"),
            *_adversarial("q = 4", QUARTIC, "η = 0.1, batches of 5, patch clip, q = 4, σ0 = 0.1"),
            *_adversarial("q = 5", QUINTIC, "η = 0.1, batches of 5, patch clip, q = 5, σ0 = 0.1"),
            *_adversarial("all met but σ0", DENSE_LAW, f"{DENSE_TEXT}, full batch, patch clip"),
        ),
    ),
    Claim(
        id="AT-F3",
        paper="at",
        reference="AT Figure 3",
        statement="Standard training ends with v far above u; adversarial training switches phase and ends "
        "with u far above v.",
        hypotheses=("Figure 3's law",),
        readings=(
            Reading(
                "standard",
                "smallest v ÷ u over classes and seeds; η = 0.1, batches of 5",
                {"run": FIG3},
                dominance("standard", Dynamics.v),
            ),
            *(
                Reading(
                    f"adversarial{label}",
                    f"smallest u ÷ v; {text}",
                    {"run": need},
                    dominance("adversarial", Dynamics.u),
                )
                for label, need, text in SWITCHING
            ),
            *(
                Reading(
                    f"switch-epoch{label}",
                    f"median over seeds and classes against the printed 150, as a ratio; {text}",
                    {"run": need, "sizes": BATCHES},
                    _switch_epoch,
                )
                for label, need, text in SWITCHING
            ),
        ),
    ),
)
