"""`featscope bench patch`: the Figure-3 adversarial step, and the recursion in one batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.bench.timing import Ratio, compare
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.laws.patches import PatchLaw
from featscope.nets.patch_cnn import PatchNetSpec

ETA, ETA_TILDE, EPS = 1.0, 1000.0, 1.2


def autograd_step(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The same step as a plain torch user writes it: autograd for the ascent and for the descent (float32,
    patch clip)."""

    def forward(weights: Tensor, inputs: Tensor) -> Tensor:
        z = torch.einsum("npd,kmd->npkm", inputs, weights)
        smooth = torch.where(z <= 0, torch.zeros_like(z), torch.where(z <= 1, z**3 / 3, z - 2 / 3))
        return smooth.sum((1, 3))

    leaf = x.clone().requires_grad_(True)
    objective = -forward(w, leaf).gather(1, y[:, None]).sum()
    z = ETA_TILDE * torch.autograd.grad(objective, leaf)[0]
    moved = x + z / (z.abs().amax(-1, keepdim=True) / EPS).clamp(min=1.0)
    weights = w.clone().requires_grad_(True)
    loss = functional.cross_entropy(forward(weights, moved), y)
    return w - ETA * torch.autograd.grad(loss, weights)[0]


def products(w: Tensor, x: Tensor, y: Tensor) -> Callable[[], Tensor]:
    """The matrix products of one step alone: own class forward and back for the ascent, all classes forward
    and to the weights."""
    flat, weights = x.flatten(0, 1), w.flatten(0, 1)
    groups = [(x[y == i].flatten(0, 1), w[i]) for i in range(w.shape[0])]

    def run() -> Tensor:
        for patches, rows in groups:
            z = patches @ rows.mT
            z @ rows
        z = flat @ weights.mT
        return z.mT @ flat

    return run


def full_products(w: Tensor, x: Tensor) -> Callable[[], Tensor]:
    """The four products of a step that computes the ascent for all classes, as autograd does."""
    flat, weights = x.flatten(0, 1), w.flatten(0, 1)

    def run() -> Tensor:
        z = flat @ weights.mT
        z @ weights
        z = flat @ weights.mT
        return z.mT @ flat

    return run


def measure() -> Iterator[Ratio]:
    """One thread, float32: the step against autograd and against its products; the recursion's batch against
    single runs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        law, spec = PatchLaw(), PatchNetSpec()
        batch = law.sample(100, stream(0, "bench")).to(torch.float32)
        w = spec.init(law.k, law.d, stream(0, "init")).float()
        ascent = PatchTrainingAttack(step_size=ETA_TILDE, eps=EPS)
        step = training_step(spec, batch.x, batch.y, ETA, ascent.perturb)
        state = Weights(w)
        for t in range(50):
            state = step(state, t)
        ours = lambda: step(state, 0)  # noqa: E731
        autograd = lambda: autograd_step(state.w, batch.x, batch.y)  # noqa: E731
        timed = partial(compare, repeats=20, clock=time.process_time)
        yield timed("patch-step", ours, "autograd-loop", autograd)
        yield timed("patch-step", ours, "matmuls", products(state.w, batch.x, batch.y))
        yield timed("patch-step", ours, "matmuls-all-classes", full_products(state.w, batch.x))
        yield _recursion()
    finally:
        torch.set_num_threads(threads)


def _recursion(runs: int = 1000) -> Ratio:
    """Throughput of 1000 seeds of the standard recursion in one batch against one seed at a time."""
    data = co.latents(PatchLaw(sigma_n=0.0).population(), 2)
    spec = PatchNetSpec(width=10)
    step = co.descent(co.standard_velocity(spec, data), 0.1)
    many = co.draw(runs, 2, 10, 10**6, 1e-3, stream(0, "many"), gram=False)
    one = co.draw(1, 2, 10, 10**6, 1e-3, stream(0, "one"), gram=False)
    return compare(
        "patch-recursion-batch",
        lambda: step(many, 0),
        "single-runs",
        lambda: step(one, 0),
        repeats=20,
        other_repeats=100,
        work=runs,
    )
