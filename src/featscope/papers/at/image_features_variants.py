"""Table 1 at other widths and on the paper's other data: the same experiment with settings of its own.

Sizes were fixed before any network was trained, by the time that two cores have (docs/images-at.md): two
starts of two networks each, and so many images that the widest network of a variant trains in minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from featscope.dynamics.image_training import TrainingSpec
from featscope.experiments.image_network import ADVERSARIAL, CIFAR_NET, ImageNetwork
from featscope.experiments.image_training import STANDARD
from featscope.experiments.spec import Experiment
from featscope.features.invert import InversionSpec
from featscope.papers.at.image_features import (
    FEATURES_COLUMNS,
    FEATURES_HIGHLIGHTS,
    INVERSION,
    PAPER,
    QUICK,
    ImageFeatures,
    features_size,
    needed,
    run,
)

_QUICK: Mapping[str, Any] = {
    **QUICK,
    "seeds": [0, 1, 2, 3],
    "images": 30,
    "attacked": 60,
    "inversion.steps": 30,
}
_PAPER: Mapping[str, Any] = {
    **PAPER,
    "seeds": [0, 1, 2, 3],
    "images": 10_000,
    "attacked": 10_000,
    "inversion.steps": 2000,
    "network.training.autocast": False,
    "adversarial.autocast": False,
}
#: mixed precision for the widest, and so for all that are compared with it
_FEW = STANDARD.replace(epochs=6, batch_size=50, autocast=True)
_FEW_ADVERSARIAL = ADVERSARIAL.replace(
    epochs=8, batch_size=50, autocast=True, select="clean", attack=ADVERSARIAL.attack.replace(steps=3)
)
_COLOUR = STANDARD.replace(epochs=7, batch_size=64, attack=STANDARD.attack.replace(eps=8 / 255))
_COLOUR_ADVERSARIAL = ADVERSARIAL.replace(
    epochs=7, batch_size=64, select="clean", attack=ADVERSARIAL.attack.replace(eps=8 / 255, steps=2)
)


class FewImages(ImageFeatures, registered="image-features-widths"):
    """MNIST at any width: the training is the same, so that only `network.net.width` differs."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": _QUICK,
        "paper": {key: value for key, value in _PAPER.items() if key != "network.net.width"},
    }

    seeds: tuple[int, ...] = (0, 1, 2, 3)
    network: ImageNetwork = ImageNetwork(train=2500, attacked=0, training=_FEW, channels_last=True)
    adversarial: TrainingSpec = _FEW_ADVERSARIAL
    images: int = Field(default=50, ge=2)
    attacked: int = Field(default=300, ge=0)


def _colour(dataset: str) -> ImageNetwork:
    return ImageNetwork(
        dataset=dataset, train=6000, attacked=0, net=CIFAR_NET, training=_COLOUR, channels_last=True
    )


class CifarFeatures(ImageFeatures, registered="image-features-cifar10"):
    """CIFAR-10 at 8/255 with a narrow network."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": _QUICK,
        "paper": {**_PAPER, "network.train": 50_000},
    }

    seeds: tuple[int, ...] = (0, 1, 2, 3)
    network: ImageNetwork = _colour("cifar10")
    adversarial: TrainingSpec = _COLOUR_ADVERSARIAL
    inversion: InversionSpec = INVERSION.replace(steps=200)
    images: int = Field(default=100, ge=2)
    attacked: int = Field(default=500, ge=0)


class SvhnFeatures(CifarFeatures, registered="image-features-svhn"):
    """SVHN at 8/255, as CIFAR-10."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": _QUICK,
        "paper": {**_PAPER, "network.train": 73_257},
    }

    network: ImageNetwork = _colour("svhn")


def _variant(name: str, spec: type[ImageFeatures], shows: str, cpu: str) -> Experiment[Any]:
    return Experiment(
        name=name,
        paper="at",
        shows=f"AT Table 1 {shows}",
        spec=spec,
        run=run,
        takes={"quick": "1 min", "cpu": cpu, "paper": "not measured; a GPU job"},
        highlights=FEATURES_HIGHLIGHTS,
        size=features_size,
        columns=FEATURES_COLUMNS,
        data=lambda spec: (spec.network.dataset,),
        needs=needed,
    )


EXPERIMENTS = (
    _variant(
        "image-features-widths",
        FewImages,
        "on MNIST with few images, at any width of the network",
        "2 min, and 3 min for its eight networks of width 8",
    ),
    _variant("image-features-cifar10", CifarFeatures, "on CIFAR-10 with a narrow network", "10 min"),
    _variant("image-features-svhn", SvhnFeatures, "on SVHN with a narrow network", "10 min"),
)
