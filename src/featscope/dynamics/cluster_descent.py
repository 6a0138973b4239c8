"""Full-batch gradient descent on the cluster model, with the coefficients of Lemmas 5.1 and 5.2 carried
along.

Every step adds C X to the weights, C (neurons, n). Summed over the steps, C is all that descent ever does,
and the coefficients are its two marginals: λ_{r,j} = α‖μ_j‖² Σ_{i∈I_j} C_{r,i} and σ_{r,i} = σ_noise ‖ξ_i‖²
C_{r,i}. They follow the update equations (2) and (3) from activation sets and loss derivatives alone; that w
= w(0) + Σ_j λ_j μ_j/‖μ_j‖² + Σ_i σ_i ξ_i/‖ξ_i‖² is for a test to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.dynamics.trajectory import Step
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.nets import multiclass, two_layer
from featscope.nets.multiclass import MultiClass
from featscope.nets.products import inner_products
from featscope.nets.two_layer import TwoLayer

#: Rows of X that one pass handles together: the pass computes outputs and gradient of a block while it is in
#: cache.
BLOCK = 200


class Descent(NamedTuple):
    """The state: weights (…, N, D), biases (…, N), and the summed coefficients C (…, N, n), with any leading
    axis of independent runs, on the same points or each on its own."""

    w: Tensor
    b: Tensor
    c: Tensor


class Decomposition(NamedTuple):
    """λ (N, k) and σ (N, n) of the weight decomposition."""

    features: Tensor
    noise: Tensor


def start_binary(
    directions: Tensor, n: int, init_weight: float, init_bias: float, rng: torch.Generator
) -> Descent:
    """w(0) = σ_w · directions, b(0) ~ N(0, σ_b²), no coefficients yet."""
    count = directions.shape[0]
    b = init_bias * torch.randn(count, generator=rng, dtype=directions.dtype)
    return Descent(init_weight * directions, b, directions.new_zeros(count, n))


def start_fine(directions: Tensor, n: int, init_weight: float) -> Descent:
    """w(0) = σ_w · directions; the k-class network has no biases."""
    count = directions.shape[0]
    return Descent(init_weight * directions, directions.new_zeros(count), directions.new_zeros(count, n))


def blocks(train: ClusterBatch) -> Iterator[tuple[slice, Tensor]]:
    """The points block by block, without the coordinates in which a compact copy is zero."""
    n = train.x.shape[-2]
    for low in range(0, n, BLOCK):
        rows = slice(low, min(low + BLOCK, n))
        yield rows, train.x[..., rows, : train.width(rows.stop)]


def hidden_values(w: Tensor, b: Tensor, train: ClusterBatch) -> Tensor:
    """(n, N): ⟨w_r, x_i⟩ + b_r for all training points."""
    return torch.cat([inner_products(x, w[:, : x.shape[1]]) for _, x in blocks(train)]) + b


def _add_products(move: Tensor, part: Tensor, x: Tensor) -> None:
    """move += part X for the points of a block; the runs on these points are one product."""
    move.view(-1, move.shape[-1])[:, : x.shape[-1]].addmm_(part.reshape(-1, len(x)), x)


def _each(train: ClusterBatch) -> Iterator[ClusterBatch]:
    """The points of each run, where every run has its own.

    One run after the other: a block is met twice while it is in cache. A product of all runs would read it
    from memory both times, and takes half as long again.
    """
    for x, y, cluster in zip(train.x, train.y, train.cluster, strict=True):
        yield train._replace(x=x, y=y, cluster=cluster)


def binary_direction(w: Tensor, b: Tensor, a: Tensor, train: ClusterBatch) -> tuple[Tensor, Tensor, Tensor]:
    """(C, C X, C 1)/n of the logistic loss in one pass over the data: the negative gradient with its
    coefficients."""
    if train.x.dim() > 2:
        runs = [
            binary_direction(weights, biases, a, points)
            for weights, biases, points in zip(w, b, _each(train), strict=True)
        ]
        c, move, bias = (torch.stack(parts) for parts in zip(*runs, strict=True))
        return c, move, bias
    n = train.x.shape[-2]
    c, move = w.new_empty(*w.shape[:-1], n), torch.zeros_like(w)
    for rows, x in blocks(train):
        net = TwoLayer(w[..., : x.shape[-1]], b, a)
        part, _ = two_layer.point_coefficients(net, x, train.y[..., rows])
        c[..., rows] = part
        _add_products(move, part, x)
    return c.div_(n), move.div_(n), c.sum(-1)


def fine_direction(w: Tensor, h: int, train: ClusterBatch) -> tuple[Tensor, Tensor]:
    """(C, C X)/n of the cross-entropy with cluster labels."""
    if train.x.dim() > 2:
        runs = [fine_direction(own, h, points) for own, points in zip(w, _each(train), strict=True)]
        c, move = (torch.stack(parts) for parts in zip(*runs, strict=True))
        return c, move
    n = train.x.shape[-2]
    c, move = w.new_empty(*w.shape[:-1], n), torch.zeros_like(w)
    for rows, x in blocks(train):
        net = MultiClass(w[..., : x.shape[-1]], h)
        part, _ = multiclass.point_coefficients(net, x, train.cluster[..., rows])
        c[..., rows] = part
        _add_products(move, part, x)
    return c.div_(n), move.div_(n)


def binary_step(train: ClusterBatch, a: Tensor, eta: float) -> Step[Descent]:
    """θ ← θ − η ∇L (equation (1))."""

    def step(state: Descent, t: int) -> Descent:
        c, move, bias = binary_direction(state.w, state.b, a, train)
        return Descent(state.w + eta * move, state.b + eta * bias, state.c + eta * c)

    return step


def fine_step(train: ClusterBatch, h: int, eta: float) -> Step[Descent]:
    """θ ← θ − η ∇L_CE."""

    def step(state: Descent, t: int) -> Descent:
        c, move = fine_direction(state.w, h, train)
        return Descent(state.w + eta * move, state.b, state.c + eta * c)

    return step


def coefficients(law: ClusterLaw, train: ClusterBatch, norms: Tensor, c: Tensor) -> Decomposition:
    """λ and σ from the summed C (equations (2) and (3)); ``norms`` are ‖ξ_i‖²."""
    owners = torch.nn.functional.one_hot(train.cluster, law.k).to(c)
    return Decomposition(law.alpha * law.d * (c @ owners), law.sigma * norms * c)


def decomposed(
    law: ClusterLaw, train: ClusterBatch, norms: Tensor, start: Tensor, found: Decomposition
) -> Tensor:
    """w(0) + Σ_j λ_j μ_j/‖μ_j‖² + Σ_i σ_i ξ_i/‖ξ_i‖² (Lemma 5.1)."""
    mu = law.features(train.x.shape[1], train.x.dtype)
    noise = (train.x - law.alpha * mu[train.cluster]) / law.sigma
    return start + found.features @ mu / law.d + (found.noise / norms) @ noise
