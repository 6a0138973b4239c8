"""CGRO's signal/noise law (§3.1): one patch carries the signal, all others carry noise orthogonal to it.

X = (X[1], …, X[P]) with X[signal(X)] = α y w* at a uniformly random position and X[j] ~ N(0, σ²(I − w*w*ᵀ))
elsewhere, y = ±1 with equal chance. By rotation invariance w* is the first axis. The attacker's radius is δ =
γα with 1 − γ = `gap` (§3.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from pydantic import model_validator
from torch import Tensor

from featscope.core.conditions import Condition, asks_at_most
from featscope.core.errors import require, require_whole
from featscope.core.frozen import Value
from featscope.core.rules import MUCH
from featscope.core.settings import setting
from featscope.core.streams import stream
from featscope.laws.compact import bartlett

#: the plateau of the largest signal component in units of 1/α, measured (docs/cgro.md), used in N*.
PLATEAU = 2.3


class SignalBatch(NamedTuple):
    """A sample: x (…, N, P, d), labels y = ±1 (…, N), the signal's position (…, N)."""

    x: Tensor
    y: Tensor
    position: Tensor

    def signal_first(self) -> Tensor:
        """The patches with the signal patch moved to the front; the network does not see the order."""
        order = torch.arange(self.x.shape[-2]).expand(*self.position.shape, -1)
        rank = torch.where(order == self.position[..., None], -1, order).argsort(-1)
        return self.x.gather(-2, rank[..., None].expand_as(self.x))

    def noise(self) -> Tensor:
        """The noise patches, (…, N, P−1, d)."""
        return self.signal_first()[..., 1:, :]


class Instance(NamedTuple):
    """What a training run starts from: the training sample and the initial weights (…, m, d)."""

    train: SignalBatch
    w: Tensor


def stack(parts: Sequence[Instance]) -> Instance:
    """Put instances of equal size along a new leading axis of runs."""
    batches = SignalBatch(*(torch.stack(t) for t in zip(*(p.train for p in parts), strict=True)))
    return Instance(batches, torch.stack([p.w for p in parts]))


class SignalSetting(NamedTuple):
    """What Theorem 4.1 speaks of besides the law: N, σ0, η and λ."""

    n: int
    init_scale: float
    learning_rate: float
    tradeoff: float


