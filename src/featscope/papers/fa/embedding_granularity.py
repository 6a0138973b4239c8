"""`embedding-granularity`: two-layer heads on embeddings of real images, labels in G groups of classes.

The question of `clusters-granularity` where features are an encoder's: does the radius of the 2-class
read-out grow as √((s₊ + s₋)/(s_own + s_rival))? A head has some neurons for each group, no biases, and is
trained as those of `image-embeddings`. With one neuron a group the radius has a certificate; with two labels
it is exact, and the perturbation of the proofs, −y(Σ₊μ − Σ₋μ) with class means μ, is held against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Self

import torch
from pydantic import model_validator
from torch import Tensor

from featscope.attacks.along_ray import flip_along
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.readout_nearest import nearest_flip
from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import fine_step, start_fine
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_training import data_hashes
from featscope.experiments.spec import Experiment, Overrides
from featscope.images.catalogue import dataset
from featscope.nets import multiclass
from featscope.nets.encoders import load_encoder
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import TwoLayer, span
from featscope.papers.fa.embedded_images import EMBEDDED, IN_ENCODER, EmbeddedImages, embeddings
from featscope.papers.fa.embedding_heads import EmbeddingKind, Task, make_task
from featscope.papers.fa.label_groups import LabelGroups, label_groups, median, slope

#: G = 2, 5 (3+2 against 2+2+1), 6 (2+2+1 against 2+2+1) and 10 of ten classes
TEN = ("halves", "0,1,2|3,4|5,6|7,8|9", "0,1|2,3|4|5,6|7,8|9", "each")
#: G = 2, 20 and 100 of CIFAR-100
HUNDRED = ("superclass-halves", "superclasses", "each")


class EmbeddingGranularity(EmbeddedImages):
    """Embeddings, groupings of their labels, and the training of the heads."""

    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {
            "train": 100,
            "test": 50,
            "side": 32,
            "seeds": [0, 1],
            "steps": 100,
            "points": 10,
            "bins": 50,
        },
        "paper": {"encoder": "clip-vit-b-32", "train": 10_000, "test": 2000, "points": 300, "bins": 450},
    }

    train: int = setting(1000, "training images of each seed", ge=20)
    test: int = setting(300, "test images of each seed", ge=10)
    groupings: tuple[str, ...] = setting(TEN, "labels, from two groups to finer ones inside them")
    kind: EmbeddingKind = setting("centred", "embeddings as they are (raw), or less their training mean")
    each: int = setting(1, "neurons of each group", letter="h", ge=1, le=8)
    learning_rate: float = setting(1e-3, "step size of gradient descent", letter="η", gt=0)
    init_weight: float = setting(1e-5, "standard deviation of the first weights", letter="σ_w", gt=0)
    steps: int = setting(1000, "steps of gradient descent", letter="T", ge=1)
    squared_norm: float = setting(6144.0, "mean ‖z‖² to which embeddings are scaled; §6.1's is 2d", gt=0)
    points: int = setting(100, "test points whose radius is measured", ge=1)
    bins: int = setting(200, "parts of the squared budget in the certificate", ge=10)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.groups()
        return self

    def groups(self) -> list[LabelGroups]:
        """The groupings, from coarse to fine."""
        return label_groups(self.groupings, len(dataset(self.dataset).classes))


class HeadGroupPoint(Columns):
    """One row for each number of groups, seed and test point; lengths ÷ root mean squared norm of the
    embeddings."""

    count = column("G, number of groups")
    seed = column("the seed")
    point = column("index of the test point")
    label = column("the class")
    law = column("√((s₊ + s₋)/(s_own + s_rival)): the predicted radius in units of that for two labels")
    radius = column("radius found, an upper bound; 0 where the half is read wrong")
    certified = column("certified radius, a lower bound")


class HeadGroupNet(Columns):
    """One row for each number of groups and seed; medians over points that all its heads read right."""

    count = column("G, number of groups")
    seed = column("the seed")
    clean = column("share of test images whose half is read right")
    clean_own = column("share of test images whose group is read right")
    shared = column("points that all heads of the seed read right")
    law = column("median predicted radius in units of that for two labels")
    radius = column("median radius found ÷ root mean squared norm")
    certified = column("median certified radius ÷ root mean squared norm")


class AverageAttack(Columns):
    """One row for each seed and point that the head of two labels reads right; lengths as in `points`."""

    seed = column("the seed")
    point = column("index of the test point")
    label = column("the class")
    exact = column("exact radius")
    along = column("radius along −y(Σ₊μ − Σ₋μ), μ the class means")
    ratio = column("radius along that direction ÷ exact radius")
    cosine = column("cosine of the exact minimal perturbation with that direction")


def trained_head(spec: EmbeddingGranularity, task: Task, groups: LabelGroups, seed: int) -> MultiClass:
    """The head after its steps."""
    train, rng = task.train, stream(seed, "init", str(groups.count))
    directions = torch.randn(groups.count * spec.each, train.x.shape[1], generator=rng, dtype=train.x.dtype)
    state = start_fine(directions, len(train.y), spec.init_weight)
    step = fine_step(train._replace(cluster=groups.groups(train.cluster)), spec.each, spec.learning_rate)
    for t in range(spec.steps):
        state = step(state, t)
    return MultiClass(state.w, spec.each)


def _sides(groups: LabelGroups, y: Tensor, dtype: torch.dtype) -> Tensor:
    """+1 for images of the first half, −1 for the others."""
    return groups.signs(dtype)[groups.groups(y)]


def _unit(task: Task) -> float:
    return float(task.test.x.square().sum(-1).mean().sqrt())


def _head(
    spec: EmbeddingGranularity, task: Task, groups: LabelGroups, seed: int
) -> tuple[Rows, dict[str, Tensor]]:
    """Radii of the first test points; the head and its accuracies as tensors."""
    head = trained_head(spec, task, groups, seed)
    x, label = task.test.x[: spec.points], task.test.cluster[: spec.points]
    own, signs = groups.groups(label), groups.signs(x.dtype)
    y, basis = _sides(groups, label, x.dtype), span(head.w)
    inner, small = x @ basis.mT, MultiClass(head.w @ basis.mT, head.h)
    found = nearest_flip(small, signs, inner, y, own).radius
    # No biases: at −z all outputs are 0, so the boundary is at most ‖z‖ away.
    found = torch.minimum(found, torch.linalg.vector_norm(inner, dim=-1))
    certified = certified_radii(small, signs, inner, y, own, found, bins=spec.bins)
    unit, c = _unit(task), HeadGroupPoint
    columns: dict[str, Tensor] = {
        c.label: label,
        c.law: groups.law(label),
        c.radius: found / unit,
        c.certified: certified / unit,
    }
    lists = {name: values.tolist() for name, values in columns.items()}
    rows: Rows = [{c.point: i, **{k: v[i] for k, v in lists.items()}} for i in range(len(label))]
    outputs, everyone = multiclass.logits(head, task.test.x), task.test.cluster
    right = multiclass.readout(outputs, signs) * _sides(groups, everyone, x.dtype) > 0
    exact = outputs.argmax(-1) == groups.groups(everyone)
    return rows, {"w": head.w, "clean": torch.stack([right, exact]).double().mean(-1)}


def medians(by_count: Mapping[int, Rows], clean: Mapping[int, Sequence[float]]) -> Rows:
    """A row for each number of groups, of one seed's points."""
    c = HeadGroupPoint
    together = zip(*by_count.values(), strict=True)
    shared = [i for i, rows in enumerate(together) if all(row[c.radius] > 0 for row in rows)]

    def middle(rows: Rows, key: str) -> float:
        return median([rows[i][key] for i in shared])

    return [
        {
            HeadGroupNet.count: count,
            HeadGroupNet.clean: clean[count][0],
            HeadGroupNet.clean_own: clean[count][1],
            HeadGroupNet.shared: len(shared),
            HeadGroupNet.law: middle(rows, c.law),
            HeadGroupNet.radius: middle(rows, c.radius),
            HeadGroupNet.certified: middle(rows, c.certified),
        }
        for count, rows in by_count.items()
    ]


