"""Claims about what training ends with in AT's simplified setting, from end states in closed form: AT-TD.1,
LD.12 to LD.14, TD.15, LD.27, LD.28; and AT-LE.11."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict, plain
from featscope.claims.judging import (
    at_least,
    at_most,
    every,
    exponent_at_most,
    largest,
    numbers,
    smallest,
    soft,
)
from featscope.core.rules import CONSTANT, SMALL
from featscope.core.stats import NOTHING, Interval, wilson
from featscope.experiments.run import Run
from featscope.papers.at.fig3_columns import Dynamics
from featscope.papers.at.final_values import final_values
from featscope.papers.at.inside import gentle, inside
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.papers.at.patch_scaling import PatchScaling
from featscope.papers.at.runs import (
    ATTACKED_GROWTH,
    FIG3,
    GROWTH,
    NOISE_SIZE,
    RADIUS_REACHES,
    RADIUS_SIZE,
    SIMPLIFIED_ADVERSARIAL,
    SIMPLIFIED_STANDARD,
)
from featscope.papers.at.scaling_columns import ENDS, Ends

SIMPLIFIED = (
    "noiseless population data",
    "η = 1/poly(d), entered as the small-step limit, until time d²",
    "Assumptions 2.3 and B.3",
)
STANDARD, ATTACKED = "standard", "features-only"


def _all_right(rows: pl.DataFrame, column: str) -> np.ndarray:
    """In which runs a share is 1."""
    right: np.ndarray = numbers(rows[column]) == 1.0
    return right


def _runs_share(surely: np.ndarray, possibly: np.ndarray, arrived: np.ndarray) -> Interval:
    """The share of runs in which something is so: at least those in which it surely is at the horizon, at
    most those in which it possibly is; of a run that has not arrived nothing is known."""
    if not arrived.size:
        return NOTHING
    sure, open_ = int((surely & arrived).sum()), int((possibly | ~arrived).sum())
    low, high = wilson(sure, arrived.size), wilson(open_, arrived.size)
    return Interval(low.value, low.low, high.high)


def _usually(arm: str, surely: str, possibly: str | None = None) -> Judge:
    """1 − o(1) over the starts: the share of runs in which all classes or pairs are so, against 1 − SMALL."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(ENDS, arm=arm)
        arrived, sure = _all_right(rows, Ends.arrived), _all_right(rows, surely)
        found = _runs_share(sure, _all_right(rows, possibly or surely), arrived)
        shown = {"runs": rows.height, "arrived": int(arrived.sum()), "mean_share": _mean(rows, surely)}
        return at_least(found, 1 - SMALL, **shown)

    return judge


def _mean(rows: pl.DataFrame, column: str) -> float:
    """The mean share over the runs that arrived; NaN if none did."""
    values = numbers(rows[column])[_all_right(rows, Ends.arrived)]
    return float(values.mean()) if values.size else math.nan


def _both(**parts: Judge) -> Judge:
    """All items of a theorem."""

    def judge(runs: Runs) -> Finding:
        return every({name.replace("_", "-"): part(runs) for name, part in parts.items()})

    return judge


_ROBUST_FEATURES = _usually(ATTACKED, Ends.robust_only)


