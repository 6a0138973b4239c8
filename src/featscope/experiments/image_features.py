"""`image-features` (AT §6.2, Table 1, Figures 4 and 5): what standard and adversarial training learn of robust and non-robust features.

For each seed: two reference networks are trained, one standard, one adversarially; the test images are reconstructed from their representations (D̂_NR, D̂_R);
two fresh networks are trained the same ways, and their accuracy on both sets is recorded over epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from featscope.core.stats import mean_interval
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.epochs import AttackSpec, Trainer, TrainingSpec, Watch
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.image_training import as_fact
from featscope.experiments.spec import Experiment, Spec
from featscope.features.accuracy import watch_features
from featscope.features.invert import InversionSpec, Inverted, invert
from featscope.images.datasets import ImageBatch, load
from featscope.nets.classifier import ImageClassifier
from featscope.nets.networks import NetworkSpec

METHODS = ("standard", "adversarial")
#: Table 1: clean and robust test accuracy, accuracy on D̂_NR and on D̂_R
PRINTED = {
    "mnist": {"standard": (0.9956, 0.0004, 0.8811, 0.4461), "adversarial": (0.9941, 0.9443, 0.3949, 0.6919)},
    "cifar10": {"standard": (0.9574, 0.0, 0.9179, 0.6126), "adversarial": (0.8628, 0.4513, 0.1088, 0.6788)},
    "svhn": {"standard": (0.9684, 0.0016, 0.7391, 0.6538), "adversarial": (0.9199, 0.5855, 0.3550, 0.7704)},
}
COLUMNS = ("clean_test", "robust_test", "feature_NR", "feature_R")


class ImageFeatures(Spec):
    """Data, networks, both trainings and the inversion; the start of the inversion is noise, as the paper describes."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0],
            "train": 1000,
            "test": 60,
            "net": {"architecture": "resnet", "width": 8, "blocks": [1, 1], "channels": 1, "side": 28},
            "standard.epochs": 3,
            "standard.batch_size": 32,
            "adversarial.epochs": 4,
            "adversarial.batch_size": 32,
            "adversarial.attack.steps": 2,
            "inversion.steps": 30,
            "attacked": 60,
        },
        "paper": {
            "train": 60_000,
            "test": 10_000,
            "attacked": 10_000,
            "net": {"architecture": "resnet", "width": 64, "channels": 1, "side": 28},
            "standard.epochs": 30,
            "adversarial.epochs": 30,
            "adversarial.attack.steps": 20,
            "inversion.steps": 1000,
        },
    }

    dataset: str = "mnist"
    train: int = Field(default=10_000, ge=50, description="training images, drawn by seed")
    test: int = Field(default=400, ge=10, description="test images that are reconstructed, drawn by seed")
    attacked: int = Field(default=400, ge=1, description="images that are attacked")
    net: NetworkSpec = NetworkSpec(architecture="resnet", width=8, channels=1, side=28)
    standard: TrainingSpec = TrainingSpec(epochs=5, schedule=Schedule(peak=0.1), attack=AttackSpec(eps=0.3), select_steps=20)
    adversarial: TrainingSpec = TrainingSpec(
        method="adversarial",
        epochs=6,
        schedule=Schedule(peak=0.1),
        attack=AttackSpec(eps=0.3, steps=5, ramp=Ramp(epochs=3)),
        select="robust",
        select_steps=20,
    )
    inversion: InversionSpec = InversionSpec()


def _train(
    spec: ImageFeatures, folder: Folder, seed: int, role: str, method: str, data: tuple[ImageBatch, ImageBatch], watch: Watch | None
) -> tuple[ImageClassifier, Json]:
    """Train one network through the loop; the last epoch's network and row."""
    training = spec.standard if method == "standard" else spec.adversarial
    net = spec.net.build(stream(seed, "init", role, method))
    trainer = Trainer(net, data[0], training, seed, data[1], spec.attacked, watch)
    recording = trainer.run(folder.part(f"{role}/{method}/{seed}"))
    trainer.last(recording.state)
    return net, recording.rows[-1]


def run(spec: ImageFeatures, folder: Folder) -> Json:
    """References, reconstructions, fresh networks; the four cells with intervals over seeds, beside the printed ones."""
    train, test = load(spec.dataset, "train"), load(spec.dataset, "test")
    cells: dict[str, dict[str, list[float]]] = {method: {key: [] for key in COLUMNS} for method in METHODS}
    errors: dict[str, list[float]] = {"NR": [], "R": []}
    for seed in spec.seeds:
        data = (train.batch(train.subset(min(spec.train, len(train)), seed)), test.batch(test.subset(min(spec.test, len(test)), seed)))
        sets: dict[str, Inverted] = {}
        for name, method in zip(("NR", "R"), METHODS, strict=True):
            reference, _ = _train(spec, folder, seed, "reference", method, data, None)
            sets[name] = invert(reference, data[1].x, data[1].y, spec.inversion, seed, folder.part(f"invert/{name}/{seed}"))
            errors[name].append(float(sets[name].error.mean()))
        _show(folder, seed, data[1], sets)
        for method in METHODS:
            _, row = _train(spec, folder, seed, "fresh", method, data, watch_features(sets))
            for key in COLUMNS:
                cells[method][key].append(row[key])
    table = {m: {key: as_fact(mean_interval(values)) for key, values in cells[m].items()} for m in METHODS}
    printed = {m: dict(zip(COLUMNS, PRINTED[spec.dataset][m], strict=True)) for m in METHODS} if spec.dataset in PRINTED else None
    return {
        "table": table,
        "printed": printed,
        "ordering": _ordering(cells),
        "inversion": {"start": spec.inversion.start, "layer": spec.inversion.layer, "steps": spec.inversion.steps, "mean_error": errors},
        "data_sha256": {"train": train.sha256, "test": test.sha256},
    }


def _ordering(cells: Mapping[str, Mapping[str, list[float]]]) -> Json:
    """The paper's three statements, for each seed: which hold."""
    std, adv = cells["standard"], cells["adversarial"]
    return {
        "standard_reads_non_robust_more": [a > b for a, b in zip(std["feature_NR"], std["feature_R"], strict=True)],
        "adversarial_suppresses_non_robust": [a < b for a, b in zip(adv["feature_NR"], std["feature_NR"], strict=True)],
        "adversarial_strengthens_robust": [a > b for a, b in zip(adv["feature_R"], std["feature_R"], strict=True)],
    }


def _show(folder: Folder, seed: int, test: ImageBatch, sets: Mapping[str, Inverted], count: int = 8) -> None:
    """Keep some originals and reconstructions to look at."""
    images: dict[str, Tensor] = {"original": test.x[:count].clone(), **{name: data.x[:count].clone() for name, data in sets.items()}}
    folder.add(f"images/{seed}", [{"seed": seed, "count": count}], images)


EXPERIMENTS = (
    Experiment(
        name="image-features",
        paper="at",
        shows="AT Table 1 and Figures 4, 5: accuracy on robust and non-robust features over standard and adversarial training",
        spec=ImageFeatures,
        run=run,
        takes={"quick": "1 min", "cpu": "not measured", "paper": "not measured; a GPU job"},
        needs_data=("mnist",),
    ),
)
