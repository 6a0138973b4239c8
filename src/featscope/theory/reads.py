"""What judges share: pooled proportions over seeds, and columns as arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    """A column, nested or not, as an array of floats."""
    return np.asarray(series.to_list(), dtype=float)
