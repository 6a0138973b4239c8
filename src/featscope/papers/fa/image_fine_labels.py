"""`image-fine-labels` (FA §6.2, Figure 3 middle, right): are 10-class labels more robust than 2-class ones?

For each seed two networks that differ in their labels alone: the same images in the same order, the same
first weights except those of the last layer. The 10-class network is read as a 2-class one, and attacked by
its own loss (every iterate counted, or the last one only, which is standard PGD) and by the read-out's
margin. On the 2-class network both objectives have the same normalised gradient, so its curve is that of
either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.settings import REQUIRED, RadiusList, setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_network import (
    CIFAR_NET,
    CIFAR_STANDARD,
    ImageNetwork,
    networks_needed,
    trained,
)
from featscope.experiments.image_training import activations, data_hashes, training_size
from featscope.experiments.spec import Experiment, Request, Spec
from featscope.images.datasets import load
from featscope.images.groupings import grouping
from featscope.papers.fa.fine_labels_columns import CURVES, PAIRS, Check, FineLabelCurve, Point
from featscope.papers.fa.fine_labels_duel import Duel
from featscope.papers.fa.printed import FIGURE_3

DatasetName = Literal["mnist", "cifar10"]


class FineTask(Value):
    """The 10-class network of one data set, the curve's radii, and those at which stronger attacks look."""

    network: ImageNetwork = setting(REQUIRED, "the 10-class network")
    radii: RadiusList = setting(REQUIRED, "ℓ2 radii of the curve", letter="ε")
    checked: RadiusList = setting(REQUIRED, "radii at which stronger attacks look again")

    def model_post_init(self, context: object) -> None:
        """The curve starts at 0, which is clean accuracy, and stronger attacks look at radii of the curve."""
        rising = len(self.radii) >= 2 and self.radii[0] == 0 and all(a < b for a, b in pairwise(self.radii))
        require(rising, "radii must ascend from 0", f"radii={self.radii}", "start with 0 and sort them")
        among = set(self.checked) <= set(self.radii[1:])
        require(
            among,
            "checked radii must be among the positive radii",
            f"checked={self.checked}",
            "choose some of radii",
        )
        require(
            self.network.grouping == "each",
            "the network has fine labels",
            f"grouping={self.network.grouping}",
            "set coarse instead",
        )
        require(
            self.network.seeds == (0,),
            "seeds of the network are those of the experiment",
            f"{self.network.seeds}",
            "use seeds",
        )


def _quick(name: str, radii: Sequence[float]) -> dict[str, Any]:
    """A network that is hardly trained, and few radii."""
    small = {
        "train": 1000,
        "test": 200,
        "attacked": 0,
        "net.blocks": [1, 1],
        "training.epochs": 3,
        "training.batch_size": 32,
    }
    return {f"{name}.network.{key}": value for key, value in small.items()} | {
        f"{name}.radii": radii,
        f"{name}.checked": [radii[1]],
    }


def _paper(name: str, train: int, training: Mapping[str, Any]) -> dict[str, Any]:
    """§6.2's recipe; one image in a hundred is held out, because the loop wants some."""
    whole = {
        "train": train,
        "test": 10_000,
        "attacked": 0,
        "net.width": 64,
        "snapshots": 1000,
        "training.held_out": 0.01,
    }
    return {f"{name}.network.{key}": value for key, value in whole.items()} | {
        f"{name}.network.training.{key}": value for key, value in training.items()
    }


