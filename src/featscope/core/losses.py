"""Losses of outputs F and labels y, each with its derivative ∂loss/∂F, so that closed-form networks need no
autograd.

All take F of shape (..., N, k) and y of shape (..., N), and return one value for each example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.core.errors import unknown


def one_hot(y: Tensor, outputs: Tensor) -> Tensor:
    """1{i = y} with the shape and type of ``outputs``."""
    return torch.zeros_like(outputs).scatter_(-1, y[..., None], 1.0)


def own(outputs: Tensor, y: Tensor) -> Tensor:
    """F_y."""
    return outputs.gather(-1, y[..., None])[..., 0]


def rivals(outputs: Tensor, y: Tensor) -> Tensor:
    """The outputs with −∞ in place of F_y."""
    return outputs.scatter(-1, y[..., None], -torch.inf)


def runner_up(outputs: Tensor, y: Tensor) -> Tensor:
    """argmax_{j≠y} F_j."""
    return rivals(outputs, y).argmax(-1)


def margin(outputs: Tensor, y: Tensor) -> Tensor:
    """F_y − max_{j≠y} F_j: positive exactly where the example is classified correctly."""
    return own(outputs, y) - rivals(outputs, y).amax(-1)


@dataclass(frozen=True)
class Loss:
    """A loss to be maximised by an attack or minimised by training, with its derivative by the outputs."""

    name: str
    value: Callable[[Tensor, Tensor], Tensor]
    grad: Callable[[Tensor, Tensor], Tensor]


def _cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    return torch.logsumexp(outputs, -1) - own(outputs, y)


def _cross_entropy_grad(outputs: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(outputs, -1) - one_hot(y, outputs)


def _margin_grad(outputs: Tensor, y: Tensor) -> Tensor:
    return one_hot(runner_up(outputs, y), outputs) - one_hot(y, outputs)


def _soft_margin(outputs: Tensor, y: Tensor) -> Tensor:
    return torch.logsumexp(rivals(outputs, y), -1) - own(outputs, y)


def _soft_margin_grad(outputs: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(rivals(outputs, y), -1) - one_hot(y, outputs)


CROSS_ENTROPY = Loss("cross-entropy", _cross_entropy, _cross_entropy_grad)
MARGIN = Loss("margin", lambda outputs, y: -margin(outputs, y), _margin_grad)
#: log Σ_{j≠y} e^{F_j} − F_y. Cross-entropy is log(1 + e^·) of it, so both have one direction of ascent, but
#: this one does not saturate; for two classes it is the margin.
SOFT_MARGIN = Loss("soft-margin", _soft_margin, _soft_margin_grad)
OWN_LOGIT = Loss("own-logit", lambda outputs, y: -own(outputs, y), lambda outputs, y: -one_hot(y, outputs))

LOSSES = {loss.name: loss for loss in (CROSS_ENTROPY, MARGIN, SOFT_MARGIN, OWN_LOGIT)}


def loss(name: str) -> Loss:
    """Return the loss of that name: cross-entropy, margin −(F_y − max F_j), soft-margin, or own-logit −F_y
    (AT §2.5)."""
    if name not in LOSSES:
        raise unknown("loss", name, LOSSES)
    return LOSSES[name]
