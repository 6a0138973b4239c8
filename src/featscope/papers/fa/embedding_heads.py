"""Embeddings with their classes as a task for two-layer heads, and what a head has learned of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from featscope.dynamics.cluster_observables import cosines, summarise_cosines
from featscope.laws.clusters import ClusterBatch
from featscope.nets.multiclass import MultiClass, logits, readout
from featscope.papers.fa.clusters import right

EmbeddingKind = Literal["raw", "centred"]
EMBEDDING_KINDS: tuple[EmbeddingKind, ...] = ("raw", "centred")


@dataclass(frozen=True)
class Task:
    """One seed's embeddings, scaled, with their classes.

    ``signs`` is +1 for the first half of the classes.
    """

    train: ClusterBatch
    test: ClusterBatch
    signs: Tensor

    @property
    def features(self) -> Tensor:
        """(k, D): the mean embedding of each class."""
        owners = torch.nn.functional.one_hot(self.train.cluster, len(self.signs)).to(self.train.x)
        return (owners.mT @ self.train.x) / owners.sum(0)[:, None]


def half_signs(k: int, dtype: torch.dtype) -> Tensor:
    """+1 for the first half of the classes, −1 for the second."""
    return torch.where(torch.arange(k) < k // 2, 1.0, -1.0).to(dtype)


def make_task(
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    kind: EmbeddingKind,
    k: int,
    squared_norm: float,
) -> Task:
    """Centre by the training mean if asked.

    Scale both parts by the one number that gives the first this mean squared norm.
    """
    signs = half_signs(k, train[0].dtype)
    shift = train[0].mean(0) if kind == "centred" else torch.zeros_like(train[0][0])
    moved = [z - shift for z in (train[0], test[0])]
    scale = (squared_norm / moved[0].square().sum(-1).mean()).sqrt()
    batches = [ClusterBatch(scale * z, signs[y], y) for z, y in zip(moved, (train[1], test[1]), strict=True)]
    return Task(batches[0], batches[1], signs)


def network(net: str, w: Tensor, k: int) -> tuple[MultiClass, Tensor]:
    """F with its classes' signs: 2 classes of h = 15, or k of h = 3."""
    classes = 2 if net == "binary" else k
    return MultiClass(w, w.shape[-2] // classes), half_signs(classes, w.dtype)


def labels(net: str, batch: ClusterBatch) -> Tensor:
    """The class that ``net`` is trained on: 0 or 1 for the half, or the class itself."""
    return (batch.y < 0).long() if net == "binary" else batch.cluster


def accuracies(net: str, w: Tensor, batch: ClusterBatch, k: int) -> dict[str, float]:
    """Share of the batch whose half is right, and whose label is right."""
    head, signs = network(net, w, k)
    outputs = logits(head, batch.x)
    own = float((outputs.argmax(-1) == labels(net, batch)).double().mean())
    return {"half": right(readout(outputs, signs), batch.y), "own": own}


def learned(net: str, w: Tensor, task: Task) -> dict[str, float]:
    """Accuracies on training and test images."""
    k = len(task.signs)
    parts = {"train": task.train, "test": task.test}
    return {
        f"{name}_{key}": v for name, part in parts.items() for key, v in accuracies(net, w, part, k).items()
    }


def cosine_table(task: Task, w: Tensor) -> Tensor:
    """(k, k): cosine of the mean embedding of class i with the j-th equivalent weight."""
    k = len(task.signs)
    return cosines(task.features, MultiClass(w, w.shape[0] // k).equivalent())


def image_table(task: Task, w: Tensor) -> Tensor:
    """(k, k): mean cosine of class i's training images with the j-th weight, the other reading."""
    k = len(task.signs)
    each = cosines(task.train.x, MultiClass(w, w.shape[0] // k).equivalent())
    return torch.stack([each[task.train.cluster == i].mean(0) for i in range(k)])


def blocks(values: Tensor, signs: Tensor) -> dict[str, float]:
    """Means of the diagonal, of its half's rest and of the other half, contrasts, and extremes."""
    k = len(signs)
    own = torch.eye(k, dtype=torch.bool)
    same = signs[:, None] * signs[None, :] > 0
    means = {
        "own": float(values[own].mean()),
        "half": float(values[same & ~own].mean()),
        "other": float(values[~same].mean()),
    }
    return {
        **means,
        "same_half": float(values[same].mean()),
        "contrast_half": float(values[same].mean()) - means["other"],
        "contrast_own": means["own"] - means["half"],
        **{f"same_{key}": value for key, value in summarise_cosines(values, same).items()},
        **{f"own_{key}": value for key, value in summarise_cosines(values, own).items()},
        # the paper's words for (c): same-class cosines are uniformly larger than cross-class ones, signs and
        # all
        "same_gap": float(values[same].min() - values[~same].max()),
    }


def dead(task: Task, w: Tensor) -> dict[str, float]:
    """Share of neurons that no training image activates: descent never moves them; weights made of them."""
    silent = ~(task.train.x @ w.mT >= 0).any(0)
    groups = silent.reshape(len(task.signs), -1).all(-1)
    return {"dead_share": float(silent.double().mean()), "dead_weights": float(groups.sum())}
