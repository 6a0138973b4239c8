"""`image-overfitting` and `image-overfitting-cifar10` (CGRO Figure 1).

Robust accuracy over epochs, best by held-out images against last.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.dynamics.image_training import AttackSpec, Trained, Trainer, TrainingSpec
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_training import Epochs, ImageTraining, data_hashes, trainer_of, training_size
from featscope.experiments.spec import Experiment
from featscope.nets.networks import NetworkSpec
from featscope.papers.cgro.image_recipe import FEW_IMAGES, LENET, TRAINING, accuracies

#: the setting in which robust overfitting was described, for a GPU
PAPER: Mapping[str, Any] = {
    "dataset": "cifar10",
    "train": 50_000,
    "test": 10_000,
    "attacked": 10_000,
    "net": {"architecture": "preact-resnet", "width": 64, "channels": 3, "side": 32},
    "training.epochs": 200,
    "training.schedule": {"shape": "piecewise", "peak": 0.1},
    "training.batch_size": 128,
    "training.attack.ramp": {"epochs": 0},
    "training.attack.eps": 8 / 255,
    "training.attack.steps": 10,
    "training.augment": {"shift": 4, "mirror": True},
}


class ImageOverfitting(ImageTraining):
    """Figure 1: robust training and test accuracy over a training long enough to overfit a small set."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            **FEW_IMAGES,
            "training.epochs": 8,
            "every": 2,
            "training.attack.steps": 3,
            "attacked": 100,
        },
        "paper": PAPER,
    }

    train: int = Field(default=1000, ge=50)
    net: NetworkSpec = LENET
    training: TrainingSpec = TRAINING.replace(
        epochs=60,
        schedule=Schedule(shape="piecewise", peak=0.02),
        attack=AttackSpec(eps=0.2, steps=7, ramp=Ramp(epochs=5)),
    )
    attacked: int = setting(500, "images of each set that are attacked", ge=1)
    every: int = Field(default=2, ge=1)


#: training images of each budget of `image-overfitting-cifar10`; a fifth is held out
BUDGETS = {"500": 625, "1000": 1250, "2000": 2500}


class CifarOverfitting(ImageOverfitting, registered="image-overfitting-cifar10"):
    """The same on CIFAR-10 at 8/255, few images and many passes over them.

    ResNet-9, CGRO's network for CIFAR-10, of width 8. The schedule is the one under which robust overfitting
    was described (Rice et al. 2020): a high rate that drops to a tenth at half and at three quarters of the
    training, .1 for batches of 128, here .025 for batches of 32. A fifth of the images chooses the best
    epoch.
    """

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            **FEW_IMAGES,
            "train": 200,
            "net.width": 4,
            "training.epochs": 4,
            "every": 1,
            "training.attack.steps": 2,
            "training.select_steps": 3,
            "attacked": 60,
        },
        "paper": {**PAPER, "every": 2},
    }

    dataset: str = "cifar10"
    train: int = Field(default=BUDGETS["1000"], ge=50)
    test: int = Field(default=1000, ge=10)
    net: NetworkSpec = NetworkSpec(architecture="resnet9", width=8, channels=3, side=32)
    training: TrainingSpec = TRAINING.replace(
        epochs=60,
        batch_size=32,
        schedule=Schedule(shape="piecewise", peak=0.025),
        attack=AttackSpec(eps=8 / 255, steps=5, ramp=Ramp(epochs=2)),
        held_out=0.2,
    )
    attacked: int = Field(default=1000, ge=1)
    every: int = Field(default=3, ge=1)
    channels_last: bool = True


class Compared(Columns):
    """One row for each seed: the networks of the best epoch by held-out robust accuracy and of the last."""

    seed = column("the seed")
    clean_train_best = column("accuracy on training images, best epoch")
    clean_test_best = column("accuracy on test images, best epoch")
    clean_train_last = column("accuracy on training images, last epoch")
    clean_test_last = column("accuracy on test images, last epoch")
    robust_train_best = column("accuracy under attack on training images, best epoch")
    robust_test_best = column("accuracy under attack on test images, best epoch")
    robust_train_last = column("accuracy under attack on training images, last epoch")
    robust_test_last = column("accuracy under attack on test images, last epoch")
    gap_best = column("robust accuracy, training minus test, best epoch")
    gap_last = column("robust accuracy, training minus test, last epoch")
    clean_gap_best = column("clean accuracy, training minus test, best epoch")
    clean_gap_last = column("clean accuracy, training minus test, last epoch")
    lost_by_training_on = column("robust test accuracy, best minus last epoch")


def run(spec: ImageOverfitting, folder: Folder) -> Json:
    """Train each seed; compare the best epoch by held-out robust accuracy with the last one."""
    rows: Rows = []
    for seed in spec.seeds:
        trainer = trainer_of(spec, seed)
        recording = trainer.run(folder.part("training", seed=seed), spec.every)
        measure = partial(_best_and_last, trainer, recording.state, spec)
        rows += folder.once("compared", measure, seed=seed).rows
    facts = {name: as_fact(mean_interval([row[name] for row in rows])) for name in rows[0]}
    return {**facts, "selected_by": "held-out robust accuracy", "data_sha256": data_hashes(spec.dataset)}


def _best_and_last(
    trainer: Trainer, state: Trained, spec: ImageOverfitting
) -> tuple[Rows, dict[str, Tensor]]:
    found: dict[str, float] = {}
    for which in ("best", "last"):
        net = trainer.best(state) if which == "best" else trainer.last(state)
        found |= {f"{key}_{which}": value for key, value in accuracies(spec, trainer, net).items()}
        found[f"gap_{which}"] = found[f"robust_train_{which}"] - found[f"robust_test_{which}"]
        found[f"clean_gap_{which}"] = found[f"clean_train_{which}"] - found[f"clean_test_{which}"]
    found["lost_by_training_on"] = found["robust_test_best"] - found["robust_test_last"]
    return [found], {}


def size(spec: ImageOverfitting) -> Size:
    """The training with its attacks."""
    return training_size(spec)


COLUMNS = {"training": Epochs, "compared": Compared}
HIGHLIGHTS = (
    Highlight("robust_train_last", "robust accuracy on training images, last epoch", "share"),
    Highlight("robust_test_last", "robust accuracy on test images, last epoch", "share"),
    Highlight("robust_test_best", "robust accuracy on test images, best epoch", "share"),
    Highlight("gap_last", "robust generalisation gap, last epoch", "share"),
    Highlight("lost_by_training_on", "robust accuracy on test images, best minus last epoch", "share"),
)

EXPERIMENTS = (
    Experiment(
        name="image-overfitting",
        paper="cgro",
        shows="CGRO Figure 1: robust training and test accuracy over epochs, best by held-out images against "
        "last",
        spec=ImageOverfitting,
        run=run,
        takes={"quick": "1 min", "cpu": "6 min", "paper": "not measured; a GPU job"},
        highlights=HIGHLIGHTS,
        size=size,
        revision=4,
        columns=COLUMNS,
        apart=("training", "compared"),
        data=lambda spec: (spec.dataset,),
    ),
    Experiment(
        name="image-overfitting-cifar10",
        paper="cgro",
        shows="CGRO Figure 1 on CIFAR-10: few images, many passes, the rate drops twice; does robust test "
        "accuracy fall from its best?",
        spec=CifarOverfitting,
        run=run,
        takes={"quick": "1 min", "cpu": "14 min", "paper": "not measured; a GPU job"},
        highlights=HIGHLIGHTS,
        size=size,
        columns=COLUMNS,
        apart=("training", "compared"),
        data=lambda spec: (spec.dataset,),
    ),
)
