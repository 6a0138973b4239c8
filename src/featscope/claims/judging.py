"""What judges are built from: verdicts of intervals and of exact numbers, statements of several parts, and
numbers read from rows.

A number that does not exist is NaN here, and NaN never holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from featscope.claims.claim import Finding, Judge, Need, Reading, Verdict
from featscope.core.rules import BEND, LEARNED
from featscope.core.stats import NOTHING, Interval, exponent, wilson


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
    return _found(verdict, estimate, bound, "at most", evidence)


def _found(
    verdict: Verdict, estimate: Interval, bound: float, direction: str, evidence: Mapping[str, Any]
) -> Finding:
    value, low, high = estimate
    return Finding(verdict, value, bound, {"interval": [low, high], **evidence}, direction, low, high)


def at_least(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is ≥ bound, FAILS if it is all below, INCONCLUSIVE if it straddles."""
    mirrored = at_most(Interval(-estimate.value, -estimate.high, -estimate.low), -bound)
    return _found(mirrored.verdict, estimate, bound, "at least", evidence)


def exactly(value: float, bound: float, **evidence: Any) -> Finding:
    """HOLDS if a number that carries no sampling error is ≤ bound, FAILS otherwise (NaN fails)."""
    verdict = Verdict.HOLDS if value <= bound else Verdict.FAILS
    return Finding(verdict, value, bound, evidence, "at most")


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


def vacuous(why: str, finding: Finding, **opens_at: float | None) -> Finding:
    """Keep the numbers, but say why the statement's own constants make it empty here, and at which values of
    its variables it would open (None: at none)."""
    told = {"opens_at": opens_at} if opens_at else {}
    evidence = {**finding.evidence, "vacuous": why, **told, "would_be": finding.verdict.value}
    return replace(finding, verdict=Verdict.VACUOUS, evidence=evidence)


def trivially_met(finding: Finding, empty: bool, why: str, **opens_at: float | None) -> Finding:
    """VACUOUS where ``empty`` and met: what nothing could miss proves nothing; what was missed is missed."""
    return vacuous(why, finding, **opens_at) if empty and finding.verdict is Verdict.HOLDS else finding


def threshold(classes: int) -> float:
    """The clean accuracy from which on a network has learned a task of so many classes: .4 for ten, .667 for
    two."""
    return 1 / classes + LEARNED * (1 - 1 / classes)


def scoped(unmet: Sequence[str], finding: Finding) -> Finding:
    """The finding with hypotheses that the rows show unmet; the ledger puts it out of scope for them."""
    return replace(finding, unmet=(*finding.unmet, *unmet))


def every(parts: Mapping[str, Finding], **evidence: Any) -> Finding:
    """Combine parts: FAILS if one fails, else the weakest verdict; value and bound are those of the deciding
    part."""
    order = (Verdict.FAILS, Verdict.OUT_OF_SCOPE, Verdict.VACUOUS, Verdict.INCONCLUSIVE, Verdict.HOLDS)
    name = min(parts, key=lambda key: order.index(parts[key].verdict))
    shown = {
        key: {"verdict": f.verdict.value, "value": f.value, "bound": f.bound, **f.evidence}
        for key, f in parts.items()
    }
    missed = tuple(dict.fromkeys(text for f in parts.values() for text in f.unmet))
    told = {"decided_by": name, "parts": shown, **_emptiness(parts[name], parts.values()), **evidence}
    return replace(parts[name], evidence=told, unmet=missed)


def _emptiness(decided: Finding, parts: Iterable[Finding]) -> dict[str, Any]:
    """Of a whole that is VACUOUS: why, what it would be, and where its last part opens."""
    if decided.verdict is not Verdict.VACUOUS:
        return {}
    opens: dict[str, float] = {}
    for part in parts:
        for variable, value in part.evidence.get("opens_at", {}).items():
            opens[variable] = max(opens.get(variable, value), value)
    told = {key: decided.evidence[key] for key in ("vacuous", "would_be") if key in decided.evidence}
    return told | ({"opens_at": opens} if opens else {})


def reaches(value: float, bound: float, **evidence: Any) -> Finding:
    """HOLDS if a number that carries no sampling error is ≥ bound, FAILS otherwise (NaN fails)."""
    return Finding(Verdict.HOLDS if value >= bound else Verdict.FAILS, value, bound, evidence, "at least")


def exceeds(value: float, bound: float, **evidence: Any) -> Finding:
    """HOLDS if a number that carries no sampling error is > bound, FAILS otherwise: a network that says 0 has
    not decided."""
    return Finding(Verdict.HOLDS if value > bound else Verdict.FAILS, value, bound, evidence, "above")


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
    return _found(verdict, estimate, bound, "above", evidence)


def below(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is < bound, FAILS if it is all ≥ bound, INCONCLUSIVE if it straddles."""
    mirrored = above(Interval(-estimate.value, -estimate.high, -estimate.low), -bound)
    return _found(mirrored.verdict, estimate, bound, "below", evidence)


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
    return Finding(verdict, value, power + BEND, {"predicted": power, "allowance": BEND}, "at most")


def soft(d: float) -> float:
    """Õ(1) at a finite d: one logarithm, ln d (docs/claims.md)."""
    return math.log(d)


def over_seeds(values: Sequence[float]) -> Interval:
    """A number over few seeds: the mean with the range over the seeds, so that HOLDS needs every seed
    (docs/claims.md)."""
    if not values or any(math.isnan(value) for value in values):
        return NOTHING
    return Interval(sum(values) / len(values), min(values), max(values))


def share_over_seeds(shares: Sequence[float | None], points: int | Sequence[int]) -> Interval:
    """A share measured on ``points`` points in each seed: the mean, with an interval that reaches over
    all seeds
    and over Wilson's interval of their points together (docs/claims.md).

    Points of one seed share a network: pooled alone they would call seeds of 0, 0 and ½ a narrow ⅙.
    """
    sizes = [points] * len(shares) if isinstance(points, int) else list(points)
    if not shares or not all(math.isfinite(number(share)) for share in shares):
        return NOTHING
    hits = [round(number(share) * size) for share, size in zip(shares, sizes, strict=True)]
    pooled = wilson(sum(hits), sum(sizes))
    # Counts again, because 1 − .95 in binary is a little above .05.
    seeds = [hit / size for hit, size in zip(hits, sizes, strict=True)]
    return Interval(pooled.value, min(pooled.low, *seeds), max(pooled.high, *seeds))


def error_over_seeds(accuracies: Sequence[float | None], points: int | Sequence[int]) -> Interval:
    """The error 1 − accuracy likewise."""
    return share_over_seeds([1 - number(accuracy) for accuracy in accuracies], points)


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


def one_run(name: str, text: str, need: Need, judge: Judge, **more: Any) -> Reading:
    """A reading that needs one run, known to its judge as `run`."""
    return Reading(name, text, {"run": need}, judge, **more)
