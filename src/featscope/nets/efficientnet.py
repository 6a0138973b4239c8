"""EfficientNet-Lite0: inverted residual blocks with ReLU6, without squeeze-and-excitation (Tan & Le 2019; the
Lite form of 2020).

    block(x) = [x +] BN(project(ReLU6(BN(depthwise(ReLU6(BN(expand x)))))))      the sum where shapes agree
    and the stride is 1.

Convolutions of stride 2 pad as TensorFlow's SAME does on even sides — (k − 2) in all, the smaller half first
— so sides must be multiples of 32. The representation is the mean over positions of the last ReLU6, 1280
numbers, none negative.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import Tensor, nn

from featscope.core.errors import require
from featscope.nets.classifier import REPRESENTATION, GlobalMean, ImageClassifier

#: all strides together: sides are multiples of it
STRIDE = 32
#: pixel p of 0 … 255 enters as (p − 127)/128
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3
EPSILON = 1e-3


class Stage(NamedTuple):
    """A row of the architecture's table: blocks, kernel, stride of the first, expansion, output channels."""

    repeat: int
    kernel: int
    stride: int
    expand: int
    width: int


LITE0 = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
STEM, TOP, CLASSES = 32, 1280, 1000


def _conv(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """SAME padding, convolution without bias, BatchNorm."""
    even = [nn.ZeroPad2d(((kernel - 2) // 2, kernel - 2 - (kernel - 2) // 2) * 2)] if stride == 2 else []
    conv = nn.Conv2d(
        inside, outside, kernel, stride, 0 if stride == 2 else kernel // 2, groups=groups, bias=False
    )
    return [*even, conv, nn.BatchNorm2d(outside, eps=EPSILON)]


class InvertedResidual(nn.Module):
    """Expand by 1×1, filter each channel, project by 1×1; added to the input where shapes agree."""

    def __init__(self, inside: int, outside: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = inside * expand
        wide = [*_conv(inside, inner, 1), nn.ReLU6(inplace=True)] if expand > 1 else []
        each = [*_conv(inner, inner, kernel, stride, groups=inner), nn.ReLU6(inplace=True)]
        self.path = nn.Sequential(*wide, *each, *_conv(inner, outside, 1))
        self.added = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        y: Tensor = self.path(x)
        return x + y if self.added else y


def efficientnet_lite0(
    table: Iterable[Stage] = LITE0, stem: int = STEM, top: int = TOP, classes: int = CLASSES
) -> ImageClassifier:
    """The network for images in [0, 1] whose sides are multiples of 32; a shorter table makes a smaller one
    of the same form."""
    stages: dict[str, nn.Module] = {"stem": nn.Sequential(*_conv(3, stem, 3, 2), nn.ReLU6(inplace=True))}
    width = stem
    for row in table:
        for number in range(row.repeat):
            stride = row.stride if number == 0 else 1
            stages[f"block{len(stages) - 1}"] = InvertedResidual(
                width, row.width, row.kernel, stride, row.expand
            )
            width = row.width
    stages["top"] = nn.Sequential(*_conv(width, top, 1), nn.ReLU6(inplace=True))
    stages[REPRESENTATION] = GlobalMean()
    return ImageClassifier(stages, top, 3, classes, MEAN, STD)


def load_published(net: ImageClassifier, weights: Mapping[str, Tensor]) -> None:
    """Put weights with the published names (`_conv_stem`, `_blocks.0._bn1`, …) into ``net``; all must fit,
    none may be left."""
    layers = [
        module for module in net.modules() if isinstance(module, nn.Conv2d | nn.BatchNorm2d | nn.Linear)
    ]
    owners = _in_order(weights)
    rule, remedy = (
        "the weights do not fit EfficientNet-Lite0",
        "fetch them again: `featscope data fetch efficientnet-lite0 --force`",
    )
    require(len(owners) == len(layers), rule, f"{len(owners)} layers where it has {len(layers)}", remedy)
    for owner, layer in zip(owners, layers, strict=True):
        part = {key: weights[f"{owner}.{key}"] for key in layer.state_dict() if f"{owner}.{key}" in weights}
        have, want = ({k: tuple(v.shape) for k, v in found.items()} for found in (part, layer.state_dict()))
        require(have == want, rule, f"{owner}: {have} where it has {want}", remedy)
        layer.load_state_dict(part)


def _in_order(names: Iterable[str]) -> list[str]:
    """The published names of the layers from the input to the output; within a block convolutions and
    BatchNorms alternate."""
    inner = ("_expand_conv", "_bn0", "_depthwise_conv", "_bn1", "_project_conv", "_bn2")

    def place(owner: str) -> tuple[int, int, int]:
        found = re.fullmatch(r"_blocks\.(\d+)\.(\w+)", owner)
        if found and found[2] in inner:
            return 1, int(found[1]), inner.index(found[2])
        outer = {
            "_conv_stem": (0, 0, 0),
            "_bn0": (0, 0, 1),
            "_conv_head": (2, 0, 0),
            "_bn1": (2, 0, 1),
            "_fc": (2, 0, 2),
        }
        return outer.get(owner, (3, 0, 0))

    return sorted({name.rpartition(".")[0] for name in names}, key=place)
