"""`image-feature-attacks` (AT A.2, Table 2): targeted attacks through the features of a standard (NRF-PGD) or an adversarially trained network (RF-PGD).

The attacks see a reference network and are tried on two others, one of each training, whose seed is the next in the list (the first after the last): other training images, other first
weights. Beside the rate on them stand the rate at Δ = 0, the rate under random noise of the same size, the rate on the reference network's own head, and how near the features came, so
that a search that failed is told from one that does not carry over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from featscope.attacks.feature import FeaturePGD, target_rate
from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.linearise import Model
from featscope.core.stats import mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import TrainingSpec
from featscope.experiments.image_network import (
    ADVERSARIAL,
    CIFAR_ADVERSARIAL,
    CIFAR_NET,
    CIFAR_STANDARD,
    ImageNetwork,
    Network,
    both,
    both_needed,
)
from featscope.experiments.image_training import as_fact
from featscope.experiments.spec import Experiment, Request, Spec
from featscope.images.datasets import load
from featscope.nets.classifier import REPRESENTATION, ImageClassifier, Representation
from featscope.nets.fold import fold

DatasetName = Literal["mnist", "cifar10"]
METHODS = ("standard", "adversarial")
#: the attack, and the training of the network whose features it uses
ATTACKS = {"NRF": "standard", "RF": "adversarial"}
#: cat → dog, dog → cat, car → plane, plane → car. On MNIST the digits of the same numbers, so that nobody chooses: 3 → 5, 5 → 3, 1 → 0, 0 → 1.
PAIRS = ((3, 5), (5, 3), (1, 0), (0, 1))
#: Table 2 (CIFAR-10, WideResNet-34-10, five seeds), in the order of PAIRS
PRINTED = {
    "standard": {"NRF": (0.7141, 0.8036, 0.5408, 0.7674), "RF": (0.1130, 0.0958, 0.0124, 0.0263)},
    "adversarial": {"NRF": (0.0960, 0.1516, 0.0034, 0.0040), "RF": (0.1938, 0.2600, 0.0264, 0.0196)},
}


class FeatureTask(Value):
    """The networks of one data set: the standard one, and how the same is trained adversarially, whose radius is that of the attacks."""

    network: ImageNetwork
    adversarial: TrainingSpec

    def model_post_init(self, context: object) -> None:
        """Ten classes, and trainings that are what their names say."""
        require(self.network.grouping == "each", "the networks tell ten classes apart", f"grouping={self.network.grouping}", "use each")
        require(self.network.seeds == (0,), "seeds of the networks are those of the experiment", f"{self.network.seeds}", "use seeds")
        named = (self.network.training.method, self.adversarial.method)
        require(named[0] == "standard" != named[1], "one training is standard, the other is not", f"{named}", "change the methods")


def _quick(name: str) -> dict[str, Any]:
    small = {"train": 1000, "test": 200, "attacked": 60, "net.blocks": [1, 1], "training.epochs": 3, "training.batch_size": 32}
    other = {"epochs": 4, "batch_size": 32, "attack.steps": 2, "select_steps": 5}
    changes = {f"{name}.network.{key}": value for key, value in small.items()}
    return changes | {f"{name}.adversarial.{key}": value for key, value in other.items()}


class ImageFeatureAttacks(Spec):
    """Networks, class pairs and the search. `cpu` uses MNIST; `datasets=["cifar10"]` the paper's classes with a narrow network."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"seeds": [0, 1], "images": 20, "steps": 10, **_quick("mnist"), **_quick("cifar10")},
        "paper": {
            "seeds": [0, 1, 2, 3, 4],
            "datasets": ["cifar10"],
            "images": 1000,
            "steps": 100,
            "cifar10.network.train": 50_000,
            "cifar10.network.test": 10_000,
            "cifar10.network.attacked": 1000,
            "cifar10.network.snapshots": 1000,
            "cifar10.network.net": {"architecture": "wide-resnet", "width": 16, "depth": 34, "widen": 10, "channels": 3, "side": 32},
            "cifar10.network.training.epochs": 200,
            "cifar10.network.training.augment": {"shift": 4, "mirror": True},
            "cifar10.adversarial.epochs": 200,
            "cifar10.adversarial.augment": {"shift": 4, "mirror": True},
            "cifar10.adversarial.attack.steps": 10,
        },
    }

    datasets: tuple[DatasetName, ...] = ("mnist",)
    pairs: tuple[tuple[int, int], ...] = Field(default=PAIRS, description="source and target classes")
    images: int = Field(default=200, ge=1, description="test images of each source class, the same for every seed")
    steps: int = Field(default=40, ge=1, description="steps of the feature attacks; the step falls from the radius to 0")
    layer: str = REPRESENTATION
    mnist: FeatureTask = FeatureTask(network=ImageNetwork(), adversarial=ADVERSARIAL)
    cifar10: FeatureTask = FeatureTask(
        network=ImageNetwork(dataset="cifar10", train=5000, net=CIFAR_NET, training=CIFAR_STANDARD), adversarial=CIFAR_ADVERSARIAL
    )

    def model_post_init(self, context: object) -> None:
        """Two seeds at least, because the attacked networks are not the references; pairs of two different classes."""
        some = len(self.datasets) == len(set(self.datasets)) > 0
        require(some, "name at least one data set, each once", f"datasets={self.datasets}", "use mnist")
        require(len(self.seeds) >= 2, "attacked networks must not be the references", f"{len(self.seeds)} seed", "use two seeds or more")
        proper = len(self.pairs) > 0 and all(a != b and {a, b} <= set(range(10)) for a, b in self.pairs)
        require(proper, "pairs are of two different classes from 0 to 9", f"pairs={self.pairs}", "use for example [[3, 5]]")
        for name in self.datasets:
            task: FeatureTask = getattr(self, name)
            task.network.net.require_layer(self.layer)


