"""The perturbation of AT Theorem 4.3, which looks at no model: −β_p v_y + ε v_{y'} on the non-robust patches,
0 on the others."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from featscope.core.balls import ball
from featscope.core.errors import require
from featscope.laws.patches import PatchBatch, PatchLaw


def _other_class(law: PatchLaw, batch: PatchBatch, rng: torch.Generator) -> Tensor:
    """y', uniform over the classes other than y."""
    return (batch.y + torch.randint(1, law.k, batch.y.shape, generator=rng)) % law.k


def model_free(
    law: PatchLaw, batch: PatchBatch, eps: float, rng: torch.Generator, norm: str = "Linf"
) -> Tensor:
    """Δ(X, y), with y' uniform over the other classes; it is in the ball of every patch only if ε ≥ β_p.

    In ℓp what removing v_y leaves of the radius is for v_y': (ε^p − β_p^p)^{1/p}, which is ε in ℓ∞.
    """
    top = float(batch.amplitude[~batch.robust].max()) if bool((~batch.robust).any()) else 0.0
    require(
        eps >= top,
        "the model-free perturbation removes β_p v_y, so eps must be at least β",
        f"eps={eps}, β={top}",
        "raise eps",
    )
    other = _other_class(law, batch, rng)
    _, v = law.features(batch.x.dtype)
    p = ball(norm, eps).p
    left = torch.full_like(batch.amplitude, eps)
    if not math.isinf(p):
        left = (eps**p - batch.amplitude.pow(p)).clamp(min=0).pow(1 / p)
    swap = left[..., None] * v[other][..., None, :] - batch.amplitude[..., None] * v[batch.y][..., None, :]
    return torch.where(batch.robust[..., None], torch.zeros_like(swap), swap)


def write_robust(law: PatchLaw, batch: PatchBatch, eps: float, rng: torch.Generator) -> Tensor:
    """The perturbation that refutes Prop. 3.2 over the whole ball: −ε u_y + ε u_{y'} on every patch (axis
    features: ‖Δ‖∞ = ε)."""
    require(
        law.frame == "axes",
        "ℓ∞ perturbations of features need features along the axes",
        f"frame={law.frame}",
        "use axes",
    )
    other = _other_class(law, batch, rng)
    u, _ = law.features(batch.x.dtype)
    swap = eps * (u[other] - u[batch.y])
    return swap[..., None, :].expand_as(batch.x).contiguous()
