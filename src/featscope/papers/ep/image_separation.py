"""`image-separation`: how far apart images of different labels are (the talk's table), and what that allows any classifier.

The closest pair of different labels is found exactly over whole data sets, train against train and test against train, in ℓ∞. Beside it: the
distance from single test images to their nearest training image of another label, and the matching bound on any classifier over ε.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field

from featscope.core.errors import require, unknown
from featscope.core.store import Folder, Json, Part, Rows
from featscope.experiments.spec import Experiment, Spec
from featscope.images.catalogue import DATASETS
from featscope.images.datasets import Images, load
from featscope.images.separation import closest, nearest
from featscope.laws.separation import conflict


class Printed(NamedTuple):
    """A line of the talk's table: ε, train-train and test-train separation."""

    eps: float
    train: float
    test: float


#: the talk's table; ResImageNet (ImageNet at reduced size) is in no source that can be checked here
TALK = {
    "mnist": Printed(0.1, 0.737, 0.812),
    "cifar10": Printed(0.031, 0.212, 0.220),
    "svhn": Printed(0.031, 0.094, 0.110),
    "resimagenet": Printed(0.005, 0.180, 0.224),
}


class ImageSeparation(Spec):
    """Which data sets, how much of them, and the sizes of the subsets for nearest distances and for the matching bound."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"train": 2000, "test": 400, "queries": 20, "matched": 200},
        "paper": {"queries": 1000, "matched": 4000, "datasets": ["mnist", "cifar10", "svhn"]},
    }

    datasets: tuple[str, ...] = ("mnist", "cifar10")
    train: int | None = Field(default=None, ge=10, description="training images, drawn by seed; all if not given")
    test: int | None = Field(default=None, ge=10, description="test images, drawn by seed; all if not given")
    queries: int = Field(default=100, ge=1, description="test images whose nearest training image of another label is measured")
    matched: int = Field(default=1000, ge=10, description="test images among which pairs are matched")
    radii: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.425, 0.45, 0.475, 0.5)
    seeds: tuple[int, ...] = (0,)

    def model_post_init(self, context: object) -> None:
        """Known data sets and radii above 0 only."""
        for name in self.datasets:
            if name not in DATASETS:
                raise unknown("data set", name, DATASETS)
        require(len(self.datasets) > 0, "at least one data set is needed", "datasets=()", "name one")
        require(min(self.radii, default=1.0) > 0, "radii must be positive", f"radii={self.radii}", "drop the others")


def _chosen(images: Images, n: int | None, seed: int) -> tuple[Any, torch.Tensor]:
    """Pixels and indices of the part that is used; all are used in place."""
    if n is None or n >= len(images):
        return images.pixels, torch.arange(len(images))
    index = images.subset(n, seed)
    return images.pixels[index.numpy()], index


def _closest(spec: ImageSeparation, name: str, other: str, part: Part) -> None:
    """One cell of the table, with the pair that attains it."""
    if part.load() is not None:
        return
    seed = spec.seeds[0]
    train = load(name, "train")
    pixels, index = _chosen(train, spec.train, seed)
    right = (pixels, train.labels[index.numpy()])
    if other == "train":
        queries, q_index, left = train, index, None
    else:
        queries = load(name, "test")
        q_pixels, q_index = _chosen(queries, spec.test, seed)
        left = (q_pixels, queries.labels[q_index.numpy()])
    found = closest(right if left is None else left, None if left is None else right, lambda done, total: part.report(done, total, {}))
    pair = [int(q_index[found.left]), int(index[found.right])]
    row = {
        "dataset": name,
        "pair": f"{other}-train",
        "separation": found.distance / 255,
        "bytes": found.distance,
        "left": pair[0],
        "right": pair[1],
        "pairs": found.pairs,
        "measured": found.measured,
        "whole": len(index) == len(train) and len(q_index) == len(queries),
    }
    images = {"left": queries.pixels[pair[0]], "right": train.pixels[pair[1]]}
    labels = torch.tensor([int(queries.labels[pair[0]]), int(train.labels[pair[1]])])
    part.save(0, True, [row], {**{k: torch.from_numpy(np.array(v)) for k, v in images.items()}, "labels": labels})


def _nearest(spec: ImageSeparation, name: str, part: Part) -> None:
    """Distances from single test images to the nearest training image of another label."""
    if part.load() is not None:
        return
    seed = spec.seeds[0]
    train, test = load(name, "train"), load(name, "test")
    pixels, index = _chosen(train, spec.train, seed)
    picked = test.subset(min(spec.queries, len(test)), seed)
    found = nearest((test.pixels[picked.numpy()], test.labels[picked.numpy()]), (pixels, train.labels[index.numpy()]))
    rows: Rows = [{"dataset": name, "query": int(q), "nearest": int(d) / 255} for q, d in zip(picked, found, strict=True)]
    part.save(0, True, rows, {})


def _matching(spec: ImageSeparation, name: str, part: Part) -> None:
    """The bound on any classifier's robust accuracy on a subset of the test set, over ε."""
    if part.load() is not None:
        return
    test = load(name, "test")
    x, y = test.batch(test.subset(min(spec.matched, len(test)), spec.seeds[0]), torch.float64)
    rows: Rows = []
    for eps in spec.radii:
        # A byte is k/255, whose rounding must not decide whether a distance of exactly 2ε counts.
        found = conflict(x, y, "Linf", eps + 1e-9)
        rows.append({"dataset": name, "eps": eps, "bound": found.bound, "share": found.share, "points": len(y)})
    part.save(0, True, rows, {})


def run(spec: ImageSeparation, folder: Folder) -> Json:
    """All cells of the table, part by part, so that an interrupted run goes on."""
    table: list[Json] = []
    data: Json = {}
    for name in spec.datasets:
        data[name] = {split: load(name, split).sha256 for split in ("train", "test")}
    for name in spec.datasets:
        line: Json = {"dataset": name, "eps": TALK[name].eps if name in TALK else None}
        for other in ("train", "test"):
            part = folder.part(f"closest/{name}/{other}")
            _closest(spec, name, other, part)
            saved = part.load()
            row = saved.rows[0] if saved else {}
            line[f"{other}_train"] = row["separation"]
            line["whole"] = row["whole"] and line.get("whole", True)
            line[f"{other}_train_printed"] = getattr(TALK[name], other) if name in TALK else None
        _nearest(spec, name, folder.part(f"nearest/{name}"))
        _matching(spec, name, folder.part(f"matching/{name}"))
        table.append(line)
    absent = [
        {"dataset": name, "eps": t.eps, "train_train_printed": t.train, "test_train_printed": t.test, "measured": "not available"}
        for name, t in TALK.items()
        if name not in spec.datasets
    ]
    return {"table": table, "not_measured": absent, "data_sha256": data}


EXPERIMENTS = (
    Experiment(
        name="image-separation",
        paper="ep",
        shows="the talk's separation table, exact over whole data sets, and the bound it puts on any classifier",
        spec=ImageSeparation,
        run=run,
        takes={"quick": "10 s", "cpu": "1 min", "paper": "not measured; needs SVHN in the data folder"},
        needs_data=("mnist", "cifar10"),
    ),
)
