"""`image-landscape` and `image-landscape-cifar10` (CGRO §6 and appendix E, Figures 2 and 3).

The loss around training and test images of adversarially trained networks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from featscope.attacks.threat import Threat
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import RadiusList, setting
from featscope.core.stats import Correlations, as_fact, correlations, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, Trained, Trainer, TrainingSpec, Watch
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_training import (
    Epochs,
    ImageTraining,
    activations,
    data_hashes,
    trainer_of,
    training_size,
)
from featscope.experiments.spec import Experiment
from featscope.features.landscape import landscape, largest_change
from featscope.images.datasets import ImageBatch
from featscope.nets.fold import fold
from featscope.nets.networks import NetworkSpec
from featscope.papers.cgro.image_recipe import LENET, SETS, TRAINING


class ImageLandscape(ImageTraining):
    """Figures 2 and 3: radii inside and outside the training radius, after the last epoch and over epochs."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "train": 600,
            "test": 100,
            "measured": 40,
            "attacked": 100,
            "training.epochs": 8,
            "training.batch_size": 32,
            "every": 2,
            "training.attack.steps": 3,
            "steps": 5,
        },
        "paper": {
            "train": 60_000,
            "test": 10_000,
            "measured": 10_000,
            "attacked": 10_000,
            "steps": 40,
            "training.attack.steps": 20,
            "training.autocast": True,
            "watched": [0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3],
            "every": 1,
        },
    }

    train: int = Field(default=5000, ge=50)
    test: int = Field(default=1000, ge=10)
    net: NetworkSpec = LENET
    training: TrainingSpec = TRAINING.replace(attack=AttackSpec(eps=0.1, steps=5, ramp=Ramp(epochs=2)))
    radii: RadiusList = setting(
        (0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3), "radii after the last epoch"
    )
    watched: RadiusList = setting((0.05, 0.1, 0.2), "radii at every recorded epoch")
    measured: int = setting(200, "images of each set whose landscape is measured", ge=1)
    attacked: int = setting(
        500, "images of each set whose adversarial loss and robust accuracy are measured", ge=1
    )
    steps: int = setting(10, "steps of each search", ge=1)
    every: int = Field(default=2, ge=1)
    channels_last: bool = True

    def model_post_init(self, context: object) -> None:
        """The training radius and its double are among the radii, because their ratio is the claim."""
        for name, radii in (("radii", self.radii), ("watched", self.watched)):
            near = [at_factor(radii, self.training.attack.eps, f) is not None for f in (1.0, 2.0)]
            rule = f"{name} must contain the training radius and its double"
            require(all(near), rule, f"{name}={radii}, eps={self.training.attack.eps}", "add them")


class CifarLandscape(ImageLandscape, registered="image-landscape-cifar10"):
    """The same on CIFAR-10 at 8/255 with ResNet-9, narrow at `cpu`.

    The paper's 15 epochs of 50 000 images are thousands of updates; 15 epochs of what a CPU can do are a few
    hundred, which fit nothing. So `cpu` takes fewer images and more epochs (about 1100 updates).
    """

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "train": 400,
            "test": 100,
            "measured": 20,
            "attacked": 50,
            "net.width": 4,
            "training.epochs": 4,
            "training.batch_size": 32,
            "every": 1,
            "steps": 3,
            "training.select_steps": 3,
        },
        "paper": {
            "train": 50_000,
            "test": 10_000,
            "measured": 10_000,
            "attacked": 10_000,
            "steps": 40,
            "net.width": 64,
            "training.epochs": 15,
            "training.batch_size": 128,
            "training.attack.steps": 10,
            "training.select_steps": 10,
            "seeds": [0, 1, 2],
            "training.augment": {"shift": 4, "mirror": True},
            "training.autocast": True,
            "training.schedule": {"shape": "cyclical", "peak": 0.2},
            "training.attack.ramp": {"epochs": 0},
            "watched": [n / 255 for n in (2, 4, 8, 12, 16, 24)],
            "every": 1,
        },
    }

    seeds: tuple[int, ...] = (0, 1)
    dataset: str = "cifar10"
    train: int = Field(default=1000, ge=50)
    test: int = Field(default=500, ge=10)
    net: NetworkSpec = NetworkSpec(architecture="resnet9", width=8, channels=3, side=32)
    training: TrainingSpec = TRAINING.replace(
        epochs=40,
        batch_size=32,
        schedule=Schedule(shape="cyclical", peak=0.01),
        attack=AttackSpec(eps=8 / 255, steps=2, ramp=Ramp(epochs=2)),
        select_steps=5,
    )
    radii: RadiusList = tuple(n / 255 for n in (2, 4, 8, 12, 16, 24))
    watched: RadiusList = tuple(n / 255 for n in (4, 8, 16))
    measured: int = Field(default=40, ge=1)
    attacked: int = Field(default=120, ge=1)
    steps: int = Field(default=6, ge=1)
    every: int = Field(default=4, ge=1)


