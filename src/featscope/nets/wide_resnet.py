"""Wide residual networks: pre-activation blocks in three stages of widths 16k, 32k, 64k (CGRO §6 uses depth
34 and k = 10)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from featscope.core.errors import require, require_at_least
from featscope.nets.classifier import REPRESENTATION, GlobalMean, ImageClassifier
from featscope.nets.resnet import PreActBlock, stage


def wide_resnet(
    channels: int = 3,
    classes: int = 10,
    depth: int = 34,
    widen: int = 10,
    base: int = 16,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> ImageClassifier:
    """WideResNet-``depth``-``widen``: (depth − 4)/6 blocks a stage, strides 1, 2, 2."""
    rule = "the depth of a wide residual network is 6n + 4"
    require(depth >= 10 and (depth - 4) % 6 == 0, rule, f"depth={depth}", "use 10, 16, 22, 28, 34, 40 …")
    require_at_least("widen", widen, 1)
    require_at_least("base", base, 1)
    blocks = (depth - 4) // 6
    stages: dict[str, nn.Module] = {"stem": nn.Conv2d(channels, base, 3, padding=1, bias=False)}
    inputs = base
    for i in range(3):
        outputs = base * widen * 2**i
        stages[f"stage{i + 1}"] = stage(PreActBlock, inputs, outputs, blocks, 1 if i == 0 else 2)
        inputs = outputs
    stages["maps"] = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
    stages[REPRESENTATION] = GlobalMean()
    return ImageClassifier(stages, inputs, channels, classes, mean, std)
