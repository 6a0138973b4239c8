"""`featscope bench steps`: one step of each model against a plain autograd loop and against its bare matrix
products, in both precisions, with one and two threads, for one and for thirty seeds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from featscope.attacks.gta import transferred
from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.bench.patch import EPS, ETA, ETA_TILDE, autograd_step, products
from featscope.bench.timing import Ratio, compare, threads
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import Descent, binary_step, start_binary
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.signal_descent import CubicWeights, descent_step
from featscope.laws.clusters import ClusterLaw
from featscope.laws.patches import PatchLaw
from featscope.laws.patches import stack as stack_patches
from featscope.laws.signal import SignalLaw
from featscope.laws.signal import stack as stack_signals
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.nets.two_layer import output_weights

SEEDS = (1, 30)
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class StepCase(NamedTuple):
    """A step of all seeds at once, the autograd step of one of them, and the products of all."""

    ours: Callable[[], Any]
    autograd: Callable[[], Any]
    products: Callable[[], Any]


def patch_case(dtype: torch.dtype, seeds: int) -> StepCase:
    """AT §6.1's adversarial step on all 100 points."""
    law, spec = PatchLaw(), PatchNetSpec()
    batch = stack_patches([law.sample(100, stream(seed, "bench")).to(dtype) for seed in range(seeds)])
    w = torch.stack([spec.init(law.k, law.d, stream(seed, "init")) for seed in range(seeds)]).to(dtype)
    ascent = PatchTrainingAttack(step_size=ETA_TILDE, eps=EPS)
    step, state = training_step(spec, batch.x, batch.y, ETA, ascent.perturb), Weights(w)
    each = [products(*parts) for parts in zip(w, batch.x, batch.y, strict=True)]
    return StepCase(
        lambda: step(state, 0),
        lambda: autograd_step(w[0], batch.x[0], batch.y[0]),
        lambda: [run() for run in each],
    )


def clusters_case(dtype: torch.dtype, seeds: int, n: int = 1000, m: int = 5) -> StepCase:
    """FA §6.1's step on 1000 points of the compact copy; further seeds are further initialisations on the
    same points."""
    drawn = ClusterLaw().draw(n, 2 * m * seeds, 0, compact=True)
    x, y, a = drawn.train.x.to(dtype), drawn.train.y.to(dtype), output_weights(m, dtype)
    first = start_binary(drawn.directions.to(dtype), n, 1e-5, 1e-5, stream(0, "init", "bias"))
    state = Descent(*(part.reshape(seeds, 2 * m, *part.shape[1:]) for part in first))
    step = binary_step(drawn.train._replace(x=x, y=y), a, 1e-3)
    w, c = state.w.flatten(0, 1), state.c.flatten(0, 1)
    leaves = [state.w[0].clone().requires_grad_(True), state.b[0].to(dtype).clone().requires_grad_(True)]

    def plain() -> None:
        outputs = torch.relu(x @ leaves[0].mT + leaves[1]) @ a
        loss = torch.nn.functional.softplus(-y * outputs).mean()
        _descend(leaves, loss, 1e-3)

    return StepCase(lambda: step(state, 0), plain, lambda: (w @ x.mT, c @ x))


def signal_case(dtype: torch.dtype, seeds: int, n: int = 50, m: int = 10) -> StepCase:
    """CGRO's step of full descent at the setting of `signal-stages`."""
    law = SignalLaw()
    start = law.d**-0.5
    drawn = stack_signals(
        [law.instance(n, m, start, stream(s, "data", "train"), stream(s, "init")) for s in range(seeds)]
    )
    x, y, w = drawn.train.x.to(dtype), drawn.train.y.to(dtype), drawn.w.to(dtype)
    attacked = transferred(x, y, law)
    step, state = descent_step(x, y, 0.1, 0.9, attacked), CubicWeights(w)
    # The patches that the attack moves, one a point, and all others once.
    rows = torch.cat([x, attacked[..., :1, :]], -2).flatten(-3, -2)
    z, leaf = w @ rows.mT, w[0].clone().requires_grad_(True)

    def logistic(points: Tensor) -> Tensor:
        f = (points @ leaf.mT).pow(3).sum((-1, -2))
        return torch.nn.functional.softplus(-y[0] * f).mean()

    def plain() -> None:
        _descend([leaf], 0.1 * logistic(x[0]) + 0.9 * logistic(attacked[0]), 0.1)

    return StepCase(lambda: step(state, 0), plain, lambda: (w @ rows.mT, z @ rows))


def _descend(leaves: list[Tensor], loss: Tensor, eta: float) -> None:
    for leaf, gradient in zip(leaves, torch.autograd.grad(loss, leaves), strict=True):
        leaf.detach().sub_(eta * gradient)


CASES: Mapping[str, Callable[[torch.dtype, int], StepCase]] = {
    "patch": patch_case,
    "clusters": clusters_case,
    "signal": signal_case,
}


def measure(rounds: int = 5) -> Iterator[Ratio]:
    """Every model in every way; a step of thirty seeds against thirty autograd steps."""
    for (model, case), (kind, dtype), seeds in product(CASES.items(), DTYPES.items(), SEEDS):
        made = case(dtype, seeds)
        for count in sorted({1, min(2, os.cpu_count() or 1)}):
            with threads(count):
                name = f"{model} step, {kind}, {_many(count, 'thread')}, {_many(seeds, 'seed')}"
                # A busy machine stretches wall time; CPU time of two threads would count both.
                clock = time.process_time if count == 1 else time.perf_counter
                timed = partial(compare, rounds=rounds, repeats=10 if seeds == 1 else 1, clock=clock)
                against = "autograd loop"
                yield timed(name, made.ours, against, made.autograd, other_repeats=5, work=seeds)
                yield timed(name, made.ours, "its matrix products", made.products)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count > 1)}"
