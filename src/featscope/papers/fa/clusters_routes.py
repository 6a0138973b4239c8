"""§5.1's coefficients and the descent of both networks by several routes, which must agree."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import (
    Descent,
    binary_step,
    coefficients,
    decomposed,
    fine_step,
    start_binary,
    start_fine,
)
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.laws.compact import rotate
from featscope.nets import two_layer
from featscope.nets.multiclass import MultiClass, MultiClassNet
from featscope.nets.two_layer import TwoLayer, TwoLayerNet
from featscope.papers.fa.clusters import Training


class RoutesSpec(Spec):
    """A small law on which every route is affordable in float64."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"d": 200, "n": 40, "steps": 20},
        "paper": {"d": 3072, "n": 1000, "steps": 100},
    }
    seeds: tuple[int, ...] = (0, 1)
    law: ClusterLaw = setting(ClusterLaw(k=6, d=800), "the law of the data")
    training: Training = setting(
        Training(n=150, m=3, steps=80, learning_rate=4e-3), "points, neurons and gradient descent"
    )


class Routes(Columns):
    """One row a seed: largest relative difference of the weights (or coefficients) that two routes give."""

    seed = column("the seed")
    binary_autograd = column("closed form against autograd, 2-class")
    binary_decomposition = column("weights rebuilt from coefficients against descent, 2-class")
    binary_marginal = column("λ_j/‖μ_j‖² against the sum of σ_i/‖ξ_i‖² over the cluster, 2-class")
    binary_rotated = column("the compact copy turned back against the data, 2-class")
    fine_autograd = column("closed form against autograd, k-class")
    fine_decomposition = column("weights rebuilt from coefficients against descent, k-class")
    fine_marginal = column("λ_j/‖μ_j‖² against the sum of σ_i/‖ξ_i‖² over the cluster, k-class")
    fine_rotated = column("the compact copy turned back against the data, k-class")


def _autograd(net: torch.nn.Module, batch: ClusterBatch, training: Training, fine: bool) -> None:
    """Plain autograd descent, the independent route."""
    for _ in range(training.steps):
        outputs = net(batch.x)
        if fine:
            loss = torch.nn.functional.cross_entropy(outputs, batch.cluster)
        else:
            loss = torch.nn.functional.softplus(-batch.y * (outputs[:, 1] - outputs[:, 0])).mean()
        parameters = list(net.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
            parameter.data -= training.learning_rate * gradient


def _worst(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


def run_routes(spec: RoutesSpec, folder: Folder) -> Json:
    """Closed form against autograd, coefficients against weights, rotated copy against the data."""
    folder.conditions(spec.law.check(spec.training.hyper))
    rows: Rows = []
    for seed in spec.seeds:
        rows += folder.once("routes", partial(_routes, spec.law, spec.training, seed), seed=seed).rows
    return {key: max(row[key] for row in rows) for key in rows[0]}


def _run(law: ClusterLaw, batch: ClusterBatch, training: Training, start: Descent, fine: bool) -> Descent:
    a = two_layer.output_weights(training.m)
    step = (
        fine_step(batch, training.h, training.learning_rate)
        if fine
        else binary_step(batch, a, training.learning_rate)
    )
    for t in range(training.steps):
        start = step(start, t)
    return start


def _routes(law: ClusterLaw, t: Training, seed: int) -> tuple[Rows, dict[str, Tensor]]:
    drawn = law.draw(t.n, 2 * t.m + law.k * t.h, seed, compact=False)
    first, second = drawn.directions[: 2 * t.m], drawn.directions[2 * t.m :]
    starts = {
        False: start_binary(first, t.n, t.init_weight, t.init_bias, stream(seed, "init", "bias")),
        True: start_fine(second, t.n, t.init_weight),
    }
    noise = drawn.train.x - law.alpha * drawn.features[drawn.train.cluster]
    copy = rotate(torch.cat([drawn.features, noise, drawn.directions]))
    mu, xi, w0 = (
        copy.coordinates[: law.k],
        copy.coordinates[law.k : law.k + t.n],
        copy.coordinates[law.k + t.n :],
    )
    rotated = ClusterBatch(law.alpha * mu[drawn.train.cluster] + xi, drawn.train.y, drawn.train.cluster)
    norms = law.noise_norms(drawn.train)
    row: dict[str, float] = {}
    for fine, start in starts.items():
        label = "fine" if fine else "binary"
        done = _run(law, drawn.train, t, start, fine)
        module: torch.nn.Module = MultiClassNet(MultiClass(start.w, t.h)) if fine else _module(start, t.m)
        _autograd(module, drawn.train, t, fine)
        found = coefficients(law, drawn.train, norms, done.c)
        turned = start._replace(w=t.init_weight * (w0[2 * t.m :] if fine else w0[: 2 * t.m]))
        there = _run(law, rotated, t, turned, fine)
        sums = torch.stack(
            [
                found.noise[:, drawn.train.cluster == j] @ (1 / norms[drawn.train.cluster == j])
                for j in range(law.k)
            ],
            -1,
        )
        row |= {
            f"{label}_autograd": _worst(done.w, next(module.parameters()).detach()),
            f"{label}_decomposition": _worst(decomposed(law, drawn.train, norms, start.w, found), done.w),
            f"{label}_marginal": _worst(sums, found.features / law.d),
            f"{label}_rotated": _worst(there.w @ copy.basis, done.w),
        }
    return [row], {}


def _module(start: Descent, m: int) -> TwoLayerNet:
    """The 2-class network for autograd; its two logits differ by f."""
    return TwoLayerNet(TwoLayer(start.w, start.b, two_layer.output_weights(m)))


def routes_size(spec: RoutesSpec) -> Size:
    """Two networks by four routes on one sample."""
    held, neurons = spec.training.n * spec.law.d, 2 * spec.training.m + spec.law.k * spec.training.h
    return Size(held + neurons * spec.law.d, 4 * len(spec.seeds) * spec.training.steps * held * neurons)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-routes",
        "fa",
        "weight decomposition and coefficient updates against autograd descent; the rotated compact copy "
        "against the data",
        RoutesSpec,
        run_routes,
        {"quick": "1 s", "cpu": "3 s", "paper": "30 s"},
        highlights=(Highlight("*", "largest relative difference, {}"),),
        size=routes_size,
        revision=2,
        columns={"routes": Routes},
    ),
)
