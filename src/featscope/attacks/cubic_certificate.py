"""A certified lower bound for cubic networks (CGRO's (M)) under ℓ2 perturbations.

Let t_jr = y⟨w_r, X[j]⟩ and a_jr = y⟨w_r, ξ_j⟩ for a perturbation with ‖ξ‖₂ ≤ ρ, so that y·f(X + ξ) = Σ_jr
(t_jr + a_jr)³. Two facts bound the a's:
|a_jr| ≤ ‖w_r‖ρ, and with C the matrix of the weights' cosines and κ = λ_max(C),

    Σ_jr a_jr² / (‖w_r‖² κ) ≤ ρ²,          since diag(1/(‖w_r‖²κ)) ⪯ (WWᵀ)⁻¹ on the range of W.

For every multiplier μ ≥ 0 weak duality then gives

    y·f(X + ξ) ≥ Σ_jr min_{|a| ≤ ‖w_r‖ρ} [(t_jr + a)³ + μ a²/(‖w_r‖²κ)] − μρ²

whose one-dimensional minima are in closed form. The largest of these bounds over a fixed set of μ is
returned. Unlike a bound by Taylor coefficients it keeps the helpful curvature of a large t³.
"""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.nets.cubic_cnn import projections

#: multipliers in units of the size of the problem; any choice is valid, more of them only tighten the bound.
MULTIPLIERS = (0.0, *(10 ** (k / 4) for k in range(-12, 17)))


def _least(t: Tensor, bound: Tensor, nu: Tensor) -> Tensor:
    """min over |a| ≤ b of (t + a)³ + ν a²: the ends, or where 3s² + 2νs − 2νt = 0 for s = t + a."""
    root = (nu * nu + 6 * nu * t).clamp(min=0).sqrt()
    candidates = [bound, -bound, ((-nu + root) / 3 - t), ((-nu - root) / 3 - t)]
    best = torch.full_like(t, torch.inf)
    for a in candidates:
        inside = torch.maximum(torch.minimum(a, bound), -bound)
        best = torch.minimum(best, (t + inside).pow(3) + nu * inside * inside)
    return best


def _without_zeros(w: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """The weights that are not 0 and their projections: a zero weight adds nothing, and has no direction."""
    kept = w.norm(dim=-1) > 0
    return w[kept], t[..., kept]


def certified_margin(w: Tensor, x: Tensor, y: Tensor, radius: float, movable: Tensor | None = None) -> Tensor:
    """A lower bound of min y·f over the ℓ2 ball, for one network w (m, d) at points x (N, P, d).

    ``movable`` (P,) says which patches may be perturbed.
    """
    t = y[:, None, None] * projections(w, x)
    if radius == 0:
        return t.pow(3).sum((-1, -2))
    w, t = _without_zeros(w, t)
    if not len(w):
        return t.new_zeros(len(y))
    size = w.norm(dim=-1)
    unit = w / size[:, None]
    kappa = torch.linalg.eigvalsh(unit @ unit.mT)[-1]
    allowed = torch.ones(x.shape[-2]) if movable is None else movable
    bound = (size * radius).expand_as(t) * allowed.to(t)[:, None]
    best = torch.full_like(y, -torch.inf)
    for scale in MULTIPLIERS:
        nu = scale / (size.square() * kappa)
        best = torch.maximum(best, _least(t, bound, nu.expand_as(t)).sum((-1, -2)) - scale * radius**2)
    return best
