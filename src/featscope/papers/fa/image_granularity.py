"""`image-granularity`: networks on real images, trained with labels in G groups of classes and read as two.

For clusters a radius of √(d/(s_own + s_rival)) is predicted and found (`clusters-granularity`). Here the same
is asked of image networks: for each seed one network for each grouping, with the same images in the same
order and the same first weights except the last layer's, attacked by PGD on the margin of the 2-class
read-out. Radii are compared on the images that all networks of a seed read right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import torch
from pydantic import model_validator
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_network import ImageNetwork, networks_needed, trained
from featscope.experiments.image_training import activations, data_hashes, training_size
from featscope.experiments.spec import Experiment, Request, Spec
from featscope.images.catalogue import dataset
from featscope.images.datasets import ImageBatch, load
from featscope.papers.fa.fine_labels_duel import Duel
from featscope.papers.fa.label_groups import LabelGroups, label_groups, median, slope

#: G = 2, 5 (3+2 against 2+2+1) and 10
TENS = ("halves", "0,1,2|3,4|5,6|7,8|9", "each")


class ImageGranularity(Spec):
    """The network that is trained with each grouping of the labels, and the attack."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "images": 40,
            "steps": 5,
            "network.train": 1000,
            "network.test": 200,
            "network.attacked": 0,
            "network.net.blocks": [1, 1],
            "network.training.epochs": 3,
            "network.training.batch_size": 32,
        },
        "paper": {
            "images": 1000,
            "steps": 40,
            "network.train": 60_000,
            "network.test": 10_000,
            "network.attacked": 0,
            "network.net.width": 64,
            "network.training.epochs": 100,
            "network.training.schedule": {"shape": "constant", "peak": 0.001},
            "network.snapshots": 1000,
        },
    }

    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), "seeds, one network for each grouping")
    groupings: tuple[str, ...] = setting(TENS, "labels, from two groups to finer ones inside them")
    network: ImageNetwork = setting(ImageNetwork(), "the network; its own labels are not used")
    images: int = setting(200, "test images that are attacked, the same for every seed", ge=10)
    steps: int = setting(20, "steps of PGD at each radius", ge=1)
    reach: float = setting(3.0, "largest ℓ2 radius that is tried", gt=0)
    radii: int = setting(60, "radii that are tried, evenly up to the largest", ge=2)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.groups()
        given = self.network.seeds
        rule = "seeds of the network are those of the experiment"
        require(given == (0,), rule, f"{given}", "use seeds")
        return self

    def groups(self) -> dict[str, LabelGroups]:
        """The groupings by their text."""
        found = label_groups(self.groupings, len(dataset(self.network.dataset).classes))
        return dict(zip(self.groupings, found, strict=True))

    def trained_with(self, text: str) -> ImageNetwork:
        """The network with the labels of a grouping."""
        count = self.groups()[text].count
        return self.network.replace(grouping=text, net=self.network.net.replace(classes=count))

    def grid(self) -> list[float]:
        """0 and the radii that are tried."""
        return [self.reach * i / self.radii for i in range(self.radii + 1)]


class ImageGroupPoint(Columns):
    """One row for each number of groups, seed and image."""

    count = column("G, number of groups")
    seed = column("the networks' seed")
    point = column("index among the attacked images")
    label = column("the class")
    law = column("√((s₊ + s₋)/(s_own + s_rival)): the predicted radius in units of that for two labels")
    radius = column("smallest radius tried at which PGD flips the 2-class decision; the largest if none does")
    own = column("1 where the group is read right, else 0")


class ImageGroupNet(Columns):
    """One row for each number of groups and seed; medians over images that all networks of the seed read
    right."""

    count = column("G, number of groups")
    seed = column("the networks' seed")
    clean = column("share of images whose half is read right")
    clean_own = column("share of images whose group is read right")
    shared = column("images that all networks of the seed read right")
    law = column("median predicted radius in units of that for two labels")
    radius = column("median attacked radius, an upper bound of the true one")


