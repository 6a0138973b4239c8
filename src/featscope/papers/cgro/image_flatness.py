"""`image-flatness` (CGRO Figure 3, right): global flatness and robust gap of many networks.

The figure follows one training over its epochs, whose points are not independent. Here every point is a
network of its own: each training size with each length of training, from its own first weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.settings import Sizes, setting
from featscope.core.stats import Correlations, as_fact, correlations, mean_correlation
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, Trained, Trainer, TrainingSpec
from featscope.dynamics.schedules import Ramp
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
from featscope.experiments.spec import Experiment, refuse_unused
from featscope.features.landscape import landscape
from featscope.nets.fold import fold
from featscope.nets.networks import NetworkSpec
from featscope.papers.cgro.image_landscape import risks
from featscope.papers.cgro.image_recipe import LENET, SETS, TRAINING, accuracies


class ImageFlatness(ImageTraining):
    """LeNet-5 on MNIST at ε = .1, each training size with each number of epochs."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "sizes": [150, 300],
            "lengths": [2, 6],
            "test": 100,
            "measured": 40,
            "attacked": 100,
            "steps": 5,
            "training.batch_size": 32,
            "training.attack.steps": 3,
        },
        "paper": {
            "sizes": [3000, 6000, 15_000, 60_000],
            "lengths": [15, 60],
            "test": 10_000,
            "measured": 10_000,
            "attacked": 10_000,
            "steps": 40,
            "training.attack.steps": 20,
            "training.autocast": True,
        },
    }

    test: int = setting(1000, "test images, the same for every network", ge=10)
    net: NetworkSpec = LENET
    training: TrainingSpec = TRAINING.replace(
        batch_size=32, attack=AttackSpec(eps=0.1, steps=5, ramp=Ramp(epochs=2))
    )
    sizes: Sizes = setting((200, 400, 800, 1600), "training images, a network for each and each length")
    lengths: Sizes = setting((20, 40), "epochs, a network for each and each size")
    measured: int = setting(200, "images of each set whose gradients are searched", ge=1)
    attacked: int = setting(500, "images of each set whose adversarial loss is measured", ge=1)
    steps: int = setting(10, "steps of each search", ge=1)

    def model_post_init(self, context: object) -> None:
        """Sizes and lengths stand in lists of their own."""
        refuse_unused(self, "set sizes or lengths", "train", "training.epochs", "every")

    def network(self, images: int, epochs: int) -> ImageTraining:
        """The training of one network."""
        shared = {name: getattr(self, name) for name in ImageTraining.model_fields}
        own = {"train": images, "training": self.training.replace(epochs=epochs), "every": epochs}
        return ImageTraining(**{**shared, **own})

    def trainings(self) -> list[ImageTraining]:
        """Every network's training."""
        return [self.network(images, epochs) for images in self.sizes for epochs in self.lengths]


class FlatNetworks(Columns):
    """One row for each network, after its last epoch; flatness within ε, means over the measured images."""

    seed = column("the seed of data, first weights and batches")
    images = column("training images, those held out among them")
    epochs = column("epochs trained")
    clean_train = column("accuracy on training images")
    clean_test = column("accuracy on test images")
    robust_train = column("accuracy under attack on training images")
    robust_test = column("accuracy under attack on test images")
    loss_train = column("clean loss on the attacked training images")
    loss_test = column("clean loss on the attacked test images")
    robust_loss_train = column("largest loss that PGD finds within ε, attacked training images: L̂_adv")
    robust_loss_test = column("largest loss that PGD finds within ε, attacked test images: L_adv")
    gradient_train = column("largest gradient norm within ε of training images: local flatness")
    gradient_test = column("largest gradient norm within ε of test images: global flatness")


def run(spec: ImageFlatness, folder: Folder) -> Json:
    """Train every network and measure it; correlate gap and global flatness over the networks of a seed."""
    found: list[Correlations] = []
    for seed in spec.seeds:
        rows: Rows = []
        for one in spec.trainings():
            labels = {"seed": seed, "images": one.train, "epochs": one.training.epochs}
            trainer = trainer_of(one, seed)
            state = trainer.run(folder.part("training", **labels), one.every).state
            rows += folder.once("network", partial(_measure, spec, one, trainer, state), **labels).rows
        gaps = [row[FlatNetworks.robust_loss_test] - row[FlatNetworks.robust_loss_train] for row in rows]
        found.append(correlations(gaps, [row[FlatNetworks.gradient_test] for row in rows]))
    kinds = {"pearson": [pair.pearson for pair in found], "spearman": [pair.spearman for pair in found]}
    facts: Json = {kind: as_fact(mean_correlation(values)) for kind, values in kinds.items()}
    return {**facts, "networks": len(spec.trainings()), "data_sha256": data_hashes(spec.dataset)}


def _measure(
    spec: ImageFlatness, one: ImageTraining, trainer: Trainer, state: Trained
) -> tuple[Rows, dict[str, Tensor]]:
    assert trainer.test is not None
    net, threat = trainer.last(state), spec.training.attack.threat()
    row: dict[str, float] = accuracies(one, trainer, net)
    for name, images in zip(SETS, (trainer.train, trainer.test), strict=True):
        x, y = Trainer.some(images, spec.measured)
        quick = fold(net, x).model
        flat = landscape(quick, x, y, threat, (threat.eps,), spec.steps, stream(trainer.seed, "flat", name))
        row[f"gradient_{name}"] = float(flat.gradient.mean())
        draws = stream(trainer.seed, "risk", name)
        told = risks(quick, images, spec.attacked, threat, spec.steps, draws)
        row |= {f"{key}_{name}": value for key, value in told.items()}
    return [row], {}


def size(spec: ImageFlatness) -> Size:
    """All trainings, and the searches at each network."""
    each = [training_size(one) for one in spec.trainings()]
    looks = 4 * len(spec.seeds) * len(each) * spec.steps * (spec.measured + spec.attacked)
    work = sum(one.work for one in each) + looks * activations(spec.net)
    return Size(max(one.numbers for one in each), work)


EXPERIMENTS = (
    Experiment(
        name="image-flatness",
        paper="cgro",
        shows="CGRO Figure 3, right, over networks instead of epochs: robust gap and global flatness, eight "
        "networks a seed",
        spec=ImageFlatness,
        run=run,
        takes={"quick": "1 min", "cpu": "11 min", "paper": "not measured; a GPU job"},
        highlights=(
            Highlight("pearson", "correlation of gap and global flatness over networks"),
            Highlight("spearman", "the same by ranks"),
            Highlight("networks", "networks of each seed"),
        ),
        size=size,
        columns={"training": Epochs, "network": FlatNetworks},
        apart=("training", "network"),
        data=lambda spec: (spec.dataset,),
    ),
)