def draw(dataset: str, source: int, target: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Test images X of the source class, the same for every seed, and for each a random X′ of the target class, drawn by seed."""
    test = load(dataset, "test")
    own, pool = ((test.y == label).nonzero()[:, 0] for label in (source, target))
    picked = own[torch.randperm(len(own), generator=stream(0, "source", source))[:count]].sort().values
    drawn = pool[torch.randint(0, len(pool), (len(picked),), generator=stream(seed, "target", source, target))]
    return test.batch(picked).x, test.batch(drawn).x


def search(
    reference: ImageClassifier, x: Tensor, target: Tensor, threat: Threat, spec: ImageFeatureAttacks, rng: torch.Generator
) -> Tensor:
    """Perturbations whose features under ``reference`` are near those of ``target`` images, searched on a folded copy."""
    encoder = fold(Representation(reference, spec.layer), x).model
    parts = []
    for image, aim in zip(torch.split(x, 100), torch.split(target, 100), strict=True):
        attack = FeaturePGD(encoder, aim, spec.steps)
        parts.append(threat.project(attack(encoder, image, torch.zeros(len(image), dtype=torch.int64), threat, rng), image))
    return torch.cat(parts)


@torch.no_grad()
def nearness(reference: ImageClassifier, layer: str, x: Tensor, delta: Tensor, target: Tensor) -> Tensor:
    """‖G(X + Δ) − G(X′)‖ ÷ ‖G(X) − G(X′)‖ for each image: 1 means nothing was gained."""
    aim = reference.represent(target, layer)
    after, before = ((reference.represent(image, layer) - aim).norm(dim=-1) for image in (x + delta, x))
    ratio: Tensor = after / before.clamp(min=1e-30)
    return ratio


def rate(model: Model, x: Tensor, delta: Tensor, target: int) -> float:
    """Share of the images that are classified as the target."""
    aim = torch.full((len(x),), target, dtype=torch.int64)
    hits = [target_rate(model, *parts) for parts in zip(torch.split(x, 500), torch.split(delta, 500), torch.split(aim, 500), strict=True)]
    return float(torch.cat(hits).double().mean())


def _noise(x: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
    """±ε for each pixel."""
    return threat.project(threat.eps * (2.0 * torch.randint(0, 2, x.shape, generator=rng) - 1).to(x), x)


def _pair(
    spec: ImageFeatureAttacks,
    name: DatasetName,
    pair: tuple[int, int],
    seed: int,
    references: Mapping[str, ImageClassifier],
    attacked: Mapping[str, ImageClassifier],
) -> tuple[Rows, dict[str, Tensor]]:
    """Both attacks and noise for one pair of classes and one seed, with some images to look at."""
    task: FeatureTask = getattr(spec, name)
    threat = task.adversarial.attack.threat()
    x, aims = draw(name, *pair, spec.images, seed)
    rows: Rows = []
    shown = {"original": x[:4].clone(), "target": aims[:4].clone()}
    for label in (*ATTACKS, "noise"):
        rng = stream(seed, "attack", name, label, *pair)
        row: dict[str, Any] = {"seed": seed, "attack": label, "source": pair[0], "target": pair[1], "images": len(x)}
        if label in ATTACKS:
            reference = references[ATTACKS[label]]
            delta = search(reference, x, aims, threat, spec, rng)
            row["own_head"] = rate(reference, x, delta, pair[1])
            row["distance"] = float(nearness(reference, spec.layer, x, delta, aims).median())
            shown[label] = (x + delta)[:4].clone()
        else:
            delta = _noise(x, threat, rng)
        for method, net in attacked.items():
            row[method] = rate(net, x, delta, pair[1])
            row[f"{method}_before"] = rate(net, x, torch.zeros_like(x), pair[1])
        rows.append(row)
    return rows, shown


def _one(spec: ImageFeatureAttacks, name: DatasetName, place: int, nets: Mapping[str, Sequence[Network]], folder: Folder) -> None:
    """The references of one seed against the networks of the next; a part that is there is not made again."""
    seed, part = spec.seeds[place], folder.part(f"rates/{name}/{spec.seeds[place]}")
    if part.load() is not None:
        return
    following = (place + 1) % len(spec.seeds)
    references = {method: nets[method][place].last for method in METHODS}
    attacked = {method: nets[method][following].last for method in METHODS}
    rows: Rows = []
    shown: dict[str, Tensor] = {}
    for pair in spec.pairs:
        found, images = _pair(spec, name, pair, seed, references, attacked)
        rows += [{**row, "attacked_seed": spec.seeds[following]} for row in found]
        shown |= {f"{pair[0]}-{pair[1]}-{key}": value for key, value in images.items()}
    part.save(0, True, rows, shown)


def tables(rows: Rows, seeds: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Json:
    """For each attack and each column: the rate of each pair and the mean over pairs, with intervals over seeds."""
    columns = ("standard", "adversarial", "own_head", "distance", "standard_before", "adversarial_before")
    found: Json = {}
    for attack in (*ATTACKS, "noise"):
        for column in columns:
            cells = {
                f"{source}-{target}": [
                    row[column]
                    for seed in seeds
                    for row in rows
                    if (row["seed"], row["attack"], row["source"], row["target"]) == (seed, attack, source, target)
                    and row.get(column) is not None
                ]
                for source, target in pairs
            }
            if all(cells.values()):
                mean = [sum(values) / len(values) for values in zip(*cells.values(), strict=True)]
                facts = {pair: as_fact(mean_interval(values)) for pair, values in cells.items()}
                found.setdefault(column, {})[attack] = {"pairs": facts, "mean": {**as_fact(mean_interval(mean)), "by_seed": mean}}
    return found


def needed(spec: ImageFeatureAttacks) -> Mapping[str, Request]:
    """The networks of both trainings for every data set and seed."""
    found: dict[str, Request] = {}
    for name in spec.datasets:
        task = getattr(spec, name)
        found |= both_needed(task.network, task.adversarial, spec.seeds)
    return found


def run(spec: ImageFeatureAttacks, folder: Folder) -> Json:
    """Table 2 with intervals over seeds, the controls beside it, and what is printed."""
    found: Json = {}
    for name in spec.datasets:
        task: FeatureTask = getattr(spec, name)
        nets = both(task.network, task.adversarial, spec.seeds, folder)
        for place in range(len(spec.seeds)):
            _one(spec, name, place, nets, folder)
        saved = [folder.part(f"rates/{name}/{seed}").load() for seed in spec.seeds]
        rows = [row for part in saved if part is not None for row in part.rows]
        accuracy = {m: {key: [net.rows[-1].get(key) for net in nets[m]] for key in ("clean_test", "robust_test")} for m in METHODS}
        found[name] = {
            "table": tables(rows, spec.seeds, spec.pairs),
            "accuracy": accuracy,
            "eps": task.adversarial.attack.eps,
            "data_sha256": {split: load(name, split).sha256 for split in ("train", "test")},
        }
    printed = {"cifar10": {m: {a: list(v) for a, v in cells.items()} for m, cells in PRINTED.items()}, "pairs": [list(p) for p in PAIRS]}
    return {"datasets": found, "printed": printed}


EXPERIMENTS = (
    Experiment(
        name="image-feature-attacks",
        paper="at",
        shows="AT Table 2: targeted attacks through non-robust and robust features, tried on networks that they have not seen",
        spec=ImageFeatureAttacks,
        run=run,
        takes={"quick": "1 min", "cpu": "3 min, and 25 min for networks that other experiments share", "paper": "not measured; a GPU job"},
        revision=2,
        needs_data=("mnist", "cifar10"),
        needs=needed,
    ),
)
