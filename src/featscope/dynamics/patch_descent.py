"""Gradient descent on the cross-entropy of the patch network: standard (AT §2.4) and at perturbed examples
(AT §2.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    return _reordered(x, y, torch.argsort(y, dim=-1, stable=True))


def _reordered(x: Tensor, y: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Points and labels of each run in its order; whole points are copied."""
    first = y.shape[-1] * torch.arange(y.shape[:-1].numel(), device=y.device).view(*y.shape[:-1], 1)
    chosen = (order + first).flatten()
    points = x.reshape(-1, *x.shape[-2:]).index_select(0, chosen).view_as(x)
    return points, y.flatten().index_select(0, chosen).view_as(y)


def shuffled(x: Tensor, y: Tensor, seeds: Sequence[int], epoch: int) -> tuple[Tensor, Tensor]:
    """All points in a new order, for each run by itself; a function of seeds and epoch alone, so a resumed
    run draws the same."""
    draws = [
        torch.randperm(y.shape[-1], generator=stream(seed, "epoch", epoch)).to(x.device) for seed in seeds
    ]
    return _reordered(x, y, torch.stack(draws) if y.dim() > 1 else draws[0])


def training_step(
    spec: PatchNetSpec, x: Tensor, y: Tensor, eta: float, perturb: Perturb | None = None
) -> Step[Weights]:
    """The step w ← w − η ∇_w mean L_CE(F; X + Δ, y) over all points, where Δ = perturb(net, X, y) or 0."""
    return training_epoch(spec, x, y, eta, perturb)


def training_epoch(
    spec: PatchNetSpec,
    x: Tensor,
    y: Tensor,
    eta: float,
    perturb: Perturb | None = None,
    *,
    batch_size: int | None = None,
    seeds: Sequence[int] = (0,),
) -> Step[Weights]:
    """A pass over the data: a step on each batch of ``batch_size`` points, every point once, in an order
    drawn anew; the last batch is what is left.

    Without a size the batch is all points, so that a pass is one step of the descent of AT §2.4 and §2.5.
    """
    x, y = by_class(x, y)
    require(
        batch_size is None or 1 <= batch_size <= y.shape[-1],
        "batch_size must be 1 … N",
        f"{batch_size}",
        "change it",
    )

    def batches(epoch: int) -> Iterable[tuple[Tensor, Tensor]]:
        if batch_size is None:
            return [(x, y)]
        points, labels = shuffled(x, y, seeds, epoch)
        return zip(torch.split(points, batch_size, -3), torch.split(labels, batch_size, -1), strict=True)

    def step(state: Weights, t: int) -> Weights:
        w = state.w
        for points, labels in batches(t):
            net = spec.net(w)
            if perturb is not None:
                points = points + perturb(net, points, labels)
            w = descend(net, points, labels, eta)
        return Weights(w)

    return step
