"""Outputs of a model together with the map that pulls ∂loss/∂outputs back to the input.

A network with a closed form offers ``linearise``; any other callable or ``nn.Module`` goes through autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from featscope.core.errors import BadInput

Pullback = Callable[[Tensor], Tensor]
Model = Callable[[Tensor], Tensor]


@runtime_checkable
class Linearisable(Protocol):
    """A network that knows its own input gradient."""

    def linearise(self, x: Tensor) -> tuple[Tensor, Pullback]:
        """Return F(x) and the map c ↦ Σ_i c_i ∇_x F_i(x)."""
        ...


def linearise(model: Model, x: Tensor) -> tuple[Tensor, Pullback]:
    """Return ``model(x)`` and the map from output cotangents to input gradients, in closed form where there
    is one.
    """
    if isinstance(model, Linearisable):
        return model.linearise(x)
    # Whatever mode the caller left on: no_grad, or inference, whose tensors autograd refuses.
    with torch.inference_mode(False), torch.enable_grad():
        leaf = (x.clone() if x.is_inference() else x).detach().requires_grad_(True)
        # A leaf may not be changed in place, a copy of it may.
        outputs = model(leaf.clone())

    def pull(cotangent: Tensor) -> Tensor:
        gradient = None
        if outputs.requires_grad:
            with torch.inference_mode(False):
                given = cotangent.clone() if cotangent.is_inference() else cotangent
                (gradient,) = torch.autograd.grad(outputs, leaf, given, allow_unused=True)
        if gradient is None:
            rule = "the outputs of a network must depend on its inputs by autograd"
            raise BadInput(
                rule,
                "no gradient reaches the inputs",
                "take detach(), no_grad and .data out of its forward, or attack with Square only",
            )
        return gradient

    return outputs.detach(), pull
