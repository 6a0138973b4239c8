"""`image-separation`: how far apart images of different labels are, and what that allows any classifier.

The closest pair of different labels is found exactly over whole data sets, train against train and test
against train, in ℓ∞. Beside it: the distance from single test images to their nearest training image of
another label, and the matching bound on any classifier over ε.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.errors import require, unknown
from featscope.core.settings import RadiusList, setting
from featscope.core.store import Folder, Json, Rows
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_training import data_hashes
from featscope.experiments.spec import Experiment, Spec, require_one_seed
from featscope.images.catalogue import DATASETS
from featscope.images.datasets import Images, Split, load
from featscope.images.separation import closest, nearest_distances
from featscope.images.twins import twins
from featscope.laws.separation import conflict
from featscope.papers.ep.printed import SEPARATIONS

#: whose images are compared with the training images, and the label of that pair of sets
PAIRS: dict[Split, str] = {"train": "train-train", "test": "test-train"}


class Closest(Columns):
    """One row for each data set and pair of sets: the closest two images of different labels."""

    dataset = column("the data set")
    seed = column("seed of the subsets")
    pair = column("train-train or test-train")
    separation = column("ℓ∞ distance of the pair, pixels in [0, 1]")
    bytes = column("the same in bytes")
    left = column("index of the first image in its set")
    right = column("index of the second image in the training set")
    pairs = column("pairs of different labels there are")
    measured = column("pairs whose distance was measured; the others were ruled out")
    whole = column("whether both sets were searched as a whole")
    eps = column("the talk's ε for the data set, if it has one")
    printed = column("the talk's separation, if it has one")


class Apart(Columns):
    """One row for each data set and pair of sets: the closest pair among images that are in no pair of
    identical ones with different labels."""

    dataset = column("the data set")
    seed = column("seed of the subsets")
    pair = column("train-train or test-train")
    twins = column("pairs of identical images with different labels")
    left_out = column("images that are in such a pair")
    separation = column("ℓ∞ distance of the closest pair without them, pixels in [0, 1]")
    bytes = column("the same in bytes")
    whole = column("whether both sets were searched as a whole")
    published = column("whether the files are the published ones, by their hash")
    eps = column("the talk's ε for the data set, if it has one")
    printed = column("the talk's separation, if it has one")


class Nearest(Columns):
    """One row for each data set and single test image."""

    dataset = column("the data set")
    seed = column("seed of the subsets")
    query = column("index of the test image")
    nearest = column("ℓ∞ distance to the nearest training image of another label")


class Matching(Columns):
    """One row for each data set and ε."""

    dataset = column("the data set")
    seed = column("seed of the subsets")
    eps = column("the radius")
    bound = column("bound on any classifier's robust accuracy on the matched test images")
    share = column("share of the images that are matched")
    points = column("test images")


class ImageSeparation(Spec):
    """Which data sets, how much of them, and the sizes of the subsets for nearest distances and matching."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"train": 2000, "test": 400, "queries": 20, "matched": 200},
        "paper": {"queries": 1000, "matched": 4000, "datasets": ["mnist", "cifar10", "svhn"]},
    }

    datasets: tuple[str, ...] = setting(("mnist", "cifar10"), "data sets")
    train: int | None = setting(None, "training images, drawn by seed; all if not given", ge=10)
    test: int | None = setting(None, "test images, drawn by seed; all if not given", ge=10)
    queries: int = setting(100, "test images whose nearest training image of another label is measured", ge=1)
    matched: int = setting(1000, "test images among which pairs are matched", ge=10)
    radii: RadiusList = setting(
        (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.425, 0.45, 0.475, 0.5),
        "radii at which separated pairs are counted",
    )
    seeds: tuple[int, ...] = (0,)

    @property
    def seed(self) -> int:
        """The seed of the subsets; whole sets need none."""
        return require_one_seed(self, "give one seed, and raise queries or matched for larger subsets")

    def model_post_init(self, context: object) -> None:
        """Known data sets, radii above 0 and one seed only."""
        self.seed  # noqa: B018 - refuses several
        for name in self.datasets:
            if name not in DATASETS:
                raise unknown("data set", name, DATASETS)
        require(len(self.datasets) > 0, "at least one data set is needed", "datasets=()", "name one")
        require(
            min(self.radii, default=1.0) > 0,
            "radii must be positive",
            f"radii={self.radii}",
            "drop the others",
        )


