"""The robust reference network of a probe: the user's, or a small one that the probe trains with PGD within
its budget."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from featscope.attacks.pgd import PGD
from featscope.core.errors import BadInput, require
from featscope.core.losses import margin
from featscope.core.streams import stream
from featscope.nets.classifier import initialise
from featscope.nets.fold import evenly
from featscope.probe.keep import Keep
from featscope.probe.subject import Subject

#: steps of the training attack and of the check, examples of a batch, epochs at most
ATTACK, CHECK, BATCH, EPOCHS = 5, 20, 64, 30
#: examples on which a reference is checked
TESTED = 200
#: of learning, with Adam
RATE = 2e-3
#: of the way from chance to 1 that a reference must come, clean
LEARNED = 1 / 3
NAME = "reference"


@dataclass(frozen=True, eq=False)
class Reference:
    """A network whose features are trusted, its accuracy without and under attack, and where it is from."""

    network: nn.Module
    clean: float
    robust: float
    source: str


def reference_of(subject: Subject, seconds: float, keep: Keep) -> Reference:
    """The user's reference, or one that is trained; refused where it has learned nothing."""
    network, source = subject.reference, "given"
    if network is None:
        network, source = _trained(subject, seconds, keep)
    step = keep.once(f"{NAME}-check", lambda: _checked(network, subject))
    chance = 1 / subject.classes
    learned = step["clean"] >= chance + LEARNED * (1 - chance)
    require(
        learned,
        "the reference has not learned the task",
        f"accuracy {step['clean']:.2f}",
        "give --reference, or a larger budget",
    )
    return Reference(network, float(step["clean"]), float(step["robust"]), source)


def _checked(network: nn.Module, subject: Subject) -> dict[str, float]:
    index = evenly(len(subject.y), TESTED)
    x, y = subject.x[index], subject.y[index]
    delta = PGD("margin", steps=CHECK)(network, x, y, subject.threat, stream(subject.seed, NAME, "check"))
    with torch.no_grad():
        clean, robust = margin(network(x), y) > 0, margin(network(x + delta), y) > 0
    return {"clean": float(clean.double().mean()), "robust": float((clean & robust).double().mean())}


def small(subject: Subject) -> nn.Module:
    """Three convolutions for images, a hidden layer for all else; the data's mean and size are taken out
    first."""
    shape = subject.x.shape[1:]
    x = subject.x if subject.train_x is None else subject.train_x
    centre, size = x.mean(), x.std().clamp(min=1e-6)
    if len(shape) == 3 and min(shape[1:]) >= 12:
        widths = (16, 32, 64)
        layers: list[nn.Module] = []
        for before, after in zip((shape[0], *widths[:-1]), widths, strict=True):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
        sides = [math.ceil(side / 8) for side in shape[1:]]
        body = nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(widths[-1] * sides[0] * sides[1], 128), nn.ReLU()
        )
        return nn.Sequential(Centred(float(centre), float(size)), body, nn.Linear(128, subject.classes))
    flat = math.prod(shape)
    body = nn.Sequential(nn.Flatten(), nn.Linear(flat, 128), nn.ReLU())
    return nn.Sequential(Centred(float(centre), float(size)), body, nn.Linear(128, subject.classes))


class Centred(nn.Module):
    """(x − centre) ÷ size."""

    def __init__(self, centre: float, size: float) -> None:
        super().__init__()
        self.centre, self.size = centre, size

    def forward(self, x: Tensor) -> Tensor:
        """Centre and scale."""
        return (x - self.centre) / self.size


def _trained(subject: Subject, seconds: float, keep: Keep) -> tuple[nn.Module, str]:
    train_x, train_y = subject.train_x, subject.train_y
    if train_x is None or train_y is None:
        raise BadInput(
            "features need a robust reference, or training examples to train one on",
            "neither",
            "give reference= or train=",
        )
    network = initialise(small(subject), stream(subject.seed, NAME, "start")).to(subject.x.dtype)
    epochs = int(
        keep.once(
            f"{NAME}-epochs", lambda: {"epochs": _affordable(network, train_x, train_y, subject, seconds)}
        )["epochs"]
    )

    def make() -> dict[str, Any]:
        _train(network, train_x, train_y, subject, epochs, keep)
        return dict(network.state_dict())

    network.load_state_dict(
        {key: value for key, value in keep.once(NAME, make).items() if isinstance(value, Tensor)}
    )
    return network.eval().requires_grad_(
        False
    ), f"trained here with PGD, {epochs} epochs of {len(train_y)} examples"


def _affordable(network: nn.Module, x: Tensor, y: Tensor, subject: Subject, seconds: float) -> int:
    begin = time.perf_counter()
    PGD(steps=ATTACK)(network, x[:BATCH], y[:BATCH], subject.threat, stream(0, "time"))
    each = 1.3 * (time.perf_counter() - begin) * len(y) / min(BATCH, len(y))
    return max(1, min(EPOCHS, int(seconds / each)))


def _train(network: nn.Module, x: Tensor, y: Tensor, subject: Subject, epochs: int, keep: Keep) -> None:
    """Adam on the loss at perturbed examples; the radius grows over the first half, the rate falls to 0."""
    optimiser = torch.optim.Adam(network.parameters(), RATE)
    batches = math.ceil(len(y) / BATCH)
    attack = PGD(steps=ATTACK)
    for epoch in range(epochs):
        order = torch.randperm(len(y), generator=stream(subject.seed, NAME, "order", epoch))
        for number, chosen in enumerate(torch.split(order, BATCH)):
            done = (epoch * batches + number) / (epochs * batches)
            for group in optimiser.param_groups:
                group["lr"] = RATE * (1 - done)
            threat = subject.threat.with_radius(subject.eps * min(1.0, 2 * done))
            own_x, own_y = x[chosen], y[chosen]
            delta = (
                attack(network, own_x, own_y, threat, stream(subject.seed, NAME, epoch, number))
                if threat.eps > 0
                else 0.0
            )
            with torch.enable_grad():
                loss = nn.functional.cross_entropy(network(own_x + delta), own_y)
                optimiser.zero_grad()
                torch.autograd.backward(loss)
            optimiser.step()
        keep.report("reference", epoch + 1, epochs, loss=float(loss.detach()))
