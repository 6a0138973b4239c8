"""Plain NumPy re-verification of the certificates that FA's runs leave. Nothing here is shared with the search that found them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Verified(NamedTuple):
    """What the certificates prove: lower and upper bounds of the radii, one for each point."""

    lower: Array
    upper: Array


def network(w: Array, b: Array, a: Array, x: Array) -> Array:
    """f(x) = Σ_r a_r max(⟨w_r, x⟩ + b_r, 0)."""
    return np.maximum(x @ w.T + b, 0) @ a


def verify(w: Array, b: Array, a: Array, x: Array, y: Array, delta: Array, certificate: Array) -> Verified:
    """Recompute both bounds from weights, points, perturbations and the certificate's vectors u, subset by subset.

    A lower bound is proved only by vectors inside [0,1]; an upper bound only by a perturbation that does change the predicted sign
    (f ≤ 0 for y = +1; for y = −1 f > 0 at the perturbation lengthened by a millionth, because the radius there is an infimum).
    """
    lower, upper = np.zeros(len(y)), np.full(len(y), np.inf)
    for i in range(len(y)):
        own, rival = (a > 0, a < 0) if y[i] > 0 else (a < 0, a > 0)
        scale_own, scale_rival = np.abs(a[own]), np.abs(a[rival])
        p, dp = scale_own * (w[own] @ x[i] + b[own]), scale_own[:, None] * w[own]
        q, dq = scale_rival * (w[rival] @ x[i] + b[rival]), scale_rival[:, None] * w[rival]
        bounds = []
        for s in range(0 if y[i] > 0 else 1, 2 ** int(rival.sum())):
            inside = np.array([(s >> r) & 1 for r in range(int(rival.sum()))], dtype=float)
            u = certificate[i, s, : int(own.sum())]
            if u.min() < -1e-9 or u.max() > 1 + 1e-9:
                bounds.append(0.0)
                continue
            gap, normal = u @ p - inside @ q, np.linalg.norm(u @ dp - inside @ dq)
            bounds.append(0.0 if gap <= 0 else (gap / normal if normal > 0 else np.inf))
        lower[i] = min(bounds)
        moved = network(w, b, a, (x[i] + delta[i])[None])[0]
        further = network(w, b, a, (x[i] + delta[i] * (1 + 1e-6))[None])[0]
        if (y[i] > 0 and min(moved, further) <= 0) or (y[i] < 0 and max(moved, further) > 0):
            upper[i] = np.linalg.norm(delta[i]) * (1 + 1e-6)
    return Verified(lower, upper)
