"""Feature learning accuracy (AT Definitions 4.1 and A.1): how often a network reads the label in images that
hold only some features."""

from __future__ import annotations

import torch
from torch import nn

from featscope.attacks.mode import in_mode
from featscope.core.losses import margin
from featscope.core.stats import Interval, wilson
from featscope.features.invert import Inverted


@torch.no_grad()
def feature_accuracy(net: nn.Module, data: Inverted, batch: int = 500) -> Interval:
    """P[argmax F(X̂) = y] over the reconstructed images, with Wilson's interval; a tie is wrong. The network
    is read in evaluation mode."""
    with in_mode(net, "eval"):
        hits = [
            margin(net(x), y) > 0
            for x, y in zip(torch.split(data.x, batch), torch.split(data.y, batch), strict=True)
        ]
    return wilson(int(torch.cat(hits).sum()), len(data.y))
