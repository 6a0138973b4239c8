"""`image-lambda`: the weight λ of attacked images in CGRO's objective (O), on real images.

§3.3 trains on (1 − λ)·clean + λ·attacked loss. On the signal law λ decides what is learned (`signal-scaling`,
sweep `tradeoffs`): λ = 0 memorises nothing, λ = 1 does not learn the signal. Here the same objective trains a
network on few images, PGD in place of (A), for several λ on the same images and first weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import Shares, setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.dynamics.image_training import AttackSpec, Trained, Trainer, TrainingSpec
from featscope.dynamics.schedules import Ramp
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_training import Epochs, ImageTraining, data_hashes, trainer_of, training_size
from featscope.experiments.spec import Experiment
from featscope.nets.networks import NetworkSpec
from featscope.papers.cgro.image_recipe import FEW_IMAGES, LENET, TRAINING, accuracies


class ImageLambda(ImageTraining):
    """Figure 1's small set and radius, trained on (O)."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            **FEW_IMAGES,
            "attacked": 60,
            "training.epochs": 4,
            "training.attack.steps": 2,
            "training.select_steps": 5,
        },
        "paper": {
            "lams": [0.0, 0.5, 0.9, 0.99, 1.0],
            "train": 60_000,
            "test": 10_000,
            "attacked": 10_000,
            "training.attack.steps": 20,
        },
    }

    lams: Shares = setting((0.0, 0.9, 1.0), "weights of the attacked loss that are swept", letter="λ")
    train: int = Field(default=1000, ge=50)
    net: NetworkSpec = LENET
    training: TrainingSpec = TRAINING.replace(
        method="mixed",
        epochs=20,
        batch_size=32,
        select="clean",
        attack=AttackSpec(eps=0.2, steps=5, ramp=Ramp(epochs=5)),
        select_steps=20,
    )
    attacked: int = setting(500, "images of each set that are attacked after the last epoch", ge=1)
    every: int = Field(default=1000, ge=1)

    def model_post_init(self, context: object) -> None:
        """(O) is the mixed method, and its weight is what is swept."""
        mixed = self.training.method == "mixed"
        require(mixed, "(O) is trained by the method `mixed`", f"method={self.training.method}", "use it")
        some = 0 < len(self.lams) == len(set(self.lams))
        require(some, "weights must be named, each once", f"lams={self.lams}", "name each once")

    def at(self, lam: float) -> ImageTraining:
        """The training with one weight; nothing is attacked on the way."""
        return ImageTraining(
            **{name: getattr(self, name) for name in ImageTraining.model_fields}
            | {"training": self.training.replace(lam=lam), "attacked": 0}
        )

    def trainings(self) -> tuple[ImageTraining, ...]:
        """Everything that is trained."""
        return tuple(self.at(lam) for lam in self.lams)


class LambdaTraining(Epochs):
    """One row for each λ, seed and recorded epoch."""

    lam = column("λ, the weight of the attacked loss")


class LambdaEnd(Columns):
    """One row for each λ and seed after the last epoch."""

    lam = column("λ, the weight of the attacked loss")
    seed = column("the seed of images, first weights and batches")
    clean_train = column("accuracy on training images")
    clean_test = column("accuracy on test images")
    robust_train = column("accuracy under attack on training images")
    robust_test = column("accuracy under attack on test images")


def _ended(spec: ImageLambda, trainer: Trainer, state: Trained) -> tuple[Rows, dict[str, Tensor]]:
    return [accuracies(spec, trainer, trainer.last(state))], {}


def run(spec: ImageLambda, folder: Folder) -> Json:
    """Train every λ and seed, and attack what comes out."""
    facts: Json = {}
    keys = (LambdaEnd.clean_train, LambdaEnd.clean_test, LambdaEnd.robust_train, LambdaEnd.robust_test)
    for lam in spec.lams:
        rows: Rows = []
        for seed in spec.seeds:
            trainer = trainer_of(spec.at(lam), seed)
            done = trainer.run(folder.part("training", lam=lam, seed=seed), spec.every)
            rows += folder.once("ended", partial(_ended, spec, trainer, done.state), lam=lam, seed=seed).rows
        facts[f"{lam:g}"] = {str(key): as_fact(mean_interval([row[key] for row in rows])) for key in keys}
    return {"lams": facts, "data_sha256": data_hashes(spec.dataset)}


def size(spec: ImageLambda) -> Size:
    """The trainings with their attacks."""
    one = training_size(spec)
    return Size(one.numbers, one.work * len(spec.lams))


EXPERIMENTS = (
    Experiment(
        name="image-lambda",
        paper="cgro",
        shows="CGRO's objective (O) on real images over the weight λ of attacked images: clean and robust "
        "accuracy, training and test",
        spec=ImageLambda,
        run=run,
        takes={"quick": "20 s", "cpu": "4 min", "paper": "not measured; a GPU job"},
        highlights=(
            Highlight("lams/*/clean_test", "clean accuracy on test images, λ = {}", "share"),
            Highlight("lams/*/robust_train", "accuracy under attack on training images, λ = {}", "share"),
            Highlight("lams/*/robust_test", "accuracy under attack on test images, λ = {}", "share"),
        ),
        size=size,
        columns={"training": LambdaTraining, "ended": LambdaEnd},
        data=lambda spec: (spec.dataset,),
    ),
)
