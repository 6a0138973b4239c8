"""Outputs of a model together with the map that pulls ∂loss/∂outputs back to the input.

A network with a closed form offers ``linearise``; any other callable or ``nn.Module`` goes through autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

Pullback = Callable[[Tensor], Tensor]
Model = Callable[[Tensor], Tensor]


@runtime_checkable
class Linearisable(Protocol):
    """A network that knows its own input gradient."""

    def linearise(self, x: Tensor) -> tuple[Tensor, Pullback]:
        """Return F(x) and the map c ↦ Σ_i c_i ∇_x F_i(x)."""
        ...


def linearise(model: Model, x: Tensor) -> tuple[Tensor, Pullback]:
    """Return ``model(x)`` and the map from output cotangents to input gradients, in closed form where there is one."""
    if isinstance(model, Linearisable):
        return model.linearise(x)
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        outputs = model(leaf)

    def pull(cotangent: Tensor) -> Tensor:
        return torch.autograd.grad(outputs, leaf, cotangent)[0]

    return outputs.detach(), pull
