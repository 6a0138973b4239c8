"""`image-embeddings`: FA's Figures 2 (c, d) and 10 — what the two-layer network learns on embeddings of real images.

The paper embeds CIFAR-10 with CLIP ViT-B/32 and trains F = (f_1, …, f_K), f_j(z) = (1/h) Σ_r ReLU⟨w_{j,r}, z⟩, 30 neurons in all: K = 2, h = 15 with the labels
"first five classes against last five", and K = 10, h = 3 with all labels, read out as in §4.2. Figure 2 shows the cosine of each feature μ_i with each
equivalent weight: the mean of a class's three weights, and for the 2-class network of three weights at a time. Figure 10 shows the cosines of the
embeddings themselves, 100 a class.

What the paper leaves open, and what is done here: μ_i is the mean embedding of class i. Embeddings are taken as the encoder gives them (`raw`) and with the mean
of the training embeddings subtracted (`centred`). Learning rate, initial weights and steps are those of §6.1 (η = .001, σ_w = 1e-5, T = 100),
on embeddings scaled by one number to §6.1's mean squared norm 2d = 6144, which is the same as scaling η and σ_w; training then goes on (`long`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from featscope.core.errors import require, unknown
from featscope.core.frozen import Value
from featscope.core.stats import mean_interval
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import Descent, fine_step, start_fine
from featscope.dynamics.cluster_observables import cosines, summarise_cosines
from featscope.dynamics.trajectory import trajectory
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.features.embed import embed
from featscope.images.catalogue import DATASETS, dataset
from featscope.images.datasets import Images, load
from featscope.laws.clusters import ClusterBatch
from featscope.nets.encoders import Encoder, load_encoder
from featscope.nets.multiclass import MultiClass, logits, readout
from featscope.papers.fa.clusters import right
from featscope.papers.fa.embedding_radii import RadiusSpec, attack_heads

Kind = Literal["raw", "centred"]
KINDS: tuple[Kind, ...] = ("raw", "centred")
STAGES = ("paper", "long")
NETS = ("binary", "fine")


class HeadTraining(Value):
    """The two-layer network on embeddings: neurons in all, §6.1's learning rate, initial scale and steps, and the steps of the long training."""

    neurons: int = Field(default=30, ge=2)
    learning_rate: float = Field(default=1e-3, gt=0)
    init_weight: float = Field(default=1e-5, gt=0)
    steps: int = Field(default=100, ge=1)
    long_steps: int = Field(default=1000, ge=1)
    squared_norm: float = Field(default=6144.0, gt=0, description="mean ‖z‖² to which embeddings are scaled; §6.1's is 2d")
    every: int = Field(default=20, ge=1)


class ImageEmbeddings(Spec):
    """Which images and encoder, how many images a seed, and the training of the heads."""

    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {
            "train": 200,
            "test": 100,
            "side": 32,
            "sample": 20,
            "seeds": [0],
            "long_steps": 200,
            "radius.points": 20,
            "radius.steps": 10,
        },
        "paper": {"encoder": "clip-vit-b-32", "train": 50_000, "test": 10_000},
    }

    dataset: str = "cifar10"
    encoder: Literal["efficientnet-lite0", "clip-vit-b-32"] = "efficientnet-lite0"
    side: int | None = Field(default=None, ge=32, description="side to which images are resized; the encoder's own if not given")
    train: int = Field(default=2000, ge=20, description="training images of each seed")
    test: int = Field(default=500, ge=10, description="test images of each seed")
    sample: int = Field(default=100, ge=2, description="images a class of Figure 10")
    heads: HeadTraining = HeadTraining()
    radius: RadiusSpec = RadiusSpec()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.dataset not in DATASETS:
            raise unknown("data set", self.dataset, DATASETS)
        k = len(dataset(self.dataset).classes)
        rule, n = "each class has the same number of neurons", self.heads.neurons
        require(k % 2 == 0 and n % k == 0, rule, f"neurons={n}, classes={k}", f"use a multiple of {k}")
        rule, remedy = "the sample of Figure 10 comes from the training images", "lower sample or raise train"
        require(self.sample * k <= self.train, rule, f"sample={self.sample} of {k} classes, train={self.train}", remedy)
        return self


