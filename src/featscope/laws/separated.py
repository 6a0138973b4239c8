"""Separated laws of CGRO §5 and EP: the packing on a hyperplane with random labels, free separated sets, and
a curved manifold.

Packing (proof of Theorem 5.3): sites p of a grid with spacing R on [margin, 1−margin]^{D−1}, a random label
φ(p) = ±1 for each, and the point (p, ½ + ε0 φ(p)). The classes are linearly separable by x_D = ½ and
R-separated in every ℓp norm, yet a displacement of ε0 < δ crosses the hyperplane, so robustness asks a
network to know φ.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor

from featscope.core.balls import ball
from featscope.core.conditions import Condition, asks_at_least, asks_at_most
from featscope.core.errors import require, require_whole
from featscope.core.frozen import Value
from featscope.core.settings import setting
from featscope.core.streams import stream


class Labelled(NamedTuple):
    """Points x (N, D) with labels y = ±1 (N,)."""

    x: Tensor
    y: Tensor


class RadiusSetting(NamedTuple):
    """What is asked of a classifier of a separated law: to be robust at radius δ."""

    delta: float


def _separated(separation: float, setting: RadiusSetting) -> Condition:
    """Assumption 5.1 for classes that are ``separation`` apart."""
    return asks_at_least("separated", "dist(A, B) > 2δ (R against 2δ)", separation, 2 * setting.delta)


class PackingLaw(Value):
    """Random labels on a grid of L^{D−1} sites in the hyperplane x_D = ½, displaced by ε0 towards their
    class."""

    D: int = setting(16, "dimension", ge=2)
    levels: int = setting(3, "L, sites along each axis", ge=2)
    margin: float = setting(0.1, "distance of the grid from the cube's faces", gt=0, lt=0.5)
    delta_share: float = setting(0.8, "δ as a share of R/2", gt=0, lt=1)
    shift_share: float = setting(0.5, "ε0 as a share of δ", gt=0, lt=1)
    label_seed: int = Field(default=0, ge=0)

    @property
    def spacing(self) -> float:
        """R: distance of neighbouring sites, hence a lower bound of the distance of the classes."""
        return (1 - 2 * self.margin) / (self.levels - 1)

    @property
    def radius(self) -> float:
        """δ < R/2."""
        return self.delta_share * self.spacing / 2

    @property
    def shift(self) -> float:
        """ε0 < δ."""
        return self.shift_share * self.radius

    @property
    def sites(self) -> int:
        """n = L^{D−1}, the number of points of the support."""
        return int(self.levels ** (self.D - 1))

    @model_validator(mode="after")
    def _fits(self) -> PackingLaw:
        fits = self.shift < 0.5
        require(fits, "the displacement must stay in the cube", f"ε0={self.shift}", "lower shift_share")
        return self

    def label(self, site: Tensor) -> Tensor:
        """φ(site): a fixed random function of the site's indices (…, D−1)."""
        rows = site.reshape(-1, self.D - 1).to(torch.uint8 if self.levels <= 256 else torch.int64).numpy()
        signs = [
            1.0 - 2 * (hashlib.sha256(f"{self.label_seed}/".encode() + row.tobytes()).digest()[0] & 1)
            for row in rows
        ]
        return torch.tensor(signs, dtype=torch.float64).view(site.shape[:-1])

    def place(self, site: Tensor) -> Labelled:
        """The points of the given sites (N, D−1)."""
        y = self.label(site)
        base = self.margin + self.spacing * site.double()
        return Labelled(torch.cat([base, (0.5 + self.shift * y)[:, None]], -1), y)

    def sample(self, n: int, rng: torch.Generator | None = None, seed: int = 0) -> Labelled:
        """Draw n points uniformly from the support."""
        rng = rng or stream(seed, "data")
        require_whole("n", n, 1)
        return self.place(torch.randint(0, self.levels, (n, self.D - 1), generator=rng))

    def support(self) -> Labelled:
        """The whole support, where it is small enough to list."""
        require(
            self.sites <= 200_000, "the support is too large to list", f"{self.sites} sites", "sample instead"
        )
        axes = [torch.arange(self.levels)] * (self.D - 1)
        return self.place(torch.cartesian_prod(*axes).view(-1, self.D - 1))

    @property
    def own_radius(self) -> RadiusSetting:
        """The setting that the law is made for: robustness at its own δ."""
        return RadiusSetting(self.radius)

    def check(self, setting: RadiusSetting) -> list[Condition]:
        """Assumption 5.1 at this setting, and that the clean classifier is fragile there."""
        text = "ε0 < δ: the clean classifier x_D > ½ is not robust"
        return [_separated(self.spacing, setting), asks_at_most("fragile", text, self.shift, setting.delta)]


def packing_for(dim: int, least_sites: int, seed: int) -> PackingLaw:
    """The packing law with the fewest levels (at least 3) that has ``least_sites`` sites."""
    levels = max(3, math.ceil(least_sites ** (1 / (dim - 1))))
    return PackingLaw(D=dim, levels=levels, label_seed=seed)


