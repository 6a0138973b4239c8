"""Training on real images: the spec, the way to get data and the trainer of every experiment that trains."""

from __future__ import annotations

from collections.abc import Callable

import torch

from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import setting
from featscope.core.store import Json
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, Trainer, TrainingSpec, Watch
from featscope.dynamics.schedules import Schedule
from featscope.experiments.cost import Size
from featscope.experiments.spec import Spec
from featscope.images.catalogue import dataset
from featscope.images.datasets import ImageBatch, Split, load
from featscope.images.groupings import grouping
from featscope.nets.classifier import ImageClassifier
from featscope.nets.networks import NetworkSpec

#: ResNet-18, AT's network for MNIST (§6.2), at a width that trains on two cores
RESNET = NetworkSpec(architecture="resnet", width=8, channels=1, side=28)
STANDARD = TrainingSpec(epochs=5, schedule=Schedule(peak=0.1), attack=AttackSpec(eps=0.3), held_out=0.05)


class ImageTraining(Spec):
    """Data and labels, network, training.

    One seed draws the training images, the order of the batches and, if ``first_weights`` names no other, the
    first weights.
    """

    dataset: str = setting("mnist", "the data set, as `featscope data list` names it")
    grouping: str = setting(
        "each", "labels: each class, halves, parity, superclasses, or groups such as 0,1,8|2,3"
    )
    train: int = setting(
        10_000, "training images, drawn by seed; the held-out share is taken from them", ge=50
    )
    test: int = setting(2000, "test images, the same for every seed", ge=10)
    attacked: int = setting(200, "images of each set attacked at recorded epochs; 0: none", ge=0)
    net: NetworkSpec = setting(RESNET, "the network")
    training: TrainingSpec = setting(STANDARD, "how it is trained")
    every: int = setting(1, "record every so many epochs, and the last", ge=1)
    first_weights: int | None = setting(
        None,
        "seed of the first weights, where another network's are wanted; the own seed if not given",
        later=True,
    )
    channels_last: bool = setting(
        False, "keep a pixel's channels together: faster on a CPU, and other in the last digits", later=True
    )

    def untrained(self, seed: int) -> ImageClassifier:
        """The network of a seed before its first step."""
        net = self.net.build(stream(seed if self.first_weights is None else self.first_weights, "init"))
        return net.to(memory_format=torch.channels_last) if self.channels_last else net  # type: ignore[call-overload]


class Epochs(Columns):
    """One row for each seed and recorded epoch of a training."""

    seed = column("the seed of data, first weights and batches")
    step = column("epochs trained")
    loss = column("mean training loss of the epoch before")
    held_out = column("best score on the held-out images so far; −1 before the first epoch")
    clean_held_out = column("accuracy on the held-out images")
    clean_train = column("accuracy on as many training images as there are test images")
    clean_test = column("accuracy on the test images")
    robust_train = column("accuracy under attack on training images")
    robust_test = column("accuracy under attack on test images")


def activations(net: NetworkSpec) -> float:
    """Numbers that one image leaves in the network: a stage halves the side and doubles the width."""
    layers = 2 * sum(net.blocks) * (net.widen if net.architecture == "wide-resnet" else 1)
    return float(net.side) ** 2 * net.width * layers


def training_size(spec: ImageTraining) -> Size:
    """The images, and what a batch leaves in the network; an attack repeats every step."""
    pixels = spec.net.channels * spec.net.side**2
    attacked = 1 if spec.training.method == "standard" else 1 + spec.training.attack.steps
    held = (spec.train + spec.test) * pixels + spec.training.batch_size * activations(spec.net)
    steps = spec.training.epochs * (spec.train * attacked + spec.attacked / spec.every * 20)
    return Size(held, len(spec.seeds) * steps * activations(spec.net) * spec.net.width)


def images(spec: ImageTraining, split: Split, n: int, draw: int) -> ImageBatch:
    """``n`` images of a split (all, if there are fewer), drawn by ``draw``, with the grouping's labels."""
    groups = grouping(spec.grouping, len(dataset(spec.dataset).classes))
    require(
        spec.net.classes == len(groups.parts),
        "the network needs one output for each label",
        f"net.classes={spec.net.classes}, {len(groups.parts)} labels",
        f"set net.classes={len(groups.parts)}",
    )
    source = load(spec.dataset, split)
    batch = source.batch(source.subset(min(n, len(source)), draw))
    kept = groups.kept(batch.y)
    return ImageBatch(batch.x[kept], groups(batch.y[kept]))


def data(spec: ImageTraining, seed: int) -> tuple[ImageBatch, ImageBatch]:
    """Training images by seed, and the test images."""
    return images(spec, "train", spec.train, seed), images(spec, "test", spec.test, 0)


def data_hashes(dataset: str) -> Json:
    """The SHA-256 of a data set's two splits."""
    return {"train": load(dataset, "train").sha256, "test": load(dataset, "test").sha256}


def trainer_of(
    spec: ImageTraining,
    seed: int,
    watch: Callable[[ImageBatch], Watch] | None = None,
) -> Trainer:
    """The training of one seed.

    ``watch``, given the test images, returns what else is observed at recorded epochs.
    """
    train, test = data(spec, seed)
    net = spec.untrained(seed)
    return Trainer(net, train, spec.training, seed, test, spec.attacked, watch(test) if watch else None)