@dataclass(frozen=True)
class Task:
    """One seed's embeddings, scaled, with their classes; ``signs`` is +1 for the first half of the classes."""

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


def make_task(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], kind: Kind, k: int, squared_norm: float) -> Task:
    """Centre by the training mean if asked, and scale both parts by the one number that gives the training part this mean squared norm."""
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
    """The class that ``net`` is trained on: 0 for the first half and 1 for the second, or the class itself."""
    return (batch.y < 0).long() if net == "binary" else batch.cluster


def accuracies(net: str, w: Tensor, batch: ClusterBatch, k: int) -> dict[str, float]:
    """Share of the batch whose half is right, and whose label is right."""
    head, signs = network(net, w, k)
    outputs = logits(head, batch.x)
    own = float((outputs.argmax(-1) == labels(net, batch)).double().mean())
    return {"half": right(readout(outputs, signs), batch.y), "own": own}


def table(task: Task, w: Tensor) -> Tensor:
    """(k, k): cosine of the mean embedding of class i with the j-th equivalent weight."""
    k = len(task.signs)
    return cosines(task.features, MultiClass(w, w.shape[0] // k).equivalent())


def image_table(task: Task, w: Tensor) -> Tensor:
    """(k, k): mean over the training images of class i of their cosines with the j-th equivalent weight, the other reading of `average cosine`."""
    k = len(task.signs)
    each = cosines(task.train.x, MultiClass(w, w.shape[0] // k).equivalent())
    return torch.stack([each[task.train.cluster == i].mean(0) for i in range(k)])


def blocks(values: Tensor, signs: Tensor) -> dict[str, float]:
    """Means of the diagonal, of the rest of the same half and of the other half, the two contrasts, and the extremes that claims read."""
    k = len(signs)
    own = torch.eye(k, dtype=torch.bool)
    same = signs[:, None] * signs[None, :] > 0
    means = {"own": float(values[own].mean()), "half": float(values[same & ~own].mean()), "other": float(values[~same].mean())}
    return {
        **means,
        "same_half": float(values[same].mean()),
        "contrast_half": float(values[same].mean()) - means["other"],
        "contrast_own": means["own"] - means["half"],
        **{f"same_{key}": value for key, value in summarise_cosines(values, same).items()},
        **{f"own_{key}": value for key, value in summarise_cosines(values, own).items()},
        # the paper's words for (c): same-class cosines are uniformly larger than cross-class ones, signs and all
        "same_gap": float(values[same].min() - values[~same].max()),
    }


def train_head(spec: ImageEmbeddings, task: Task, net: str, kind: Kind, seed: int, folder: Folder) -> dict[str, Tensor]:
    """Weights after §6.1's steps and after the long training; rows along both."""
    heads, k = spec.heads, len(task.signs)
    rng = stream(seed, "init", net)
    directions = torch.randn(heads.neurons, task.train.x.shape[1], generator=rng, dtype=task.train.x.dtype)
    state = start_fine(directions, len(task.train.y), heads.init_weight)
    batch = task.train._replace(cluster=labels(net, task.train))
    step = fine_step(batch, network(net, state.w, k)[0].h, heads.learning_rate)
    found: dict[str, Tensor] = {}
    done = 0
    for stage, steps in zip(STAGES, (heads.steps, max(heads.steps, heads.long_steps)), strict=True):

        def look(now: Descent, t: int, before: int = done) -> dict[str, float]:
            shown = blocks(table(task, now.w), task.signs)
            seen = {f"train_{key}": value for key, value in accuracies(net, now.w, task.train, k).items()}
            seen |= {f"test_{key}": value for key, value in accuracies(net, now.w, task.test, k).items()}
            return {"time": float(before + t), **seen, **{key: shown[key] for key in ("own", "half", "other")}}

        part = folder.part(f"{net}-{kind}-{stage}-{seed}")
        ended = trajectory(step, state, steps - done, look, heads.every, keep=part).healthy(part.name, "lower heads.learning_rate").state
        # Tensors read from a file lie differently in memory, which moves the last digit of a product: copies do not.
        state = Descent(*(t.clone() for t in ended))
        found[stage], done = state.w, steps
    return found


def dead(task: Task, w: Tensor) -> dict[str, float]:
    """Share of neurons that no training image activates, which descent never moves again, and equivalent weights made of such neurons only."""
    silent = ~(task.train.x @ w.mT >= 0).any(0)
    groups = silent.reshape(len(task.signs), -1).all(-1)
    return {"dead_share": float(silent.double().mean()), "dead_weights": float(groups.sum())}


def correlation(task: Task, n: int) -> tuple[dict[str, float], Tensor, Tensor]:
    """Figure 10: cosines of ``n`` embeddings a class, sorted by class; their numbers, the matrix, and its block means without self-pairs."""
    k = len(task.signs)
    chosen = torch.cat([(task.train.cluster == c).nonzero()[:n, 0] for c in range(k)])
    x, c = task.train.x[chosen], task.train.cluster[chosen]
    matrix = cosines(x, x)
    others = ~torch.eye(len(c), dtype=torch.bool)
    owner = torch.nn.functional.one_hot(c, k).to(matrix)
    means = (owner.mT @ (matrix * others) @ owner) / (owner.mT @ others.to(matrix) @ owner)
    same = (c[:, None] == c[None, :]) & others
    cross = c[:, None] != c[None, :]
    features = cosines(task.features, task.features)
    apart = ~torch.eye(k, dtype=torch.bool)
    worst = torch.minimum(means.diagonal()[:, None], means.diagonal()[None, :])[apart] - means[apart]
    numbers = {
        "same": float(matrix[same].mean()),
        "cross": float(matrix[cross].mean()),
        "cross_size": float(matrix[cross].abs().mean()),
        "same_low": float(np.quantile(matrix[same].numpy(), 0.05)),
        "cross_high": float(np.quantile(matrix[cross].numpy(), 0.95)),
        "block_margin": float(worst.min()),
        "blocks_below": float((worst < 0).sum()),
        "feature_cosine_largest": float(features[apart].abs().max()),
        "feature_cosine_mean": float(features[apart].mean()),
    }
    return numbers, matrix, means


def embeddings(spec: ImageEmbeddings, seed: int, folder: Folder) -> tuple[list[tuple[Tensor, Tensor]], Encoder, Json]:
    """Training and test embeddings of one seed with their labels, from the data folder where they are there."""
    encoder = load_encoder(spec.encoder, spec.side)
    found, data = [], {}
    for split, n in (("train", spec.train), ("test", spec.test)):
        images: Images = load(spec.dataset, "train" if split == "train" else "test")
        index = images.subset(n, seed)
        part = folder.part(f"embeddings-{split}-{seed}")
        z = embed(encoder, images, index, told=lambda done, total, part=part: part.report(done, total, {}))  # type: ignore[misc]
        found.append((z.to(spec.torch_dtype), images.y[index]))
        data[split] = images.sha256
    return found, encoder, data


def run_seed(spec: ImageEmbeddings, seed: int, parts: Sequence[tuple[Tensor, Tensor]], folder: Folder) -> list[Json]:
    """Figure 10, both heads and their heat maps for one seed, raw and centred."""
    k = len(dataset(spec.dataset).classes)
    lines: list[Json] = []
    for kind in KINDS:
        task = make_task(parts[0], parts[1], kind, k, spec.heads.squared_norm)
        numbers, matrix, means = correlation(task, spec.sample)
        kept = {"blocks": means} | ({"matrix": matrix.half()} if seed == spec.seeds[0] else {})
        folder.add(f"correlation-{kind}-{seed}", [{"seed": seed, "kind": kind, **numbers}], kept)
        weights = {net: train_head(spec, task, net, kind, seed, folder) for net in NETS}
        for stage in STAGES:
            row: Json = {"seed": seed, "kind": kind, "stage": stage}
            tables: dict[str, Tensor] = {}
            for net in NETS:
                w = weights[net][stage]
                tables |= {net: table(task, w), f"{net}_images": image_table(task, w)}
                row |= {f"{net}_{key}": value for key, value in blocks(tables[net], task.signs).items()}
                row |= {f"{net}_{key}": value for key, value in dead(task, w).items()}
                other = blocks(tables[f"{net}_images"], task.signs)
                row |= {f"{net}_images_{key}": other[key] for key in ("own", "half", "other", "same_gap")}
                row |= {f"{net}_test_{key}": value for key, value in accuracies(net, w, task.test, k).items()}
                row |= {f"{net}_train_{key}": value for key, value in accuracies(net, w, task.train, k).items()}
            folder.add(f"table-{kind}-{stage}-{seed}", [row], tables)
            lines.append(row)
        radii = folder.part(f"radii-{kind}-{seed}")
        if radii.load() is None:
            heads = {net: network(net, weights[net]["paper"], k) for net in NETS}
            radii.save(0, True, *attack_heads(spec.radius, heads, {net: labels(net, task.test) for net in NETS}, task.test, seed))
    return lines


def over_seeds(rows: Sequence[Json], key: str) -> Json:
    """Mean, Student's interval and single values of a number over seeds; one seed alone has no interval."""
    values = [float(row[key]) for row in rows]
    found = mean_interval(values)
    return {"mean": found.value, "interval": [found.low, found.high] if len(values) > 1 else None, "by_seed": values}


def run(spec: ImageEmbeddings, folder: Folder) -> Json:
    """Embed, correlate, train and read the heat maps off, seed by seed."""
    rows: list[Json] = []
    encoder: Encoder | None = None
    data: Json = {}
    for seed in spec.seeds:
        parts, encoder, data = embeddings(spec, seed, folder)
        rows += run_seed(spec, seed, parts, folder)
    shown = (
        "own",
        "half",
        "other",
        "contrast_half",
        "contrast_own",
        "same_gap",
        "test_half",
        "test_own",
        "train_half",
        "dead_share",
        "dead_weights",
    )
    heads = {
        f"{kind}-{stage}": {
            net: {key: over_seeds([r for r in rows if (r["kind"], r["stage"]) == (kind, stage)], f"{net}_{key}") for key in shown}
            for net in NETS
        }
        for kind in KINDS
        for stage in STAGES
    }
    figure10, radii = {}, {}
    for kind in KINDS:
        saved = [folder.part(f"correlation-{kind}-{seed}").load() for seed in spec.seeds]
        numbers = [s.rows[0] for s in saved if s is not None]
        figure10[kind] = {key: over_seeds(numbers, key) for key in numbers[0] if key not in {"seed", "kind"}}
        radii[kind] = _median_radii([folder.part(f"radii-{kind}-{seed}").load() for seed in spec.seeds])
    return {
        "encoder": spec.encoder,
        "weights_sha256": encoder.sha256 if encoder else None,
        "preprocessing": encoder.preprocessing if encoder else None,
        "data_sha256": data,
        "classes": list(dataset(spec.dataset).classes),
        "heads": heads,
        "figure10": figure10,
        "radii": radii,
    }


def _median_radii(saved: Sequence[Any]) -> Json:
    """Median radius of each head over the test points of a seed, in units of the embeddings' root mean squared norm."""
    keys = [key for key in saved[0].rows[0] if key.endswith(("_attacked", "_certified"))]
    medians = [{key: float(torch.tensor([row[key] for row in part.rows]).median()) for key in keys} for part in saved]
    return {key: over_seeds(medians, key) for key in keys}


EXPERIMENTS = (
    Experiment(
        name="image-embeddings",
        paper="fa",
        shows="Figures 2 (c, d) and 10: cosines of embeddings, and which features 2-class and 10-class heads learn on them",
        spec=ImageEmbeddings,
        run=run,
        takes={
            "quick": "15 s",
            "cpu": "9 min on one core, 4 of them for embeddings that are kept",
            "paper": "not measured; needs CLIP's weights in the data folder",
        },
        needs_data=("cifar10", "efficientnet-lite0"),
    ),
)
