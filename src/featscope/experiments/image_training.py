"""`image-landscape` (CGRO §6, Figure 2) and `image-overfitting` (CGRO Figure 1): adversarial training on real images, watched over epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor, nn

from featscope.core.errors import require
from featscope.core.stats import Interval, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.epochs import AttackSpec, Trained, Trainer, TrainingSpec, robust_accuracy
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.spec import Experiment, Spec
from featscope.features.landscape import landscape
from featscope.images.datasets import ImageBatch, load
from featscope.nets.networks import NetworkSpec

LENET = NetworkSpec(architecture="lenet5", width=6, channels=1, side=28)
#: PGD on MNIST at the paper's radius .1 with cyclical learning rates, as the paper says. It gives no learning rate: at a peak of .05 LeNet's units
#: die under attack (constant outputs), at .02 with the radius ramped over two epochs it trains.
TRAINING = TrainingSpec(
    method="adversarial",
    epochs=20,
    batch_size=64,
    schedule=Schedule(shape="cyclical", peak=0.02),
    attack=AttackSpec(eps=0.1, steps=7, ramp=Ramp(epochs=2)),
    select="robust",
)


class ImageTraining(Spec):
    """The data, how much of it, the network and its training."""

    dataset: str = "mnist"
    train: int = Field(default=10_000, ge=50, description="training images, drawn by seed; the held-out share is taken from them")
    test: int = Field(default=2000, ge=10, description="test images, drawn by seed")
    net: NetworkSpec = LENET
    training: TrainingSpec = TRAINING
    every: int = Field(default=1, ge=1)


class ImageLandscape(ImageTraining):
    """Figure 2: radii inside and outside the training radius, on training and test images, for chosen epochs."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "train": 600,
            "test": 100,
            "measured": 40,
            "training.epochs": 8,
            "training.batch_size": 32,
            "every": 4,
            "training.attack.steps": 3,
            "steps": 5,
        },
        "paper": {"train": 60_000, "test": 10_000, "measured": 10_000, "steps": 40, "training.attack.steps": 20},
    }

    radii: tuple[float, ...] = (0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3)
    measured: int = Field(default=300, ge=1, description="images of each set whose landscape is measured")
    steps: int = Field(default=15, ge=1, description="steps of each search")
    every: int = Field(default=4, ge=1)

    def model_post_init(self, context: object) -> None:
        """The training radius and its double are among the radii, because their ratio is the claim."""
        eps = self.training.attack.eps
        near = [any(math.isclose(r, f * eps) for r in self.radii) for f in (1.0, 2.0)]
        require(all(near), "radii must contain the training radius and its double", f"radii={self.radii}, eps={eps}", "add them")