def _chosen(images: Images, n: int | None, seed: int) -> tuple[Any, torch.Tensor]:
    """Pixels and indices of the part that is used; all are used in place."""
    if n is None or n >= len(images):
        return images.pixels, torch.arange(len(images))
    index = images.subset(n, seed)
    return images.pixels[index.numpy()], index


def _closest(
    spec: ImageSeparation, name: str, other: Split, folder: Folder
) -> tuple[Rows, dict[str, Tensor]]:
    """One cell of the table, with the pair that attains it."""
    seed, told = spec.seed, folder.part("closest", dataset=name, pair=PAIRS[other])
    train = load(name, "train")
    pixels, index = _chosen(train, spec.train, seed)
    right = (pixels, train.labels[index.numpy()])
    if other == "train":
        queries, q_index, left = train, index, None
    else:
        queries = load(name, "test")
        q_pixels, q_index = _chosen(queries, spec.test, seed)
        left = (q_pixels, queries.labels[q_index.numpy()])
    found = closest(left or right, right if left else None, lambda done, total: told.report(done, total, {}))
    pair = [int(q_index[found.left]), int(index[found.right])]
    row: dict[str, Any] = {
        Closest.seed: seed,
        Closest.separation: found.distance / 255,
        Closest.bytes: found.distance,
        Closest.left: pair[0],
        Closest.right: pair[1],
        Closest.pairs: found.pairs,
        Closest.measured: found.measured,
        Closest.whole: len(index) == len(train) and len(q_index) == len(queries),
    }
    if name in SEPARATIONS:
        row |= {Closest.eps: SEPARATIONS[name].eps, Closest.printed: getattr(SEPARATIONS[name], other)}
    images = {"left": queries.pixels[pair[0]], "right": train.pixels[pair[1]]}
    labels = torch.tensor([int(queries.labels[pair[0]]), int(train.labels[pair[1]])])
    return [row], {**{k: torch.from_numpy(np.array(v)) for k, v in images.items()}, "labels": labels}


def _apart(
    spec: ImageSeparation, name: str, other: Split, met: dict[str, Any]
) -> tuple[Rows, dict[str, Tensor]]:
    """The same cell without identical images of different labels; only a distance of 0 can have any."""
    c, train, queries = Apart, load(name, "train"), load(name, other)
    row = {key: met[key] for key in met if key in c.all() and key != Closest.dataset}
    row |= {c.twins: 0, c.left_out: 0, c.published: train.published}
    if met[Closest.bytes] == 0:
        sides = []
        for images, n in ((queries, spec.train if other == "train" else spec.test), (train, spec.train)):
            pixels, index = _chosen(images, n, spec.seed)
            sides.append((pixels, images.labels[index.numpy()]))
        right = None if other == "train" else sides[1]
        equal = twins(sides[0], right)
        kept = [
            (np.delete(pixels, gone, 0), np.delete(labels, gone))
            for (pixels, labels), gone in zip(sides, (equal.left, equal.right), strict=True)
        ]
        found = closest(kept[0], None if other == "train" else kept[1])
        gone = len(equal.left) + (0 if other == "train" else len(equal.right))
        row |= {c.twins: equal.pairs, c.left_out: gone}
        row |= {c.bytes: found.distance, c.separation: found.distance / 255}
    return [row], {}


def _nearest(spec: ImageSeparation, name: str) -> tuple[Rows, dict[str, Tensor]]:
    """Distances from single test images to the nearest training image of another label."""
    c, seed = Nearest, spec.seed
    train, test = load(name, "train"), load(name, "test")
    pixels, index = _chosen(train, spec.train, seed)
    picked = test.subset(min(spec.queries, len(test)), seed)
    queries = (test.pixels[picked.numpy()], test.labels[picked.numpy()])
    found = nearest_distances(queries, (pixels, train.labels[index.numpy()]))
    pairs = zip(picked, found, strict=True)
    return [{c.seed: seed, c.query: int(q), c.nearest: int(d) / 255} for q, d in pairs], {}


