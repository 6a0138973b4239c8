"""Gradient descent on the cross-entropy of the patch network: standard (AT §2.4) and at perturbed examples
(AT §2.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.core.losses import CROSS_ENTROPY
from featscope.core.streams import stream
from featscope.dynamics.trajectory import Step
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec

Perturb = Callable[[PatchNet, Tensor, Tensor], Tensor]


class Weights(NamedTuple):
    """The state: the weights of all runs, (…, k, m, d)."""

    w: Tensor


def descend(net: PatchNet, x: Tensor, y: Tensor, eta: float) -> Tensor:
    """w − η · mean over the points of ∇_w loss, in closed form."""
    outputs, pull = net.weight_pullback(x)
    cotangent = CROSS_ENTROPY.grad(outputs, y) / y.shape[-1]
    return net.w - eta * pull(cotangent)


def by_class(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The same points with those of a class side by side, run by run: the mean over points does not mind, the
    ascent is faster."""
    order = torch.argsort(y, dim=-1, stable=True)
    wide = order[..., None, None].expand(*order.shape, *x.shape[-2:])
    return x.gather(-3, wide), y.gather(-1, order)


def draw_batch(x: Tensor, y: Tensor, size: int, seeds: Sequence[int], t: int) -> tuple[Tensor, Tensor]:
    """Draw ``size`` points without replacement, for each run by itself; a function of seeds and step alone,
    so a resumed run draws the same."""
    draws = [
        torch.randperm(y.shape[-1], generator=stream(seed, "batch", t))[:size].to(x.device) for seed in seeds
    ]
    picked = torch.stack(draws) if y.dim() > 1 else draws[0]
    wide = picked[..., None, None].expand(*picked.shape, *x.shape[-2:])
    return x.gather(-3, wide), y.gather(-1, picked)


def training_step(
    spec: PatchNetSpec,
    x: Tensor,
    y: Tensor,
    eta: float,
    perturb: Perturb | None = None,
    *,
    batch_size: int | None = None,
    seeds: Sequence[int] = (0,),
) -> Step[Weights]:
    """The step w ← w − η ∇_w mean L_CE(F; X + Δ, y), where Δ = perturb(net, X, y) or 0, full batch unless
    ``batch_size`` is given."""
    x, y = by_class(x, y)
    require(
        batch_size is None or 1 <= batch_size <= y.shape[-1],
        "batch_size must be 1 … N",
        f"{batch_size}",
        "change it",
    )

    def step(state: Weights, t: int) -> Weights:
        bx, by = (x, y) if batch_size is None else draw_batch(x, y, batch_size, seeds, t)
        net = spec.net(state.w)
        if perturb is not None:
            bx = bx + perturb(net, bx, by)
        return Weights(descend(net, bx, by, eta))

    return step