def _order_log(values: np.ndarray, log_d: np.ndarray) -> list[float]:
    """How far values (runs, classes) are from log d, as a factor, by run; infinite if one is not above 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = values / log_d[:, None]
        off = np.where(ratio > 0, np.maximum(ratio, 1 / ratio), np.where(np.isnan(ratio), np.nan, np.inf))
    return [float(np.max(run)) for run in off]


def _spread(values: list[float]) -> Interval:
    return Interval(largest(values), smallest(values), largest(values))


def _alpha(spec: PatchScaling | PatchFig3) -> float:
    return spec.law.of_class("alpha", 0).infimum


def _winner_fig3(runs: Runs) -> Finding:
    """The factor by which α max A is off log d at the end, worst class, by seed."""
    run, spec = runs["run"], PatchFig3.of(runs["run"])
    u = final_values(run, "adversarial", Dynamics.u)
    off = _order_log(_alpha(spec) * u, np.full(len(u), math.log(spec.law.d)))
    return at_most(_spread(off), CONSTANT, u=plain(u))


def _suppressed_fig3(runs: Runs) -> Finding:
    """The largest B at the end, by seed, against log d ÷ η̃, η̃ being d^c0."""
    run, spec = runs["run"], PatchFig3.of(runs["run"])
    v = final_values(run, "adversarial", Dynamics.v)
    bound = soft(spec.law.d) / spec.adversarial.step_size
    shown = {"v": plain(v), "times_the_bound": largest(v.max(-1)) / bound}
    return at_most(_spread(v.max(-1).tolist()), bound, **shown)


def _losers_fig3(runs: Runs) -> Finding:
    """The largest of C and D at the end, by seed, against log d/√d."""
    run, spec = runs["run"], PatchFig3.of(runs["run"])
    worst = np.max([final_values(run, "adversarial", c).max(-1) for c in (Dynamics.C, Dynamics.D)], axis=0)
    return at_most(_spread(worst.tolist()), soft(spec.law.d) / math.sqrt(spec.law.d))


def _ended(run: Run) -> pl.DataFrame:
    return run.part(ENDS, arm=ATTACKED).filter(pl.col(Ends.arrived) == 1.0).sort(Ends.d)


def _winner_inside(runs: Runs) -> Finding:
    """The factor by which α max A is off log d, worst class of each run that arrived."""
    rows, spec = _ended(runs["run"]), PatchScaling.of(runs["run"])
    if rows.height == 0:
        return _none_arrived()
    off = _order_log(_alpha(spec) * numbers(rows[Ends.u]), np.log(numbers(rows[Ends.d])))
    return at_most(_spread(off), CONSTANT, runs=rows.height, median=float(np.median(off)))


def _none_arrived() -> Finding:
    return Finding(Verdict.INCONCLUSIVE, None, None, {"note": "no run reached its horizon"})


def _power_inside(column: str, power: float | None) -> Judge:
    """The median over the runs that arrived as a power of d; ``power`` None means −c0."""

    def judge(runs: Runs) -> Finding:
        rows, bound = _ended(runs["run"]), -PatchScaling.of(runs["run"]).c0 if power is None else power
        medians: dict[float, float] = {}
        for (d,), group in rows.group_by(Ends.d, maintain_order=True):
            values = numbers(group[column])
            medians[float(str(d))] = float(np.median(values if values.ndim == 1 else values.max(-1)))
        return exponent_at_most(
            list(medians), list(medians.values()), bound, median=plain(list(medians.values()))
        )

    return judge


def _lemma(number: str, statement: str, readings: tuple[Reading, ...], assumes: tuple[str, ...]) -> Claim:
    return Claim(f"AT-LD.{number}", "at", f"AT Lemma D.{number}", statement, SIMPLIFIED, readings, assumes)


SPAN = "bracketed in the features' span: an explicit Δ against, a bound neuron by neuron for"
CLAIMS = (
    Claim(
        id="AT-TD.1",
        paper="at",
        reference="AT Theorem D.1",
        statement="Standard training on the noiseless population ends right on X and on its non-robust "
        "features alone, and wrong under a perturbation that looks at no model.",
        hypotheses=SIMPLIFIED,
        assumes=SIMPLIFIED_STANDARD,
        readings=inside(
            _both(
                non_robust_features=_usually(STANDARD, Ends.non_robust_only),
                clean=_usually(STANDARD, Ends.clean),
                robust_bad=_usually(STANDARD, Ends.fooled),
            ),
            "share of runs in which each item is so for all classes",
        ),
    ),
    _lemma(
        "12",
        "At the end of standard training F_y is above all others on every X.",
        inside(_usually(STANDARD, Ends.clean), "share of runs in which all classes are right"),
        GROWTH,
    ),
    _lemma(
        "13",
        "At the end of standard training F_y is above all others on the non-robust features alone.",
        inside(
            _usually(STANDARD, Ends.non_robust_only), "share of runs in which all classes are right on D_NR"
        ),
        GROWTH,
    ),
    _lemma(
        "14",
        "At the end of standard training the perturbation that writes v_y' makes the network answer y'.",
        inside(_usually(STANDARD, Ends.targeted), "share of runs in which it does for all pairs"),
        (*GROWTH, RADIUS_REACHES),
    ),
    Claim(
        id="AT-TD.15",
        paper="at",
        reference="AT Theorem D.15",
        statement="Adversarial training on the noiseless population ends right on the robust features alone, "
        "and on X under every perturbation of the ball.",
        hypotheses=SIMPLIFIED,
        assumes=SIMPLIFIED_ADVERSARIAL,
        readings=tuple(
            reading
            for name, robust, text in (
                ("feature-span", _usually(ATTACKED, Ends.certified, Ends.attacked), SPAN),
                ("own-logit", _usually(ATTACKED, Ends.lowered), "−ε u_y − ε v_y on every patch"),
                ("training-attack", _usually(ATTACKED, Ends.training_attack), "at X and X̃"),
            )
            for judge in (_both(robust_features=_ROBUST_FEATURES, robust=robust),)
            for reading in (
                *inside(judge, f"share of runs; {text}", name, attacked=True),
                gentle(judge, f"share of runs; {text}", name),
            )
        ),
    ),
    _lemma(
        "27",
        "At the end of adversarial training F_y is above all others on the robust features alone.",
        (
            *inside(_ROBUST_FEATURES, "share of runs in which all classes are right on D_R", attacked=True),
            gentle(_ROBUST_FEATURES, "share of runs in which all classes are right on D_R"),
        ),
        ATTACKED_GROWTH,
    ),
    _lemma(
        "28",
        "At the end of adversarial training no perturbation of the ball changes the answer on the robust "
        "features alone.",
        (
            *inside(
                _usually(ATTACKED, Ends.certified_robust_only, Ends.attacked_robust_only),
                f"share of runs; {SPAN}",
                attacked=True,
            ),
            gentle(
                _usually(ATTACKED, Ends.certified_robust_only, Ends.attacked_robust_only),
                f"share of runs; {SPAN}",
            ),
        ),
        ATTACKED_GROWTH,
    ),
    Claim(
        id="AT-LE.11",
        paper="at",
        reference="AT Lemma E.11",
        statement="At the end of adversarial training A = Θ(log d), B = Õ(d^−c0), and C and D are "
        "O(polylog(d)/√d).",
        hypotheses=("the choices of B.3",),
        assumes=(*ATTACKED_GROWTH, NOISE_SIZE, RADIUS_SIZE),
        readings=(
            Reading(
                "A (figure-3)",
                "factor by which α max A is off log d, worst class; η = 0.1, batches of 5, patch clip",
                {"run": FIG3},
                _winner_fig3,
            ),
            Reading(
                "B (figure-3)",
                "max B against log d ÷ η̃; η = 0.1, batches of 5, patch clip",
                {"run": FIG3},
                _suppressed_fig3,
            ),
            Reading(
                "losers (figure-3)",
                "C and D against log d/√d; η = 0.1, batches of 5, patch clip",
                {"run": FIG3},
                _losers_fig3,
            ),
            *(
                Reading(reading.name, reading.text, reading.needs, reading.judge, assumes=ATTACKED_GROWTH)
                for name, judge, text in (
                    ("A", _winner_inside, "noiseless: factor by which α max A is off log d, worst class"),
                    ("B", _power_inside(Ends.v, None), "noiseless: exponent of max B"),
                    ("losers", _power_inside(Ends.off, -0.5), "noiseless: exponent of the largest C or D"),
                )
                for reading in (inside(judge, text, name, attacked=True)[0], gentle(judge, text, name))
            ),
        ),
    ),
)