def _matching(spec: ImageSeparation, name: str) -> tuple[Rows, dict[str, Tensor]]:
    """The bound on any classifier's robust accuracy on a subset of the test set, over ε."""
    test = load(name, "test")
    x, y = test.batch(test.subset(min(spec.matched, len(test)), spec.seed), torch.float64)
    rows: Rows = []
    for eps in spec.radii:
        # A byte is k/255, whose rounding must not decide whether a distance of exactly 2ε counts.
        found = conflict(x, y, "Linf", eps + 1e-9)
        row: dict[str, Any] = {Matching.seed: spec.seed, Matching.eps: eps, Matching.bound: found.bound}
        rows.append(row | {Matching.share: found.share, Matching.points: len(y)})
    return rows, {}


def _line(spec: ImageSeparation, name: str, folder: Folder) -> Json:
    """A line of the talk's table with all that is measured of a data set, each part made once."""
    printed = SEPARATIONS.get(name)
    line: Json = {"dataset": name, "eps": printed.eps if printed else None, "whole": True}
    for other, pair in PAIRS.items():
        made = folder.once("closest", partial(_closest, spec, name, other, folder), dataset=name, pair=pair)
        row = made.rows[0]
        line[f"{other}_train"] = row[Closest.separation]
        line["whole"] = line["whole"] and row[Closest.whole]
        line[f"{other}_train_printed"] = getattr(printed, other) if printed else None
        apart = folder.once("apart", partial(_apart, spec, name, other, row), dataset=name, pair=pair).rows[0]
        line[f"{other}_train_identical"] = apart[Apart.twins]
        line[f"{other}_train_without_identical"] = apart[Apart.separation]
    folder.once("nearest", partial(_nearest, spec, name), dataset=name)
    folder.once("matching", partial(_matching, spec, name), dataset=name)
    return line


def run(spec: ImageSeparation, folder: Folder) -> Json:
    """All cells of the table, part by part, so that an interrupted run goes on."""
    hashes = {name: data_hashes(name) for name in spec.datasets}
    absent = [
        {
            "dataset": name,
            "eps": line.eps,
            "train_train_printed": line.train,
            "test_train_printed": line.test,
            "measured": "not available",
        }
        for name, line in SEPARATIONS.items()
        if name not in spec.datasets
    ]
    table = [_line(spec, name, folder) for name in spec.datasets]
    return {"table": table, "not_measured": absent, "data_sha256": hashes}


#: of a colour image of side 32
PIXELS = 3072


def size(spec: ImageSeparation) -> Size:
    """Whole data sets, and the distances of a block of images to all."""
    train, test = spec.train or 60_000, spec.test or 10_000
    held = (train + test) * PIXELS + spec.matched * spec.matched
    return Size(held, len(spec.datasets) * len(spec.seeds) * (train * train + train * test) * PIXELS)


EXPERIMENTS = (
    Experiment(
        name="image-separation",
        paper="ep",
        shows="the talk's separation table, exact over whole data sets, and the bound it puts on any "
        "classifier",
        spec=ImageSeparation,
        run=run,
        takes={"quick": "10 s", "cpu": "1 min", "paper": "not measured; needs SVHN in the data folder"},
        highlights=(
            Highlight("table/*/train_train", "distance of training images of different labels, {}"),
            Highlight("table/*/train_train_printed", "… as printed, {}"),
            Highlight("table/*/train_train_identical", "… identical pairs of different labels, {}"),
            Highlight("table/*/train_train_without_identical", "… the distance without them, {}"),
            Highlight("table/*/test_train", "distance of test from training images of another label, {}"),
            Highlight("table/*/test_train_printed", "… as printed, {}"),
        ),
        size=size,
        revision=4,
        columns={"closest": Closest, "apart": Apart, "nearest": Nearest, "matching": Matching},
        data=lambda spec: spec.datasets,
    ),
)