def _average(
    spec: EmbeddingGranularity, task: Task, halves: LabelGroups, w: Tensor
) -> tuple[Rows, dict[str, Tensor]]:
    """The proofs' direction against the exact radius on the head of two labels."""
    x, label = task.test.x[: spec.points], task.test.cluster[: spec.points]
    y, h = _sides(halves, label, x.dtype), spec.each
    a = torch.cat([torch.full((h,), 1 / h), torch.full((h,), -1 / h)]).to(w)
    net = TwoLayer(w, torch.zeros_like(a), a)
    sides = _sides(halves, torch.arange(len(task.features)), x.dtype)
    direction = -y[:, None] * torch.nn.functional.normalize(sides @ task.features, dim=-1)
    exact, along, unit = exact_radii(net, x, y), flip_along(net, x, y, direction), _unit(task)
    right = exact.correct & exact.upper.isfinite() & along.isfinite() & (exact.upper > 0)
    cosine = (exact.delta * direction).sum(-1) / exact.upper
    c = AverageAttack
    return [
        {
            c.point: i,
            c.label: int(label[i]),
            c.exact: float(exact.upper[i]) / unit,
            c.along: float(along[i]) / unit,
            c.ratio: float(along[i] / exact.upper[i]),
            c.cosine: float(cosine[i]),
        }
        for i in right.nonzero()[:, 0].tolist()
    ], {}


