"""Speed of the cluster model: training against the plain autograd loop, dimension against dimension, exact
radii against attacks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from featscope.attacks.minimal import MinimalPGD, binary_objective
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.attacks.two_layer_radius import exact_radii
from featscope.bench.timing import Ratio, compare, threads
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import Descent, binary_step, start_binary
from featscope.dynamics.trajectory import Step
from featscope.laws.clusters import ClusterBatch, ClusterDraw, ClusterLaw
from featscope.nets.two_layer import TwoLayer, TwoLayerNet, in_span, output_weights

N, M, ETA, SIGMA, STEPS = 1000, 5, 1e-3, 1e-5, 100
#: steps of each run where batches are timed
BATCH_STEPS = 20


def _start(drawn: ClusterDraw) -> Descent:
    return start_binary(drawn.directions, N, SIGMA, SIGMA, stream(0, "init", "bias"))


def trained_run(d: int, compact: bool, eta: float = ETA) -> tuple[ClusterDraw, Descent]:
    """§6.1's run at dimension d: draw the data and descend."""
    drawn = ClusterLaw(d=d).draw(N, 2 * M, 0, compact=compact)
    state, step = _start(drawn), binary_step(drawn.train, output_weights(M), eta)
    for t in range(STEPS):
        state = step(state, t)
    return drawn, state


def plain_loop(d: int) -> Tensor:
    """The same run as one would write it: data in R^d, autograd, torch.optim.SGD."""
    drawn = ClusterLaw(d=d).draw(N, 2 * M, 0, compact=False)
    state = _start(drawn)
    w, b, a = state.w.clone().requires_grad_(True), state.b.clone().requires_grad_(True), output_weights(M)
    optimiser = torch.optim.SGD([w, b], lr=ETA)
    for _ in range(STEPS):
        optimiser.zero_grad()
        outputs = torch.relu(drawn.train.x @ w.mT + b) @ a
        torch.nn.functional.softplus(-drawn.train.y * outputs).mean().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return w.detach()


def _descend(step: Step[Descent], state: Descent) -> Descent:
    for t in range(BATCH_STEPS):
        state = step(state, t)
    return state


def _batch_line(name: str, batch: ClusterBatch, singles: list[ClusterBatch], starts: list[Descent]) -> Ratio:
    """Runs that share a leading axis against a loop over single runs, each from its start."""
    a = output_weights(M)
    step = binary_step(batch, a, ETA)
    alone = [binary_step(train, a, ETA) for train in singles]
    together = Descent(*(torch.stack(parts) for parts in zip(*starts, strict=True)))
    return compare(
        name,
        lambda: _descend(step, together),
        "loop over single runs",
        lambda: [_descend(*run) for run in zip(alone, starts, strict=True)],
        rounds=5,
        repeats=1,
        clock=time.process_time,
    )


def batches(runs: int = 30) -> Iterator[Ratio]:
    """Thirty runs of §6.1 in one batch, on the same points and each on its own, compact and in R^3072."""
    for copy, compact in (("compact copy", True), ("in R^3072", False)):
        shared = ClusterLaw().draw(N, 2 * M * runs, 0, compact=compact)
        first = Descent(*(part.view(runs, 2 * M, *part.shape[1:]) for part in _start(shared)))
        starts = [Descent(*parts) for parts in zip(*first, strict=True)]
        named = f"{runs} initialisations on shared data, {copy}"
        yield _batch_line(named, shared.train, [shared.train] * runs, starts)
        del shared, first
        draws = [ClusterLaw().draw(N, 2 * M, seed, compact=compact) for seed in range(runs)]
        parts = [torch.stack([getattr(one.train, f) for one in draws]) for f in ("x", "y", "cluster")]
        batch = draws[0].train._replace(x=parts[0], y=parts[1], cluster=parts[2])
        named = f"{runs} runs on independent data, {copy}"
        yield _batch_line(named, batch, [one.train for one in draws], [_start(one) for one in draws])


def measure() -> Iterator[Ratio]:
    """All ratios of the cluster model."""
    with threads(1):
        yield from batches()
    for name, compact in (("compact copy", True), ("in R^3072", False)):
        yield compare(
            f"paper run, {name}",
            partial(trained_run, 3072, compact),
            "plain autograd loop",
            lambda: plain_loop(3072),
            rounds=5,
            repeats=1,
        )
    wide = 10**9
    yield compare(
        "compact run at d = 10^9",
        lambda: trained_run(wide, True, ETA * 3072 / wide),
        "at d = 3072",
        lambda: trained_run(3072, True),
        rounds=5,
        repeats=1,
    )
    _, state = trained_run(3072, False)
    net = TwoLayer(state.w, state.b, output_weights(M))
    batch = ClusterLaw().sample(500, stream(0, "data", "test"))
    labels, module, threat = (batch.y > 0).long(), TwoLayerNet(net), Threat("L2", 17.0, 1)
    attack = PGD("margin", steps=100, restarts=10)

    def exact() -> None:
        exact_radii(net, batch.x, batch.y)

    def attacked() -> None:
        attack(module, batch.x, labels, threat, stream(0, "attack"))

    def reduced() -> None:
        small, points, _ = in_span(net, batch.x)
        MinimalPGD(steps=100, restarts=10, rounds=1, reach=17.0)(
            binary_objective(small, batch.y), points, stream(0, "attack")
        )

    yield compare(
        "exact radii of 500 points", exact, "PGD-100, 10 restarts, one radius", attacked, rounds=3, repeats=1
    )
    yield compare(
        "exact radii of 500 points", exact, "the same PGD in the weights' span", reduced, rounds=5, repeats=1
    )
