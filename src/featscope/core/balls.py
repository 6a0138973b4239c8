"""Balls of the ℓp norms, 2 ≤ p ≤ ∞, over the last axis.

A ball owns its geometry: Euclidean projection, the steepest unit step, a uniform sample, and the dual norm
that turns a gradient into the largest first-order change, max over ‖δ‖ ≤ ε of ⟨g, δ⟩ = ε‖g‖_*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.core.errors import BadInput, require, require_at_least

_TINY = 1e-300


@dataclass(frozen=True)
class Ball:
    """{δ : ‖δ‖_p ≤ eps}; ``p = math.inf`` is the ℓ∞ ball."""

    p: float
    eps: float

    def __post_init__(self) -> None:
        require_at_least("eps", self.eps, 0.0)
        require(
            self.p >= 2,
            "the norm must be ℓp with p at least 2",
            f"p={self.p}",
            "use L2, Linf or a p in between",
        )

    @property
    def name(self) -> str:
        """The norm's name: Linf, L2, L3, …"""
        return "Linf" if math.isinf(self.p) else f"L{self.p:g}"

    def norm(self, delta: Tensor) -> Tensor:
        """‖δ‖_p."""
        if math.isinf(self.p):
            # Several times faster than vector_norm, which does not vectorise the maximum.
            return torch.maximum(delta.amax(-1), -delta.amin(-1))
        size: Tensor = torch.linalg.vector_norm(delta, ord=self.p, dim=-1)
        return size

    def dual_norm(self, g: Tensor) -> Tensor:
        """‖g‖_{p/(p−1)}, so that max_{‖δ‖≤ε} ⟨g, δ⟩ = ε‖g‖_*."""
        dual = 1.0 if math.isinf(self.p) else self.p / (self.p - 1)
        size: Tensor = torch.linalg.vector_norm(g, ord=dual, dim=-1)
        return size

    def rescale(self, delta: Tensor, factor: float = 1.0) -> Tensor:
        """δ / max(1, ‖δ‖/ε) for δ = factor·``delta``: radial, not the nearest point (AT §2.5's patch-wise
        clip)."""
        if self.eps == 0:
            return torch.zeros_like(delta)
        return delta * (factor / (self.norm(delta) * (factor / self.eps)).clamp(min=1.0))[..., None]

    def project(self, delta: Tensor) -> Tensor:
        """argmin_p ‖δ − p‖₂ subject to ‖p‖ ≤ ε."""
        if math.isinf(self.p):
            return delta.clamp(-self.eps, self.eps)
        if self.p == 2 or self.eps == 0:
            return self.rescale(delta)
        return self._project_lp(delta)

    def _project_lp(self, delta: Tensor, rounds: int = 50) -> Tensor:
        # Stationarity: a + λ a^(p−1) = |δ| coordinate-wise. λ is found by bisection; given λ, Newton from
        # above converges monotonically.
        inside = (self.norm(delta) <= self.eps)[..., None]
        size = delta.abs()

        def coordinates(multiplier: Tensor) -> Tensor:
            a = torch.minimum(size, (size / multiplier.clamp(min=1e-30)) ** (1 / (self.p - 1)))
            for _ in range(12):
                power = multiplier * a ** (self.p - 2)
                a = a - (a + power * a - size) / (1 + (self.p - 1) * power)
            return a

        biggest = size.amax(-1, keepdim=True)
        low = torch.zeros_like(biggest)
        # At the solution some coordinate a is at least ε·D^(−1/p), hence λ ≤ max|δ| / a^(p−1).
        high = biggest / (self.eps * size.shape[-1] ** (-1 / self.p)) ** (self.p - 1)
        for _ in range(rounds):
            mid = 0.5 * (low + high)
            outside = (self.norm(coordinates(mid)) > self.eps)[..., None]
            low, high = torch.where(outside, mid, low), torch.where(outside, high, mid)
        return torch.where(inside, delta, self.rescale(delta.sign() * coordinates(high)))

    def steepest(self, g: Tensor) -> Tensor:
        """argmax ⟨g, u⟩ subject to ‖u‖ ≤ 1 (zero where g is zero)."""
        if math.isinf(self.p):
            return g.sign()
        dual = self.p / (self.p - 1)
        size = g.abs() / g.abs().amax(-1, keepdim=True).clamp(
            min=_TINY if g.dtype == torch.float64 else 1e-30
        )
        direction = g.sign() * size ** (dual - 1)
        norm = self.norm(direction)[..., None]
        return torch.where(norm > 0, direction / norm.clamp(min=1e-30), torch.zeros_like(g))

    def direction(self, g: Tensor) -> Tensor:
        """The unit step whose repetition with Euclidean projection settles at argmax ⟨g, δ⟩: sign(g) for ℓ∞,
        else g/‖g‖.

        For 2 < p < ∞ steepest steps and Euclidean projections do not fit together: their fixed point is not
        the maximum.
        """
        if math.isinf(self.p):
            return g.sign()
        # Scaled by its largest entry first: the square of a tiny or a huge gradient is 0 or ∞, and a zero
        # step would pass for robustness.
        scaled = g / g.abs().amax(-1, keepdim=True).clamp(min=_TINY if g.dtype == torch.float64 else 1e-30)
        norm = self.norm(scaled)[..., None]
        return torch.where(norm > 0, scaled / norm.clamp(min=1e-30), torch.zeros_like(g))

    def sample(self, shape: torch.Size | tuple[int, ...], rng: torch.Generator, like: Tensor) -> Tensor:
        """Draw uniformly in the ball.

        ℓp: with |g_i|^p ~ Gamma(1/p), random signs and e ~ Exp(1), g / (Σ|g_i|^p + e)^(1/p) is uniform in the
        unit ball (Barthe, Guédon, Mendelson and Naor 2005).
        """
        if math.isinf(self.p):
            draw = 2 * torch.rand(tuple(shape), generator=rng, dtype=torch.float64) - 1
        else:
            powers = torch._standard_gamma(
                torch.full(tuple(shape), 1 / self.p, dtype=torch.float64), generator=rng
            )
            signs = 2.0 * torch.randint(0, 2, tuple(shape), generator=rng) - 1
            extra = torch.empty(tuple(shape)[:-1], dtype=torch.float64).exponential_(generator=rng)
            draw = signs * powers ** (1 / self.p) / (powers.sum(-1) + extra)[..., None] ** (1 / self.p)
        return (self.eps * draw).to(like)


def ball(norm: str, eps: float) -> Ball:
    """Return the ball of a norm given by name: ``Linf``, ``L2``, or ``Lp`` for a number p ≥ 2 such as
    ``L3``."""
    require(isinstance(norm, str), "a norm is given by name", f"{norm!r}", 'use "Linf", "L2" or "L3"')
    if norm == "Linf":
        return Ball(math.inf, eps)
    try:
        p = float(norm.removeprefix("L")) if norm.startswith("L") else math.nan
    except ValueError:
        p = math.nan
    if math.isnan(p):
        raise BadInput("unknown norm", norm, "use Linf, L2 or L<p> with p at least 2")
    return Ball(p, eps)
