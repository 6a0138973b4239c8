"""Part 4 (FA): does the network average? Whether the cheapest way to fool it is the difference of class
means, whether the last layer's weights are class means of their inputs, and what finer labels would give.

FA: a network trained with coarse labels averages the features of a class, and is fooled along

    −(mean of the own class − mean of the other),

while one trained with finer labels keeps them apart and is √(k/2) times as far from being fooled. The number
is the cosine of the minimal ℓ2 perturbation with that direction. ``groups`` of the classes make the decision
coarse: which group has the largest logit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from featscope.attacks.nearest import NearestAttack
from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.losses import margin
from featscope.core.stats import Interval
from featscope.nets.fold import evenly
from featscope.probe.findings import as_share
from featscope.probe.finer import FinerLabels, finer_labels
from featscope.probe.inputs import Grouped, head_inputs, which_right
from featscope.probe.keep import Keep
from featscope.probe.medians import median_interval, row_cosines
from featscope.probe.subject import Subject

#: examples whose minimal perturbation is searched, at most and at least
MOST, LEAST = 100, 10
#: passes forward and backward that the search takes for one example
PASSES = 300
#: more than half of the perturbation's squared length lies along the direction: cos² = ½
HALF = 0.5**0.5
#: halvings of a step along a direction
HALVINGS = 30
NAME = "averaging"


@dataclass(frozen=True, eq=False)
class Averaging:
    """Cosines of minimal perturbations with the averaging direction, how much longer one must go along that
    direction, the last layer's alignment with class means, and finer labels."""

    cosine: Interval
    detour: Interval
    examples: int
    alignment: dict[str, Any] | None
    finer: FinerLabels | None
    coarse: bool
    title: str = "FA: does it average?"

    @property
    def answer(self) -> str:
        """averages, does not, or cannot tell: against cos² = ½, by the interval of the median."""
        if self.cosine.low >= HALF:
            return "averages"
        return "does not" if self.cosine.high < HALF else "cannot tell"

    @property
    def sentence(self) -> str:
        """For people."""
        told = {
            "averages": "it averages: the cheapest perturbation runs along the difference of class means",
            "does not": "it does not average: the cheapest perturbation is no difference of class means",
            "cannot tell": "whether it averages cannot be told from these examples",
        }[self.answer]
        found = self.cosine
        return f"{told} (cosine {found.value:.2f}, {found.low:.2f} to {found.high:.2f})"

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        return {
            "title": self.title,
            "answer": self.answer,
            "sentence": self.sentence,
            "cosine": as_share(self.cosine),
            "detour": as_share(self.detour),
            "examples": self.examples,
            "decision": "groups of classes" if self.coarse else "classes",
            "alignment": self.alignment,
            "finer": None if self.finer is None else self.finer.as_json(),
        }


def measure(subject: Subject, seconds: float, keep: Keep) -> Averaging:
    """Search minimal ℓ2 perturbations, compare them with class means, and retrain the head."""
    chosen = keep.once(f"{NAME}-examples", lambda: {"examples": _affordable(seconds / 2, keep.cost)})
    network, y, means_y, coarse = _decision(subject)
    x_mean = subject.x if subject.train_x is None else subject.train_x
    means = class_means(x_mean.flatten(1), means_y)
    index = _right(network, subject.x, y, int(chosen["examples"]))
    require(len(index) > 0, "averaging needs examples that are right", "none", "check labels and class order")

    def make() -> dict[str, Any]:
        found = NearestAttack().find(network, subject.x[index], y[index], _euclidean(subject))
        return {"radius": found.radius, "delta": found.delta}

    step = keep.once(f"{NAME}-nearest", make)
    there = step["radius"].isfinite() & (step["radius"] > 0)
    require(bool(there.any()), "no example was fooled", f"{len(index)} tried", "look at the warnings first")
    x, own, delta = subject.x[index][there], y[index][there], step["delta"][there]
    direction = averaging_direction(network, x, own, delta, means)
    along = keep.once(
        f"{NAME}-along", lambda: {"radius": radius_along(network, x, own, direction, _euclidean(subject))}
    )["radius"]
    detour = along / step["radius"][there]
    return Averaging(
        median_interval(row_cosines(delta.flatten(1), direction.flatten(1))),
        median_interval(detour),
        int(there.sum()),
        alignment(subject),
        finer_labels(subject, seconds / 2, keep),
        coarse,
    )


def _affordable(seconds: float, cost: float) -> int:
    return max(LEAST, min(MOST, int(seconds / (PASSES * cost))))


