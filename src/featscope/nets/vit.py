"""A small vision transformer: patches as tokens, blocks of attention, the mean over tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from featscope.core.errors import require, require_at_least
from featscope.nets.classifier import REPRESENTATION, ImageClassifier

#: tokens along a side of the image
GRID = 4
#: channels of an attention head
HEAD = 16


class Tokens(nn.Module):
    """Non-overlapping patches, each mapped linearly to a token, and a trained vector for each place."""

    def __init__(self, channels: int, side: int, width: int) -> None:
        super().__init__()
        patch = side // GRID
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        self.places = nn.Parameter(torch.zeros(GRID * GRID, width))

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, tokens, width)."""
        tokens: Tensor = self.embed(x).flatten(2).mT + self.places
        return tokens


class TokenMean(nn.Module):
    """LayerNorm and the mean over tokens: (N, tokens, width) → (N, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise and average."""
        mean: Tensor = self.norm(x).mean(1)
        return mean


def vit(
    channels: int = 1,
    classes: int = 10,
    side: int = 28,
    width: int = 48,
    blocks: int = 2,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> ImageClassifier:
    """A transformer on 4×4 patches with heads of 16 channels, LayerNorm first and GELU, without dropout.

    Width 48 and two blocks have as many parameters as LeNet-5, some 60 000.
    """
    require_at_least("transformer_blocks", blocks, 1)
    require(side % GRID == 0, "a side is cut into four patches", f"side={side}", "use a multiple of 4")
    require(width % HEAD == 0, "a head has 16 channels", f"width={width}", "use a multiple of 16")
    layers = {
        f"block{number + 1}": nn.TransformerEncoderLayer(
            width, width // HEAD, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        for number in range(blocks)
    }
    stages = {"tokens": Tokens(channels, side, width), **layers, REPRESENTATION: TokenMean(width)}
    return ImageClassifier(stages, width, channels, classes, mean, std)
