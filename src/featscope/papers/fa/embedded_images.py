"""Embeddings of real images for experiments that train heads on them: which images, which encoder."""

from __future__ import annotations

from functools import partial
from typing import Literal, Self

from pydantic import model_validator
from torch import Tensor

from featscope.core.errors import unknown
from featscope.core.settings import setting
from featscope.core.store import Folder, Part
from featscope.experiments.spec import Spec
from featscope.features.embed import embed
from featscope.images.catalogue import DATASETS
from featscope.images.datasets import Split, load
from featscope.nets.encoders import Encoder

#: coordinates of an embedding, and numbers that an image leaves in the encoder, about
EMBEDDED, IN_ENCODER = 1280, 10_000_000


class EmbeddedImages(Spec):
    """Which images and encoder, and how many images a seed."""

    dataset: str = setting("cifar10", "the data set, as `featscope data list` names it")
    encoder: Literal["efficientnet-lite0", "resnet-50", "clip-vit-b-32"] = setting(
        "efficientnet-lite0", "the pretrained network whose embeddings are read"
    )
    side: int | None = setting(
        None, "side to which images are resized; the encoder's own if not given", ge=32
    )
    train: int = setting(2000, "training images of each seed", ge=20)
    test: int = setting(500, "test images of each seed", ge=10)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.dataset not in DATASETS:
            raise unknown("data set", self.dataset, DATASETS)
        return self


def embeddings(
    spec: EmbeddedImages, encoder: Encoder, seed: int, folder: Folder
) -> list[tuple[Tensor, Tensor]]:
    """Training and test embeddings of one seed with their labels, from the data folder if they are there."""
    found = []
    wanted: dict[Split, int] = {"train": spec.train, "test": spec.test}
    for split, n in wanted.items():
        images = load(spec.dataset, split)
        index = images.subset(n, seed)
        told = partial(_tell, folder.part("embeddings", split=split, seed=seed))
        found.append((embed(encoder, images, index, told=told).to(spec.torch_dtype), images.y[index]))
    return found


def _tell(part: Part, done: int, total: int) -> None:
    part.report(done, total, {})
