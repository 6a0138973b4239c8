"""Speed of CGRO's training at the setting of `signal-stages`: recursion and closed form against a plain
autograd loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from featscope.bench.timing import Ratio, compare
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import (
    CubicWeights,
    Kernel,
    Objective,
    descent_step,
    recursion_step,
    weakened,
)
from featscope.laws.signal import SignalLaw, stack

N, WIDTH, ETA, LAM = 50, 10, 0.1, 0.9


def measure() -> Iterator[Ratio]:
    """One step by each route; 15 000 of them make the run."""
    law = SignalLaw()
    init = law.d**-0.5
    one = stack([law.instance(N, WIDTH, init, stream(0, "data", "train"), stream(0, "init"))])
    x, y = one.train.x, one.train.y
    attacked = weakened(x, law.residual)
    kernel, objective = Kernel.of(one), Objective.of(law, N, ETA, LAM)
    recursion, descent = recursion_step(kernel, objective), descent_step(x, y, ETA, LAM, attacked)
    state, weights = kernel.start(N), CubicWeights(one.w)
    leaf = one.w[0].clone().requires_grad_(True)

    def plain() -> None:
        def logistic(points: torch.Tensor) -> torch.Tensor:
            f = (points @ leaf.mT).pow(3).sum((-1, -2))
            return torch.nn.functional.softplus(-y[0] * f).mean()

        with torch.enable_grad():
            loss = (1 - LAM) * logistic(x[0]) + LAM * logistic(attacked[0])
            (gradient,) = torch.autograd.grad(loss, leaf)
        leaf.detach().sub_(ETA * gradient)

    yield compare(
        "signal step, recursion", lambda: recursion(state, 0), "plain autograd loop", plain, repeats=20
    )
    yield compare(
        "signal step, closed form", lambda: descent(weights, 0), "plain autograd loop", plain, repeats=20
    )
    yield _five_seeds(plain)
    yield _many_dimensions(2**16, 20)


def _five_seeds(plain: Callable[[], None]) -> Ratio:
    law = SignalLaw()
    starts = [
        law.instance(N, WIDTH, law.d**-0.5, stream(s, "data", "train"), stream(s, "init")) for s in range(5)
    ]
    kernel = Kernel.of(stack(starts))
    step, state = recursion_step(kernel, Objective.of(law, N, ETA, LAM)), kernel.start(N)
    return compare(
        "signal step, recursion, 5 seeds at once",
        lambda: step(state, 0),
        "plain autograd loop",
        plain,
        repeats=20,
        work=5,
    )


def _many_dimensions(d: int, n: int) -> Ratio:
    """A step of the recursion on a compact copy against a step of descent in all d dimensions."""
    law = SignalLaw(d=d)
    copy = stack([law.compact_instance(n, WIDTH, d**-0.5, stream(0, "data", "train"), stream(0, "init"))])
    full = stack([law.instance(n, WIDTH, d**-0.5, stream(0, "data", "train"), stream(0, "init"))])
    kernel = Kernel.of(copy)
    recursion, state = recursion_step(kernel, Objective.of(law, n, ETA, LAM)), kernel.start(n)
    x, weights = full.train.x, CubicWeights(full.w)
    descent = descent_step(x, full.train.y, ETA, LAM, weakened(x, law.residual))
    name, against = f"signal step at d = {d}, recursion", "closed-form descent in all d"
    return compare(
        name,
        lambda: recursion(state, 0),
        against,
        lambda: descent(weights, 0),
        rounds=5,
        repeats=50,
        other_repeats=2,
    )
