"""`featscope bench growth`: how the cost of each part grows with d, n, k, m and the seeds, as fitted
exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.attacks.two_layer_radius import exact_radii
from featscope.bench.patch import EPS, ETA, ETA_TILDE
from featscope.bench.timing import FittedGrowth, growth, threads
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.cluster_descent import binary_step, start_binary
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.signal_descent import Kernel, Objective, recursion_step
from featscope.laws.clusters import ClusterLaw
from featscope.laws.patches import PatchLaw, stack
from featscope.laws.signal import SignalLaw
from featscope.laws.signal import stack as stack_signals
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.nets.two_layer import TwoLayer, output_weights

WIDE = (10**3, 10**5, 10**7, 10**9)


def patch_step(d: int = 100, n: int = 100, k: int = 2, m: int = 50, seeds: int = 1) -> Callable[[], Any]:
    """An adversarial step of the patch network."""
    law, spec = PatchLaw(d=d, k=k), PatchNetSpec(width=m)
    batch = stack([law.sample(n, stream(s, "bench")) for s in range(seeds)])
    w = torch.stack([spec.init(k, d, stream(s, "init")) for s in range(seeds)])
    ascent = PatchTrainingAttack(step_size=ETA_TILDE, eps=EPS)
    step = training_step(spec, batch.x, batch.y, ETA, ascent.perturb)
    return lambda: step(Weights(w), 0)


def patch_recursion(d: int = 10**6, k: int = 2, seeds: int = 30) -> Callable[[], Any]:
    """The start and 20 steps of the standard recursion: d is a number in it."""
    # The features' coordinates stand for all: d enters where the start is drawn.
    data = co.latents(PatchLaw(k=k, sigma_n=0.0).population(), k)
    step = co.descent(co.standard_velocity(PatchNetSpec(width=10), data), 0.1)

    def run() -> Any:
        state = co.draw(seeds, k, 10, d, 1e-3, stream(0, "many"), gram=False)
        for t in range(20):
            state = step(state, t)
        return state

    return run


def cluster_run(d: int = 3072, n: int = 400, k: int = 10, compact: bool = True) -> Callable[[], Any]:
    """Drawing n points and 20 steps on them."""
    law = ClusterLaw(d=d, k=k)

    def run() -> Any:
        drawn = law.draw(n, 10, 0, compact=compact)
        state = start_binary(drawn.directions, n, 1e-5, 1e-5, stream(0, "init", "bias"))
        step = binary_step(drawn.train, output_weights(5), 1e-3 * 3072 / d)
        for t in range(20):
            state = step(state, t)
        return state

    return run


def signal_recursion(n: int = 50, seeds: int = 1) -> Callable[[], Any]:
    """100 steps of both recursions of CGRO."""
    law = SignalLaw(d=1024)
    drawn = stack_signals(
        [law.instance(n, 10, 1 / 32, stream(s, "data", "train"), stream(s, "init")) for s in range(seeds)]
    )
    kernel = Kernel.of(drawn)
    step = recursion_step(kernel, Objective.of(law, n, 0.1, 0.9))

    def run() -> Any:
        state = kernel.start(n)
        for t in range(100):
            state = step(state, t)
        return state

    return run


def radii(m: int, points: int = 20, d: int = 100) -> Callable[[], Any]:
    """Exact radii of a random network with m neurons of each sign."""
    rng = stream(0, "radii")
    w = torch.randn(2 * m, d, generator=rng, dtype=torch.float64)
    x = torch.randn(points, d, generator=rng, dtype=torch.float64)
    net = TwoLayer(w, w.new_zeros(2 * m), output_weights(m))
    y = torch.ones(points, dtype=torch.float64)
    return lambda: exact_radii(net, x, y)


def measure() -> Iterator[FittedGrowth]:
    """One thread, CPU time."""
    with threads(1):
        yield growth("patch step", "d", {d: patch_step(d=d) for d in (100, 200, 400, 800)})
        yield growth("patch step", "n", {n: patch_step(n=n) for n in (50, 100, 200, 400)})
        yield growth("patch step", "k", {k: patch_step(k=k) for k in (2, 4, 8, 16)})
        yield growth("patch step", "seeds", {s: patch_step(seeds=s) for s in (1, 3, 10, 30)})
        yield growth("patch recursion", "d", {d: patch_recursion(d=d) for d in WIDE})
        yield growth("patch recursion", "k", {k: patch_recursion(k=k) for k in (2, 4, 8, 16)})
        yield growth("patch recursion", "seeds", {s: patch_recursion(seeds=s) for s in (10, 100, 1000)})
        yield growth("cluster run, compact copy", "d", {d: cluster_run(d=d) for d in WIDE}, repeats=1)
        full = {d: cluster_run(d=d, compact=False) for d in (1000, 2000, 4000, 8000)}
        yield growth("cluster run in R^d", "d", full, repeats=1)
        sizes = {n: cluster_run(d=10**6, n=n) for n in (200, 400, 800, 1600)}
        yield growth("cluster run, compact copy", "n", sizes, repeats=1)
        yield growth("cluster run, compact copy", "k", {k: cluster_run(k=k) for k in (4, 16, 64)}, repeats=1)
        yield growth(
            "signal recursion", "n", {n: signal_recursion(n=n) for n in (25, 50, 100, 200)}, repeats=1
        )
        seeds = {s: signal_recursion(seeds=s) for s in (1, 3, 10, 30)}
        yield growth("signal recursion", "seeds", seeds, repeats=1)
        yield growth("exact radii of 20 points", "2^m", {2**m: radii(m) for m in (2, 3, 4, 5)}, repeats=1)
