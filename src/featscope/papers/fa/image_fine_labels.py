"""`image-fine-labels` (FA §6.2, Figure 3 middle, right): are 10-class labels more robust than 2-class ones?

For each seed two networks that differ in their labels alone: the same images in the same order, the same
first weights except those of the last layer. The 10-class network is read as a 2-class one, and attacked by
its own loss (every iterate counted, or the last one only, which is standard PGD) and by the read-out's
margin. On the 2-class network both objectives have the same normalised gradient, so its curve is that of
either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from featscope.attacks.apgd import APGD
from featscope.attacks.copies import Fallen, hidden, recount
from featscope.attacks.curve import robust_curve
from featscope.attacks.pgd import PGD, Attack
from featscope.attacks.readout import Decision, OwnLoss, ReadOut
from featscope.attacks.square import Square
from featscope.attacks.suite import assess
from featscope.attacks.threat import Threat
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.linearise import Model
from featscope.core.losses import margin
from featscope.core.settings import REQUIRED, RadiusList, setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec
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
from featscope.images.datasets import ImageBatch, load
from featscope.images.groupings import Grouping, grouping
from featscope.nets.fold import fold
from featscope.papers.fa.printed import FIGURE_3

DatasetName = Literal["mnist", "cifar10"]


class Curve(Columns):
    """One row for each data set, seed and ℓ2 radius: shares of test images that withstand an attack."""

    dataset = column("the data set")
    seed = column("the networks' seed")
    radius = column("the ℓ2 radius")
    binary = column("2-class network, PGD on its margin")
    fine_own_loss = column("10-class network, PGD on its own loss, every iterate counted")
    fine_readout = column("10-class network, PGD on the margin of the read-out (sum over a group)")
    fine_worst = column("the smaller of own loss and read-out, image by image")
    fine_largest = column("10-class network, PGD on the margin of the largest class of each group")
    binary_last = column("2-class network, standard PGD, last iterate only")
    fine_last = column("10-class network, standard PGD on the own loss, last iterate only")
    fine_last_within = column("of those, the share that moved to a wrong class of its own group")


class Point(Columns):
    """One row for each data set, seed and image: the smallest radius at which each attack fools it."""

    dataset = column("the data set")
    seed = column("the networks' seed")
    point = column("index among the attacked images")
    label = column("the class")
    group = column("the 2-class label")
    binary = column("2-class network, PGD on its margin")
    fine_own_loss = column("10-class network, PGD on its own loss")
    fine_readout = column("10-class network, PGD on the margin of the read-out")
    fine_largest = column("10-class network, PGD on the margin of the largest class of each group")
    fine_worst = column("the smaller of own loss and read-out")


class Check(Columns):
    """One row for each data set, network and checked radius of the first seed: what stronger attacks add."""

    dataset = column("the data set")
    seed = column("the networks' seed")
    net = column("binary or fine")
    radius = column("the ℓ2 radius")
    images = column("images looked at again")
    left = column("of those, images that the curves' attacks left robust")
    fooled = column("of those, images that APGD or Square fools")
    warnings = column("what the evaluation says of its attacks")
    left_after_apgd_entropy = column("of the images left, those that withstand APGD on cross-entropy")
    left_after_apgd_margin = column("of the images left, those that withstand APGD on the margin")
    left_after_square = column("of the images left, those that withstand Square")


CURVES = (
    Curve.binary,
    Curve.fine_own_loss,
    Curve.fine_readout,
    Curve.fine_worst,
    Curve.fine_largest,
    Curve.binary_last,
    Curve.fine_last,
)
#: each reading of the comparison: the curve of the 10-class network and that of the 2-class network
PAIRS = {
    "own_loss": (Curve.fine_own_loss, Curve.binary),
    "readout": (Curve.fine_readout, Curve.binary),
    "worst": (Curve.fine_worst, Curve.binary),
    "largest": (Curve.fine_largest, Curve.binary),
    "last": (Curve.fine_last, Curve.binary_last),
}


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

    The paper's recipe is the `paper` profile.
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


@dataclass(frozen=True, eq=False)
class Duel:
    """Both networks of one seed and the images at which they are attacked."""

    fine: nn.Module
    binary: nn.Module
    groups: Grouping
    data: ImageBatch
    steps: int
    seed: int

    @property
    def coarse(self) -> Tensor:
        """The 2-class labels."""
        return self.groups(self.data.y)

    @cached_property
    def fast(self) -> dict[str, nn.Module]:
        """Folded copies, on which perturbations are searched."""
        return {
            name: fold(net, self.data.x).model for name, net in (("fine", self.fine), ("binary", self.binary))
        }

    def readout(self, decision: Decision = "sum", fast: bool = False) -> ReadOut:
        """The 10-class network as a classifier of groups."""
        return ReadOut(self.fast["fine"] if fast else self.fine, self.groups, decision)

    def threat(self, radius: float = 1.0) -> Threat:
        """Images within an ℓ2 radius, in [0, 1]."""
        return Threat("L2", radius, 3, bounds=(0.0, 1.0))

    def fooled_at(
        self, model: Model, network: Model, chosen: Tensor, radii: Sequence[float], name: str
    ) -> Tensor:
        """The smallest radius at which each chosen image is fooled.

        What is found on a folded copy counts if the network itself is fooled by it.
        """
        x, y = self.data.x[chosen], self.coarse[chosen]
        attack = PGD("margin", self.steps, stop_early=True)

        def look(searched: Model, some: Tensor, tag: str) -> Fallen:
            tags = (name,) if tag == "first" else (name, tag)
            found = robust_curve(
                searched,
                x[some],
                y[some],
                self.threat(),
                radii,
                attack,
                stream(self.seed, "attack", *tags),
                batch=100,
            )
            # A perturbation of float32 may overshoot its radius by rounding, no more.
            inside = found.delta.flatten(1).norm(dim=1) <= found.fooled_at * (1 + 1e-5)
            return Fallen(torch.where(inside, found.fooled_at, torch.inf), found.delta)

        found, _ = recount(network, look(model, torch.arange(len(y)), "first"), x, y)
        _, fault = hidden(network, model, x, y, found.fooled_at, look)
        if fault:
            found.put(torch.arange(len(y)), look(network, torch.arange(len(y)), "network"))
        return found.fooled_at

    def own_loss(self, radii: Sequence[float]) -> Tensor:
        """The own-loss attack on the 10-class network, class by class."""
        radius = torch.full((len(self.data.y),), torch.inf)
        for label in sorted(set(self.data.y.tolist())):
            chosen = (self.data.y == label).nonzero()[:, 0]
            model = OwnLoss(self.readout(fast=True), label)
            radius[chosen] = self.fooled_at(
                model, OwnLoss(self.readout(), label), chosen, radii, f"own/{label}"
            )
        return radius

    def radii(self, radii: Sequence[float]) -> dict[str, Tensor]:
        """For each attack the radius at which each image falls (∞: none of the list)."""
        everyone = torch.arange(len(self.data.y))
        found = {
            "binary": self.fooled_at(self.fast["binary"], self.binary, everyone, radii, "binary"),
            "fine_own_loss": self.own_loss(radii),
        }
        decisions: dict[str, Decision] = {"fine_readout": "sum", "fine_largest": "largest"}
        for key, decision in decisions.items():
            found[key] = self.fooled_at(
                self.readout(decision, fast=True), self.readout(decision), everyone, radii, key
            )
        return found | {"fine_worst": torch.minimum(found["fine_own_loss"], found["fine_readout"])}

    def last(self, radius: float) -> dict[str, float]:
        """Robust accuracy under standard PGD on each network's own loss, where only the last iterate counts.

        ``fine_last_within`` is the share of images that withstand it because they only moved to a wrong class
        of their own group.
        """
        attack = AttackSpec(norm="L2", eps=radius, steps=self.steps)
        labels = {"binary": self.coarse, "fine": self.data.y}
        outputs: dict[str, list[Tensor]] = {name: [] for name in labels}
        for name, net in (("binary", self.binary), ("fine", self.fine)):
            for i, chosen in enumerate(torch.split(torch.arange(len(self.coarse)), 100)):
                x = self.data.x[chosen]
                moved = x + attack.perturb(
                    self.fast[name], x, labels[name][chosen], 0.0, stream(self.seed, "last", name, i)
                )
                with torch.no_grad():
                    outputs[name].append(net(moved))
        binary, fine = (torch.cat(outputs[name]) for name in labels)
        right = {
            "binary_last": margin(binary, self.coarse) > 0,
            "fine_last": margin(self.readout().scores(fine), self.coarse) > 0,
        }
        right["fine_last_within"] = right["fine_last"] & ~(margin(fine, self.data.y) > 0)
        return {key: float(hits.double().mean()) for key, hits in right.items()}

    def check(self, radius: float, fallen: Mapping[str, Tensor], count: int, queries: int) -> Rows:
        """What APGD on two losses and Square fool of the images that the curves' attacks left robust.

        Among the first ``count`` of a shuffle.
        """
        sample = torch.randperm(len(self.data.y), generator=stream(0, "checked"))[:count]
        rows: Rows = []
        for name, key, model in (
            ("binary", "binary", self.fast["binary"]),
            ("fine", "fine_worst", self.readout(fast=True)),
        ):
            left = sample[fallen[key][sample] > radius]
            row: dict[str, Any] = {Check.net: name, Check.radius: radius, Check.images: len(sample)}
            row |= {Check.left: len(left), Check.fooled: 0, Check.warnings: ""}
            if len(left):
                suite: dict[str, Attack] = {
                    Check.left_after_apgd_entropy: APGD("cross-entropy"),
                    Check.left_after_apgd_margin: APGD("margin"),
                    Check.left_after_square: Square(queries),
                }
                threat, attacks = self.threat(radius), list(suite.values())
                found = assess(
                    model, self.data.x[left], self.coarse[left], threat, attacks, self.seed, fast=False
                )
                judge = self.binary if name == "binary" else self.readout()
                with torch.no_grad():
                    still = margin(judge(self.data.x[left] + found.evaluation.delta), self.coarse[left]) > 0
                shares = {key: found.evaluation.by[attack.name] for key, attack in suite.items()}
                gained = {key: round(share * len(left)) for key, share in shares.items()}
                row |= {
                    Check.fooled: int((~still).sum()),
                    Check.warnings: "; ".join(found.warnings),
                    **gained,
                }
            rows.append(row)
        return rows


def area(radii: Sequence[float], heights: Sequence[float]) -> float:
    """∫ of a curve over the radius, by trapezia."""
    return float(
        torch.trapezoid(torch.tensor(heights, dtype=torch.float64), torch.tensor(radii, dtype=torch.float64))
    )


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
    return [{Curve.radius: r, **share, **duel.last(r)} for r, share in zip(radii, shares, strict=True)], {}


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


def _summary(spec: ImageFineLabels, name: DatasetName, folder: Folder) -> Json:
    """Curves averaged over seeds, and the areas between them."""
    task: FineTask = getattr(spec, name)
    saved = [folder.part("curve", dataset=name, seed=seed).read().rows for seed in spec.seeds]
    by_seed = [{str(key): [row[key] for row in rows] for key in CURVES} for rows in saved]

    def mean(key: str) -> list[float]:
        return [
            sum(values) / len(values) for values in zip(*(curves[key] for curves in by_seed), strict=True)
        ]

    def areas(fine: str, binary: str) -> list[float]:
        gaps = [[f - b for f, b in zip(curves[fine], curves[binary], strict=True)] for curves in by_seed]
        return [area(task.radii, gap) for gap in gaps]

    between = {reading: areas(fine, binary) for reading, (fine, binary) in PAIRS.items()}
    decisions = (Curve.binary, Curve.fine_readout, Curve.fine_largest)
    return {
        "radii": list(task.radii),
        "curves": {key: mean(key) for key in CURVES},
        "clean": {key: [curves[key][0] for curves in by_seed] for key in decisions},
        "area": {
            reading: {**as_fact(mean_interval(values)), "by_seed": values}
            for reading, values in between.items()
        },
        "checks": folder.part("check", dataset=name, seed=spec.seeds[0]).read().rows,
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
    found: Json = {}
    if len(spec.datasets) > 1:
        for name in spec.datasets:
            single = folder.needed[name]
            for part in COLUMNS:
                folder.add(part, single.part(part).drop("part").to_dicts(), dataset=name)
            found |= single.summary["datasets"]
    else:
        (name,) = spec.datasets
        for seed in spec.seeds:
            _one(spec, name, seed, folder)
        found[name] = _summary(spec, name, folder)
    return {"datasets": found, "published": {name: FIGURE_3[name]._asdict() for name in spec.datasets}}


COLUMNS = {"curve": Curve, "points": Point, "check": Check}


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
        "cpu": "25 min, and 12 min for networks that other experiments share",
        "paper": "not measured; a GPU job",
    },
    highlights=(
        Highlight("datasets/*/area/*", "area between the 10-class and the 2-class curve, {}, {}"),
        Highlight("datasets/*/clean/*", "clean accuracy, {}, {} by seed", "share"),
    ),
    size=size,
    revision=3,
    columns=COLUMNS,
    needs_data=("mnist", "cifar10"),
    needs=needed,
)
EXPERIMENTS = (EXPERIMENT,)
