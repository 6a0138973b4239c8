"""`image-embeddings`: FA's Figures 2 (c, d) and 10, what the two-layer network learns on embeddings.

The paper embeds CIFAR-10 with CLIP ViT-B/32 and trains F = (f_1, …, f_K), f_j(z) = (1/h) Σ_r ReLU⟨w_{j,r},
z⟩, 30 neurons in all: K = 2, h = 15 with the labels "first five classes against last five", and K = 10, h = 3
with all labels, read out as in §4.2. Figure 2 shows the cosine of each feature μ_i with each equivalent
weight: the mean of a class's three weights, and for the 2-class network of three weights at a time. Figure 10
shows the cosines of the embeddings themselves, 100 a class.

What the paper leaves open, and what is done here: μ_i is the mean embedding of class i. Embeddings are taken
as the encoder gives them (`raw`) and with the mean of the training embeddings subtracted (`centred`).
Learning rate, initial weights and steps are those of §6.1 (η = .001, σ_w = 1e-5, T = 100), on embeddings
scaled by one number to §6.1's mean squared norm 2d = 6144, which is the same as scaling η and σ_w; training
then goes on (`long`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Self

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor

from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.settings import setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import Descent, fine_step, start_fine
from featscope.dynamics.cluster_observables import cosines
from featscope.dynamics.trajectory import trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_training import data_hashes
from featscope.experiments.spec import Experiment, Overrides
from featscope.images.catalogue import dataset
from featscope.nets.encoders import load_encoder
from featscope.papers.fa.embedded_images import EMBEDDED, IN_ENCODER, EmbeddedImages, embeddings
from featscope.papers.fa.embedding_columns import CosineMap, Figure10, HeadPath
from featscope.papers.fa.embedding_heads import (
    EMBEDDING_KINDS,
    EmbeddingKind,
    Task,
    blocks,
    cosine_table,
    dead,
    image_table,
    labels,
    learned,
    make_task,
    network,
)
from featscope.papers.fa.embedding_radii import HeadRadii, RadiusSpec, attack_head

STAGES = ("paper", "long")
NETS = ("binary", "fine")


class HeadTraining(Value):
    """The two-layer network on embeddings: §6.1's numbers, and the steps of the long training."""

    neurons: int = setting(30, "neurons of the head", letter="m", ge=2)
    learning_rate: float = setting(1e-3, "step size of gradient descent", letter="η", gt=0)
    init_weight: float = setting(1e-5, "standard deviation of the first weights", letter="σ_w", gt=0)
    steps: int = setting(100, "steps of gradient descent, as printed", letter="T", ge=1)
    long_steps: int = setting(1000, "steps of the long training", ge=1)
    squared_norm: float = setting(6144.0, "mean ‖z‖² to which embeddings are scaled; §6.1's is 2d", gt=0)
    every: int = setting(20, "steps between two recorded rows", ge=1)


class ImageEmbeddings(EmbeddedImages):
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

    sample: int = setting(100, "images a class of Figure 10", ge=2)
    heads: HeadTraining = setting(HeadTraining(), "training of the heads")
    radius: RadiusSpec = setting(RadiusSpec(), "search for the smallest radius that fools a head")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        k = len(dataset(self.dataset).classes)
        rule, n = "each class has the same number of neurons", self.heads.neurons
        require(k % 2 == 0 and n % k == 0, rule, f"neurons={n}, classes={k}", f"use a multiple of {k}")
        rule, remedy = "the sample of Figure 10 comes from the training images", "lower sample or raise train"
        require(
            self.sample * k <= self.train,
            rule,
            f"sample={self.sample} of {k} classes, train={self.train}",
            remedy,
        )
        return self


def train_head(
    spec: ImageEmbeddings, task: Task, net: str, kind: EmbeddingKind, seed: int, folder: Folder
) -> dict[str, Tensor]:
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
            shown = blocks(cosine_table(task, now.w), task.signs)
            seen = {HeadPath.time: float(before + t), **learned(net, now.w, task)}
            return seen | {key: shown[key] for key in (HeadPath.own, HeadPath.half, HeadPath.other)}

        part = folder.part("head", net=net, kind=kind, stage=stage, seed=seed)
        made = trajectory(step, state, steps - done, look, heads.every, keep=part)
        ended = made.healthy(part.key, "lower heads.learning_rate").state
        # Tensors read from a file lie differently in memory, which moves the last digit of a product: copies
        # do not.
        state = Descent(*(t.clone() for t in ended))
        found[stage], done = state.w, steps
    return found


def correlation(task: Task, n: int) -> tuple[dict[str, float], Tensor, Tensor]:
    """Figure 10: cosines of ``n`` embeddings a class, sorted by class.

    Numbers, matrix, and block means without self-pairs.
    """
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


def read_heat_map(task: Task, net: str, w: Tensor) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The numbers of a head's heat map, and both readings of it."""
    tables = {"features": cosine_table(task, w), "images": image_table(task, w)}
    over_images = blocks(tables["images"], task.signs)
    row = blocks(tables["features"], task.signs) | dead(task, w) | learned(net, w, task)
    row |= {
        f"images_{key}": over_images[key]
        for key in (CosineMap.own, CosineMap.half, CosineMap.other, CosineMap.same_gap)
    }
    return row, tables


