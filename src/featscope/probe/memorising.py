"""Part 5 (CGRO): does it memorise? Robust accuracy and the largest change of the loss around training
examples against test examples, inside and outside the radius.

CGRO: adversarial training may fit balls around the training examples, robust there and nowhere else. The
number is the gap between robust accuracy on training and on test examples at the radius. Beside it stand the
widest gap over all radii, from the distances to the nearest adversarial examples, and flatness: the
largest loss change found within a radius, whose medians differ by a factor where the network is flat around
training examples alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from featscope.attacks.nearest import NearestAttack
from featscope.attacks.pgd import PGD
from featscope.core.errors import BadInput
from featscope.core.losses import margin
from featscope.core.stats import Interval, exact_binomial
from featscope.core.streams import stream
from featscope.features.landscape import largest_change
from featscope.nets.fold import evenly
from featscope.probe.findings import as_share
from featscope.probe.keep import Keep
from featscope.probe.medians import median_interval
from featscope.probe.subject import Subject

#: radii in units of the user's: inside, at, and outside
FACTORS = (0.5, 1.0, 2.0)
#: steps of the ascents, examples of each side at most and at least
STEPS, MOST, LEAST = 20, 500, 20
#: from this gap on a network memorises
GAP = 0.1
#: passes forward and backward that the search for the nearest adversarial example takes
NEAREST = 150
NAME = "memorising"


@dataclass(frozen=True)
class Widest:
    """The largest difference between the shares of training and of test examples that are farther than a
    radius from being fooled, and that radius."""

    gap: Interval
    radius: float


def widest_gap(train: Tensor, test: Tensor, confidence: float = 0.95) -> Widest:
    """sup_r [P(train > r) − P(test > r)] with the two-sample Kolmogorov–Smirnov band, for distances of
    examples that are right.

    >>> found = widest_gap(torch.tensor([2.0, 3.0, 4.0]), torch.tensor([1.0, 2.0, 2.5]))
    >>> round(found.gap.value, 3), found.radius
    (0.667, 2.5)
    """
    if not len(train) or not len(test):
        return Widest(Interval(0.0, -1.0, 1.0), 0.0)
    places = torch.cat([train, test]).sort().values
    places = places[places.isfinite()]
    shares = [(side[None] > places[:, None]).double().mean(-1) for side in (train, test)]
    best = int((shares[0] - shares[1]).argmax())
    value = float((shares[0] - shares[1])[best])
    band = math.sqrt(-math.log((1 - confidence) / 2) / 2 * (1 / len(train) + 1 / len(test)))
    return Widest(Interval(value, value - band, value + band), float(places[best]))


@dataclass(frozen=True, eq=False)
class Memorising:
    """Robust accuracy on training and on test examples, with the gap, and loss changes over radii."""

    clean: dict[str, Interval]
    robust: dict[str, Interval]
    gap: Interval
    widest: Widest
    change: list[dict[str, Any]]
    examples: int
    title: str = "CGRO: does it memorise?"

    @property
    def answer(self) -> str:
        """memorises, does not, or cannot tell: by the interval of the gap at the radius, and by the widest
        gap where it is beyond chance."""
        if self.gap.low > GAP or self.widest.gap.low > GAP:
            return "memorises"
        alike = self.gap.high < GAP and self.widest.gap.low <= 0
        return "does not" if alike else "cannot tell"

    @property
    def sentence(self) -> str:
        """For people."""
        told = {
            "memorises": "it memorises: training examples are farther from being fooled than test examples",
            "does not": "it does not memorise: robustness is the same around training and test examples",
            "cannot tell": "whether it memorises cannot be told from these examples",
        }[self.answer]
        gap = self.gap
        shares = f"{self.robust['train'].value:.1%} against {self.robust['test'].value:.1%}"
        wide = f"widest gap {self.widest.gap.value:.2f}, at radius {self.widest.radius:.3g}"
        return f"{told} ({shares}; gap {gap.value:.2f}, {gap.low:.2f} to {gap.high:.2f}; {wide})"

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        return {
            "title": self.title,
            "answer": self.answer,
            "sentence": self.sentence,
            "clean": {side: as_share(found) for side, found in self.clean.items()},
            "robust": {side: as_share(found) for side, found in self.robust.items()},
            "gap": as_share(self.gap),
            "widest_gap": {**as_share(self.widest.gap), "radius": self.widest.radius},
            "loss_change": self.change,
            "examples": self.examples,
        }


def difference(a: Interval, b: Interval) -> Interval:
    """a − b of two independent shares with Newcombe's interval, from the intervals of each.

    >>> from featscope.core.stats import exact_binomial
    >>> found = difference(exact_binomial(90, 100), exact_binomial(50, 100))
    >>> round(found.value, 3), round(found.low, 2), round(found.high, 2)
    (0.4, 0.27, 0.51)
    """
    value = a.value - b.value
    return Interval(
        value,
        value - math.hypot(a.value - a.low, b.high - b.value),
        value + math.hypot(a.high - a.value, b.value - b.low),
    )


def measure(subject: Subject, seconds: float, keep: Keep) -> Memorising:
    """Attack as many training as test examples."""
    train_x, train_y = subject.train_x, subject.train_y
    if train_x is None or train_y is None:
        raise BadInput(
            "memorising compares training with test examples", "test examples alone", "give train="
        )
    passes = STEPS * (1 + len(FACTORS)) + NEAREST

    def counted() -> dict[str, Any]:
        room = int(seconds / (2 * passes * keep.cost))
        return {"examples": max(min(room, MOST, len(subject.y), len(train_y)), min(LEAST, len(subject.y)))}

    n = int(keep.once(f"{NAME}-examples", counted)["examples"])
    sides = {"train": _some(train_x, train_y, n), "test": _some(subject.x, subject.y, n)}
    steps = {}
    for number, (side, (x, y)) in enumerate(sides.items()):
        steps[side] = keep.once(f"{NAME}-{side}", partial(_around, subject, x, y, side))
        keep.report("memorising", number + 1, len(sides))
    clean = {side: _share(step["clean"]) for side, step in steps.items()}
    robust = {side: _share(step["robust"]) for side, step in steps.items()}
    change = [_change(number, factor * subject.eps, steps) for number, factor in enumerate(FACTORS)]
    far = [steps[side]["distance"][steps[side]["clean"]] for side in ("train", "test")]
    return Memorising(clean, robust, difference(robust["train"], robust["test"]), widest_gap(*far), change, n)


def _some(x: Tensor, y: Tensor, n: int) -> tuple[Tensor, Tensor]:
    index = evenly(len(y), n)
    return x[index], y[index]


@torch.no_grad()
def _around(subject: Subject, x: Tensor, y: Tensor, side: str) -> dict[str, Tensor]:
    """Which examples are right, which withstand, and the largest loss changes (radii, N)."""
    net, threat = subject.network, subject.threat
    clean = margin(net(x), y) > 0
    attack = PGD("margin", steps=STEPS)
    delta = attack(net, x, y, threat, stream(subject.seed, NAME, side))
    radii = [factor * subject.eps for factor in FACTORS]
    change, where = largest_change(net, x, y, threat, radii, STEPS, stream(subject.seed, NAME, side, "loss"))
    robust = clean & (margin(net(x + delta), y) > 0)
    for step in where[: FACTORS.index(1.0) + 1]:
        robust &= margin(net(x + step), y) > 0
    distance = NearestAttack().find(net, x, y, threat).radius
    return {
        "clean": clean,
        "robust": robust & (distance > subject.eps),
        "change": change,
        "distance": distance,
    }


def _share(hits: Tensor) -> Interval:
    return exact_binomial(int(hits.sum()), len(hits))


def _change(number: int, radius: float, steps: dict[str, dict[str, Tensor]]) -> dict[str, Any]:
    """Medians of the loss change at one radius, and how much larger it is around test examples."""
    found = {side: median_interval(step["change"][number]) for side, step in steps.items()}
    ratio = found["test"].value / found["train"].value if found["train"].value > 0 else None
    return {
        "radius": radius,
        **{side: as_share(one) for side, one in found.items()},
        "test_over_train": ratio,
    }