def run_seed(spec: EmbeddingGranularity, task: Task, seed: int, folder: Folder) -> Rows:
    """Every grouping's head, and the averaging direction on the coarsest."""
    points: dict[int, Rows] = {}
    clean: dict[int, Sequence[float]] = {}
    for groups in spec.groups():
        make = partial(_head, spec, task, groups, seed)
        found = folder.once("points", make, count=groups.count, seed=seed)
        points[groups.count], clean[groups.count] = found.rows, found.tensors["clean"].tolist()
        if groups.count == 2:
            attack = partial(_average, spec, task, groups, found.tensors["w"])
            folder.once("average", attack, seed=seed)
    rows = medians(points, clean)
    for row in rows:
        kept = {key: value for key, value in row.items() if key != HeadGroupNet.count}
        folder.add("net", [kept], count=row[HeadGroupNet.count], seed=seed)
    return rows


def over_seeds(values: Sequence[float]) -> Json:
    """Mean, Student's interval, and each seed's value."""
    return {**as_fact(mean_interval(values)), "by_seed": list(values)}


def summarised(by_seed: Sequence[Rows]) -> Json:
    """Medians over seeds for each number of groups, and the slope over the law."""
    c, found = HeadGroupNet, {}
    for rows in zip(*by_seed, strict=True):
        found[f"G = {rows[0][c.count]}"] = {
            str(key): over_seeds([row[key] for row in rows])
            for key in (c.clean, c.clean_own, c.law, c.radius, c.certified)
        }
    slopes = [slope([row[c.law] for row in rows], [row[c.radius] for row in rows]) for rows in by_seed]
    return {"groups": found, "slope": over_seeds(slopes)}


def run(spec: EmbeddingGranularity, folder: Folder) -> Json:
    """Embed, train and measure, seed by seed."""
    encoder, k = load_encoder(spec.encoder, spec.side), len(dataset(spec.dataset).classes)
    by_seed, ratios = [], []
    for seed in spec.seeds:
        train, test = embeddings(spec, encoder, seed, folder)
        task = make_task(train, test, spec.kind, k, spec.squared_norm)
        by_seed.append(run_seed(spec, task, seed, folder))
        rows = folder.part("average", seed=seed).read().rows
        ratios.append(median([row[AverageAttack.ratio] for row in rows]))
    return {
        **summarised(by_seed),
        "average_over_exact": over_seeds(ratios),
        "encoder": spec.encoder,
        "weights_sha256": encoder.sha256,
        "data_sha256": data_hashes(spec.dataset),
    }


def size(spec: EmbeddingGranularity) -> Size:
    """The embeddings of a seed, the images of a batch in the encoder, and the heads."""
    images, neurons = spec.train + spec.test, spec.each * sum(groups.count for groups in spec.groups())
    heads = spec.train * spec.steps * EMBEDDED * neurons
    return Size(images * EMBEDDED + IN_ENCODER, len(spec.seeds) * (images * IN_ENCODER + heads))


EXPERIMENTS = (
    Experiment(
        name="embedding-granularity",
        paper="fa",
        shows="two-layer heads on embeddings of real images, labels in G groups read as two: radii against "
        "√((s₊ + s₋)/(s_own + s_rival)), and the averaging direction as an attack",
        spec=EmbeddingGranularity,
        run=run,
        takes={
            "quick": "15 s",
            "cpu": "4 min, 2 of them for embeddings that are kept",
            "paper": "not measured; needs CLIP's weights in the data folder",
        },
        highlights=(
            Highlight("groups/*/radius", "median radius found, {}"),
            Highlight("groups/*/law", "… predicted, in units of that for two labels, {}"),
        ),
        size=size,
        columns={"points": HeadGroupPoint, "net": HeadGroupNet, "average": AverageAttack},
        data=lambda spec: (spec.dataset, spec.encoder),
    ),
)
