"""An image network as a frozen value: its name and sizes, as experiments write them down."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field

from featscope.core.errors import unknown
from featscope.core.frozen import Value
from featscope.nets.classifier import ImageClassifier, initialise
from featscope.nets.lenet import lenet5
from featscope.nets.resnet import resnet, resnet9
from featscope.nets.wide_resnet import wide_resnet

Architecture = Literal["lenet5", "resnet9", "resnet", "preact-resnet", "wide-resnet"]


class NetworkSpec(Value):
    """Which network: ``width`` is that of the first layer (6 is LeNet-5's, 64 ResNet's, 16 WideResNet's
    before ``widen``)."""

    architecture: Architecture = "resnet"
    width: int = Field(default=64, ge=1)
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    depth: int = 34
    widen: int = Field(default=10, ge=1)
    channels: int = Field(default=3, ge=1)
    classes: int = Field(default=10, ge=2)
    side: int = Field(default=32, ge=4)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    @property
    def layers(self) -> tuple[str, ...]:
        """The names at which its representation can be read; they do not depend on the width."""
        narrow = self if self.architecture == "lenet5" else self.replace(width=2, widen=1)
        return narrow.build(torch.Generator()).layers

    def require_layer(self, name: str) -> None:
        """Refuse a layer that the network does not have."""
        if name not in self.layers:
            raise unknown("layer", name, self.layers)

    def build(self, rng: torch.Generator) -> ImageClassifier:
        """The network with weights drawn from ``rng``."""
        channels, classes, mean, std = self.channels, self.classes, self.mean, self.std
        match self.architecture:
            case "lenet5":
                net = lenet5(channels, classes, self.side, self.width, mean, std)
            case "resnet9":
                net = resnet9(channels, classes, self.width, mean, std)
            case "wide-resnet":
                net = wide_resnet(channels, classes, self.depth, self.widen, self.width, mean, std)
            case _:
                net = resnet(
                    channels,
                    classes,
                    self.width,
                    self.blocks,
                    self.architecture == "preact-resnet",
                    mean,
                    std,
                )
        initialise(net, rng)
        return net