class ImageFineLabels(Spec):
    """Networks, radii and attacks. The `cpu` networks are those that AT's tables use too.

    On CIFAR-10 they have hardly learned; `image-fine-labels-cifar10` has networks that have. The paper's
    recipe is the `paper` profile.
    """

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "images": 60,
            "steps": 5,
            "checked_images": 20,
            "queries": 20,
            **_quick("mnist", [0.0, 0.5, 1.0, 2.0]),
            **_quick("cifar10", [0.0, 0.2, 0.4, 0.8]),
        },
        "paper": {
            "seeds": [0, 1, 2, 3, 4],
            "images": 10_000,
            "steps": 40,
            "checked_images": 1000,
            "queries": 5000,
            **_paper("mnist", 60_000, {"epochs": 100, "schedule": {"shape": "constant", "peak": 0.001}}),
            # The text names no augmentation, but the accuracies that it prints are out of reach without.
            **_paper(
                "cifar10",
                50_000,
                {
                    "epochs": 200,
                    "schedule": {"shape": "cosine", "peak": 0.1},
                    "augment": {"shift": 4, "mirror": True},
                },
            ),
        },
    }

    seeds: tuple[int, ...] = setting(tuple(range(8)), "seeds, two networks each")
    datasets: tuple[DatasetName, ...] = setting(("mnist", "cifar10"), "data sets")
    coarse: str = setting("halves", "the 2-class labels: a grouping of the ten classes in two")
    images: int = setting(
        300, "test images that are attacked, classes in equal numbers, the same for every seed", ge=10
    )
    steps: int = setting(20, "steps of PGD at each radius", ge=1)
    checked_images: int = setting(100, "images that APGD and Square look at again, first seed", ge=1)
    queries: int = setting(500, "queries of Square for each image", ge=1)
    mnist: FineTask = setting(
        FineTask(network=ImageNetwork(), radii=tuple(r / 5 for r in range(11)), checked=(1.0, 1.6)),
        "network and radii on MNIST",
    )
    cifar10: FineTask = setting(
        FineTask(
            network=ImageNetwork(dataset="cifar10", train=5000, net=CIFAR_NET, training=CIFAR_STANDARD),
            radii=tuple(r / 10 for r in range(9)),
            checked=(0.2, 0.4),
        ),
        "network and radii on CIFAR-10",
    )

    def model_post_init(self, context: object) -> None:
        """Two groups, because the comparison is between 2-class decisions."""
        some = len(self.datasets) == len(set(self.datasets)) > 0
        require(some, "name at least one data set, each once", f"datasets={self.datasets}", "use mnist")
        groups = grouping(self.coarse)
        require(
            len(groups.parts) == 2,
            "the coarse labels must be two",
            f"{len(groups.parts)} groups",
            "use halves or parity",
        )
        covered = sum(len(part) for part in groups.parts)
        require(
            covered == 10,
            "the coarse labels must cover the ten classes",
            f"{covered} classes",
            "name every class",
        )

    def networks(self, name: DatasetName) -> dict[str, ImageNetwork]:
        """The two networks of a data set: fine labels, and coarse labels with everything else the same."""
        fine: ImageNetwork = getattr(self, name).network
        return {"fine": fine, "binary": fine.replace(grouping=self.coarse, net=fine.net.replace(classes=2))}


def area(radii: Sequence[float], heights: Sequence[float]) -> float:
    """∫ of a curve over the radius, by trapezia."""
    return float(
        torch.trapezoid(torch.tensor(heights, dtype=torch.float64), torch.tensor(radii, dtype=torch.float64))
    )


#: what a summary says of the checks
CHECKED = tuple(key for key in Check.all() if key not in (Check.dataset, Check.seed))


def _duel(spec: ImageFineLabels, name: DatasetName, seed: int, folder: Folder) -> Duel:
    """Both networks of one seed and the test images at which they are attacked."""
    nets = {label: trained(network, seed, folder).last for label, network in spec.networks(name).items()}
    test = load(name, "test")
    batch = test.batch(test.subset(min(spec.images, len(test)), 0))
    return Duel(nets["fine"], nets["binary"], grouping(spec.coarse), batch, spec.steps, seed)


def _points(duel: Duel, radii: Sequence[float]) -> tuple[Rows, dict[str, Tensor]]:
    """Where each image falls, as rows that people read and as the exact tensors."""
    found = duel.radii(radii)
    labels, groups = duel.data.y.tolist(), duel.coarse.tolist()
    rows: Rows = [
        {
            Point.point: i,
            Point.label: labels[i],
            Point.group: groups[i],
            **{key: round(float(v[i]), 6) for key, v in found.items()},
        }
        for i in range(len(labels))
    ]
    return rows, found


def _curve(
    duel: Duel, radii: Sequence[float], fallen: Mapping[str, Tensor]
) -> tuple[Rows, dict[str, Tensor]]:
    """Shares of images that withstand each attack, over the radii."""
    shares = [{key: float((v > r).double().mean()) for key, v in fallen.items()} for r in radii]
    return [
        {FineLabelCurve.radius: r, **share, **duel.last(r)} for r, share in zip(radii, shares, strict=True)
    ], {}


def _checks(
    spec: ImageFineLabels, duel: Duel, radii: Sequence[float], fallen: Mapping[str, Tensor]
) -> tuple[Rows, dict[str, Tensor]]:
    """Stronger attacks at the checked radii."""
    return [row for r in radii for row in duel.check(r, fallen, spec.checked_images, spec.queries)], {}


def _one(spec: ImageFineLabels, name: DatasetName, seed: int, folder: Folder) -> None:
    """Both networks of one seed, attacked; finished parts are not made again."""
    task: FineTask = getattr(spec, name)
    duel = _duel(spec, name, seed, folder)
    where: dict[str, Any] = {"dataset": name, "seed": seed}
    fallen = folder.once("points", partial(_points, duel, task.radii), **where).tensors
    if seed == spec.seeds[0]:
        folder.once("check", partial(_checks, spec, duel, task.checked, fallen), **where)
    folder.once("curve", partial(_curve, duel, task.radii, fallen), **where)


