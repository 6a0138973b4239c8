"""`image-overfitting` (CGRO Figure 1): robust training and test accuracy over epochs, the best epoch by held-out images against the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from featscope.core.stats import mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, Trained, Trainer, TrainingSpec, accuracy, robust_accuracy
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.image_training import TRAINING, ImageTraining, as_fact, data, hashes
from featscope.experiments.spec import Experiment


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


def run(spec: ImageOverfitting, folder: Folder) -> Json:
    """Train each seed; compare the best epoch by held-out robust accuracy with the last one."""
    rows: Rows = []
    for seed in spec.seeds:
        train, test = data(spec, seed)
        trainer = Trainer(spec.net.build(stream(seed, "init")), train, spec.training, seed, test, spec.attacked)
        recording = trainer.run(folder.part(f"seed/{seed}"), spec.every)
        rows.append({"seed": seed, **_best_and_last(trainer, recording.state, spec)})
    folder.add("compared", rows)
    facts = {name: as_fact(mean_interval([row[name] for row in rows])) for name in rows[0] if name != "seed"}
    return {**facts, "selected_by": "held-out robust accuracy", "data_sha256": hashes(spec)}


def _best_and_last(trainer: Trainer, state: Trained, spec: ImageOverfitting) -> dict[str, float]:
    assert trainer.test is not None
    threat = spec.training.attack.threat()
    found: dict[str, float] = {}
    for which in ("best", "last"):
        net = trainer.best(state) if which == "best" else trainer.last(state)
        for name, images in (("train", trainer.train), ("test", trainer.test)):
            part = Trainer.some(images, spec.attacked)
            rng = stream(trainer.seed, "final", name)
            found[f"clean_{name}_{which}"] = accuracy(net, part)
            found[f"robust_{name}_{which}"] = robust_accuracy(net, part, threat, spec.training.select_steps, rng)
        found[f"gap_{which}"] = found[f"robust_train_{which}"] - found[f"robust_test_{which}"]
        found[f"clean_gap_{which}"] = found[f"clean_train_{which}"] - found[f"clean_test_{which}"]
    found["lost_by_training_on"] = found["robust_test_best"] - found["robust_test_last"]
    return found


EXPERIMENTS = (
    Experiment(
        name="image-overfitting",
        paper="cgro",
        shows="CGRO Figure 1: robust training and test accuracy over epochs, best by held-out images against last",
        spec=ImageOverfitting,
        run=run,
        takes={"quick": "1 min", "cpu": "6 min", "paper": "not measured; a GPU job"},
        revision=3,
        needs_data=("mnist",),
    ),
)
