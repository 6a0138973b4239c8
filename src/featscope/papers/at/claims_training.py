"""Claims about what training finds: AT-T4.3, AT-T4.4, AT-F3."""

from __future__ import annotations

import numpy as np

from featscope.claims.claim import Claim, Finding, Judge, Need, Reading, Runs, plain
from featscope.claims.judging import at_least, at_most, exactly, largest, pooled_error, smallest
from featscope.core.rules import MUCH, SMALL
from featscope.core.stats import Interval, wilson
from featscope.experiments.run import Run
from featscope.papers.at.certificates import fooled
from featscope.papers.at.finals import finals
from featscope.papers.at.runs import ASSUMPTION, COORDINATE, FIG3, LITERAL, MASKED, PGD_TRAINING


def _points(run: Run, column: str) -> int:
    body = run.spec["spec"]
    return min(int(body["evaluation"]["points"]), int(body["test_size"])) if column.startswith("robust_") else int(body["test_size"])


def _final_error(run: Run, arm: str, column: str) -> Interval:
    return pooled_error(finals(run, arm, column).tolist(), _points(run, column))


def _small(arm: str, column: str) -> Judge:
    """The final error, pooled over seeds, is at most SMALL."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        return at_most(_final_error(run, arm, column), SMALL, accuracy_by_seed=plain(finals(run, arm, column)))

    return judge


def _large(arm: str, column: str) -> Judge:
    """The final error, pooled over seeds, is at least 1 − SMALL."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        return at_least(_final_error(run, arm, column), 1 - SMALL, accuracy_by_seed=plain(finals(run, arm, column)))

    return judge


def _perfect(column: str, arm: str) -> Judge:
    """No training point is wrong, in any seed."""

    def judge(runs: Runs) -> Finding:
        errors = 1 - finals(runs["run"], arm, column)
        return exactly(largest(errors), 0.0, error_by_seed=plain(errors))

    return judge


def _bracketed(threat: str, points: str = "test") -> Judge:
    """The error over a threat: at least what attacks found, at most what is not certified; both pooled over seeds.

    On test points the statement is o(1); on training points it is that none is wrong.
    """

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        body = run.spec["spec"]
        rows = [
            r
            for r in run.part("adversarial-radii").to_dicts()
            if r["threat"] == threat and r["points"] == points and r["eps"] == body["eps"]
        ]
        count = min(int(body["evaluation"]["curve_points"]), int(body[f"{points}_size"]))
        found = pooled_error([r["upper"] for r in rows], count)
        possible = pooled_error([r["lower"] for r in rows], count)
        extra = plain({key: [r[key] for r in rows] for key in ("upper", "lower", "cross_entropy_alone")})
        if points == "train":
            return at_most(Interval(found.value, found.value, possible.value), 0.0, **extra)
        return at_most(Interval(found.value, found.low, possible.high), SMALL, **extra, **_certificate(run, threat))

    return judge


def _certificate(run: Run, threat: str) -> dict[str, object]:
    if threat != "full-ball" or "adversarial-radii/delta" not in run.tensors:
        return {}
    body = run.spec["spec"]
    t = {key: run.tensors[f"adversarial-radii/{key}"].double().numpy() for key in ("x", "delta", "w")}
    y = run.tensors["adversarial-radii/y"].numpy()
    hits = fooled(t["w"], t["x"], y, t["delta"], float(body["eps"]), int(body["net"]["q"]), float(body["net"]["rho"]))
    interval = wilson(hits, len(y))
    return {
        "certificate": "adversarial-radii/x, y, delta, w: explicit perturbations of the first run, re-verified",
        "fooled": f"{hits} of {len(y)}",
        "certified_error_at_least": interval.low,
    }


def _dominance(arm: str, winner: str) -> Judge:
    """The smallest ratio of the winning to the other final correlation over classes and seeds, against ≫."""

    def judge(runs: Runs) -> Finding:
        u, v = (finals(runs["run"], arm, column) for column in "uv")
        ratio = _times(u, v) if winner == "u" else _times(v, u)
        extra = {"u": plain(u), "v": plain(v), "phase_switch": runs["run"].summary[arm].get("phase_switch_by_seed")}
        return at_least(Interval(smallest(ratio), smallest(ratio), largest(ratio)), MUCH, **extra)

    return judge


def _times(winner: np.ndarray, loser: np.ndarray) -> np.ndarray:
    """winner ÷ loser. What is not above zero is far below anything that is, and a winner that is not has not won: two negative numbers have no ratio."""
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
            _perfect("robust_train_training-attack", arm),
        ),
        Reading(
            f"perfect-fit-full-ball{label}",
            f"no training point is wrong anywhere in its ball; {text}",
            {"run": need},
            _bracketed("full-ball", "train"),
        ),
        Reading(f"robust-features{label}", f"error on D_R; {text}", {"run": need}, _small(arm, "feature_robust")),
        Reading(f"training-attack{label}", f"test error at X or X̃; {text}", {"run": need}, _small(arm, "robust_training-attack")),
        Reading(
            f"feature-span{label}", f"test error over the ball within the features' span; {text}", {"run": need}, _bracketed("feature-span")
        ),
        Reading(f"full-ball{label}", f"test error over the whole ball; {text}", {"run": need}, _bracketed("full-ball")),
    )


CLAIMS = (
    Claim(
        id="AT-T4.3",
        paper="at",
        reference="AT Theorem 4.3",
        statement="Standard training fits perfectly, learns the non-robust features, generalises, and fails under a perturbation that looks at no model.",
        hypotheses=ASSUMPTION,
        readings=(
            Reading("perfect-fit", "no training point is wrong", {"run": FIG3}, _perfect("clean_train", "standard")),
            Reading("non-robust-features", "error on D_NR", {"run": FIG3}, _small("standard", "feature_non_robust")),
            Reading("clean", "test error", {"run": FIG3}, _small("standard", "clean_test")),
            Reading("robust-bad", "test error under the model-free Δ", {"run": FIG3}, _large("standard", "robust_model-free")),
        ),
    ),
    Claim(
        id="AT-T4.4",
        paper="at",
        reference="AT Theorem 4.4",
        statement="Adversarial training fits robustly, learns the robust features, and is robust on fresh data.",
        hypotheses=ASSUMPTION,
        readings=(
            *_adversarial("", FIG3, "η = 1, patch clip"),
            *_adversarial("literal", LITERAL, "η = 0.1, T = 1000, patch clip"),
            *_adversarial("coordinate", COORDINATE, "η = 1, coordinate clip"),
            *_adversarial("masked", MASKED, "η = 10, coordinate clip, where the loss saturates"),
            *_adversarial("pgd", PGD_TRAINING, "η = 1, PGD with three steps as the training attack, one seed"),
        ),
    ),
    Claim(
        id="AT-F3",
        paper="at",
        reference="AT Figure 3",
        statement="Standard training ends with v far above u; adversarial training switches phase and ends with u far above v.",
        hypotheses=("Figure 3's law",),
        readings=(
            Reading("standard", "smallest v ÷ u over classes and seeds", {"run": FIG3}, _dominance("standard", "v")),
            Reading("adversarial", "smallest u ÷ v; η = 1, patch clip", {"run": FIG3}, _dominance("adversarial", "u")),
            Reading(
                "adversarial-literal", "smallest u ÷ v; the paper's η = 0.1, T = 1000", {"run": LITERAL}, _dominance("adversarial", "u")
            ),
            Reading(
                "adversarial-coordinate", "smallest u ÷ v; η = 1, coordinate clip", {"run": COORDINATE}, _dominance("adversarial", "u")
            ),
        ),
    ),
)
