"""Named distributions of positive amplitudes and of counts, as frozen values that can be written in a
spec."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.settings import REQUIRED, setting

#: amplitudes beyond this overflow in their powers
LARGEST = 1e30


class Constant(Value):
    """Always ``value``."""

    name: Literal["constant"] = "constant"
    value: float = Field(gt=0, le=LARGEST)

    def sample(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        """Return a constant tensor; draws nothing."""
        return torch.full(shape, self.value, dtype=torch.float64)

    @property
    def infimum(self) -> float:
        """inf of the support."""
        return self.value

    @property
    def supremum(self) -> float:
        """sup of the support."""
        return self.value

    def moment(self, power: float) -> float:
        """E[X^power]."""
        return float(self.value**power)


class Uniform(Value):
    """Uniform on [low, high]."""

    name: Literal["uniform"] = "uniform"
    low: float = Field(gt=0)
    high: float = Field(le=LARGEST)

    @model_validator(mode="after")
    def _ordered(self) -> Uniform:
        require(
            self.low < self.high, "uniform needs low < high", f"low={self.low}, high={self.high}", "swap them"
        )
        return self

    def sample(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        """Draw i.i.d."""
        return self.low + (self.high - self.low) * torch.rand(shape, generator=rng, dtype=torch.float64)

    @property
    def infimum(self) -> float:
        """inf of the support."""
        return self.low

    @property
    def supremum(self) -> float:
        """sup of the support."""
        return self.high

    def moment(self, power: float) -> float:
        """E[X^power] = (b^{p+1} − a^{p+1}) / ((p+1)(b − a))."""
        return float(
            (self.high ** (power + 1) - self.low ** (power + 1)) / ((power + 1) * (self.high - self.low))
        )


class LogNormal(Value):
    """exp(N(log median, spread²))."""

    name: Literal["lognormal"] = "lognormal"
    median: float = Field(gt=0, le=LARGEST)
    spread: float = Field(gt=0, le=10)

    def sample(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        """Draw i.i.d."""
        return self.median * (self.spread * torch.randn(shape, generator=rng, dtype=torch.float64)).exp()

    @property
    def infimum(self) -> float:
        """inf of the support."""
        return 0.0

    @property
    def supremum(self) -> float:
        """sup of the support."""
        return math.inf

    def moment(self, power: float) -> float:
        """E[X^power] = median^power · exp(power²·spread²/2)."""
        return float(self.median**power * math.exp(0.5 * (power * self.spread) ** 2))


def _from_number(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"name": "constant", "value": float(value)}
    return value


_Named = Annotated[Constant | Uniform | LogNormal, Field(discriminator="name")]
#: A distribution of a positive amplitude: a number, or {"name": "uniform" | "lognormal" | "constant", …}.
Amplitude = Annotated[_Named, BeforeValidator(_from_number)]


class Count(Value):
    """A whole number drawn uniformly from low … high."""

    low: int = setting(REQUIRED, "the least count", ge=0)
    high: int = setting(REQUIRED, "the largest count", ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Count:
        require(
            self.low <= self.high,
            "a count needs low ≤ high",
            f"low={self.low}, high={self.high}",
            "swap them",
        )
        return self

    def sample(self, n: int, rng: torch.Generator) -> Tensor:
        """Draw n counts."""
        return torch.randint(self.low, self.high + 1, (n,), generator=rng)


def _from_int(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return Count(low=value, high=value)
    return value


#: A distribution of a count: a whole number, or {"low": a, "high": b}.
CountLaw = Annotated[Count, BeforeValidator(_from_int)]
