"""Plain NumPy re-verification of the certificates that FA's runs leave.

Nothing here is shared with the search that found them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from featscope.certificates.arrays import require_fitting, require_labels, require_numbers

Array = NDArray[np.float64]
#: weights that cancel to this share of their size are parallel up to rounding
PARALLEL = 1e-12
#: a radius is an infimum where f > 0 must be reached: the perturbation may be lengthened by this share
LENGTHENED = 1e-6


class Verified(NamedTuple):
    """What the certificates prove: lower and upper bounds of the radii, one for each point."""

    lower: Array
    upper: Array

    def settled(self, relative: float) -> NDArray[np.bool_]:
        """Where both bounds are one number to a relative accuracy, or both infinite."""
        without = np.isinf(self.upper)
        # Not by a difference alone: where no perturbation fools, ∞ − lower ≤ ∞ would pass for agreement.
        with np.errstate(invalid="ignore"):
            return np.where(
                without, np.isinf(self.lower), np.abs(self.upper - self.lower) <= relative * self.upper
            )


def network(w: Array, b: Array, a: Array, x: Array) -> Array:
    """f(x) = Σ_r a_r max(⟨w_r, x⟩ + b_r, 0)."""
    return np.maximum(x @ w.T + b, 0) @ a


def verify(w: Array, b: Array, a: Array, x: Array, y: Array, delta: Array, certificate: Array) -> Verified:
    """Recompute both bounds from weights, points, perturbations and the certificate's vectors u, by subsets.

    A lower bound is proved only by vectors inside [0,1]; an upper bound only by a perturbation that does
    change the predicted sign (f ≤ 0 for y = +1; for y = −1 f > 0 at the perturbation lengthened by a
    millionth, because the radius there is an infimum). A point that the network gets wrong has radius 0.
    """
    _fits(w, b, a, x, y, delta, certificate)
    lower, upper = np.zeros(len(y)), np.full(len(y), np.inf)
    for i in range(len(y)):
        lower[i] = _lower(w, b, a, x[i], y[i], certificate[i])
        if not np.isfinite(delta[i]).all():
            continue
        moved = [
            float(network(w, b, a, (x[i] + delta[i] * factor)[None])[0]) for factor in (1.0, 1 + LENGTHENED)
        ]
        if (y[i] > 0 and min(moved) <= 0) or (y[i] < 0 and max(moved) > 0):
            upper[i] = np.linalg.norm(delta[i]) * (1 + LENGTHENED)
    return Verified(lower, upper)


def _fits(w: Array, b: Array, a: Array, x: Array, y: Array, delta: Array, certificate: Array) -> None:
    """Refuse arrays that do not belong together, numbers that are none, and labels other than ±1."""
    most = max(int((a > 0).sum()), int((a < 0).sum())) if a.ndim == 1 else -1
    fits = (
        w.ndim == 2
        and b.shape == a.shape == w.shape[:1]
        and x.ndim == 2
        and x.shape[1] == w.shape[1]
        and delta.shape == x.shape
    )
    fits = fits and y.shape == x.shape[:1] and certificate.shape == (len(y), 2**most, most)
    require_fitting(fits, w=w, b=b, a=a, x=x, y=y, delta=delta, certificate=certificate)
    # A perturbation of infinite length stands for "none found".
    require_numbers(w, b, a, x, np.where(np.isnan(delta), np.nan, 0.0))
    require_labels(bool(np.isin(y, (-1, 1)).all()), y, "−1 or 1")


def _lower(w: Array, b: Array, a: Array, x: Array, y: float, certificate: Array) -> float:
    """The least distance that the certificate proves over all subsets S of the other class's neurons."""
    own, rival = (a > 0, a < 0) if y > 0 else (a < 0, a > 0)
    p, dp, most_p = _at(w[own], b[own], np.abs(a[own]), x)
    q, dq, most_q = _at(w[rival], b[rival], np.abs(a[rival]), x)
    bounds = [np.inf]
    for s in range(0 if y > 0 else 1, 2 ** len(q)):
        inside = np.array([(s >> r) & 1 for r in range(len(q))], dtype=float)
        u = certificate[s, : len(p)]
        if not ((u >= -1e-9) & (u <= 1 + 1e-9)).all():
            return 0.0
        gap, normal = float(u @ p - inside @ q), float(np.linalg.norm(u @ dp - inside @ dq))
        if normal > PARALLEL * (u @ np.linalg.norm(dp, axis=1) + inside @ np.linalg.norm(dq, axis=1)):
            bounds.append(max(gap, 0.0) / normal)
            continue
        # The half-space is everything or nothing. For y = −1 a gap of zero forbids to enter it (f > 0).
        noise = PARALLEL * float(u @ most_p + inside @ most_q)
        bounds.append(np.inf if (gap > noise if y > 0 else gap >= -noise) else 0.0)
    return float(min(bounds))


def _at(w: Array, b: Array, scale: Array, x: Array) -> tuple[Array, Array, Array]:
    """Values and gradients of scaled neurons at x, and the size of what the values are sums of."""
    return (
        scale * (w @ x + b),
        scale[:, None] * w,
        scale * (np.linalg.norm(w, axis=1) * np.linalg.norm(x) + np.abs(b)),
    )
