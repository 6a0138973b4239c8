"""Medians with intervals that assume nothing of the law: order statistics, by the binomial law."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats as sps
from torch import Tensor

from featscope.core.errors import require
from featscope.core.stats import Interval


def median_interval(values: Tensor, confidence: float = 0.95) -> Interval:
    """The median with the order statistics that hold the true one with at least this confidence; the ends of
    too few values are infinite.

    >>> found = median_interval(torch.arange(1.0, 101.0))
    >>> found.value, found.low, found.high
    (50.5, 40.0, 61.0)
    """
    require(len(values) > 0, "a median needs values", "none", "give some")
    ordered = np.sort(values.detach().double().numpy())
    # P[fewer than j of n are below the median] ≤ (1 − confidence)/2 for the largest such j.
    below = int(sps.binom.ppf((1 - confidence) / 2, len(ordered), 0.5))
    low = float(ordered[below - 1]) if below > 0 else -np.inf
    high = float(ordered[len(ordered) - below]) if below > 0 else np.inf
    return Interval(float(np.median(ordered)), low, high)


def row_cosines(a: Tensor, b: Tensor) -> Tensor:
    """cos(a_i, b_i) row by row; 0 where one of them is 0."""
    sizes = torch.linalg.vector_norm(a, dim=-1) * torch.linalg.vector_norm(b, dim=-1)
    return torch.where(sizes > 0, (a * b).sum(-1) / sizes.clamp(min=1e-30), torch.zeros_like(sizes))
