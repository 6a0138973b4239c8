"""EP's packing on a curved manifold: random labels on a grid, carried by a graph over k coordinates.

x = (p, ½ + ε0 φ(p), ½ + (bend/2) sin …) with p on a grid of [0, 1]^{k−1} whose spacing exceeds 2ε, a random
label φ(p) = ±1 for each site, and d − k further coordinates that bend with the site. The first k coordinates
are a chart: distances in ℓ∞ are at least those of the chart, so opposite points stay 2ε apart; they are
separated by x_k = ½, and a displacement of ε0 < δ crosses it. With k = d nothing is bent: EP's general
packing.
"""

from __future__ import annotations

import math

import torch
from pydantic import model_validator
from torch import Tensor

from featscope.core.conditions import Condition, asks_at_least, asks_at_most
from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.settings import setting
from featscope.core.streams import stream
from featscope.laws.separated import Labelled


def packing_levels(half: float) -> int:
    """Sites of an axis of [0, 1] whose spacing exceeds twice ``half``."""
    require(0 < half < 0.5, "δ must lie between 0 and ½", f"delta={half}", "change delta")
    return math.ceil(1 / (2 * half))


class GraphPackingLaw(Value):
    """Random labels on the sites of a k-dimensional graph in [0, 1]^d, 2ε apart in ℓ∞."""

    k: int = setting(4, "intrinsic dimension", letter="k", ge=2)
    d: int = setting(16, "ambient dimension", letter="d", ge=2)
    eps: float = setting(0.2, "half the separation", letter="ε", gt=0, lt=0.5)
    delta: float = setting(0.15, "radius of the perturbation", letter="δ", gt=0)
    shift_share: float = setting(0.5, "ε0 as a share of δ", gt=0, lt=1)
    bend: float = setting(0.5, "height of the waves; 0 is a flat manifold", ge=0, le=1)
    label_seed: int = setting(0, "seed of the labels", ge=0)

    @model_validator(mode="after")
    def _room(self) -> GraphPackingLaw:
        require(self.k <= self.d, "the manifold needs k ≤ d", f"k={self.k}, d={self.d}", "raise d")
        return self

    @property
    def levels(self) -> int:
        """Sites along an axis."""
        return packing_levels(self.eps)

    @property
    def sites(self) -> int:
        """L^{k−1}."""
        return int(self.levels ** (self.k - 1))

    def check(self) -> list[Condition]:
        """The talk's assumption on separated data, and that the clean classifier is fragile."""
        spacing = 1 / (self.levels - 1)
        shift = self.shift_share * self.delta
        return [
            asks_at_least("separated", "d(A, B) ≥ 2ε", spacing, 2 * self.eps),
            asks_at_most("radius", "δ < ε", self.delta, self.eps),
            asks_at_most("fragile", "ε0 < δ: the clean classifier is not robust", shift, self.delta),
        ]

    def support(self) -> Labelled:
        """Every site with its label."""
        require(self.sites <= 20_000, "the support is too large to list", f"{self.sites} sites", "lower k")
        axes = [torch.linspace(0, 1, self.levels, dtype=torch.float64)] * (self.k - 1)
        p = torch.cartesian_prod(*axes).view(-1, self.k - 1)
        rng = stream(self.label_seed, "labels", self.k)
        y = 2.0 * torch.randint(0, 2, (len(p),), generator=rng).double() - 1
        return Labelled(self._points(p, 0.5 + self.shift_share * self.delta * y), y)

    def surface(self, n: int) -> Tensor:
        """n points of the manifold itself."""
        z = torch.rand(n, self.k, generator=stream(self.label_seed, "surface", self.k), dtype=torch.float64)
        return self._points(z[:, :-1], z[:, -1])

    def _points(self, p: Tensor, height: Tensor) -> Tensor:
        return torch.cat([p, height[:, None], self._waves(p)], -1)

    def _waves(self, p: Tensor) -> Tensor:
        """(n, d − k): what is bent."""
        rest = torch.arange(self.d - self.k)
        # A third of a period a site, or a wave would be the same on all of them.
        phase = 2 * math.pi * (p[:, rest % (self.k - 1)] * (self.levels - 1) / 3 + rest / self.d)
        return 0.5 + self.bend / 2 * torch.sin(phase)

    def curvature(self, n: int = 500) -> float:
        """The (k+1)-st singular value of n centred points ÷ the first: 0 where a k-dimensional plane holds
        the manifold."""
        x = self.surface(n)
        values = torch.linalg.svdvals(x - x.mean(0))
        return float(values[self.k] / values[0]) if self.d > self.k else 0.0
