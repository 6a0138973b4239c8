"""What the experiments on adversarial training of real images share (CGRO Figures 1 to 3): data, network, training, and facts over seeds."""

from __future__ import annotations

import math

from pydantic import Field

from featscope.core.stats import Interval
from featscope.core.store import Json
from featscope.dynamics.image_training import AttackSpec, TrainingSpec
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.spec import Spec
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
    train: int = Field(default=5000, ge=50, description="training images, drawn by seed; the held-out share is taken from them")
    test: int = Field(default=2000, ge=10, description="test images, the same for every seed")
    net: NetworkSpec = LENET
    training: TrainingSpec = TRAINING
    every: int = Field(default=1, ge=1)


def data(spec: ImageTraining, seed: int) -> tuple[ImageBatch, ImageBatch]:
    """Training images by seed, and the test images."""
    train, test = load(spec.dataset, "train"), load(spec.dataset, "test")
    picked = train.subset(min(spec.train, len(train)), seed)
    return train.batch(picked), test.batch(test.subset(min(spec.test, len(test)), 0))


def hashes(spec: ImageTraining) -> Json:
    """The SHA-256 of the data."""
    return {"train": load(spec.dataset, "train").sha256, "test": load(spec.dataset, "test").sha256}


def as_fact(value: Interval) -> Json:
    """A mean over seeds with its interval; one seed has no interval."""
    ends = [value.low, value.high]
    return {"mean": value.value, "interval": ends if all(map(math.isfinite, ends)) else None}
