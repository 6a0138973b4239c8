"""A threat says what may change: a ball of a norm, bounds of the input, and which coordinates.

It always contains 0. The perturbation has the shape of the example; norms are taken over the flattened
example.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from featscope.core.balls import Ball, ball
from featscope.core.errors import require, require_number


def _pair(bounds: tuple[float, float]) -> tuple[float, float]:
    """The least and the largest input."""
    two = isinstance(bounds, Sequence) and not isinstance(bounds, str) and len(bounds) == 2
    require(two, "bounds are two numbers", f"bounds={bounds!r}", "use (0.0, 1.0), or None for none")
    low, high = (require_number("bounds", bound) for bound in bounds)
    return low, high


@dataclass(frozen=True, eq=False)
class Threat:
    """{Δ : ‖Δ‖ ≤ eps, Δ = 0 off ``support``, Δ in the span of ``basis``, low ≤ x + Δ ≤ high}.

    ``event`` is how many trailing axes make one example, of which the first ``apart`` have a ball for each of
    their entries (the patches of a point: ‖Δ_p‖ ≤ eps for all p), ``support`` a 0/1 tensor that broadcasts to
    an example, ``basis`` orthonormal rows that span what the last axis may move in (ℓ2 only: other norms do
    not fit a rotated subspace).

    >>> import torch, featscope as fs
    >>> threat = fs.Threat("Linf", 0.1, event=1, bounds=(0.0, 1.0))
    >>> x = torch.tensor([[0.5, 0.95]])
    >>> (x + threat.project(torch.tensor([[0.3, 0.3]]), x)).tolist()
    [[0.6000000238418579, 1.0]]
    """

    norm: str
    eps: float
    event: int
    support: Tensor | None = None
    bounds: tuple[float, float] | None = None
    basis: Tensor | None = None
    name: str = "full-ball"
    apart: int = 0

    def __post_init__(self) -> None:
        plain = self.basis is None or (self.norm == "L2" and self.support is None and self.bounds is None)
        require(
            plain,
            "a subspace goes with L2 alone, without support and bounds",
            f"norm={self.norm}",
            "use support, or norm=L2",
        )
        self.ball  # noqa: B018 - an unknown norm or a negative radius is refused here, not at first use
        require(
            self.event >= 1,
            "an example has at least one axis",
            f"event={self.event}",
            "set event to 1 or more",
        )
        within = 0 <= self.apart < self.event
        given = f"apart={self.apart}, event={self.event}"
        require(within, "a ball needs an axis of its own", given, "set apart below event")
        if self.bounds is not None:
            low, high = _pair(self.bounds)
            require(low < high, "bounds need low < high", f"bounds={self.bounds}", "swap them")

    @cached_property
    def ball(self) -> Ball:
        """The ball of the norm."""
        return ball(self.norm, self.eps)

    def with_radius(self, eps: float) -> Threat:
        """The same threat with another radius."""
        return replace(self, eps=eps)

    def _flat(self, t: Tensor) -> Tensor:
        return t.flatten(-self._axes)

    @property
    def _axes(self) -> int:
        """How many trailing axes share a ball."""
        return self.event - self.apart

    def restrict(self, delta: Tensor) -> Tensor:
        """Zero what may not change."""
        if self.basis is not None:
            basis = self.basis.to(delta)
            return (delta @ basis.mT) @ basis
        return delta if self.support is None else delta * self.support.to(delta)

    def project(self, delta: Tensor, x: Tensor) -> Tensor:
        """The nearest allowed perturbation (exact without bounds and for ℓ∞; otherwise allowed, not always
        nearest).
        """
        inside = self.ball.project(self._flat(self.restrict(delta))).view_as(delta)
        if self.bounds is None:
            return inside
        # Clipping towards the box moves every coordinate towards 0 when x is in the box, so the norm cannot
        # grow.
        return (x + inside).clamp(*self.bounds) - x

    def steepest(self, g: Tensor) -> Tensor:
        """argmax ⟨g, u⟩ over allowed directions of unit norm."""
        return self.ball.steepest(self._flat(self.restrict(g))).view_as(g)

    def direction(self, g: Tensor) -> Tensor:
        """The unit step of projected ascent over allowed coordinates."""
        return self.ball.direction(self._flat(self.restrict(g))).view_as(g)

    def dual_norm(self, g: Tensor) -> Tensor:
        """max over the threat at radius 1 of ⟨g, Δ⟩, without bounds."""
        return self.ball.dual_norm(self._flat(self.restrict(g)))

    def sample(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Draw uniformly from the ball over the allowed coordinates, then respect the bounds."""
        if self.basis is not None:
            shape = (*x.shape[: -self._axes], x.shape[-self._axes : -1].numel() * self.basis.shape[0])
            inner = self.ball.sample(shape, rng, x).view(*x.shape[:-1], -1)
            return self.project(inner @ self.basis.to(x), x)
        if self.support is None:
            draw = self.ball.sample(self._flat(x).shape, rng, x).view_as(x)
            return self.project(draw, x)
        where = torch.broadcast_to(self.support, x.shape[-self._axes :]).reshape(-1).nonzero()[:, 0]
        flat = torch.zeros_like(self._flat(x))
        flat[..., where] = self.ball.sample((*flat.shape[:-1], where.numel()), rng, x)
        return self.project(flat.view_as(x), x)

    def contains(self, delta: Tensor, x: Tensor, slack: float = 1e-6) -> Tensor:
        """Whether each perturbation is allowed, up to a relative ``slack`` for rounding.

        With bounds a perturbation is what is left of x + Δ, so the norm may also grow by the rounding of that
        sum, coordinate by coordinate.
        """
        flat = self._flat(delta)
        rounding = slack * math.ulp(1.0)
        if self.bounds is not None:
            low, high = self.bounds
            rounding += (
                torch.finfo(delta.dtype).eps * max(abs(low), abs(high)) * flat.shape[-1] ** (1 / self.ball.p)
            )
        within = self.ball.norm(flat) <= self.eps * (1 + slack) + rounding
        within &= self._flat(delta - self.restrict(delta)).abs().amax(-1) <= slack
        if self.bounds is not None:
            within &= self._flat((x + delta - low).clamp(max=0).abs()).amax(-1) <= slack
            within &= self._flat((x + delta - high).clamp(min=0)).amax(-1) <= slack
        return within.flatten(-self.apart).all(-1) if self.apart else within

    def require_fits(self, x: Tensor, y: Tensor) -> None:
        """Refuse examples of another shape than this threat's, and inputs outside its bounds."""
        axes = x.dim() - y.dim()
        shape = tuple(x.shape[y.dim() :])
        remedy = f"use event={axes}" if axes > 0 else "labels are class numbers of shape (N,)"
        require(
            self.event == axes,
            "event must be the number of axes of one example",
            f"event={self.event}, an example is {shape}",
            remedy,
        )
        if self.support is not None:
            rule = "the support must broadcast to one example"
            require(
                _broadcasts(tuple(self.support.shape), shape),
                rule,
                f"support {tuple(self.support.shape)}, example {shape}",
                "reshape it",
            )
        if self.basis is not None:
            rule = "the rows of the basis must have the length of the last axis"
            require(
                self.basis.shape[-1] == shape[-1],
                rule,
                f"{self.basis.shape[-1]} for {shape[-1]}",
                "use another basis",
            )
        if self.bounds is not None and x.numel():
            self._require_inside(float(x.min()), float(x.max()))

    def _require_inside(self, least: float, most: float, slack: float = 1e-6) -> None:
        low, high = self.bounds or (-math.inf, math.inf)
        bytes_of_pixels = low >= 0 and high <= 1 and least >= 0 and 2 < most <= 255
        wrapped = "nn.Sequential(Normalise(mean, std), network)"
        inside = f"put the normalisation inside: {wrapped}, and give images within the bounds"
        remedy = "divide the images by 255" if bytes_of_pixels else inside
        ok = low - slack <= least and most <= high + slack
        require(
            ok,
            f"inputs must lie in [{low:g}, {high:g}]",
            f"they reach from {least:.3g} to {most:.3g}",
            remedy,
        )


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(
        a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False)
    )
