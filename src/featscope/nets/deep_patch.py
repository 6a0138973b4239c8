"""Deeper networks on patches: convolutions over the row of patches, or attention among them, with ReLU, a
mean over patches, a trained read-out.

The first layer looks at each patch by itself, as AT's does; later convolutions look at three neighbouring
patches, attention at all of them. All parameters of a run lie in one vector, so that independent runs stack
along a leading axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from featscope.core.errors import require

DeepKind = Literal["conv-1", "conv-2", "conv-3", "conv-4", "residual", "attention"]
DEEP_KINDS: tuple[DeepKind, ...] = get_args(DeepKind)
#: those without attention
CONVOLUTIONAL: tuple[DeepKind, ...] = DEEP_KINDS[:-1]
#: convolutions after the first: those of the residual net make two blocks of two
_LATER = {"conv-1": 0, "conv-2": 1, "conv-3": 2, "conv-4": 3, "residual": 4}
NEIGHBOURS = 3


@dataclass(frozen=True)
class DeepPatchNet:
    """The shape of a network: its kind, channels m, classes k and the dimension d of a patch."""

    kind: DeepKind
    width: int
    k: int
    d: int

    def __post_init__(self) -> None:
        known = self.kind in DEEP_KINDS
        require(known, "unknown kind of network", self.kind, f"use one of {list(DEEP_KINDS)}")
        require(self.width >= 1, "width must be at least 1", f"{self.width}", "raise it")

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of every layer without its bias, the read-out last; with attention: queries,
        keys, values, what is done with them, and the two layers of the block's ReLU network."""
        m = self.width
        if self.kind == "attention":
            later = [(m, m)] * 4 + [(m, 2 * m), (2 * m, m)]
        else:
            later = [(NEIGHBOURS * m, m)] * _LATER[self.kind]
        return [(self.d, m), *later, (m, self.k)]

    @property
    def size(self) -> int:
        """How many parameters a run has; every layer has biases."""
        return sum((rows + 1) * columns for rows, columns in self.shapes)

    def init(self, rng: torch.Generator) -> Tensor:
        """Gaussian weights of variance 2 ÷ inputs before a ReLU, 1 ÷ inputs elsewhere, biases 0; (size)."""
        parts, last = [], len(self.shapes) - 1
        before_relu = {5} if self.kind == "attention" else set(range(last))
        for place, (rows, columns) in enumerate(self.shapes):
            gain = math.sqrt(2.0) if place in before_relu else 1.0
            drawn = torch.randn(rows, columns, generator=rng, dtype=torch.float64) * gain / math.sqrt(rows)
            parts += [drawn.flatten(), torch.zeros(columns, dtype=torch.float64)]
        return torch.cat(parts)

    def layers(self, w: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Weights (…, inputs, outputs) and biases (…, 1, outputs) of every layer."""
        sizes = [size for rows, columns in self.shapes for size in (rows * columns, columns)]
        require(
            w.shape[-1] == self.size, "parameters do not fit the network", f"{w.shape[-1]}", f"{self.size}"
        )
        parts = torch.split(w, sizes, -1)
        return [
            (matrix.reshape(*matrix.shape[:-1], *shape), bias[..., None, :])
            for matrix, bias, shape in zip(parts[::2], parts[1::2], self.shapes, strict=True)
        ]

    def outputs(self, w: Tensor, x: Tensor) -> Tensor:
        """F(X), (…, N, k), of parameters (…, size) and points (…, N, P, d)."""
        first, *later, last = self.layers(w)

        def apply(layer: tuple[Tensor, Tensor], h: Tensor) -> Tensor:
            return (h.flatten(-3, -2) @ layer[0] + layer[1]).view(*h.shape[:-1], -1)

        if self.kind == "attention":
            query, key, value, mix, wide, narrow = later
            h = apply(first, x)
            seen = standardised(h)
            weights = apply(query, seen) @ apply(key, seen).mT / math.sqrt(self.width)
            h = h + apply(mix, weights.softmax(-1) @ apply(value, seen))
            h = h + apply(narrow, torch.relu(apply(wide, standardised(h))))
            return standardised(h).mean(-2) @ last[0] + last[1]
        h = torch.relu(apply(first, x))
        if self.kind == "residual":
            for one, two in zip(later[::2], later[1::2], strict=True):
                inner = torch.relu(apply(one, with_neighbours(h)))
                h = torch.relu(h + apply(two, with_neighbours(inner)))
        else:
            for layer in later:
                h = torch.relu(apply(layer, with_neighbours(h)))
        return h.mean(-2) @ last[0] + last[1]


def standardised(h: Tensor) -> Tensor:
    """Each patch's channels with mean 0 and variance 1: LayerNorm, whose scales the next layer has."""
    return functional.layer_norm(h, h.shape[-1:])


def with_neighbours(h: Tensor) -> Tensor:
    """Each patch's channels beside those of the patch before and after it; zeros beyond the ends."""
    nothing = torch.zeros_like(h[..., :1, :])
    before = torch.cat([nothing, h[..., :-1, :]], -2)
    after = torch.cat([h[..., 1:, :], nothing], -2)
    return torch.cat([before, h, after], -1)
