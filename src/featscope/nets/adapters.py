"""Networks whose outputs are not a tensor of logits (N, classes), made into ones that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Called(nn.Module):
    """Any function of images as a network."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """What the function gives."""
        return self.function(x)


class Picked(nn.Module):
    """The entry ``key`` of a network's tuple or mapping of outputs, or the attribute of that name."""

    def __init__(self, net: nn.Module, key: int | str = 0) -> None:
        super().__init__()
        self.net, self.key = net, key
        self.training = net.training

    def forward(self, x: Tensor) -> Tensor:
        """The chosen output."""
        return self.of(self.net(x), self.key)

    @staticmethod
    def of(outputs: Any, key: int | str) -> Tensor:
        """The chosen entry."""
        named = isinstance(key, str) and not isinstance(outputs, Mapping)
        chosen: Tensor = getattr(outputs, str(key)) if named else outputs[key]
        return chosen


class OneLogit(nn.Module):
    """Two logits (0, f) of a network with one output f, whose positive sign means class 1."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.training = net.training

    def forward(self, x: Tensor) -> Tensor:
        """(N, 2)."""
        score = self.net(x).flatten()
        return torch.stack([torch.zeros_like(score), score], -1)


class Cast(nn.Module):
    """A network of another precision than its images: images are cast to ``dtype`` on the way in, logits to
    the images' type on the way out."""

    def __init__(self, net: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.net, self.dtype = net, dtype
        self.training = net.training

    def forward(self, x: Tensor) -> Tensor:
        """Logits in the precision of the images."""
        outputs: Tensor = self.net(x.to(self.dtype))
        return outputs.to(x.dtype)
