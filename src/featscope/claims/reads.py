"""What judges share: pooled proportions over seeds, columns as arrays, and evidence that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from featscope.core.stats import NOTHING, Interval, wilson


def pooled_error(accuracies: Sequence[float], points: int) -> Interval:
    """The error pooled over runs of ``points`` points each, with its Wilson interval; no interval if a run has no accuracy."""
    if not accuracies or not all(a is not None and math.isfinite(a) for a in accuracies):
        return NOTHING
    wrong = sum(round((1 - a) * points) for a in accuracies)
    return wilson(wrong, points * len(accuracies))


def numbers(series: pl.Series) -> np.ndarray:
    """A column, nested or not, as an array of floats; what is missing is NaN."""
    return np.asarray(series.to_list(), dtype=float)


def largest(values: Sequence[float] | np.ndarray) -> float:
    """The largest value; NaN if one is NaN or there is none, where Python's own maximum depends on the order."""
    return float(np.max(values)) if len(values) else math.nan


def smallest(values: Sequence[float] | np.ndarray) -> float:
    """The smallest value; NaN if one is NaN or there is none."""
    return float(np.min(values)) if len(values) else math.nan


def plain(value: Any) -> Any:
    """Evidence as JSON can hold it: numbers that are not finite become None, arrays become lists."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
