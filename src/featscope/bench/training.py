"""`featscope bench training`: an epoch of image training and the inversion of images against the passes of
which they consist: what the loop, the attack's geometry and the bookkeeping cost beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from featscope.bench.images import NETWORK, brief_network, task
from featscope.bench.timing import Ratio, compare, seconds, threads
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, Method, Trained, Trainer, TrainingSpec, pack, place
from featscope.dynamics.schedules import Schedule
from featscope.features.invert import InversionSpec, invert
from featscope.images.datasets import ImageBatch
from featscope.nets.classifier import Representation
from featscope.nets.fold import fold
from featscope.nets.networks import NetworkSpec

#: steps of the attack in training
STEPS = 5
BATCH = 64
IMAGES, INVERTED, SEARCHED = 513, 64, 20


@dataclass(frozen=True)
class Epoch:
    """One epoch of a training, ours and bare, from the same state."""

    trainer: Trainer
    start: Trained

    @classmethod
    def of(cls, network: NetworkSpec, x: Tensor, y: Tensor, method: Method) -> Epoch:
        """One learning rate throughout; a single image is held out."""
        attack = AttackSpec(eps=0.01, steps=STEPS)
        schedule = Schedule(shape="constant", peak=0.05)
        spec = TrainingSpec(
            method=method, epochs=1, batch_size=BATCH, schedule=schedule, attack=attack, held_out=1e-6
        )
        trainer = Trainer(network.build(stream(0, "init")), ImageBatch(x, y), spec, 0)
        return cls(trainer, trainer.start())

    def ours(self) -> Tensor:
        """As experiments train it; the weights after it."""
        return self.trainer.step(self.start, 0).weights

    def bare(self) -> Tensor:
        """The same batches through the same network: a pass for the gradient in the images for each step of
        the attack, and one for the weights with the optimiser's step. Nothing moves the images."""
        net, spec = place(self.trainer.net, self.start.weights, self.start.buffers), self.trainer.spec
        optimiser = torch.optim.SGD(
            net.parameters(), spec.schedule.peak, spec.momentum, weight_decay=spec.weight_decay
        )
        images = self.trainer.train
        order = torch.randperm(len(images.y), generator=stream(0, "order", 0))
        for chosen in torch.split(order, spec.batch_size):
            x, y = images.x[chosen], images.y[chosen]
            net.eval()
            for _ in range(0 if spec.method == "standard" else spec.attack.steps):
                points = x.clone().requires_grad_(True)
                torch.autograd.grad(functional.cross_entropy(net(points), y), points)
            net.train()
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(functional.cross_entropy(net(x), y))
            optimiser.step()
        return pack(net.parameters())


def _told(images: int, mine: Tensor, theirs: Tensor) -> str:
    apart = float((mine - theirs).norm() / theirs.norm())
    return f"{images} images, weights {apart:.1g} apart"


def training(network: NetworkSpec, x: Tensor, y: Tensor, timed: Callable[..., Ratio]) -> Iterator[Ratio]:
    """An epoch without attack, which must give the weights of the bare passes, and one with PGD."""
    methods: tuple[tuple[Method, str], ...] = (
        ("standard", "an epoch of training"),
        ("adversarial", f"an epoch of training under PGD-{STEPS}"),
    )
    for method, name in methods:
        one = Epoch.of(network, x, y, method)
        told = partial(_told, len(one.trainer.train.y))
        yield timed(name, one.ours, "bare forward and backward passes", one.bare, check=told)


def _inversion(clock: Any) -> Ratio:
    net, (x, y) = brief_network(), task(INVERTED, 2)
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
        timed = partial(compare, rounds=3, repeats=1, clock=time.process_time)
        yield from training(NETWORK, *task(IMAGES, 1), timed)
        yield _inversion(time.process_time)
