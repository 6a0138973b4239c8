"""`featscope bench training`: an epoch of image training and the inversion of images against the passes of
which they consist, and images a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from featscope.bench.images import NETWORK, network, task
from featscope.bench.timing import Ratio, compare, seconds, threads
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, Method, Trainer, TrainingSpec
from featscope.features.invert import InversionSpec, invert
from featscope.images.datasets import ImageBatch
from featscope.nets.classifier import Representation
from featscope.nets.fold import fold

IMAGES, BATCH, ATTACK_STEPS, INVERTED, SEARCHED = 512, 128, 3, 64, 20


def bare_epoch(net: nn.Module, batches: list[tuple[Tensor, Tensor]], attack_steps: int) -> None:
    """For each batch the passes of the attack to the input and the pass of the step to the weights."""
    weights = [p for p in net.parameters() if p.requires_grad]
    for x, y in batches:
        leaf = x.clone().requires_grad_(True)
        for _ in range(attack_steps):
            torch.autograd.grad(functional.cross_entropy(net(leaf), y, reduction="sum"), leaf)
        torch.autograd.grad(functional.cross_entropy(net(x), y), weights)


def _epoch(method: Method, clock: Any) -> Ratio:
    x, y = task(IMAGES, 1)
    attack = AttackSpec(eps=0.01, steps=ATTACK_STEPS)
    spec = TrainingSpec(method=method, epochs=1, batch_size=BATCH, attack=attack, held_out=0.02)
    trainer = Trainer(NETWORK.build(stream(0, "init")), ImageBatch(x, y), spec, 0)
    state, passes = trainer.start(), ATTACK_STEPS if method == "adversarial" else 0
    count = len(trainer.train.y)
    batches = list(zip(torch.split(trainer.train.x, BATCH), torch.split(trainer.train.y, BATCH), strict=True))
    net = NETWORK.build(stream(0, "init")).train()
    step = partial(trainer.step, state, 0)
    found = compare(
        f"an epoch, {method}",
        step,
        "its passes alone",
        partial(bare_epoch, net, batches, passes),
        rounds=3,
        repeats=1,
        clock=clock,
    )
    return replace(found, note=f"{count / seconds(step, 1, clock):.0f} images/s, one thread")


def _inversion(clock: Any) -> Ratio:
    net, (x, y) = network(), task(INVERTED, 2)
    spec = InversionSpec(steps=SEARCHED, batch=INVERTED)
    represent = fold(Representation(net, spec.layer), x[:8]).model

    def bare() -> None:
        leaf = x.clone().requires_grad_(True)
        for _ in range(SEARCHED):
            torch.autograd.grad(represent(leaf).square().sum(), leaf)

    run = partial(invert, net, x, y, spec)
    found = compare(
        f"inversion, {SEARCHED} steps", run, "its passes alone", bare, rounds=3, repeats=1, clock=clock
    )
    pace = INVERTED / seconds(run, 1, clock)
    return replace(found, note=f"{pace * SEARCHED / 300:.1f} images/s at 300 steps, one thread")


def measure() -> Iterator[Ratio]:
    """ResNet-18 of width 8 on 28 × 28 images, CPU time of one thread."""
    with threads(1):
        yield _epoch("standard", time.process_time)
        yield _epoch("adversarial", time.process_time)
        yield _inversion(time.process_time)
