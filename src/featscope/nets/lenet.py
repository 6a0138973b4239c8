"""LeNet-5: two 5×5 convolutions with pooling and three linear layers (CGRO §6 uses it on MNIST)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from featscope.core.errors import require, require_at_least
from featscope.nets.classifier import REPRESENTATION, ImageClassifier


def lenet5(
    channels: int = 1,
    classes: int = 10,
    side: int = 28,
    width: int = 6,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> ImageClassifier:
    """LeNet-5 with ReLU and max pooling; ``width`` 6 gives the usual 6, 16, 120, 84, and other widths scale
    them all.

    The first convolution pads by 2, so 28×28 images give 14×14 and then 5×5 maps.
    """
    require_at_least("width", width, 1)
    require(side >= 12, "LeNet-5 needs images of at least 12×12", f"side={side}", "use larger images")
    second, third, fourth = (max(1, round(n * width / 6)) for n in (16, 120, 84))
    left = (side // 2 - 4) // 2
    stages = {
        "conv1": nn.Sequential(nn.Conv2d(channels, width, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        "conv2": nn.Sequential(nn.Conv2d(width, second, 5), nn.ReLU(), nn.MaxPool2d(2)),
        "linear1": nn.Sequential(nn.Flatten(), nn.Linear(second * left * left, third), nn.ReLU()),
        REPRESENTATION: nn.Sequential(nn.Linear(third, fourth), nn.ReLU()),
    }
    return ImageClassifier(stages, fourth, channels, classes, mean, std)
