"""The perturbation of AT Theorem 4.3, which looks at no model: −β_p v_y + ε v_{y'} on the non-robust patches,
0 on the others."""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.laws.patches import PatchBatch, PatchLaw


def _other_class(law: PatchLaw, batch: PatchBatch, rng: torch.Generator) -> Tensor:
    """y', uniform over the classes other than y."""
    return (batch.y + torch.randint(1, law.k, batch.y.shape, generator=rng)) % law.k


def model_free(law: PatchLaw, batch: PatchBatch, eps: float, rng: torch.Generator) -> Tensor:
    """Δ(X, y), with y' uniform over the other classes; it is in the ℓ∞ ball only if ε ≥ β_p."""
    top = float(batch.amplitude[~batch.robust].max()) if bool((~batch.robust).any()) else 0.0
    require(
        eps >= top,
        "the model-free perturbation removes β_p v_y, so eps must be at least β",
        f"eps={eps}, β={top}",
        "raise eps",
    )
    other = _other_class(law, batch, rng)
    _, v = law.features(batch.x.dtype)
    swap = eps * v[other][..., None, :] - batch.amplitude[..., None] * v[batch.y][..., None, :]
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