class ImageOverfitting(ImageTraining):
    """Figure 1: robust training and test accuracy over a training long enough to overfit a small set."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "train": 300,
            "test": 200,
            "training.epochs": 8,
            "training.batch_size": 32,
            "every": 2,
            "training.attack.steps": 3,
            "attacked": 100,
        },
        "paper": {
            "dataset": "cifar10",
            "train": 50_000,
            "test": 10_000,
            "attacked": 10_000,
            "net": {"architecture": "preact-resnet", "width": 64, "channels": 3, "side": 32},
            "training.epochs": 200,
            "training.schedule": {"shape": "piecewise", "peak": 0.1},
            "training.attack.eps": 8 / 255,
            "training.attack.steps": 10,
            "training.augment": {"shift": 4, "mirror": True},
        },
    }

    train: int = Field(default=1000, ge=50)
    training: TrainingSpec = TRAINING.replace(
        epochs=60, schedule=Schedule(shape="piecewise", peak=0.02), attack=AttackSpec(eps=0.2, steps=7, ramp=Ramp(epochs=5))
    )
    attacked: int = Field(default=500, ge=1, description="images of each set that are attacked")
    every: int = Field(default=2, ge=1)


def _data(spec: ImageTraining, seed: int) -> tuple[ImageBatch, ImageBatch]:
    train, test = load(spec.dataset, "train"), load(spec.dataset, "test")  # the test subset is the same for every seed
    picked = train.subset(min(spec.train, len(train)), seed)
    return train.batch(picked), test.batch(test.subset(min(spec.test, len(test)), 0))


def _hashes(spec: ImageTraining) -> Json:
    return {"train": load(spec.dataset, "train").sha256, "test": load(spec.dataset, "test").sha256}


def as_fact(value: Interval) -> Json:
    """A mean over seeds with its interval; one seed has no interval."""
    ends = [value.low, value.high]
    return {"mean": value.value, "interval": ends if all(map(math.isfinite, ends)) else None}


def _watch(spec: ImageLandscape, seed: int, test: ImageBatch) -> Any:
    threat = spec.training.attack.threat()

    def watch(net: nn.Module, train: ImageBatch) -> dict[str, float | Tensor]:
        row: dict[str, float | Tensor] = {}
        for name, data in (("train", train), ("test", test)):
            part = Trainer.first(data, spec.measured)
            found = landscape(net, part.x, part.y, threat, spec.radii, spec.steps, stream(seed, "landscape", name))
            row[f"change_{name}"] = found.change.mean(1)
            row[f"gradient_{name}"] = found.gradient.mean(1)
        return row

    return watch


def run_landscape(spec: ImageLandscape, folder: Folder) -> Json:
    """Train each seed, measure the landscape at the chosen epochs, and compare the training radius with its double."""
    eps = spec.training.attack.eps
    inside, outside = (next(i for i, r in enumerate(spec.radii) if math.isclose(r, f * eps)) for f in (1.0, 2.0))
    last: Rows = []
    for seed in spec.seeds:
        train, test = _data(spec, seed)
        net = spec.net.build(stream(seed, "init"))
        trainer = Trainer(net, train, spec.training, seed, test, spec.measured, _watch(spec, seed, test))
        last.append(trainer.run(folder.part(f"seed/{seed}"), spec.every).rows[-1])
    ratios = {
        f"{what}_{name}": as_fact(
            mean_interval([row[f"{what}_{name}"][outside] / max(row[f"{what}_{name}"][inside], 1e-12) for row in last])
        )
        for what in ("change", "gradient")
        for name in ("train", "test")
    }
    accuracies = {key: as_fact(mean_interval([row[key] for row in last])) for key in ("clean_test", "robust_train", "robust_test")}
    return {"radii": list(spec.radii), "outside_over_inside": ratios, "accuracy": accuracies, "data_sha256": _hashes(spec)}


def run_overfitting(spec: ImageOverfitting, folder: Folder) -> Json:
    """Train each seed; compare the best epoch by held-out robust accuracy with the last one."""
    threat = spec.training.attack.threat()
    gaps: dict[str, list[float]] = {}
    for seed in spec.seeds:
        train, test = _data(spec, seed)
        trainer = Trainer(spec.net.build(stream(seed, "init")), train, spec.training, seed, test, spec.attacked)
        recording = trainer.run(folder.part(f"seed/{seed}"), spec.every)
        for name, value in _best_and_last(trainer, recording.state, threat, spec).items():
            gaps.setdefault(name, []).append(value)
    facts = {name: as_fact(mean_interval(values)) for name, values in gaps.items()}
    return {**facts, "selected_by": "held-out robust accuracy", "data_sha256": _hashes(spec)}


def _best_and_last(trainer: Trainer, state: Trained, threat: Any, spec: ImageOverfitting) -> dict[str, float]:
    assert trainer.test is not None
    found: dict[str, float] = {}
    for which in ("best", "last"):
        net = trainer.best(state) if which == "best" else trainer.last(state)
        for name, data in (("train", trainer.train), ("test", trainer.test)):
            part = Trainer.first(data, spec.attacked)
            rng = stream(trainer.seed, "final", name)
            found[f"robust_{name}_{which}"] = robust_accuracy(net, part, threat, spec.training.select_steps, rng)
        found[f"gap_{which}"] = found[f"robust_train_{which}"] - found[f"robust_test_{which}"]
    found["lost_by_training_on"] = found["robust_test_best"] - found["robust_test_last"]
    return found


EXPERIMENTS = (
    Experiment(
        name="image-landscape",
        paper="cgro",
        shows="CGRO Figure 2: the largest loss change and gradient norm within a radius, inside and outside the training radius, over epochs",
        spec=ImageLandscape,
        run=run_landscape,
        takes={"quick": "1 min", "cpu": "not measured", "paper": "not measured; a GPU job"},
        needs_data=("mnist",),
    ),
    Experiment(
        name="image-overfitting",
        paper="cgro",
        shows="CGRO Figure 1: robust training and test accuracy over epochs, best by held-out images against last",
        spec=ImageOverfitting,
        run=run_overfitting,
        takes={"quick": "1 min", "cpu": "6 min", "paper": "not measured; a GPU job"},
        needs_data=("mnist",),
    ),
)
