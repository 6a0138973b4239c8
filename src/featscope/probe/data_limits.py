"""Part 2 (EP): is it the data? How far apart examples of different classes are, measured in the radius; how
many pairs of balls meet; what no classifier whatever can exceed; and the network's size beside N·d.

Two examples of different classes at distance ≤ 2ε have balls that meet: a point between them cannot be right
for both. A matching of such pairs bounds the robust accuracy of *every* classifier on these examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from torch import Tensor

from featscope.core.errors import require
from featscope.laws.separation import conflict
from featscope.nets.fold import evenly
from featscope.probe.keep import Keep
from featscope.probe.subject import Subject

#: examples of a side that are compared, at most and at least
MOST, LEAST = 3000, 50
#: seconds that one coordinate of one pair costs, roughly; all pairs of three comparisons
PAIR_COST = 1e-9
NAME = "data_limits"


@dataclass(frozen=True)
class Apart:
    """The smallest distance between two examples of different classes, and the share of such pairs whose
    balls of radius ε meet."""

    distance: float
    meeting: float
    left: int
    right: int

    def as_json(self, eps: float) -> dict[str, Any]:
        """As in probe.json."""
        return {
            "distance": self.distance,
            "over_two_eps": self.distance / (2 * eps),
            "meeting": self.meeting,
            "examples": [self.left, self.right],
        }


@dataclass(frozen=True)
class DataLimits:
    """What the data allow: separations, the matching bound, sizes."""

    eps: float
    apart: dict[str, Apart]
    bound: float
    matched: int
    parameters: int
    points: int
    dimension: int
    title: str = "EP: is it the data?"

    @property
    def ratio(self) -> float:
        """The smallest distance in units of 2ε: below 1 the balls of some pair meet."""
        return min((apart.distance for apart in self.apart.values()), default=math.inf) / (2 * self.eps)

    @property
    def sentence(self) -> str:
        """For people."""
        if self.bound < 1:
            return (
                f"the data set a limit: balls of radius {self.eps:.4g} around examples of different classes "
                f"meet; no classifier is right on more than {self.bound:.1%} of the {self.matched} examples"
            )
        if self.ratio > 1:
            return (
                f"the data set no limit: examples of different classes that were compared are at least "
                f"{self.ratio:.2g} times 2ε apart, so a robust classifier of them exists"
            )
        return "training examples of different classes have balls that meet, the test examples have none"

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        size = self.points * self.dimension
        return {
            "title": self.title,
            "sentence": self.sentence,
            "separation": {name: apart.as_json(self.eps) for name, apart in self.apart.items()},
            "ratio": self.ratio if math.isfinite(self.ratio) else None,
            "bound": self.bound,
            "compared": self.matched,
            "size": {
                "parameters": self.parameters,
                "points": self.points,
                "dimension": self.dimension,
                "parameters_over_points_times_dimension": self.parameters / size,
                "parameters_over_root": self.parameters / math.sqrt(size),
            },
        }


def distances(a: Tensor, b: Tensor, norm: str) -> np.ndarray:
    """All distances between two sets of flattened examples."""
    flat = [side.flatten(1).double().numpy() for side in (a, b)]
    return np.asarray(cdist(*flat, "chebyshev" if norm == "Linf" else "euclidean"))


def apart(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor], norm: str, eps: float) -> Apart | None:
    """Compare all pairs of different classes; None if there are none."""
    found = distances(a[0], b[0], norm)
    other = a[1].numpy()[:, None] != b[1].numpy()[None, :]
    if not other.any():
        return None
    return Apart(float(found[other].min()), float((found[other] <= 2 * eps).mean()), len(a[1]), len(b[1]))


def measure(subject: Subject, seconds: float, keep: Keep) -> DataLimits:
    """Compare as many examples as the time allows."""
    dimension = subject.x[0].numel()

    def counted() -> dict[str, Any]:
        return {"examples": max(LEAST, min(MOST, int(math.sqrt(seconds / (3 * PAIR_COST * dimension)))))}

    n = int(keep.once(f"{NAME}-examples", counted)["examples"])
    return DataLimits(**_found(subject, n, keep))


def _found(subject: Subject, n: int, keep: Keep) -> dict[str, Any]:
    test = _some(subject.x, subject.y, n)
    sides = {"test–test": (test, test)}
    train = None
    if subject.train_x is not None and subject.train_y is not None:
        train = _some(subject.train_x, subject.train_y, n)
        sides |= {"train–train": (train, train), "test–train": (test, train)}

    def make() -> dict[str, Any]:
        pairs = {name: apart(*both, subject.norm, subject.eps) for name, both in sides.items()}
        matching = conflict(test[0], test[1], subject.norm, subject.eps)
        return {
            "apart": {name: vars(one) for name, one in pairs.items() if one is not None},
            "bound": matching.bound,
        }

    step = keep.once(f"{NAME}-pairs", make)
    require(bool(step["apart"]), "separation needs two classes", "one class", "give examples of at least two")
    whole = subject.y if subject.train_y is None else subject.train_y
    return {
        "eps": subject.eps,
        "apart": {name: Apart(**one) for name, one in step["apart"].items()},
        "bound": float(step["bound"]),
        "matched": len(test[1]),
        "parameters": sum(parameter.numel() for parameter in subject.network.parameters()),
        "points": len(whole),
        "dimension": subject.x[0].numel(),
    }


def _some(x: Tensor, y: Tensor, n: int) -> tuple[Tensor, Tensor]:
    index = evenly(len(y), n)
    return x[index].float(), y[index]