def summarise(spec: ImageFineLabels, name: DatasetName, curves: Sequence[Rows], checks: Rows) -> Json:
    """The curves of each seed averaged, and the areas between them."""
    task: FineTask = getattr(spec, name)
    by_seed = [{str(key): [row[key] for row in rows] for key in CURVES} for rows in curves]

    def mean(key: str) -> list[float]:
        return [
            sum(values) / len(values) for values in zip(*(heights[key] for heights in by_seed), strict=True)
        ]

    def areas(fine: str, binary: str) -> list[float]:
        gaps = [[f - b for f, b in zip(of[fine], of[binary], strict=True)] for of in by_seed]
        return [area(task.radii, gap) for gap in gaps]

    between = {reading: areas(fine, binary) for reading, (fine, binary) in PAIRS.items()}
    decisions = (FineLabelCurve.binary, FineLabelCurve.fine_readout, FineLabelCurve.fine_largest)
    return {
        "radii": list(task.radii),
        "curves": {key: mean(key) for key in CURVES},
        "clean": {key: [heights[key][0] for heights in by_seed] for key in decisions},
        "area": {
            reading: {**as_fact(mean_interval(values)), "by_seed": values}
            for reading, values in between.items()
        },
        "checks": [
            {key: value for key, value in row.items() if key in CHECKED and value is not None}
            for row in checks
        ],
        "data_sha256": data_hashes(name),
    }


def needed(spec: ImageFineLabels) -> Mapping[str, Request]:
    """A run of each data set, or the networks of a single one."""
    if len(spec.datasets) > 1:
        return {name: Request(EXPERIMENT, spec.replace(datasets=(name,))) for name in spec.datasets}
    nets = spec.networks(spec.datasets[0]).values()
    return networks_needed((network, seed) for network in nets for seed in spec.seeds)


def run(spec: ImageFineLabels, folder: Folder) -> Json:
    """Curves of both networks for each seed, and the area between them with its interval over seeds.

    Several data sets are gathered from a run of each.
    """
    gather = gathered if len(spec.datasets) > 1 else made
    found = {name: summarise(spec, name, *gather(spec, name, folder)) for name in spec.datasets}
    return {"datasets": found, "published": {name: FIGURE_3[name]._asdict() for name in spec.datasets}}


def made(spec: ImageFineLabels, name: DatasetName, folder: Folder) -> tuple[list[Rows], Rows]:
    """The curves of each seed and the checks, made here."""
    for seed in spec.seeds:
        _one(spec, name, seed, folder)
    curves = [folder.part("curve", dataset=name, seed=seed).read().rows for seed in spec.seeds]
    return curves, folder.part("check", dataset=name, seed=spec.seeds[0]).read().rows


def gathered(spec: ImageFineLabels, name: DatasetName, folder: Folder) -> tuple[list[Rows], Rows]:
    """The same from the rows of the data set's own run, which become rows of this one."""
    single = folder.needed[name]
    for part in COLUMNS:
        folder.add(part, single.part(part).drop("part").to_dicts(), dataset=name)
    curves = [single.part("curve", seed=seed).sort(FineLabelCurve.radius).to_dicts() for seed in spec.seeds]
    return curves, single.part("check", seed=spec.seeds[0]).to_dicts()


COLUMNS = {"curve": FineLabelCurve, "points": Point, "check": Check}


def size(spec: ImageFineLabels) -> Size:
    """The largest of the networks, and the attacks at every radius."""
    tasks = [getattr(spec, name) for name in spec.datasets]
    held = max(training_size(task.network).numbers for task in tasks)
    looks = sum(activations(task.network.net) * len(task.radii) for task in tasks)
    return Size(held, len(spec.seeds) * spec.images * spec.steps * looks)


EXPERIMENT = Experiment(
    name="image-fine-labels",
    paper="fa",
    shows="FA Figure 3 (middle, right): robust accuracy against the ℓ2 radius, trained with 2-class and with "
    "10-class labels",
    spec=ImageFineLabels,
    run=run,
    takes={
        "quick": "1 min",
        "cpu": "70 min, and 20 min for networks that other experiments share",
        "paper": "not measured; a GPU job",
    },
    highlights=(
        Highlight("datasets/*/area/*", "area between the 10-class and the 2-class curve, {}, {}"),
        Highlight("datasets/*/clean/*", "clean accuracy, {}, {} by seed", "share"),
    ),
    size=size,
    revision=3,
    columns=COLUMNS,
    data=lambda spec: spec.datasets,
    needs=needed,
)
EXPERIMENTS = (EXPERIMENT,)
