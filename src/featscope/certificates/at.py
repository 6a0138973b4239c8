"""Certificates of AT, re-verified in plain NumPy by code that shares nothing with what found them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from featscope.certificates.arrays import require_fitting, require_labels, require_numbers

Array = NDArray[np.float64]
#: relative slack for the rounding of a perturbation that lies on the ball's surface
ROUNDING = 1e-6


def network(w: Array, x: Array, q: int, rho: float) -> Array:
    """F_i(X) = Σ_r Σ_p σ̃(⟨w_ir, x_p⟩) for one point, written out piece by piece."""
    out = np.zeros(w.shape[0])
    for i in range(w.shape[0]):
        z = x @ w[i].T
        bent = np.where(
            z <= 0, 0.0, np.where(z <= rho, np.abs(z) ** q / (q * rho ** (q - 1)), z - (1 - 1 / q) * rho)
        )
        out[i] = bent.sum()
    return out


def fooled(w: Array, x: Array, y: NDArray[np.int64], delta: Array, eps: float, q: int, rho: float) -> int:
    """How many points the given perturbations fool: right without Δ, ‖Δ‖∞ ≤ ε, and with Δ no longer F_y > F_j
    for all j."""
    fits = (
        w.ndim == 3
        and x.ndim == 3
        and delta.shape == x.shape
        and y.shape == x.shape[:1]
        and x.shape[-1] == w.shape[-1]
    )
    require_fitting(fits, w=w, x=x, y=y, delta=delta)
    require_numbers(w, x, delta)
    known = np.issubdtype(y.dtype, np.integer) and bool(((y >= 0) & (y < len(w))).all())
    require_labels(known, y, "the network's classes")
    count = 0
    for point, label, move in zip(x, y, delta, strict=True):
        allowed = np.abs(move).max() <= eps * (1 + ROUNDING)
        count += bool(
            allowed
            and _right(network(w, point, q, rho), label)
            and not _right(network(w, point + move, q, rho), label)
        )
    return count


def _right(values: Array, label: np.int64) -> bool:
    return bool(values[int(label)] > np.delete(values, int(label)).max())


def classified_right(w: Array, point: Array, label: np.int64, q: int, rho: float) -> bool:
    """Whether the network is right at a point."""
    return _right(network(w, point, q, rho), label)


def matching_bound(
    x: Array, y: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64], eps: float
) -> float | None:
    """The bound 1 − pairs/(2n) on any classifier's robust accuracy, or None if a pair is not what it should
    be.

    Each pair must have different labels and a midpoint within ε of both ends; no point may occur twice on one
    side.
    """
    n = len(y)
    if (
        len(x) != n
        or not np.isfinite(x).all()
        or not _distinct(left, n)
        or not _distinct(right, n)
        or len(left) != len(right)
    ):
        return None
    for i, j in zip(left.tolist(), right.tolist(), strict=True):
        middle = (x[i] + x[j]) / 2
        near = max(np.abs(middle - x[i]).max(), np.abs(middle - x[j]).max()) <= eps * (1 + ROUNDING)
        if y[i] == y[j] or not near:
            return None
    return 1 - len(left) / (2 * n)


def _distinct(index: NDArray[np.int64], n: int) -> bool:
    """Whether these are different places in 0 … n − 1: a negative one would name a point a second time."""
    whole = index.ndim == 1 and np.issubdtype(index.dtype, np.integer)
    return bool(whole and ((index >= 0) & (index < n)).all() and len(np.unique(index)) == len(index))
