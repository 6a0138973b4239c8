"""What finer labels would give: the last layer retrained on frozen features, once with the labels at hand and
once with finer ones, and how far each is from being fooled. Finer labels are the user's, or pseudo-labels by
k-means inside each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor, nn

from featscope.attacks.nearest import NearestAttack
from featscope.attacks.threat import Threat
from featscope.core.stats import Interval
from featscope.nets.fold import evenly
from featscope.probe.findings import as_share
from featscope.probe.inputs import Grouped, HeadInputs, Reheaded, head_inputs, which_right
from featscope.probe.keep import Keep
from featscope.probe.medians import median_interval
from featscope.probe.subject import Subject

#: pseudo-labels inside a class
PARTS = 4
#: steps of L-BFGS, and the weight of the penalty that keeps the minimum finite
STEPS, DECAY = 200, 1e-4
MOST, LEAST = 60, 8
PASSES = 600
NAME = "averaging-finer"


@dataclass(frozen=True)
class FinerLabels:
    """Median ℓ2 distances to the nearest adversarial example with a head of coarse and one of finer labels,
    and their ratio example by example."""

    source: str
    labels: int
    coarse: float
    fine: float
    ratio: Interval
    examples: int

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        return {
            "source": self.source,
            "labels": self.labels,
            "radius_coarse_head": self.coarse,
            "radius_fine_head": self.fine,
            "ratio": as_share(self.ratio),
            "examples": self.examples,
        }


def finer_labels(subject: Subject, seconds: float, keep: Keep) -> FinerLabels | None:
    """Retrain the head twice and compare; None without a linear head or with too few examples."""
    found = head_inputs(subject)
    if found is None or len(found[3]) < 2 * PARTS * subject.classes:
        return None
    name, _, inputs, y = found
    task = _task(subject, inputs, y)
    n = int(keep.once(f"{NAME}-examples", lambda: {"examples": _affordable(seconds, keep.cost)})["examples"])

    def make() -> dict[str, Any]:
        features = HeadInputs(subject.network, name)
        classes = int(task.owner.max()) + 1
        coarse = Reheaded(features, *fitted(inputs, task.coarse, classes))
        fine = Grouped(Reheaded(features, *fitted(inputs, task.fine, len(task.owner))), task.owner)
        index = _both_right(coarse, fine, subject.x, task.test, n)
        threat = Threat("L2", 1.0, event=subject.x.dim() - 1, bounds=subject.bounds)
        x, own = subject.x[index], task.test[index]
        radii = [
            NearestAttack().find(net, x, own, threat).radius if len(index) else torch.zeros(0)
            for net in (coarse, fine)
        ]
        return {"coarse": radii[0], "fine": radii[1]}

    step = keep.once(NAME, make)
    there = step["coarse"].isfinite() & step["fine"].isfinite()
    if not bool(there.any()):
        return None
    before, after = step["coarse"][there], step["fine"][there]
    return FinerLabels(
        task.source, len(task.owner), float(before.median()), float(after.median()),
        median_interval(after / before), int(there.sum()),
    )  # fmt: skip


def _affordable(seconds: float, cost: float) -> int:
    return max(LEAST, min(MOST, int(seconds / (PASSES * cost))))


class Task(NamedTuple):
    """Coarse and fine labels of the examples that a head is trained on, the coarse label of each fine one,
    the coarse labels of the test examples, and where the fine ones come from."""

    coarse: Tensor
    fine: Tensor
    owner: Tensor
    test: Tensor
    source: str


def _task(subject: Subject, inputs: Tensor, y: Tensor) -> Task:
    """Classes against groups of them, the user's finer labels against classes, or pseudo-labels."""
    groups = subject.groups
    if groups is not None and len(groups) == subject.classes:
        return Task(groups[y], y, groups, groups[subject.y], "the classes inside their groups")
    if groups is not None and len(groups) == len(subject.y) and subject.train_x is None:
        given = groups[evenly(len(subject.y), len(y))]
        pairs, fine = torch.unique(torch.stack([y, given], -1), dim=0, return_inverse=True)
        return Task(y, fine, pairs[:, 0], subject.y, "the user's")
    owner = torch.arange(subject.classes).repeat_interleave(PARTS)
    return Task(y, _pseudo(inputs, y, subject), owner, subject.y, "k-means inside each class")


def _pseudo(inputs: Tensor, y: Tensor, subject: Subject) -> Tensor:
    """k-means inside each class; an empty cluster leaves its label unused."""
    labels = torch.zeros_like(y)
    for label in range(subject.classes):
        mine = y == label
        if int(mine.sum()) >= PARTS:
            points = inputs[mine].double().numpy()
            _, parts = kmeans2(points, PARTS, minit="++", seed=np.random.default_rng(subject.seed))
            labels[mine] = torch.as_tensor(parts, dtype=y.dtype) + PARTS * label
        else:
            labels[mine] = PARTS * label
    return labels


def fitted(inputs: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The weights and biases of multinomial logistic regression with a small ridge."""
    size = inputs.double().std().clamp(min=1e-12)
    scaled = inputs.double() / size
    weight = torch.zeros(classes, inputs.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimiser.zero_grad()
        value = nn.functional.cross_entropy(scaled @ weight.T + bias, labels) + DECAY * weight.square().sum()
        torch.autograd.backward(value)
        return float(value.detach())

    with torch.enable_grad():
        optimiser.step(loss)  # type: ignore[no-untyped-call]
    return (weight.detach() / size).to(inputs), bias.detach().to(inputs)


def _both_right(coarse: nn.Module, fine: nn.Module, x: Tensor, y: Tensor, most: int) -> Tensor:
    index = (which_right(coarse, x, y) & which_right(fine, x, y)).nonzero()[:, 0]
    return index[evenly(len(index), most)]