class SignalLaw(Value):
    """CGRO's law of one signal patch among noise.

    Values left out follow the paper's powers of d: α = d^.249 (ln d)^a, σ = d^−.509, 1−γ = 1/(√d (ln d)^g).

    >>> import featscope as fs
    >>> batch = fs.SignalLaw(d=64, patches=3).sample(20, seed=0)
    >>> tuple(batch.x.shape), batch.y.unique().tolist()
    ((20, 3, 64), [-1.0, 1.0])
    """

    d: int = setting(1024, "dimension of a patch", letter="d", ge=2)
    patches: int = setting(4, "patches of an example", letter="P", ge=2)
    alpha: float | None = setting(
        None, "size of the signal; d^.249 (ln d)^alpha_logs if not given", letter="α", gt=0
    )
    sigma: float | None = setting(
        None, "standard deviation of the noise in each coordinate; d^−.509 if not given", letter="σ", gt=0
    )
    gap: float | None = setting(
        None, "1−γ, what the attack leaves of the signal; 1/(√d (ln d)^gap_logs) if not given", gt=0, lt=1
    )
    alpha_logs: float = setting(0.0, "power of ln d in α where α is not given")
    gap_logs: float = setting(1.0, "power of ln d in 1−γ where it is not given")

    @model_validator(mode="after")
    def _gap_below_one(self) -> SignalLaw:
        gap = self.residual
        require(0 < gap < 1, "1−γ must lie between 0 and 1", f"1−γ={gap:.4g}", "raise d or give gap")
        return self

    @property
    def strength(self) -> float:
        """α, the norm of the signal patch."""
        return self.alpha if self.alpha is not None else self.d**0.249 * math.log(self.d) ** self.alpha_logs

    @property
    def noise_scale(self) -> float:
        """σ."""
        return self.sigma if self.sigma is not None else self.d**-0.509

    @property
    def residual(self) -> float:
        """1 − γ, the share of the signal that the attack (A) leaves."""
        return (
            self.gap if self.gap is not None else 1 / (math.sqrt(self.d) * math.log(self.d) ** self.gap_logs)
        )

    @property
    def radius(self) -> float:
        """δ = γα."""
        return (1 - self.residual) * self.strength

    def _labels(self, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        require_whole("n", n, 1)
        y = 2.0 * torch.randint(0, 2, (n,), generator=rng, dtype=torch.float64) - 1
        return y, torch.randint(0, self.patches, (n,), generator=rng)

    def _place(self, y: Tensor, position: Tensor, noise: Tensor) -> SignalBatch:
        """Swap the signal into its position among P−1 noise patches (n, P−1, ·), whose coordinate along w* is
        zero."""
        signal = torch.zeros(len(y), 1, noise.shape[-1] + 1, dtype=noise.dtype)
        signal[:, 0, 0] = self.strength * y
        x = torch.cat([signal, torch.cat([torch.zeros_like(noise[..., :1]), noise], -1)], -2)
        order = torch.arange(self.patches).repeat(len(y), 1)
        order[:, 0] = position
        order.scatter_(1, position[:, None], 0)
        return SignalBatch(x.gather(1, order[..., None].expand_as(x)), y, position)

    def _sample(self, n: int, width: int, rng: torch.Generator) -> SignalBatch:
        y, position = self._labels(n, rng)
        noise = torch.randn(n, self.patches - 1, width - 1, generator=rng, dtype=torch.float64)
        return self._place(y, position, self.noise_scale * noise)

    def sample(self, n: int, rng: torch.Generator | None = None, seed: int = 0) -> SignalBatch:
        """Draw n points in all d dimensions."""
        rng = rng or stream(seed, "data")
        return self._sample(n, self.d, rng)

    def instance(
        self, n: int, m: int, init_scale: float, data: torch.Generator, init: torch.Generator
    ) -> Instance:
        """Draw a training sample and m initial weights w_r ~ N(0, σ0² I_d)."""
        train = self.sample(n, data)
        return Instance(train, init_scale * torch.randn(m, self.d, generator=init, dtype=torch.float64))

    def compact_instance(
        self, n: int, m: int, init_scale: float, data: torch.Generator, init: torch.Generator
    ) -> Instance:
        """Draw an isometric copy in law in 1 + n(P−1) + m coordinates instead of d; needs d − 1 ≥ n(P−1) + m.

        The first coordinate is w*; noise patches and the weights' parts orthogonal to w* are the rows of one
        Bartlett factor.
        """
        y, position = self._labels(n, data)
        count = n * (self.patches - 1)
        rows = bartlett(count + m, self.d - 1, data)
        noise = self.noise_scale * rows[:count].view(n, self.patches - 1, -1)
        along = torch.randn(m, 1, generator=init, dtype=torch.float64)
        return Instance(self._place(y, position, noise), init_scale * torch.cat([along, rows[count:]], -1))

    def fresh(self, n: int, like: Tensor, rng: torch.Generator) -> SignalBatch:
        """Draw n points independent of an instance, in the coordinates of its weights ``like`` (all d, or the
        copy's)."""
        return self._sample(n, like.shape[-1], rng)

    def critical_samples(self, init_scale: float) -> float:
        """N*: beyond it the residual signal of the attacked points outgrows the noise (docs/cgro.md).

        N* = σ²d·v0 / ((α(1−γ))³ u_p) with v0 = 2σ0σ√d, the size of the largest initial noise component, and
        u_p = 2.3/α.
        """
        sigma, d = self.noise_scale, self.d
        v0 = 2 * init_scale * sigma * math.sqrt(d)
        return sigma**2 * d * v0 / ((self.strength * self.residual) ** 3 * PLATEAU / self.strength)

    def class_distance(self, same_position: bool) -> float:
        """Root mean square distance of two points of opposite class whose signals sit at the same or at
        different positions."""
        noise, alpha = self.noise_scale**2 * (self.d - 1), self.strength
        return math.sqrt((4 if same_position else 2) * alpha**2 + 2 * (self.patches - 1) * noise)

    def check(self, setting: SignalSetting) -> list[Condition]:
        """The assumptions of Theorem 4.1 at this setting, those of the proof that the statement leaves out
        included."""
        given = isinstance(setting, SignalSetting)
        require(given, "the law is checked at a setting", repr(setting), "give a SignalSetting")
        n, init_scale, learning_rate, tradeoff = setting
        alpha = self.strength
        stars = self.critical_samples(init_scale)
        step = learning_rate * (1 - tradeoff) * alpha**2
        apart, together = self.class_distance(False) / 2, self.class_distance(True) / 2
        return [
            asks_at_most(
                "samples", "N ≪ N*: memorisation outruns the residual signal (N/N*)", n / stars, 1 / MUCH
            ),
            asks_at_most(
                "radius-same",
                "δ is at most half the class distance, signals at the same position",
                self.radius,
                together,
            ),
            asks_at_most(
                "radius-apart",
                "δ is at most half the class distance, signals at different positions",
                self.radius,
                apart,
            ),
            asks_at_most("start", "ασ0 < 1: the initial signal output is small", alpha * init_scale, 1.0),
            asks_at_most("step", "η = O(α⁻²/(1−λ)): η(1−λ)α² at most 1", step, 1.0),
            asks_at_most("tradeoff", "λ < 1: clean points keep weight", tradeoff, 1 - 1e-12),
            asks_at_most(
                "noise",
                "σ√d < α: the signal is stronger than the noise (σ√d/α)",
                self.noise_scale * math.sqrt(self.d) / alpha,
                1.0,
            ),
        ]
