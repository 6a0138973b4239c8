"""CGRO's network (M): f_W(X) = Σ_r Σ_j ⟨w_r, X[j]⟩³.

The functional core takes weights (…, m, d) and points (…, N, P, d) with any leading axes of independent runs.
The ℓ2 threat on such a network lives in the row space of W: `reduce` rotates weights and points there, which
changes no output and no attackable distance.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from featscope.core.signs import two_logits


def projections(w: Tensor, x: Tensor) -> Tensor:
    """z_ijr = ⟨w_r, X_i[j]⟩, (…, N, P, m)."""
    # One product over all patches of a run: a broadcast over the points would be N small ones.
    flat = x.flatten(-3, -2) @ w.mT
    return flat.view(*flat.shape[:-2], *x.shape[-3:-1], flat.shape[-1])


def output(w: Tensor, x: Tensor) -> Tensor:
    """f_W(X_i) = Σ_jr z_ijr³, (…, N)."""
    return projections(w, x).pow(3).sum((-1, -2))


def patch_pullback(w: Tensor, patches: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """What each patch (…, rows, d) adds to the output, Σ_r z_r³, and the map c ↦ 3 Σ_j c_j z_jr² X[j], (…, m,
    d), which uses z a second time."""
    # m is small and d is large: in this order the product is twice as fast as the other way round.
    z = w @ patches.mT
    squares = z * z

    def pull(cotangent: Tensor) -> Tensor:
        return (3 * cotangent[..., None, :] * squares) @ patches

    return (squares * z).sum(-2), pull


def weight_pullback(w: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """f_W(X) and the map c ↦ Σ_i c_i ∂f(X_i)/∂w_r = 3 Σ_ij c_i z_ijr² X_i[j], (…, m, d)."""
    values, pull = patch_pullback(w, x.flatten(-3, -2))
    patches = x.shape[-2]
    outputs = values.view(*values.shape[:-1], -1, patches).sum(-1)
    return outputs, lambda cotangent: pull(cotangent.repeat_interleave(patches, -1))


def input_gradient(w: Tensor, x: Tensor, cotangent: Tensor) -> Tensor:
    """c_i ∂f(X_i)/∂X_i[j] = 3 c_i Σ_r z_ijr² w_r, (…, N, P, d)."""
    pulled = 3 * cotangent[..., None, None] * projections(w, x).square()
    return (pulled.flatten(-3, -2) @ w).view(*pulled.shape[:-1], w.shape[-1])


def signal_output(w: Tensor) -> Tensor:
    """U = Σ_r ⟨w_r, w*⟩³ (§4.1), w* being the first axis."""
    return w[..., 0].pow(3).sum(-1)


def row_basis(w: Tensor) -> Tensor:
    """An orthonormal basis (d, min(m, d)) of the row space of W."""
    basis: Tensor = torch.linalg.qr(w.mT, mode="reduced").Q
    return basis


def reduce(w: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """W and X in a basis of W's row space, and the basis.

    f depends on X through WX only and projecting a perturbation onto the row space cannot lengthen it, so ℓ2
    robustness at any radius is the same in these m coordinates as in all d.
    """
    basis = row_basis(w)
    return w @ basis, x @ basis, basis


class CubicCNN(nn.Module):
    """One run of the network with logits (−f/2, f/2), whose cross-entropy is the logistic loss log(1 +
    e^{−yf}) of (O)."""

    def __init__(self, w: Tensor) -> None:
        super().__init__()
        self.w = nn.Parameter(w.detach().clone())

    def score(self, x: Tensor) -> Tensor:
        """f_W(X)."""
        return output(self.w, x)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the classes −1 and +1."""
        return two_logits(self.score(x))

    def linearise(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The logits and the closed-form pullback to the input."""
        with torch.no_grad():
            w = self.w.detach()
            outputs = self.forward(x)

        def pull(cotangent: Tensor) -> Tensor:
            return input_gradient(w, x, (cotangent[..., 1] - cotangent[..., 0]) / 2)

        return outputs, pull
