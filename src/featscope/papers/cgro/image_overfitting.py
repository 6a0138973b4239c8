"""`image-overfitting` (CGRO Figure 1): robust accuracy over epochs, best by held-out images against last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

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
        "paper": {
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
        },
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
        rows.append({Compared.seed: seed, **_best_and_last(trainer, recording.state, spec)})
    folder.add("compared", rows)
    facts = {
        name: as_fact(mean_interval([row[name] for row in rows])) for name in rows[0] if name != Compared.seed
    }
    return {**facts, "selected_by": "held-out robust accuracy", "data_sha256": data_hashes(spec.dataset)}


def _best_and_last(trainer: Trainer, state: Trained, spec: ImageOverfitting) -> dict[str, float]:
    found: dict[str, float] = {}
    for which in ("best", "last"):
        net = trainer.best(state) if which == "best" else trainer.last(state)
        found |= {f"{key}_{which}": value for key, value in accuracies(spec, trainer, net).items()}
        found[f"gap_{which}"] = found[f"robust_train_{which}"] - found[f"robust_test_{which}"]
        found[f"clean_gap_{which}"] = found[f"clean_train_{which}"] - found[f"clean_test_{which}"]
    found["lost_by_training_on"] = found["robust_test_best"] - found["robust_test_last"]
    return found


def size(spec: ImageOverfitting) -> Size:
    """The training with its attacks."""
    return training_size(spec)


EXPERIMENTS = (
    Experiment(
        name="image-overfitting",
        paper="cgro",
        shows="CGRO Figure 1: robust training and test accuracy over epochs, best by held-out images against "
        "last",
        spec=ImageOverfitting,
        run=run,
        takes={"quick": "1 min", "cpu": "6 min", "paper": "not measured; a GPU job"},
        highlights=(
            Highlight("robust_train_last", "robust accuracy on training images, last epoch", "share"),
            Highlight("robust_test_last", "robust accuracy on test images, last epoch", "share"),
            Highlight("robust_test_best", "robust accuracy on test images, best epoch", "share"),
            Highlight("gap_last", "robust generalisation gap, last epoch", "share"),
        ),
        size=size,
        revision=4,
        columns={"training": Epochs, "compared": Compared},
        data=lambda spec: (spec.dataset,),
    ),
)
