"""What a run would train, without training it: every network is built and takes one step, and its size, its
updates, its learning rates and its time on a GPU are told.

A `paper` profile that nobody has run is a guess until its networks exist and its schedule has been walked
through; this is what can be known of it on a small machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from featscope.core.errors import require
from featscope.core.streams import stream
from featscope.dynamics.image_training import Trainer, TrainingSpec
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.cost import BARE, as_float, in_bytes, in_time
from featscope.experiments.image_training import ImageTraining, activations
from featscope.experiments.spec import Request
from featscope.images.datasets import ImageBatch
from featscope.nets.networks import NetworkSpec

#: the GPU that hours are told for; 19.5·10¹² operations a second in float32 by its data sheet, of which
#: convolutions of images this small are taken to reach two fifths, and twice that in mixed precision
GPU, OPERATIONS, REACHED, MIXED = "A100", 19.5e12, 0.4, 2.0
#: what the hours stand on, for who reads them
ASSUMES = (
    f"hours: counted operations ÷ {REACHED:.0%} of the {OPERATIONS / 1e12:.3g}·10¹² a second that an {GPU} "
    f"has in float32, {MIXED:g} times that in mixed precision; measurements beside training are not counted"
)
#: images of the one step that is taken
BATCH = 2


@dataclass(frozen=True)
class Rehearsed:
    """One training: what is trained on what, how often, and what it takes."""

    network: str
    dataset: str
    method: str
    seeds: int
    parameters: int
    updates: int
    batch_size: int
    #: learning rate of the first, the largest and the last update
    rates: tuple[float, float, float]
    #: forward and backward passes of an image, attacks included, all seeds
    passes: float
    #: operations of one such pass
    operations: float
    memory: float
    hours: float

    def __str__(self) -> str:
        first, top, last = self.rates
        return (
            f"{self.method} {self.network} on {self.dataset}, {self.seeds} seed(s): {self.parameters:,} "
            f"parameters, {self.updates:,} updates of {self.batch_size}, learning rate {first:.3g} … "
            f"{top:.3g} … {last:.3g}, {in_bytes(self.memory)}, {in_time(3600 * self.hours)} on one {GPU}"
        )


def trainings(request: Request) -> Iterator[ImageTraining]:
    """The trainings of a run and of what it needs; those that differ in their seeds alone are one."""
    found: dict[str, ImageTraining] = {}
    for one in _all(request):
        alike = one.replace(seeds=(0,)).model_dump_json(exclude={"snapshots", "every"})
        seeds = {*(found[alike].seeds if alike in found else ()), *one.seeds}
        found[alike] = one.replace(seeds=tuple(sorted(seeds)))
    yield from found.values()


def _all(request: Request) -> Iterator[ImageTraining]:
    named = getattr(request.spec, "trainings", None)
    if named is not None:
        yield from named()
    elif isinstance(request.spec, ImageTraining):
        yield request.spec
    for child in request.needs().values():
        yield from _all(child)


def rehearse(spec: ImageTraining) -> Rehearsed:
    """Build the network, take one step with a few images of noise, and walk through the schedule."""
    training = spec.training
    parameters, operations = one_step(spec.net)
    own_step(spec.net, _short(training))
    kept = spec.train - max(1, round(training.held_out * spec.train))
    training.require_a_batch(kept)
    # A last batch of a single image is left out.
    each = kept // training.batch_size + (kept % training.batch_size > 1)
    updates = training.epochs * each
    looks = {"standard": 1, "mixed": 2 + training.attack.steps}.get(
        training.method, 1 + training.attack.steps
    )
    passes = as_float(len(spec.seeds) * training.epochs * kept * looks)
    speed = OPERATIONS * REACHED * (MIXED if training.autocast else 1.0)
    # Weights, gradients, momentum and the best weights; what a batch leaves in the network, and its gradient.
    held = 4 * (5 * parameters + 2 * training.batch_size * activations(spec.net))
    return Rehearsed(
        network=f"{spec.net.architecture} of width {spec.net.width}",
        dataset=spec.dataset,
        method=training.method,
        seeds=len(spec.seeds),
        parameters=parameters,
        updates=updates,
        batch_size=training.batch_size,
        rates=_rates(spec, updates),
        passes=passes,
        operations=operations,
        memory=BARE + held,
        hours=passes * operations / speed / 3600,
    )


def _noise(shape: NetworkSpec, n: int) -> ImageBatch:
    """Images of noise with labels in turn."""
    pixels = torch.rand(n, shape.channels, shape.side, shape.side, generator=stream(0, "images"))
    return ImageBatch(pixels, torch.arange(n) % shape.classes)


@cache
def one_step(shape: NetworkSpec) -> tuple[int, float]:
    """A network's parameters and the operations of one pass forwards and backwards."""
    net = shape.build(stream(0, "init")).train()
    x, y = _noise(shape, BATCH)
    with FlopCounterMode(display=False) as counted:
        torch.autograd.backward(functional.cross_entropy(net(x), y))
    return sum(p.numel() for p in net.parameters()), counted.get_total_flops() / BATCH


def _short(training: TrainingSpec) -> TrainingSpec:
    """The training's loss, augmentation and precision, with one step of its attack and a rate at which one
    step cannot go wrong."""
    attack = training.attack.replace(steps=1, ramp=Ramp(), step_size=None)
    plain = Schedule(shape="constant", peak=0.01)
    return TrainingSpec(epochs=1, batch_size=BATCH, held_out=0.5, schedule=plain).replace(
        method=training.method, attack=attack, augment=training.augment, autocast=training.autocast
    )


@cache
def own_step(shape: NetworkSpec, short: TrainingSpec) -> None:
    """Build a network and move it by one step of a training."""
    trainer = Trainer(shape.build(stream(0, "init")), _noise(shape, 2 * BATCH), short, 0)
    before = trainer.start()
    after = trainer.step(before, 0)
    require(
        bool(after.weights.isfinite().all()) and not torch.equal(after.weights, before.weights),
        "one step must move the weights to other numbers",
        f"{shape.architecture} of width {shape.width}, {short.method}, eps={short.attack.eps}",
        "look at network and attack",
    )


def _rates(spec: ImageTraining, updates: int) -> tuple[float, float, float]:
    """The learning rates of the first, of the largest and of the last update. A schedule rises once at most,
    up to its `rise`, so that the largest is among the first, the last and those around the rise: no walk
    through all of them, of which there may be 10³⁰."""
    schedule, last = spec.training.schedule, updates - 1
    top = int(schedule.rise * updates)
    first, *others = [
        schedule((step + 0.5) / updates)
        for step in (0, *(min(max(step, 0), last) for step in (top - 1, top, top + 1)), last)
    ]
    return first, max(first, *others), others[-1]


def rehearsed(request: Request) -> list[Rehearsed]:
    """All trainings of a run."""
    return [rehearse(one) for one in trainings(request)]


def as_json(found: list[Rehearsed]) -> list[dict[str, Any]]:
    """For `--json`."""
    return [{**asdict(one), "rates": list(one.rates), "gpu": GPU, "assumes": ASSUMES} for one in found]
