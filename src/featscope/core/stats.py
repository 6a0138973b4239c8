"""Intervals: for proportions (Wilson, exact), for means over seeds (Student), for exponents (least squares on
logarithms), for correlations (Fisher)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats as sps

from featscope.core.errors import require


class Interval(NamedTuple):
    """A point estimate with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass
class Level:
    """The confidence of intervals that are asked for without one, and whether one over seeds was."""

    confidence: float = 0.95
    over_seeds: bool = False


_LEVEL: ContextVar[Level | None] = ContextVar("level", default=None)


@contextlib.contextmanager
def at_confidence(confidence: float) -> Iterator[Level]:
    """Every interval inside that names no confidence has this one, as a test that looks several times
    needs it; what is yielded tells whether a mean over seeds was asked for."""
    require(0 < confidence < 1, "a confidence is in (0, 1)", f"{confidence}", "use for example 0.99")
    level = Level(confidence)
    before = _LEVEL.set(level)
    try:
        yield level
    finally:
        _LEVEL.reset(before)


def _confidence(named: float | None, over_seeds: bool = False) -> float:
    level = _LEVEL.get() or Level()
    level.over_seeds |= over_seeds
    return level.confidence if named is None else named


#: what is estimated from nothing, or from numbers of which one is none: no verdict holds with it
NOTHING = Interval(math.nan, math.nan, math.nan)


def wilson(hits: int, n: int, confidence: float | None = None) -> Interval:
    """Return the proportion hits/n with its Wilson score interval."""
    require(
        0 <= hits <= n and n > 0,
        "a proportion needs 0 ≤ hits ≤ n and n > 0",
        f"hits={hits}, n={n}",
        "count again",
    )
    z = float(sps.norm.ppf(0.5 + _confidence(confidence) / 2))
    p = hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # At p = 0 and p = 1 the ends are exact; rounding must not move them inside.
    return Interval(p, 0.0 if hits == 0 else centre - half, 1.0 if hits == n else centre + half)


def exact_binomial(hits: int, n: int, confidence: float | None = None) -> Interval:
    """Return the proportion hits/n with its exact interval (Clopper and Pearson): it holds the true share
    with at least this confidence, whatever the share and n."""
    require(
        0 <= hits <= n and n > 0,
        "a proportion needs 0 ≤ hits ≤ n and n > 0",
        f"hits={hits}, n={n}",
        "count again",
    )
    tail = (1 - _confidence(confidence)) / 2
    low = 0.0 if hits == 0 else float(sps.beta.ppf(tail, hits, n - hits + 1))
    high = 1.0 if hits == n else float(sps.beta.ppf(1 - tail, hits + 1, n - hits))
    return Interval(hits / n, low, high)


def mean_interval(values: Sequence[float], confidence: float | None = None) -> Interval:
    """Return the mean with Student's interval; one value alone has an unbounded one."""
    level = _confidence(confidence, over_seeds=True)
    data = np.asarray(values, dtype=float)
    if data.size == 0 or not np.isfinite(data).all():
        return NOTHING
    mean = float(data.mean())
    if data.size < 2:
        return Interval(mean, -math.inf, math.inf)
    half = float(sps.t.ppf(0.5 + level / 2, data.size - 1)) * float(data.std(ddof=1)) / math.sqrt(data.size)
    return Interval(mean, mean - half, mean + half)


def as_fact(estimate: Interval) -> dict[str, Any]:
    """A mean over seeds with its interval, for a summary; what does not exist, as one seed's interval, is
    null."""
    ends = [estimate.low, estimate.high]
    return {
        "mean": estimate.value if math.isfinite(estimate.value) else None,
        "interval": ends if all(map(math.isfinite, ends)) else None,
    }


def exponent(x: Sequence[float], y: Sequence[float], confidence: float | None = None) -> Interval:
    """Fit y ≈ C·x^b by least squares on logarithms; return b with Student's interval of the slope."""
    require(
        len(x) == len(y) and len(set(x)) >= 3 and min(x) > 0 and min(y) > 0,
        "an exponent needs at least three distinct positive x and positive y",
        f"{len(x)} points",
        "sweep more values",
    )
    fit = sps.linregress(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)))
    # SciPy has no standard error for a line without residual.
    error = float(fit.stderr) if np.isfinite(fit.stderr) else 0.0
    half = float(sps.t.ppf(0.5 + _confidence(confidence) / 2, len(x) - 2)) * error
    return Interval(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


class Correlations(NamedTuple):
    """Pearson's and Spearman's coefficient; NaN for fewer than three pairs, or where one side does not
    vary."""

    pearson: float
    spearman: float


def correlations(x: Sequence[float], y: Sequence[float]) -> Correlations:
    """Correlate two lists of equal length, by value and by rank."""
    require(
        len(x) == len(y),
        "a correlation needs pairs",
        f"{len(x)} and {len(y)} values",
        "give lists of one length",
    )
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return Correlations(math.nan, math.nan)
    return Correlations(float(np.corrcoef(x, y)[0, 1]), float(sps.spearmanr(x, y).statistic))


def mean_correlation(values: Sequence[float], confidence: float | None = None) -> Interval:
    """The mean of independent correlations with Student's interval, both on Fisher's scale z = artanh r."""
    # Fewer than a handful of ranks often give r = ±1 exactly, whose z is infinite.
    scale = mean_interval(
        np.arctanh(np.clip(np.asarray(values, dtype=float), -1 + 1e-9, 1 - 1e-9)).tolist(), confidence
    )
    return Interval(*(math.tanh(end) for end in scale))