def run_seed(
    spec: ImageEmbeddings, seed: int, parts: Sequence[tuple[Tensor, Tensor]], folder: Folder
) -> None:
    """Figure 10, both heads, their heat maps and their radii for one seed, raw and centred."""
    k = len(dataset(spec.dataset).classes)
    for kind in EMBEDDING_KINDS:
        task = make_task(parts[0], parts[1], kind, k, spec.heads.squared_norm)
        numbers, matrix, means = correlation(task, spec.sample)
        kept = {"blocks": means} | ({"matrix": matrix.half()} if seed == spec.seeds[0] else {})
        folder.add("correlation", [numbers], kept, kind=kind, seed=seed)
        for net in NETS:
            weights = train_head(spec, task, net, kind, seed, folder)
            for stage in STAGES:
                row, tables = read_heat_map(task, net, weights[stage])
                folder.add("table", [row], tables, net=net, kind=kind, stage=stage, seed=seed)
            head, signs = network(net, weights["paper"], k)
            own = labels(net, task.test)
            make = partial(attack_head, spec.radius, net, head, signs, own, task.test, seed)
            folder.once("radii", make, net=net, kind=kind, seed=seed)


def over_rows(rows: Sequence[Mapping[str, float]], key: str) -> Json:
    """A number over seeds."""
    return with_interval([float(row[key]) for row in rows])


def with_interval(values: Sequence[float]) -> Json:
    """Mean, Student's interval and the single values, one for each seed."""
    return {**as_fact(mean_interval(values)), "by_seed": list(values)}


SHOWN = (
    CosineMap.own,
    CosineMap.half,
    CosineMap.other,
    CosineMap.contrast_half,
    CosineMap.contrast_own,
    CosineMap.same_gap,
    CosineMap.test_half,
    CosineMap.test_own,
    CosineMap.train_half,
    CosineMap.dead_share,
    CosineMap.dead_weights,
)


def _rows(spec: ImageEmbeddings, folder: Folder, name: str, **labels: str) -> list[Rows]:
    """The rows of a part, seed by seed."""
    return [folder.part(name, **labels, seed=seed).read().rows for seed in spec.seeds]


def _heads(spec: ImageEmbeddings, folder: Folder) -> Json:
    """The heat maps' numbers over seeds, by kind of embedding and stage, and by head."""
    found: Json = {}
    for kind in EMBEDDING_KINDS:
        for stage in STAGES:
            lines = {n: _rows(spec, folder, "table", net=n, kind=kind, stage=stage) for n in NETS}
            found[f"{kind}-{stage}"] = {
                net: {key: over_rows([rows[0] for rows in of_net], key) for key in SHOWN}
                for net, of_net in lines.items()
            }
    return found


def _median_radii(spec: ImageEmbeddings, folder: Folder, kind: EmbeddingKind) -> Json:
    """Median radius of each head over the test points of a seed."""
    found: Json = {}
    for net in NETS:
        parts = _rows(spec, folder, "radii", net=net, kind=kind)
        for key in (HeadRadii.attacked, HeadRadii.certified):
            medians = [float(torch.tensor([row[key] for row in rows]).median()) for rows in parts]
            found[f"{net}_{key}"] = with_interval(medians)
    return found


def _figure10(spec: ImageEmbeddings, folder: Folder, kind: EmbeddingKind) -> Json:
    numbers = [rows[0] for rows in _rows(spec, folder, "correlation", kind=kind)]
    return {key: over_rows(numbers, key) for key in numbers[0]}


def run(spec: ImageEmbeddings, folder: Folder) -> Json:
    """Embed, correlate, train and read the heat maps off, seed by seed."""
    encoder = load_encoder(spec.encoder, spec.side)
    for seed in spec.seeds:
        run_seed(spec, seed, embeddings(spec, encoder, seed, folder), folder)
    return {
        "encoder": spec.encoder,
        "weights_sha256": encoder.sha256,
        "preprocessing": encoder.preprocessing,
        "data_sha256": data_hashes(spec.dataset),
        "classes": list(dataset(spec.dataset).classes),
        "heads": _heads(spec, folder),
        "figure10": {kind: _figure10(spec, folder, kind) for kind in EMBEDDING_KINDS},
        "radii": {kind: _median_radii(spec, folder, kind) for kind in EMBEDDING_KINDS},
    }


def size(spec: ImageEmbeddings) -> Size:
    """The embeddings of a seed, the images of a batch in the encoder, and the heads."""
    images, heads = spec.train + spec.test, spec.heads
    steps = heads.steps + heads.long_steps
    attacks = spec.radius.points * spec.radius.steps * spec.radius.restarts * spec.radius.rounds
    head = EMBEDDED * heads.neurons
    return Size(
        images * EMBEDDED + IN_ENCODER,
        len(spec.seeds) * (images * IN_ENCODER + (spec.train * steps + attacks) * head),
    )


EXPERIMENTS = (
    Experiment(
        name="image-embeddings",
        paper="fa",
        shows="Figures 2 (c, d) and 10: cosines of embeddings, and which features 2-class and 10-class heads "
        "learn on them",
        spec=ImageEmbeddings,
        run=run,
        takes={
            "quick": "15 s",
            "cpu": "9 min on one core, 4 of them for embeddings that are kept",
            "paper": "not measured; needs CLIP's weights in the data folder",
        },
        highlights=(Highlight("radii/*/*", "median ℓ2 radius, {} embeddings, {}"),),
        size=size,
        revision=2,
        columns={"head": HeadPath, "table": CosineMap, "correlation": Figure10, "radii": HeadRadii},
        data=lambda spec: (spec.dataset, spec.encoder),
    ),
)