class LandscapeEpochs(Epochs):
    """One row for each seed and recorded epoch.

    Lists are over the watched radii, and means over the measured images.
    """

    loss_train = column("clean loss on the attacked training images")
    loss_test = column("clean loss on the attacked test images")
    robust_loss_train = column(
        "largest loss that PGD finds within ε, mean over the attacked training images: L̂_adv"
    )
    robust_loss_test = column(
        "largest loss that PGD finds within ε, mean over the attacked test images: L_adv"
    )
    slope_train = column("dual norm of the loss gradient at training images")
    slope_test = column("dual norm of the loss gradient at test images")
    change_train = column("largest loss change within each radius of training images")
    change_test = column("largest loss change within each radius of test images")
    gradient_train = column("largest gradient norm within each radius of training images: local flatness")
    gradient_test = column("largest gradient norm within each radius of test images: global flatness")
    mean_value_train = column("change ÷ (radius·gradient), largest over training images")
    mean_value_test = column("change ÷ (radius·gradient), largest over test images")
    repaired_train = column("share of training images whose gradient was found by bisection")
    repaired_test = column("share of test images whose gradient was found by bisection")


#: set → column
GRADIENT = {"train": LandscapeEpochs.gradient_train, "test": LandscapeEpochs.gradient_test}
MEAN_VALUE = {"train": LandscapeEpochs.mean_value_train, "test": LandscapeEpochs.mean_value_test}
REPAIRED = {"train": LandscapeEpochs.repaired_train, "test": LandscapeEpochs.repaired_test}


class LandscapeRadii(Columns):
    """One row for each seed, set and radius after the last epoch; means over the measured images."""

    seed = column("the network's seed")
    set = column("train or test")
    radius = column("the radius")
    loss = column("clean loss")
    slope = column("dual norm of the loss gradient at the images")
    change = column("largest loss change within the radius, pixels in [0, 1]")
    change_free = column("largest loss change within the radius, pixels unbounded")
    gradient = column("largest gradient norm within the radius")
    mean_value = column("change ÷ (radius·gradient), largest over the images")
    repaired = column("share of images whose gradient was found by bisection")


def at_factor(radii: Sequence[float], eps: float, factor: float) -> int | None:
    """Where ``factor`` times ε stands in the list, or None."""
    return next((i for i, radius in enumerate(radii) if math.isclose(radius, factor * eps)), None)


