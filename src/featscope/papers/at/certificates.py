"""Certificates of AT, re-verified in plain NumPy by code that shares nothing with what found them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: relative slack for the rounding of a perturbation that lies on the ball's surface
ROUNDING = 1e-6


def network(w: Array, x: Array, q: int, rho: float) -> Array:
    """F_i(X) = Σ_r Σ_p σ̃(⟨w_ir, x_p⟩) for one point, written out piece by piece."""
    out = np.zeros(w.shape[0])
    for i in range(w.shape[0]):
        z = x @ w[i].T
        bent = np.where(z <= 0, 0.0, np.where(z <= rho, np.abs(z) ** q / (q * rho ** (q - 1)), z - (1 - 1 / q) * rho))
        out[i] = bent.sum()
    return out


def fooled(w: Array, x: Array, y: NDArray[np.int64], delta: Array, eps: float, q: int, rho: float) -> int:
    """How many points the given perturbations fool: within ‖Δ‖∞ ≤ ε, and no longer F_y > F_j for all j."""
    count = 0
    for point, label, move in zip(x, y, delta, strict=True):
        if np.abs(move).max() > eps * (1 + ROUNDING):
            continue
        values = network(w, point + move, q, rho)
        others = np.delete(values, int(label))
        count += bool(values[int(label)] <= others.max())
    return count


def matching_bound(x: Array, y: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64], eps: float) -> float | None:
    """The bound 1 − pairs/(2n) on any classifier's robust accuracy, or None if a pair is not what it should be.

    Each pair must have different labels and a midpoint within ε of both ends; no point may occur twice on one side.
    """
    if len(set(left.tolist())) != len(left) or len(set(right.tolist())) != len(right):
        return None
    good = 0
    for i, j in zip(left.tolist(), right.tolist(), strict=True):
        middle = (x[i] + x[j]) / 2
        near = max(np.abs(middle - x[i]).max(), np.abs(middle - x[j]).max()) <= eps * (1 + ROUNDING)
        good += bool(y[i] != y[j] and near)
    return 1 - good / (2 * len(y)) if good == len(left) else None
