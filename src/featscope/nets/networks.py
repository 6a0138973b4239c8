"""An image network as a frozen value: its name and sizes, as experiments write them down."""

from __future__ import annotations

from typing import Literal

import torch

from featscope.core.errors import unknown
from featscope.core.frozen import Value
from featscope.core.settings import Sizes, setting
from featscope.nets.classifier import ImageClassifier, initialise
from featscope.nets.lenet import lenet5
from featscope.nets.resnet import resnet, resnet9
from featscope.nets.vit import HEAD, vit
from featscope.nets.wide_resnet import wide_resnet

Architecture = Literal["lenet5", "resnet9", "resnet", "preact-resnet", "wide-resnet", "vit"]


class NetworkSpec(Value):
    """Which network: ``width`` is that of the first layer (6 is LeNet-5's, 64 ResNet's, 16 WideResNet's
    before ``widen``)."""

    architecture: Architecture = setting("resnet", "kind of network")
    width: int = setting(64, "channels of the first layer", ge=1)
    blocks: Sizes = setting((2, 2, 2, 2), "residual blocks of each stage (resnet)")
    depth: int = setting(34, "layers (wide resnet): 6n + 4")
    widen: int = setting(10, "factor of the widths (wide resnet)", ge=1)
    channels: int = setting(3, "channels of an image: 1 grey, 3 colour", ge=1)
    classes: int = setting(10, "outputs", ge=2)
    side: int = setting(32, "pixels along a side of an image", ge=4)
    mean: tuple[float, ...] | None = setting(
        None, "mean of each channel that the network subtracts; nothing if not given"
    )
    std: tuple[float, ...] | None = setting(
        None, "deviation of each channel by which the network divides; nothing if not given"
    )

    transformer_blocks: int = setting(2, "blocks of attention (vit)", ge=1, later=True)

    @property
    def layers(self) -> tuple[str, ...]:
        """The names at which its representation can be read; they do not depend on the width."""
        least = {"lenet5": self.width, "vit": HEAD}.get(self.architecture, 2)
        narrow = self.replace(width=least, widen=1)
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
            case "vit":
                net = vit(channels, classes, self.side, self.width, self.transformer_blocks, mean, std)
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