def _decision(subject: Subject) -> tuple[nn.Module, Tensor, Tensor, bool]:
    """The network whose decision is asked about, the test labels and the labels of the means."""
    labels = subject.y if subject.train_y is None else subject.train_y
    if subject.groups is None or len(subject.groups) != subject.classes:
        return subject.network, subject.y, labels, False
    groups = subject.groups
    return Grouped(subject.network, groups), groups[subject.y], groups[labels], True


def _right(network: nn.Module, x: Tensor, y: Tensor, most: int) -> Tensor:
    """Examples that are right, evenly spread."""
    index = which_right(network, x, y).nonzero()[:, 0]
    return index[evenly(len(index), most)]


def _euclidean(subject: Subject) -> Threat:
    """The ℓ2 ball, of any radius: FA's theory is of ℓ2 whatever the user's norm."""
    return Threat("L2", 1.0, event=subject.x.dim() - 1, bounds=subject.bounds)


def class_means(x: Tensor, y: Tensor) -> dict[int, Tensor]:
    """Class → the mean of its examples."""
    return {int(label): x[y == label].mean(0) for label in sorted(set(y.tolist()))}


@torch.no_grad()
def averaging_direction(
    network: nn.Module, x: Tensor, y: Tensor, delta: Tensor, means: dict[int, Tensor]
) -> Tensor:
    """For each example: mean of the class that it is taken for − mean of its own, of unit length."""
    outputs = network(x + delta)
    rivals = outputs.scatter(1, y[:, None], -torch.inf).argmax(-1)
    there = [int(a) in means and int(b) in means for a, b in zip(rivals, y, strict=True)]
    require(
        all(there),
        "a class has no examples to take a mean of",
        "means",
        "give training examples of every class",
    )
    found = torch.stack([means[int(a)] - means[int(b)] for a, b in zip(rivals, y, strict=True)])
    size = torch.linalg.vector_norm(found, dim=-1, keepdim=True).clamp(min=1e-30)
    unit: Tensor = (found / size).view_as(x)
    return unit


@torch.no_grad()
def radius_along(network: nn.Module, x: Tensor, y: Tensor, direction: Tensor, threat: Threat) -> Tensor:
    """The least step t at which x + t·direction is wrong; ∞ if none is within the diameter of the data."""
    widened = (-1, *([1] * (x.dim() - 1)))
    far = 4 * float(torch.linalg.vector_norm(x.flatten(1), dim=-1).max().clamp(min=1.0))
    steps = torch.linspace(0, far, 129)[1:]
    low, high = torch.zeros(len(y)), torch.full((len(y),), torch.inf)
    for before, t in zip([0.0, *steps[:-1].tolist()], steps.tolist(), strict=True):
        wrong = margin(network(_moved(x, direction, torch.full((len(y),), t), threat, widened)), y) <= 0
        new = wrong & ~high.isfinite()
        low, high = torch.where(new, before, low), torch.where(new, t, high)
    for _ in range(HALVINGS):
        middle = torch.where(high.isfinite(), (low + high) / 2, 0.0)
        wrong = margin(network(_moved(x, direction, middle, threat, widened)), y) <= 0
        found = high.isfinite()
        high, low = torch.where(found & wrong, middle, high), torch.where(found & ~wrong, middle, low)
    return high


def _moved(x: Tensor, direction: Tensor, t: Tensor, threat: Threat, widened: tuple[int, ...]) -> Tensor:
    moved = x + t.to(x).view(widened) * direction
    return moved if threat.bounds is None else moved.clamp(*threat.bounds)


def alignment(subject: Subject) -> dict[str, Any] | None:
    """Cosines of the last layer's weights with class means of its inputs, both without what all classes
    share: adding one vector to all weights changes no decision. None without such a layer."""
    found = head_inputs(subject)
    if found is None:
        return None
    name, head, inputs, labels = found
    means = class_means(inputs, labels)
    if len(means) != head.out_features or head.out_features < 2:
        return None
    centred = torch.stack([means[c] for c in range(head.out_features)])
    centred = centred - centred.mean(0)
    weights = head.weight.detach().to(centred)
    weights = weights - weights.mean(0)
    table = nn.functional.normalize(weights, dim=-1) @ nn.functional.normalize(centred, dim=-1).T
    told: dict[str, Any] = {
        "layer": name,
        "own": table.diagonal().tolist(),
        "mean": float(table.diagonal().mean()),
    }
    groups = subject.groups
    if groups is not None and len(groups) == len(means):
        same = groups[:, None] == groups[None, :]
        others = same & ~torch.eye(len(means), dtype=torch.bool)
        told["inside"] = float(table[others].mean()) if bool(others.any()) else None
        told["across"] = float(table[~same].mean()) if bool((~same).any()) else None
    return told
