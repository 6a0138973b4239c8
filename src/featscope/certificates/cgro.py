"""CGRO's certificates re-verified in plain NumPy, by code that shares nothing with what found them."""

from __future__ import annotations

from fractions import Fraction
from typing import TypedDict

import numpy as np

from featscope.certificates.arrays import REMEDY, require_fitting, require_labels, require_numbers
from featscope.core.errors import require


class BallFailures(TypedDict):
    """How many points are lost, and how far the perturbations go."""

    points: int
    failures: int
    wrong_clean: int
    largest_norm: float | None
    radius: float


class MemoryCheck(TypedDict):
    """Whether a training set is separated as its certificate needs, and its least opposite distance."""

    separated: bool
    wide_enough: bool
    least: float | None


def ball_failures(
    w: np.ndarray, x: np.ndarray, y: np.ndarray, delta: np.ndarray, radius: float
) -> BallFailures:
    """Count points with an allowed perturbation (‖Δ‖₂ ≤ radius) at which y·Σ⟨w_r, X[j] + Δ[j]⟩³ ≤ 0."""
    fits = (
        w.ndim == 2
        and x.ndim == 3
        and delta.shape == x.shape
        and y.shape == x.shape[:1]
        and x.shape[2] == w.shape[1]
    )
    require_fitting(fits, w=w, x=x, y=y, delta=delta)
    _usable(y, w, x, delta)
    size = np.sqrt((delta.astype(np.float64) ** 2).sum(axis=(1, 2)))
    allowed = size <= radius * (1 + 1e-9)
    moved = np.einsum("npd,md->npm", x + delta, w)
    wrong = y * (moved**3).sum(axis=(1, 2)) <= 0
    still = np.einsum("npd,md->npm", x, w)
    clean = y * (still**3).sum(axis=(1, 2)) > 0
    return {
        "points": len(y),
        "failures": int((allowed & wrong & clean).sum()),
        "wrong_clean": int((~clean).sum()),
        "largest_norm": float(size.max()) if np.isfinite(size).all() else None,
        "radius": float(radius),
    }


def robust_memory(x: np.ndarray, y: np.ndarray, delta: float, separation: float) -> MemoryCheck:
    """Check what makes f_S robust on the training set, ℓ∞, in exact rationals on the stored numbers.

    The indicators are 1 within δ' = δ + (R − 2δ)/8 and 0 from R − δ' on. A point of B(X_i, δ) is at least
    d − δ away from a point of the other class at distance d, so all opposite indicators vanish there if
    R > 2δ and d ≥ R − (R − 2δ)/8 for the least d. Then y_i·f_S = S ≥ 1.
    """
    fits = x.ndim == 2 and y.shape == x.shape[:1]
    require_fitting(fits, x=x, y=y)
    _usable(y, x, np.array([delta, separation]))
    require(delta >= 0, "δ must not be negative", f"delta={delta}", REMEDY)
    least: Fraction | None = None
    # Exact for float32 as well, whose own differences would round.
    up, down = x[y > 0].astype(np.float64), x[y < 0].astype(np.float64)
    for a in up:
        gaps = np.abs(down - a).max(axis=1)
        for at in np.flatnonzero(gaps <= gaps.min(initial=np.inf) * (1 + 1e-12)):
            exact = max(
                abs(Fraction(float(p)) - Fraction(float(q))) for p, q in zip(a, down[at], strict=True)
            )
            least = exact if least is None or exact < least else least
    far, room = Fraction(float(separation)), Fraction(float(separation)) - 2 * Fraction(float(delta))
    return {
        "separated": least is None or least >= far - room / 8,
        "wide_enough": room > 0,
        "least": None if least is None else float(least),
    }


def _usable(y: np.ndarray, *arrays: np.ndarray) -> None:
    """Refuse numbers that are none, and labels other than ±1, which would drop a point silently."""
    require_numbers(*arrays)
    require_labels(bool(np.isin(y, (-1, 1)).all()), y, "−1 or 1")
