"""A certified lower bound for cubic networks (CGRO's (M)) under ℓ2 perturbations.

With z_j = W X[j] and a_j = W ξ_j the output changes by Σ_j Σ_r (3 z_jr² a_jr + 3 z_jr a_jr² + a_jr³). For ‖ξ‖₂ ≤ ρ, spread over the patches
that may change, the three sums are bounded by their dual norms:

    linear     3ρ · (Σ_j ‖Wᵀ z_j²‖²)^½
    quadratic  3ρ² · max_j λ⁺(∓ Wᵀ diag(z_j) W)
    cubic      ρ³ · max_r ‖w_r‖ · ‖W‖²_op          since Σ|a_r|³ ≤ max|a_r| · Σ a_r²
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from featscope.nets.cubic_cnn import output, projections


class Margins(NamedTuple):
    """y·f(X) and the coefficients of its guaranteed loss: margin(ρ) ≥ value − first·ρ − second·ρ² − third·ρ³."""

    value: Tensor
    first: Tensor
    second: Tensor
    third: Tensor

    def at(self, radius: float) -> Tensor:
        """A lower bound of min y·f over the ball of this radius."""
        return self.value - self.first * radius - self.second * radius**2 - self.third * radius**3


def certificate(w: Tensor, x: Tensor, y: Tensor, movable: Tensor | None = None) -> Margins:
    """Bounds for one network w (m, d) at points x (N, P, d); ``movable`` (P,) says which patches may be perturbed."""
    z = projections(w, x)
    allowed = torch.ones(x.shape[-2], dtype=torch.bool) if movable is None else movable.bool()
    slopes = (z.square() @ w).norm(dim=-1) * allowed
    gram = w @ w.mT
    values, vectors = torch.linalg.eigh(gram)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.mT
    # Wᵀ diag(z) W and G^½ diag(z) G^½ (G = WWᵀ) have the same eigenvalues apart from zeros, which λ⁺ does not see.
    curvature = torch.linalg.eigvalsh(root @ torch.diag_embed(-y[:, None, None] * z) @ root)[..., -1].clamp(min=0)
    third = w.norm(dim=-1).max() * values[-1]
    worst = torch.where(allowed, curvature, torch.zeros_like(curvature)).amax(-1)
    return Margins(y * output(w, x), 3 * slopes.norm(dim=-1), 3 * worst, third.expand(len(y)))