def _watch(spec: ImageLandscape, seed: int, test: ImageBatch) -> Watch:
    threat = spec.training.attack.threat()

    def watch(net: nn.Module, train: ImageBatch) -> dict[str, float | Tensor]:
        row: dict[str, float | Tensor] = {}
        for name, images in zip(SETS, (train, test), strict=True):
            x, y = Trainer.some(images, spec.measured)
            quick = fold(net, x).model
            found = landscape(quick, x, y, threat, spec.watched, spec.steps, stream(seed, "landscape", name))
            row.update(
                {
                    f"{key}_{name}": value
                    for key, value in risks(
                        quick, images, spec.attacked, threat, spec.steps, stream(seed, "risk", name)
                    ).items()
                }
            )
            row[f"slope_{name}"] = float(found.slope.mean())
            row[f"change_{name}"] = found.change.mean(1)
            row[f"gradient_{name}"] = found.gradient.mean(1)
            row[f"mean_value_{name}"] = found.mean_value(spec.watched).amax(1)
            row[f"repaired_{name}"] = found.repaired.double().mean(1)
        return row

    return watch


def risks(
    net: nn.Module, images: ImageBatch, attacked: int, threat: Threat, steps: int, rng: torch.Generator
) -> dict[str, float]:
    """Clean loss and the largest that PGD finds within ε, over the attacked images: appendix E's risks."""
    x, y = Trainer.some(images, attacked)
    with torch.no_grad():
        clean = functional.cross_entropy(net(x), y)
    change, _ = largest_change(net, x, y, threat, (threat.eps,), steps, rng)
    return {"loss": float(clean), "robust_loss": float(clean + change.mean())}


def _over_radii(
    spec: ImageLandscape, seed: int, net: nn.Module, train: ImageBatch, test: ImageBatch
) -> tuple[Rows, dict[str, Tensor]]:
    """The landscape after the last epoch at all radii, also without pixel bounds, as in the papers."""
    threat = spec.training.attack.threat()
    free = Threat(threat.norm, threat.eps, threat.event)
    rows: Rows = []
    tensors: dict[str, Tensor] = {}
    for name, images in zip(SETS, (train, test), strict=True):
        x, y = Trainer.some(images, spec.measured)
        quick = fold(net, x).model
        found = landscape(quick, x, y, threat, spec.radii, spec.steps, stream(seed, "radii", name))
        unbounded, _ = largest_change(quick, x, y, free, spec.radii, spec.steps, stream(seed, "free", name))
        ratios = found.mean_value(spec.radii)
        for i, radius in enumerate(spec.radii):
            rows.append(
                {
                    LandscapeRadii.set: name,
                    LandscapeRadii.radius: radius,
                    LandscapeRadii.loss: float(found.loss.mean()),
                    LandscapeRadii.slope: float(found.slope.mean()),
                    LandscapeRadii.change: float(found.change[i].mean()),
                    LandscapeRadii.change_free: float(unbounded[i].mean()),
                    LandscapeRadii.gradient: float(found.gradient[i].mean()),
                    LandscapeRadii.mean_value: float(ratios[i].max()),
                    LandscapeRadii.repaired: float(found.repaired[i].double().mean()),
                }
            )
        pairs = {"loss": found.loss, "slope": found.slope, "change": found.change, "gradient": found.gradient}
        tensors.update({f"{key}_{name}": value for key, value in pairs.items()})
    return rows, tensors


def run(spec: ImageLandscape, folder: Folder) -> Json:
    """Train each seed, measure over epochs and, after the last, over radii.

    Compare the training radius with its double.
    """
    last: list[Rows] = []
    epochs: list[Rows] = []
    for seed in spec.seeds:
        # Channels last makes ResNet-9's training about 1.7 times faster on a CPU.
        trainer = trainer_of(spec, seed, partial(_watch, spec, seed))
        recording = trainer.run(folder.part("training", seed=seed), spec.every)
        epochs.append(recording.rows)
        last.append(folder.once("radii", partial(_after, spec, trainer, recording.state), seed=seed).rows)
    eps = spec.training.attack.eps
    facts: Json = {
        "radii": list(spec.radii),
        "watched": list(spec.watched),
        "outside_over_inside": _ratios(last, eps),
    }
    keys = (Epochs.clean_train, Epochs.clean_test, Epochs.robust_train, Epochs.robust_test)
    facts["accuracy"] = {key: as_fact(mean_interval([rows[-1][key] for rows in epochs])) for key in keys}
    return {**facts, "gap_and_flatness": _relation(epochs, spec), "data_sha256": data_hashes(spec.dataset)}