def _points(spec: ImageGranularity, text: str, seed: int, folder: Folder) -> tuple[Rows, dict[str, Tensor]]:
    groups, net = spec.groups()[text], trained(spec.trained_with(text), seed, folder).last
    test = load(spec.network.dataset, "test")
    batch = test.batch(test.subset(min(spec.images, len(test)), 0))
    own = groups.groups(batch.y)
    # The duel's 10-class network is the one of these groups, read as two.
    duel = Duel(net, net, groups.of_half, ImageBatch(batch.x, own), spec.steps, seed)
    everyone, reads = torch.arange(len(own)), (duel.readout(fast=True), duel.readout())
    fallen = duel.fooled_at(*reads, everyone, spec.grid(), "granularity").clamp(max=spec.reach)
    with torch.no_grad():
        right = net(batch.x).argmax(-1) == own
    law, c = groups.law(batch.y), ImageGroupPoint
    columns: dict[str, Tensor] = {c.label: batch.y, c.law: law, c.radius: fallen, c.own: right.long()}
    lists = {name: values.tolist() for name, values in columns.items()}
    return [{c.point: i, **{k: v[i] for k, v in lists.items()}} for i in range(len(own))], {}


def medians(by_count: Mapping[int, Rows]) -> Rows:
    """A row for each number of groups, of one seed's points."""
    c = ImageGroupPoint
    shared = [
        i for i, rows in enumerate(zip(*by_count.values(), strict=True)) if all(r[c.radius] > 0 for r in rows)
    ]

    def middle(rows: Rows, key: str) -> float:
        return median([rows[i][key] for i in shared])

    return [
        {
            ImageGroupNet.count: count,
            ImageGroupNet.clean: sum(row[c.radius] > 0 for row in rows) / len(rows),
            ImageGroupNet.clean_own: sum(row[c.own] for row in rows) / len(rows),
            ImageGroupNet.shared: len(shared),
            ImageGroupNet.law: middle(rows, c.law),
            ImageGroupNet.radius: middle(rows, c.radius),
        }
        for count, rows in by_count.items()
    ]


def summarised(by_seed: Sequence[Rows]) -> Json:
    """Medians over seeds for each number of groups, and the slope over the law."""
    c, found = ImageGroupNet, {}
    for rows in zip(*by_seed, strict=True):
        found[f"G = {rows[0][c.count]}"] = {
            str(key): {
                **as_fact(mean_interval([row[key] for row in rows])),
                "by_seed": [row[key] for row in rows],
            }
            for key in (c.clean, c.clean_own, c.law, c.radius)
        }
    slopes = [slope([row[c.law] for row in rows], [row[c.radius] for row in rows]) for rows in by_seed]
    return {"groups": found, "slope": {**as_fact(mean_interval(slopes)), "by_seed": slopes}}


def run(spec: ImageGranularity, folder: Folder) -> Json:
    """The networks of each seed under attack."""
    by_seed = []
    for seed in spec.seeds:
        points = {
            groups.count: folder.once(
                "points", partial(_points, spec, text, seed, folder), count=groups.count, seed=seed
            ).rows
            for text, groups in spec.groups().items()
        }
        rows = medians(points)
        for row in rows:
            folder.add(
                "net",
                [{k: v for k, v in row.items() if k != ImageGroupNet.count}],
                count=row["count"],
                seed=seed,
            )
        by_seed.append(rows)
    return {**summarised(by_seed), "data_sha256": data_hashes(spec.network.dataset)}


def needed(spec: ImageGranularity) -> Mapping[str, Request]:
    """A network for each grouping and seed."""
    return networks_needed((spec.trained_with(text), seed) for text in spec.groupings for seed in spec.seeds)


def size(spec: ImageGranularity) -> Size:
    """One network, and the attacks, which bisect the radii."""
    looks = spec.images * spec.steps * spec.radii.bit_length() * activations(spec.network.net)
    return Size(training_size(spec.network).numbers, len(spec.seeds) * len(spec.groupings) * looks)


EXPERIMENTS = (
    Experiment(
        name="image-granularity",
        paper="fa",
        shows="networks on real images trained with labels in G groups and read as two: attacked radii "
        "against √((s₊ + s₋)/(s_own + s_rival))",
        spec=ImageGranularity,
        run=run,
        takes={
            "quick": "30 s",
            "cpu": "10 min, and 10 min for networks that other experiments share",
            "paper": "not measured; a GPU job",
        },
        highlights=(
            Highlight("groups/*/radius", "median attacked radius, {}"),
            Highlight("groups/*/law", "… predicted, in units of that for two labels, {}"),
        ),
        size=size,
        columns={"points": ImageGroupPoint, "net": ImageGroupNet},
        data=lambda spec: (spec.network.dataset,),
        needs=needed,
    ),
)
