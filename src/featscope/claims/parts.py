"""Statements with several parts: all must hold, one failure fails the whole, and the evidence names every part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from featscope.claims.claim import Finding, Verdict, plain
from featscope.core.rules import BEND
from featscope.core.stats import NOTHING, Interval


def every(parts: Mapping[str, Finding], **evidence: Any) -> Finding:
    """Combine parts: FAILS if one fails, else the weakest verdict; value and bound are those of the deciding part."""
    order = (Verdict.FAILS, Verdict.OUT_OF_SCOPE, Verdict.VACUOUS, Verdict.INCONCLUSIVE, Verdict.HOLDS)
    name = min(parts, key=lambda key: order.index(parts[key].verdict))
    shown = {key: {"verdict": f.verdict.value, "value": f.value, "bound": f.bound, **f.evidence} for key, f in parts.items()}
    chosen = parts[name]
    return Finding(chosen.verdict, chosen.value, chosen.bound, {"decided_by": name, "parts": shown, **evidence})


def reaches(value: float, bound: float, **evidence: Any) -> Finding:
    """HOLDS if a number that carries no sampling error is ≥ bound, FAILS otherwise (NaN fails)."""
    return Finding(Verdict.HOLDS if value >= bound else Verdict.FAILS, plain(value), plain(bound), evidence)


def exceeds(value: float, bound: float, **evidence: Any) -> Finding:
    """HOLDS if a number that carries no sampling error is > bound, FAILS otherwise: a network that says 0 has not decided."""
    return Finding(Verdict.HOLDS if value > bound else Verdict.FAILS, plain(value), plain(bound), evidence)


def above(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is > bound, FAILS if it is all ≤ bound, else INCONCLUSIVE, as is NaN; for signs and growth, where equality is not growth."""
    verdict = Verdict.HOLDS if estimate.low > bound else Verdict.FAILS if estimate.high <= bound else Verdict.INCONCLUSIVE
    if any(math.isnan(number) for number in estimate):
        verdict = Verdict.INCONCLUSIVE
    value, low, high = (plain(number) for number in estimate)
    return Finding(verdict, value, plain(bound), {"interval": [low, high], **evidence})


def below(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is < bound, FAILS if it is all ≥ bound, INCONCLUSIVE if it straddles."""
    mirrored = above(Interval(-estimate.value, -estimate.high, -estimate.low), -bound)
    value, low, high = (plain(number) for number in estimate)
    return Finding(mirrored.verdict, value, plain(bound), {"interval": [low, high], **evidence})


def steepest(x: Sequence[float], y: Sequence[float]) -> float:
    """The largest slope of log y against log x between neighbouring sizes: an exact sweep has no sampling error to fit away.

    Of several y at one x the largest counts, so that no seed hides behind another. NaN where there are no two sizes or no logarithm.
    """
    if len(set(x)) < 2 or not all(0 < number < math.inf for number in (*x, *y)):
        return math.nan
    sizes = [(size, max(b for a, b in zip(x, y, strict=True) if a == size)) for size in sorted(set(x))]
    return max(math.log(b[1] / a[1]) / math.log(b[0] / a[0]) for a, b in pairwise(sizes))


def grows_at_most(x: Sequence[float], y: Sequence[float], power: float) -> Finding:
    """Judge an exact count y = O(x^power): every step's slope is at most power + BEND."""
    value = steepest(x, y)
    verdict = Verdict.HOLDS if value <= power + BEND else Verdict.FAILS
    return Finding(verdict, plain(value), power + BEND, {"predicted": power, "allowance": BEND})


def soft(d: float) -> float:
    """Õ(1) at a finite d: one logarithm, ln d (docs/claims.md)."""
    return math.log(d)


def spread(values: Sequence[float]) -> Interval:
    """A number over few seeds: the mean with the range over the seeds, so that HOLDS needs every seed (docs/claims.md)."""
    if not values or any(math.isnan(value) for value in values):
        return NOTHING
    return Interval(sum(values) / len(values), min(values), max(values))


def least(values: pl.Series) -> float:
    """The smallest value of a column; NaN if there is none, so that a check on it fails."""
    found = values.cast(pl.Float64).to_numpy()
    return float(np.min(found)) if len(found) else math.nan


def most(values: pl.Series) -> float:
    """The largest value of a column; NaN if there is none, so that a check on it fails."""
    found = values.cast(pl.Float64).to_numpy()
    return float(np.max(found)) if len(found) else math.nan
