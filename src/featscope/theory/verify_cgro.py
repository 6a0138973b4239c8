"""Independent re-verification of CGRO and EP certificates in plain NumPy. Shares no code with what found them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np


def ball_failures(w: np.ndarray, x: np.ndarray, y: np.ndarray, delta: np.ndarray, radius: float) -> dict[str, Any]:
    """Count points with an allowed perturbation (‖Δ‖₂ ≤ radius) at which y·Σ⟨w_r, X[j] + Δ[j]⟩³ ≤ 0."""
    size = np.sqrt((delta.astype(np.float64) ** 2).sum(axis=(1, 2)))
    allowed = size <= radius * (1 + 1e-9)
    moved = np.einsum("npd,md->npm", x + delta, w)
    wrong = y * (moved**3).sum(axis=(1, 2)) <= 0
    still = np.einsum("npd,md->npm", x, w)
    clean = y * (still**3).sum(axis=(1, 2)) > 0
    return {
        "points": len(y),
        "failures": int((allowed & wrong & clean).sum()),
        "largest_norm": float(size.max()),
        "radius": float(radius),
    }


def robust_memory(x: np.ndarray, y: np.ndarray, delta: float, separation: float) -> dict[str, Any]:
    """Check what makes f_S robust on the training set, ℓ∞, in exact rational arithmetic on the stored numbers.

    Opposite-label points must be at least R apart with R > 2δ: then every ball B(X_i, δ) lies inside X_i's indicator and outside the
    support of every opposite one, so y_i·f_S = S ≥ 1 there.
    """
    least = None
    up, down = x[y > 0], x[y < 0]
    for a in up:
        gaps = np.abs(down - a).max(axis=1)
        at = int(gaps.argmin())
        exact = max(abs(Fraction(float(p)) - Fraction(float(q))) for p, q in zip(a, down[at], strict=True))
        least = exact if least is None or exact < least else least
    # The grid's spacing is stored as a rounded number; one unit in the last place is allowed for it.
    room = Fraction(float(separation)) * (1 - Fraction(1, 2**50))
    apart = least is None or least >= room
    return {
        "separated": bool(apart),
        "wide_enough": bool(room > 2 * Fraction(float(delta))),
        "least": None if least is None else float(least),
    }
