"""What judges are built from: verdicts of intervals and of exact numbers, statements of several parts, and
numbers read from rows.

A number that does not exist is NaN here, and NaN never holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from featscope.claims.claim import Finding, Judge, Need, Reading, Verdict
from featscope.core.conditions import Condition, unmet
from featscope.core.rules import BEND, LEARNED
from featscope.core.stats import NOTHING, Interval, exponent, wilson
from featscope.core.store import CONDITIONS
from featscope.experiments.run import Run


def at_most(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is ≤ bound, FAILS if it is all above, INCONCLUSIVE if it straddles or is no
    interval."""
    if any(math.isnan(number) for number in estimate):
        verdict = Verdict.INCONCLUSIVE
    elif estimate.high <= bound:
        verdict = Verdict.HOLDS
    elif estimate.low > bound:
        verdict = Verdict.FAILS
    else:
        verdict = Verdict.INCONCLUSIVE
    ends = [estimate.low, estimate.high]
    return Finding(verdict, estimate.value, bound, {"interval": ends, **evidence})


def at_least(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is ≥ bound, FAILS if it is all below, INCONCLUSIVE if it straddles."""
    mirrored = at_most(Interval(-estimate.value, -estimate.high, -estimate.low), -bound)
    ends = [estimate.low, estimate.high]
    return Finding(mirrored.verdict, estimate.value, bound, {"interval": ends, **evidence})


def exactly(value: float, bound: float, **evidence: Any) -> Finding:
    """HOLDS if a number that carries no sampling error is ≤ bound, FAILS otherwise (NaN fails)."""
    verdict = Verdict.HOLDS if value <= bound else Verdict.FAILS
    return Finding(verdict, value, bound, evidence)


def fitted(x: Sequence[float | None], y: Sequence[float | None]) -> Interval:
    """The exponent of y in x; no interval where a number is missing, not positive or not finite, or there are
    fewer than three sizes."""
    pairs = [
        (a, b)
        for a, b in zip(x, y, strict=True)
        if a is not None and b is not None and 0 < a < math.inf and 0 < b < math.inf
    ]
    if len(pairs) < len(x) or len({a for a, _ in pairs}) < 3:
        return NOTHING
    return exponent([a for a, _ in pairs], [b for _, b in pairs])


def exponent_at_most(x: Sequence[float], y: Sequence[float], bound: float, **evidence: Any) -> Finding:
    """Judge y = O(x^bound): the fitted exponent's interval against bound + BEND."""
    fit = fitted(x, y)
    return at_most(fit, bound + BEND, exponent=fit.value, predicted=bound, allowance=BEND, **evidence)


def out_of_scope(unmet: Sequence[str], finding: Finding) -> Finding:
    """Keep the numbers, but say that hypotheses are not met and which."""
    evidence = {**finding.evidence, "unmet": list(unmet), "would_be": finding.verdict.value}
    return Finding(Verdict.OUT_OF_SCOPE, finding.value, finding.bound, evidence)


def vacuous(why: str, finding: Finding) -> Finding:
    """Keep the numbers, but say why the statement's own constants make it empty here."""
    evidence = {**finding.evidence, "vacuous": why, "would_be": finding.verdict.value}
    return Finding(Verdict.VACUOUS, finding.value, finding.bound, evidence)


def threshold(classes: int) -> float:
    """The clean accuracy from which on a network has learned a task of so many classes: .4 for ten, .667 for
    two."""
    return 1 / classes + LEARNED * (1 - 1 / classes)


def scoped(unmet: Sequence[str], finding: Finding) -> Finding:
    """The finding, or OUT_OF_SCOPE with what it would be."""
    return out_of_scope(unmet, finding) if unmet else finding


def unmet_conditions(run: Run) -> list[str]:
    """Conditions that the run's law does not meet, with their numbers.

    Of a run of several settings the first that misses a condition, and how many do.
    """
    rows, names = run.part(CONDITIONS), [field.name for field in fields(Condition)]
    found = []
    for _, same in rows.group_by("text", maintain_order=True) if rows.height else ():
        missed = same.filter(~pl.col("met"))
        for told in unmet([Condition(**row) for row in missed.head(1).select(names).to_dicts()]):
            found.append(told if same.height == 1 else f"{told} ({missed.height} of {same.height} settings)")
    return found


def within_assumptions(run: Run, finding: Finding) -> Finding:
    """The finding, or OUT_OF_SCOPE with what it would be where the run's setting does not meet the
    hypotheses."""
    return scoped(unmet_conditions(run), finding)


def every(parts: Mapping[str, Finding], **evidence: Any) -> Finding:
    """Combine parts: FAILS if one fails, else the weakest verdict; value and bound are those of the deciding
    part."""
    order = (Verdict.FAILS, Verdict.OUT_OF_SCOPE, Verdict.VACUOUS, Verdict.INCONCLUSIVE, Verdict.HOLDS)
    name = min(parts, key=lambda key: order.index(parts[key].verdict))
    shown = {
        key: {"verdict": f.verdict.value, "value": f.value, "bound": f.bound, **f.evidence}
        for key, f in parts.items()
    }
    chosen = parts[name]
    return Finding(
        chosen.verdict, chosen.value, chosen.bound, {"decided_by": name, "parts": shown, **evidence}
    )


def reaches(value: float, bound: float, **evidence: Any) -> Finding:
    """HOLDS if a number that carries no sampling error is ≥ bound, FAILS otherwise (NaN fails)."""
    return Finding(Verdict.HOLDS if value >= bound else Verdict.FAILS, value, bound, evidence)


def exceeds(value: float, bound: float, **evidence: Any) -> Finding:
    """HOLDS if a number that carries no sampling error is > bound, FAILS otherwise: a network that says 0 has
    not decided."""
    return Finding(Verdict.HOLDS if value > bound else Verdict.FAILS, value, bound, evidence)


def above(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is > bound, FAILS if it is all ≤ bound, else INCONCLUSIVE, as is NaN; for
    signs and growth, where equality is not growth."""
    verdict = (
        Verdict.HOLDS
        if estimate.low > bound
        else Verdict.FAILS
        if estimate.high <= bound
        else Verdict.INCONCLUSIVE
    )
    if any(math.isnan(number) for number in estimate):
        verdict = Verdict.INCONCLUSIVE
    value, low, high = estimate
    return Finding(verdict, value, bound, {"interval": [low, high], **evidence})


def below(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is < bound, FAILS if it is all ≥ bound, INCONCLUSIVE if it straddles."""
    mirrored = above(Interval(-estimate.value, -estimate.high, -estimate.low), -bound)
    value, low, high = estimate
    return Finding(mirrored.verdict, value, bound, {"interval": [low, high], **evidence})


def steepest(x: Sequence[float], y: Sequence[float]) -> float:
    """The largest slope of log y against log x between neighbouring sizes: an exact sweep has no sampling
    error to fit away.

    Of several y at one x the largest counts, so that no seed hides behind another. NaN where there are no two
    sizes or no logarithm.
    """
    if len(set(x)) < 2 or not all(0 < number < math.inf for number in (*x, *y)):
        return math.nan
    sizes = [(size, max(b for a, b in zip(x, y, strict=True) if a == size)) for size in sorted(set(x))]
    return max(math.log(b[1] / a[1]) / math.log(b[0] / a[0]) for a, b in pairwise(sizes))


def grows_at_most(x: Sequence[float], y: Sequence[float], power: float) -> Finding:
    """Judge an exact count y = O(x^power): every step's slope is at most power + BEND."""
    value = steepest(x, y)
    verdict = Verdict.HOLDS if value <= power + BEND else Verdict.FAILS
    return Finding(verdict, value, power + BEND, {"predicted": power, "allowance": BEND})


def soft(d: float) -> float:
    """Õ(1) at a finite d: one logarithm, ln d (docs/claims.md)."""
    return math.log(d)


def over_seeds(values: Sequence[float]) -> Interval:
    """A number over few seeds: the mean with the range over the seeds, so that HOLDS needs every seed
    (docs/claims.md)."""
    if not values or any(math.isnan(value) for value in values):
        return NOTHING
    return Interval(sum(values) / len(values), min(values), max(values))


def pooled_error(accuracies: Sequence[float], points: int) -> Interval:
    """The error pooled over runs of ``points`` points each, with its Wilson interval; no interval if a run
    has no accuracy."""
    if not accuracies or not all(a is not None and math.isfinite(a) for a in accuracies):
        return NOTHING
    wrong = sum(round((1 - a) * points) for a in accuracies)
    return wilson(wrong, points * len(accuracies))


def numbers(series: pl.Series) -> np.ndarray:
    """A column, nested or not, as an array of floats; what is missing is NaN."""
    return np.asarray(series.to_list(), dtype=float)


def largest(values: Iterable[float | None]) -> float:
    """The largest value; NaN if one is missing or NaN, or there is none, where Python's own maximum depends
    on the order."""
    found = np.asarray([number(value) for value in values], dtype=float)
    return float(np.max(found)) if len(found) else math.nan


def smallest(values: Iterable[float | None]) -> float:
    """The smallest value; NaN if one is missing or NaN, or there is none."""
    found = np.asarray([number(value) for value in values], dtype=float)
    return float(np.min(found)) if len(found) else math.nan


def number(value: float | None) -> float:
    """A number of a summary; NaN where there is none, so that no check on it holds."""
    return math.nan if value is None else float(value)


def counted(share: float | None, points: int) -> Interval:
    """The Wilson interval of a share of so many points."""
    return wilson(round(number(share) * points), points) if math.isfinite(number(share)) else NOTHING


def over(value: float, scale: float) -> float:
    """A size in units of a scale; beyond every bound if the scale is not positive, because then it measures
    nothing."""
    return math.inf if scale <= 0 else value / scale


def quotient(value: float, size: float) -> float:
    """value ÷ size where a size of 0 is allowed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.divide(value, size))


def explained(finding: Finding, **evidence: Any) -> Finding:
    """The finding with more evidence."""
    return replace(finding, evidence={**finding.evidence, **evidence})


def one_run(name: str, text: str, need: Need, judge: Judge) -> Reading:
    """A reading that needs one run, known to its judge as `run`."""
    return Reading(name, text, {"run": need}, judge)