class SeparatedLaw(Value):
    """Points of the unit cube whose classes, drawn in turn, are at least R apart in a norm."""

    d: int = setting(16, "dimension", ge=1)
    norm: str = "Linf"
    separation: float = setting(0.3, "R in the norm", gt=0)

    def check(self, setting: RadiusSetting) -> list[Condition]:
        """Assumption 5.1 at this setting."""
        return [_separated(self.separation, setting)]

    def sample(self, n: int, rng: torch.Generator | None = None, seed: int = 0) -> Labelled:
        """Draw n points uniformly, rejecting a point that is closer than R to the other class."""
        rng, sphere = rng or stream(seed, "data"), ball(self.norm, self.separation)
        x = torch.empty(0, self.d, dtype=torch.float64)
        y = torch.empty(0, dtype=torch.float64)
        for _ in range(200):
            draw = torch.rand(4 * n, self.d, generator=rng, dtype=torch.float64)
            for point in draw:
                label = torch.tensor(1.0 if len(y) % 2 == 0 else -1.0, dtype=torch.float64)
                other = x[y == -label]
                if len(other) == 0 or float(sphere.norm(other - point).min()) >= self.separation:
                    x, y = torch.cat([x, point[None]]), torch.cat([y, label[None]])
                if len(y) == n:
                    return Labelled(x, y)
        rule, given = (
            "the separation leaves no room for the sample",
            f"d={self.d}, separation={self.separation}",
        )
        require(False, rule, f"n={n}, {given}", "lower n or the separation, or raise d")
        return Labelled(x, y)


class ManifoldLaw(Value):
    """A curved k-dimensional manifold in R^d with a packing in its chart: x = ½ + c·Q·(z − ½, bend·h(z)).

    Q is orthogonal, h(z)_j = sin(2π(z_{j mod k} + j/d))/√d. The first k coordinates of Qᵀ(x − ½)/c recover z:
    the chart is linear although the manifold is not. Points of the chart that are a apart are at least c·a
    apart in R^d, and a perturbation of ℓ2 length δ moves the chart by at most δ/c.
    """

    k: int = setting(3, "intrinsic dimension", ge=2)
    d: int = setting(64, "ambient dimension", ge=2)
    levels: int = Field(default=3, ge=2)
    bend: float = Field(default=0.5, ge=0)
    delta_share: float = Field(default=0.4, gt=0, lt=1)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _room(self) -> ManifoldLaw:
        require(self.d > self.k, "the manifold needs k < d", f"k={self.k}, d={self.d}", "raise d")
        return self

    @property
    def chart(self) -> PackingLaw:
        """The packing in the chart [0,1]^k."""
        return PackingLaw(D=self.k, levels=self.levels, delta_share=self.delta_share, label_seed=self.seed)

    @property
    def scale(self) -> float:
        """c: small enough that the image stays in [0,1]^d."""
        return 1 / (math.sqrt(self.k) + 2 * self.bend + 1)

    @property
    def radius(self) -> float:
        """The ℓ2 radius δ in R^d: c times the chart's."""
        return self.scale * self.chart.radius

    @property
    def own_radius(self) -> RadiusSetting:
        """The setting that the law is made for: robustness at its own δ."""
        return RadiusSetting(self.radius)

    def check(self, setting: RadiusSetting) -> list[Condition]:
        """Assumption 5.1 in R^d and, at δ/c, in the chart: points R apart there are at least c·R apart in
        R^d."""
        apart, text = self.scale * self.chart.spacing, "dist(A, B) > 2δ in R^d (c·R against 2δ)"
        inside = self.chart.check(RadiusSetting(setting.delta / self.scale))
        return [*inside, asks_at_least("separated-embedded", text, apart, 2 * setting.delta)]

    def frame(self) -> Tensor:
        """Q, (d, d), orthogonal."""
        draw = torch.randn(self.d, self.d, generator=stream(self.seed, "frame"), dtype=torch.float64)
        basis: Tensor = torch.linalg.qr(draw).Q
        return basis

    def embed(self, z: Tensor) -> Tensor:
        """The point of the manifold at chart coordinates z (…, k)."""
        rest = torch.arange(self.d - self.k)
        wave = (
            torch.sin(2 * math.pi * (z[..., rest % self.k] + rest / self.d)) * self.bend / math.sqrt(self.d)
        )
        return 0.5 + self.scale * torch.cat([z - 0.5, wave], -1) @ self.frame().mT

    def reader(self) -> tuple[Tensor, Tensor]:
        """The chart as an affine map: z = M x + b."""
        rows = self.frame()[:, : self.k].mT / self.scale
        return rows, 0.5 - rows.sum(-1) * 0.5

    def sample(self, n: int, rng: torch.Generator | None = None, seed: int = 0) -> Labelled:
        """Draw n points of the manifold."""
        rng = rng or stream(seed, "data")
        chart = self.chart.sample(n, rng)
        return Labelled(self.embed(chart.x), chart.y)
