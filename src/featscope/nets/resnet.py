"""Residual networks for small images: ResNet of any depth and width, its pre-activation form, and ResNet-9.

All keep the full resolution in the stem (3×3, stride 1) and work for any image size.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from featscope.core.errors import require, require_at_least
from featscope.nets.classifier import REPRESENTATION, GlobalMax, GlobalMean, ImageClassifier


def _conv(inputs: int, outputs: int, stride: int = 1, size: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class Block(nn.Module):
    """x ↦ ReLU(BN(conv(ReLU(BN(conv x)))) + shortcut(x)); the shortcut is a normalised 1×1 convolution where
    the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = _conv(outputs, outputs), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        same = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(_conv(inputs, outputs, stride, 1), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        """One residual step."""
        inner = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        out: Tensor = self.relu(inner + self.shortcut(x))
        return out


class PreActBlock(nn.Module):
    """x ↦ conv(ReLU(BN(conv(a)))) + shortcut with a = ReLU(BN x); a shortcut that changes the shape reads a,
    another reads x."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), _conv(inputs, outputs, stride)
        self.norm2, self.conv2 = nn.BatchNorm2d(outputs), _conv(outputs, outputs)
        self.relu = nn.ReLU()
        same = stride == 1 and inputs == outputs
        self.shortcut = None if same else _conv(inputs, outputs, stride, 1)

    def forward(self, x: Tensor) -> Tensor:
        """One residual step."""
        ready = self.relu(self.norm1(x))
        past = x if self.shortcut is None else self.shortcut(ready)
        out: Tensor = self.conv2(self.relu(self.norm2(self.conv1(ready)))) + past
        return out


def stage(
    block: type[Block] | type[PreActBlock], inputs: int, outputs: int, blocks: int, stride: int
) -> nn.Sequential:
    """``blocks`` blocks, the first of which changes width and resolution."""
    return nn.Sequential(
        *(block(inputs if i == 0 else outputs, outputs, stride if i == 0 else 1) for i in range(blocks))
    )


def resnet(
    channels: int = 3,
    classes: int = 10,
    width: int = 64,
    blocks: Sequence[int] = (2, 2, 2, 2),
    pre_activation: bool = False,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> ImageClassifier:
    """ResNet with ``blocks`` blocks a stage; (2, 2, 2, 2) is ResNet-18. Widths double from stage to stage,
    starting at ``width``."""
    require_at_least("width", width, 1)
    require(
        len(blocks) > 0 and min(blocks) >= 1,
        "every stage needs a block",
        f"blocks={tuple(blocks)}",
        "use 1 or more",
    )
    block: type[Block] | type[PreActBlock] = PreActBlock if pre_activation else Block
    stem = _conv(channels, width)
    stages: dict[str, nn.Module] = {
        "stem": stem if pre_activation else nn.Sequential(stem, nn.BatchNorm2d(width), nn.ReLU())
    }
    inputs = width
    for i, count in enumerate(blocks):
        outputs = width * 2**i
        stages[f"stage{i + 1}"] = stage(block, inputs, outputs, count, 1 if i == 0 else 2)
        inputs = outputs
    if pre_activation:
        stages["maps"] = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
    stages[REPRESENTATION] = GlobalMean()
    return ImageClassifier(stages, inputs, channels, classes, mean, std)


class Residual(nn.Module):
    """x ↦ x + two normalised convolutions of x."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_unit(width, width), *_unit(width, width))

    def forward(self, x: Tensor) -> Tensor:
        """One residual step."""
        out: Tensor = x + self.body(x)
        return out


def _unit(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return (_conv(inputs, outputs), nn.BatchNorm2d(outputs), nn.ReLU())


def resnet9(
    channels: int = 3,
    classes: int = 10,
    width: int = 64,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> ImageClassifier:
    """ResNet-9: four convolutions of widths w, 2w, 4w, 8w, pooling after the last three, residual steps after
    the second and the last."""
    require_at_least("width", width, 1)
    pool = nn.MaxPool2d(2)
    stages: dict[str, nn.Module] = {
        "stem": nn.Sequential(*_unit(channels, width)),
        "stage1": nn.Sequential(*_unit(width, 2 * width), pool, Residual(2 * width)),
        "stage2": nn.Sequential(*_unit(2 * width, 4 * width), pool),
        "stage3": nn.Sequential(*_unit(4 * width, 8 * width), pool, Residual(8 * width)),
        REPRESENTATION: GlobalMax(),
    }
    return ImageClassifier(stages, 8 * width, channels, classes, mean, std)