def _after(spec: ImageLandscape, trainer: Trainer, state: Trained) -> tuple[Rows, dict[str, Tensor]]:
    assert trainer.test is not None
    return _over_radii(spec, trainer.seed, trainer.last(state), trainer.train, trainer.test)


def _ratios(last: Sequence[Rows], eps: float) -> Json:
    """Value at 2ε ÷ value at ε, with Student's interval over seeds."""

    def value(rows: Rows, what: str, name: str, factor: float) -> float:
        own = [row for row in rows if row[LandscapeRadii.set] == name]
        return float(next(row[what] for row in own if math.isclose(row[LandscapeRadii.radius], factor * eps)))

    def grown(rows: Rows, what: str, name: str) -> float:
        return value(rows, what, name, 2.0) / max(value(rows, what, name, 1.0), 1e-12)

    return {
        f"{what}_{name}": as_fact(mean_interval([grown(rows, what, name) for rows in last]))
        for what in (LandscapeRadii.change, LandscapeRadii.gradient)
        for name in SETS
    }


def _relation(epochs: Sequence[Rows], spec: ImageLandscape) -> Json:
    """Correlation of the robust loss's gap with the gradient norm at test images, over epochs, by seed."""
    inside = at_factor(spec.watched, spec.training.attack.eps, 1.0)
    found = []
    for rows in epochs:
        full = [
            row
            for row in rows
            if row[Epochs.step] > 0 and row[Epochs.step] >= spec.training.attack.ramp.epochs
        ]
        gaps = [
            row[LandscapeEpochs.robust_loss_test] - row[LandscapeEpochs.robust_loss_train] for row in full
        ]
        flatness = [row[LandscapeEpochs.gradient_test][inside] for row in full]
        found.append(correlations(gaps, flatness))
    return {
        name: [None if math.isnan(r) else r for r in values]
        for name, values in zip(Correlations._fields, zip(*found, strict=True), strict=True)
    }


COLUMNS = {"training": LandscapeEpochs, "radii": LandscapeRadii}
HIGHLIGHTS = (
    Highlight("accuracy/*", "{} after the last epoch", "share"),
    Highlight("outside_over_inside/*", "{}: value at 2ε over value at ε"),
)


def size(spec: ImageLandscape) -> Size:
    """The training, and the searches at every radius."""
    trained = training_size(spec)
    looks = (
        spec.measured * spec.steps * (len(spec.radii) + len(spec.watched) * spec.training.epochs / spec.every)
    )
    return Size(trained.numbers, trained.work + 2 * len(spec.seeds) * looks * activations(spec.net))


EXPERIMENTS = (
    Experiment(
        name="image-landscape",
        paper="cgro",
        shows="CGRO Figures 2 and 3 on MNIST: largest loss change and gradient norm over radii and epochs, "
        "local and global flatness, robust gap",
        spec=ImageLandscape,
        run=run,
        takes={"quick": "1 min", "cpu": "12 min", "paper": "not measured; a GPU job"},
        highlights=HIGHLIGHTS,
        size=size,
        revision=4,
        columns=COLUMNS,
        apart=("training", "radii"),
        data=lambda spec: (spec.dataset,),
    ),
    Experiment(
        name="image-landscape-cifar10",
        paper="cgro",
        shows="CGRO Figures 2 and 3 on CIFAR-10: the same at 8/255",
        spec=CifarLandscape,
        run=run,
        takes={"quick": "1 min", "cpu": "6 min", "paper": "not measured; a GPU job"},
        highlights=HIGHLIGHTS,
        size=size,
        revision=3,
        columns=COLUMNS,
        apart=("training", "radii"),
        data=lambda spec: (spec.dataset,),
    ),
)
