"""AT's patch law (Definitions 2.1 and 2.2): robust features strong and sparse, non-robust features weak and
dense.

A point of class y has P patches of dimension d: x_p = α_p u_y + ξ_p on the robust patches J_R and x_p = β_p
v_y + ξ_p on the others, with ξ_p ~ N(0, σ_n² I). The 2k features u_1 … u_k, v_1 … v_k are orthonormal, along
the axes or along a random frame.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from pydantic import field_validator, model_validator
from torch import Tensor

from featscope.core.conditions import Condition, asks_at_least, asks_at_most
from featscope.core.errors import require, require_at_least, require_whole
from featscope.core.frozen import Value
from featscope.core.rules import CONSTANT, MUCH
from featscope.core.settings import setting
from featscope.core.streams import stream
from featscope.laws.amplitudes import Amplitude, CountLaw
from featscope.laws.separation import patch_distances


class PatchBatch(NamedTuple):
    """A sample: x (…, N, P, d), labels y (…, N), which patches are robust (…, N, P) and their amplitudes (…,
    N, P)."""

    x: Tensor
    y: Tensor
    robust: Tensor
    amplitude: Tensor

    def to(self, dtype: torch.dtype) -> PatchBatch:
        """The same sample in another floating type."""
        return self._replace(x=self.x.to(dtype), amplitude=self.amplitude.to(dtype))


def stack(batches: Sequence[PatchBatch]) -> PatchBatch:
    """Put batches of equal size along a new leading axis of runs."""
    return PatchBatch(*(torch.stack(parts) for parts in zip(*batches, strict=True)))


class PatchSetting(NamedTuple):
    """What the assumptions speak of besides the law: radius, a sample for the separation, τ of A2.3, norm.

    Without a radius (standard training alone) only what speaks of none is checked.
    """

    eps: float | None
    batch: PatchBatch | None = None
    tau: float = 3.0
    norm: str = "Linf"


class PatchLaw(Value):
    """AT's law of patches. Amplitudes are numbers or named distributions, one for all classes or one for
    each.

    >>> import featscope as fs
    >>> law = fs.PatchLaw(k=3, d=50, alpha={"name": "uniform", "low": 2, "high": 3})
    >>> batch = law.sample(200, seed=0)
    >>> tuple(batch.x.shape), batch.y.unique().tolist()
    ((200, 16, 50), [0, 1, 2])
    """

    k: int = setting(2, "classes", letter="k", ge=2)
    d: int = setting(100, "dimension of a patch", letter="d", ge=1)
    patches: int = setting(16, "patches of an example", letter="P", ge=1)
    robust_patches: CountLaw = setting(
        1,
        "patches that carry the robust feature, |J_R|: a number, or low and high of a uniform count",
        letter="J_R",
        validate_default=True,
    )
    positions: Literal["uniform", "first"] = setting(
        "uniform", "where the robust patches are: drawn anew for each example, or the first ones"
    )
    alpha: Amplitude | tuple[Amplitude, ...] = setting(
        2.0,
        "amplitude of the robust feature: a number or a named distribution, for all or for each class",
        letter="α_p",
        validate_default=True,
    )
    beta: Amplitude | tuple[Amplitude, ...] = setting(
        1.0, "amplitude of the non-robust feature, as alpha", letter="β_p", validate_default=True
    )
    sigma_n: float = setting(0.1, "standard deviation of the noise in each coordinate", letter="σ_n", ge=0)
    frame: Literal["axes", "random"] = setting(
        "axes",
        "directions of the features: axes (as the ℓ∞ statements need), or a random orthonormal frame",
    )
    frame_seed: int = setting(0, "seed of the random frame", ge=0)

    @field_validator("alpha", "beta", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _consistent(self) -> PatchLaw:
        fits = 2 * self.k <= self.d
        require(
            fits,
            "2k must be at most d for orthogonal features",
            f"k={self.k}, d={self.d}",
            "raise d or lower k",
        )
        most = self.robust_patches.high
        require(
            most <= self.patches,
            "robust_patches must be at most patches",
            f"{most} of {self.patches}",
            "lower it",
        )
        for name, given in (("alpha", self.alpha), ("beta", self.beta)):
            right = not isinstance(given, tuple) or len(given) == self.k
            require(
                right, f"{name} needs one distribution or one for each class", f"k={self.k}", f"list {self.k}"
            )
        return self

    def of_class(self, name: Literal["alpha", "beta"], label: int) -> Amplitude:
        """The distribution of α or β in one class."""
        given = self.alpha if name == "alpha" else self.beta
        return given[label] if isinstance(given, tuple) else given

    @property
    def beta_supremum(self) -> float:
        """sup β over all classes."""
        return max(self.of_class("beta", j).supremum for j in range(self.k))

    def features(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """u and v, each (k, d), orthonormal."""
        if self.frame == "axes":
            basis = torch.eye(2 * self.k, self.d, dtype=torch.float64)
        else:
            draw = torch.randn(
                self.d, 2 * self.k, generator=stream(self.frame_seed, "frame"), dtype=torch.float64
            )
            basis = torch.linalg.qr(draw).Q.mT
        return basis[: self.k].to(dtype), basis[self.k :].to(dtype)

    def _latents(self, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.randint(0, self.k, (n,), generator=rng)
        count = self.robust_patches.sample(n, rng)
        if self.positions == "uniform":
            rank = torch.rand(n, self.patches, generator=rng).argsort(-1).argsort(-1)
        else:
            rank = torch.arange(self.patches).expand(n, -1)
        robust = rank < count[:, None]
        alpha, beta = torch.empty(n, self.patches), torch.empty(n, self.patches)
        alpha, beta = alpha.double(), beta.double()
        for label in range(self.k):
            mine = y == label
            shape = (int(mine.sum()), self.patches)
            alpha[mine] = self.of_class("alpha", label).sample(shape, rng)
            beta[mine] = self.of_class("beta", label).sample(shape, rng)
        return y, robust, torch.where(robust, alpha, beta)

    def sample(self, n: int, rng: torch.Generator | None = None, seed: int = 0) -> PatchBatch:
        """Draw n points (Def. 2.2)."""
        rng = rng or stream(seed, "data")
        require_whole("n", n, 1)
        y, robust, amplitude = self._latents(n, rng)
        x = self.signal(y, robust, amplitude)
        if self.sigma_n > 0:
            x += self.sigma_n * torch.randn(x.shape, generator=rng, dtype=x.dtype)
        return PatchBatch(x, y, robust, amplitude)

    def signal(self, y: Tensor, robust: Tensor, amplitude: Tensor) -> Tensor:
        """The noiseless patches: amplitude·u_y on robust patches, amplitude·v_y on the others."""
        u, v = self.features(amplitude.dtype)
        feature = torch.where(robust[..., None], u[y][..., None, :], v[y][..., None, :])
        return amplitude[..., None] * feature

    def restrict(self, batch: PatchBatch, keep: Literal["robust", "non-robust"]) -> PatchBatch:
        """Def. 4.1: the sample with the features of the other kind replaced by zero, noise kept."""
        other = ~batch.robust if keep == "robust" else batch.robust
        gone = self.signal(
            batch.y, batch.robust, torch.where(other, batch.amplitude, torch.zeros_like(batch.amplitude))
        )
        return batch._replace(x=batch.x - gone)

    def require_constant(self) -> None:
        """Refuse a law whose noiseless population is more than one point a class."""
        constant = self.robust_patches.low == self.robust_patches.high and all(
            self.of_class(name, j).name == "constant" for name in ("alpha", "beta") for j in range(self.k)
        )
        require(
            constant,
            "the population is one point a class only for constant amplitudes and counts",
            repr(self.alpha),
            "use constant amplitudes, or a noiseless sample as the population",
        )

    def population(self) -> PatchBatch:
        """The noiseless population when amplitudes and counts are constant: one point for each class (§5, σ_n
        = 0)."""
        self.require_constant()
        y = torch.arange(self.k)
        robust = (torch.arange(self.patches) < self.robust_patches.low).expand(self.k, -1)
        rows = [
            [self.of_class("alpha" if r else "beta", j).moment(1) for r in robust[j].tolist()]
            for j in range(self.k)
        ]
        amplitude = torch.tensor(rows, dtype=torch.float64)
        return PatchBatch(self.signal(y, robust, amplitude), y, robust, amplitude)

    def check(self, setting: PatchSetting) -> list[Condition]:
        """Hold the law to Assumption 2.3, to the choices of B.3 and, given a sample, to 2ε-separation on
        it."""
        given = isinstance(setting, PatchSetting)
        require(given, "the law is checked at a setting", repr(setting), "give a PatchSetting")
        alpha_low = min(self.of_class("alpha", j).infimum for j in range(self.k))
        found = [
            asks_at_least("A2.3 strong", "α_p ≫ β_p': inf α ÷ sup β", alpha_low / self.beta_supremum, MUCH),
            self._dense(setting.tau),
            asks_at_least("B.3 room", "d ≫ 2k: d ÷ 2k", self.d / (2 * self.k), MUCH),
            asks_at_most(
                "B.3 noise",
                "σ_n = 1/√d up to a constant: |log(σ_n√d)|",
                abs(_log(self._noise)),
                _log(CONSTANT),
            ),
        ]
        return found if setting.eps is None else found + self._with_radius(setting.eps, alpha_low, setting)

    @property
    def _noise(self) -> float:
        return float(self.sigma_n * self.d**0.5)

    def _dense(self, tau: float) -> Condition:
        robust = 0.5 * (self.robust_patches.low + self.robust_patches.high)
        sparse = max(robust * self.of_class("alpha", j).moment(tau) for j in range(self.k))
        dense = min((self.patches - robust) * self.of_class("beta", j).moment(tau) for j in range(self.k))
        text = f"Σ_R α^τ ≪ Σ_NR β^τ (τ={tau:g}): the second ÷ the first"
        return asks_at_least("A2.3 dense", text, dense / sparse if sparse else math.inf, MUCH)

    def _with_radius(self, eps: float, alpha_low: float, setting: PatchSetting) -> list[Condition]:
        """What the assumptions ask of the radius."""
        require_at_least("eps", eps, 0.0)
        noise = self._noise
        alpha_high = max(self.of_class("alpha", j).supremum for j in range(self.k))
        size = abs(_log(eps / noise)) if noise else math.inf
        halfway = "sup α against 2ε: below it, halfway between two classes is in reach of both"
        return [
            asks_at_least("B.3 α ≫ ε", "inf α ÷ ε", alpha_low / eps if eps else math.inf, MUCH),
            asks_at_least("B.3 ε > β", "ε ÷ sup β", eps / self.beta_supremum, 1.0),
            asks_at_most("§2.5 ε = Θ(σ_n√d)", "|log(ε / σ_n√d)|", size, _log(CONSTANT)),
            *([] if setting.batch is None else [_separated(setting.batch, eps, setting.norm)]),
            asks_at_least("halfway", halfway, alpha_high, 2 * eps),
        ]


def _separated(batch: PatchBatch, eps: float, norm: str) -> Condition:
    """Points of different classes are more than 2ε apart in some patch, on a sample."""
    opposite = batch.y[:, None] != batch.y[None, :]
    nearest = (
        float(patch_distances(batch.x, norm)[opposite.numpy()].min()) if bool(opposite.any()) else math.inf
    )
    return asks_at_least(
        "2ε-separation", f"nearest points of different classes ({norm}) against 2ε", nearest, 2 * eps
    )


def both_kinds(law: PatchLaw) -> None:
    """Refuse a law whose points may lack robust or non-robust patches: the growth lemmas compare the two."""
    low, high = law.robust_patches.low, law.robust_patches.high
    rule = "the growth lemmas need robust and non-robust patches in every point"
    require(
        low > 0 and high < law.patches,
        rule,
        f"robust_patches {low} … {high} of {law.patches}",
        "use 1 … patches−1",
    )


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
