"""PGD with an adaptive step (APGD, Croce and Hein 2020): momentum, and a step that halves where it stops helping.

It has no step size to choose, so a robust accuracy that only holds for one step size does not survive it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.attacks.mode import kept
from featscope.attacks.pgd import keep_smaller
from featscope.attacks.threat import Threat
from featscope.core.errors import require_at_least
from featscope.core.linearise import Model, linearise
from featscope.core.losses import Loss, loss, margin

#: weight of the new direction against the last move
MOMENTUM = 0.75
#: share of steps that must raise the loss for the step size to stay
RISING = 0.75


def checkpoints(steps: int) -> list[int]:
    """When the step size is reconsidered: after .22 of the steps, then in intervals that shrink by .03 down to .06."""
    hundredths = [0, 22]  # whole numbers: rounded up after sums of floats, 57.000…1 would be 58
    while hundredths[-1] < 100:
        hundredths.append(hundredths[-1] + max(hundredths[-1] - hundredths[-2] - 3, 6))
    return sorted({min(-(-place * steps // 100), steps) for place in hundredths[1:]})


@dataclass(frozen=True)
class APGD:
    """Per example: step 2ε at first, halved (and the search taken back to the best point) when too few steps helped or nothing was gained."""

    objective: str = "cross-entropy"
    steps: int = 50
    restarts: int = 1

    def __post_init__(self) -> None:
        require_at_least("steps", self.steps, 1)
        require_at_least("restarts", self.restarts, 1)
        loss(self.objective)

    @property
    def name(self) -> str:
        """For example apgd50-cross-entropy."""
        return f"apgd{self.steps}-{self.objective}"

    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """Return for each example the perturbation of smallest margin among all starts and steps."""
        with kept(model), torch.no_grad():
            best, worst = torch.zeros_like(x), margin(model(x).detach(), y)
            for _ in range(self.restarts):
                delta, found = self._ascend(model, x, y, threat, threat.sample(x, rng))
                best, worst = keep_smaller(best, worst, delta, found)
        return best

    def _ascend(self, model: Model, x: Tensor, y: Tensor, threat: Threat, delta: Tensor) -> tuple[Tensor, Tensor]:
        goal = loss(self.objective)
        climb = _Climb(x, y, threat, goal, delta, *_look(model, x + delta, y, goal))
        marks, last = checkpoints(self.steps), 0
        for step in range(self.steps):
            climb.move(step == 0)
            climb.see(*_look(model, x + climb.delta, y, goal))
            if step + 1 in marks:
                climb.reconsider(step + 1 - last)
                last = step + 1
        return climb.wrong, climb.margin


def _look(model: Model, x: Tensor, y: Tensor, goal: Loss) -> tuple[Tensor, Tensor, Tensor]:
    """The goal's value, its gradient and the margin."""
    outputs, pull = linearise(model, x)
    return goal.value(outputs, y), pull(goal.grad(outputs, y)), margin(outputs, y)


def _wide(flags: Tensor, like: Tensor) -> Tensor:
    return flags.view(flags.shape + (1,) * (like.dim() - flags.dim()))


class _Climb:
    """The state of the ascent of a batch."""

    def __init__(
        self, x: Tensor, y: Tensor, threat: Threat, goal: Loss, delta: Tensor, value: Tensor, gradient: Tensor, found: Tensor
    ) -> None:
        self.x, self.threat = x, threat
        self.delta, self.previous, self.gradient, self.value = delta, delta, gradient, value
        self.top, self.top_delta, self.top_gradient = value, delta, gradient
        self.wrong, self.margin = delta, found
        self.size = torch.full_like(value, 2 * threat.eps)
        self.rises = torch.zeros_like(value)
        self.halved = torch.zeros_like(value, dtype=torch.bool)
        self.top_before = value

    def move(self, first: bool) -> None:
        """A step along the gradient, averaged with the last move."""
        size = _wide(self.size, self.delta)
        ahead = self.threat.project(self.delta + size * self.threat.direction(self.gradient), self.x)
        weight = 1.0 if first else MOMENTUM
        mixed = self.delta + weight * (ahead - self.delta) + (1 - weight) * (self.delta - self.previous)
        self.previous, self.delta = self.delta, self.threat.project(mixed, self.x)

    def see(self, value: Tensor, gradient: Tensor, found: Tensor) -> None:
        """Note what the new point gives."""
        self.rises += (value > self.value).to(value)
        self.value, self.gradient = value, gradient
        higher = value > self.top
        self.top = torch.where(higher, value, self.top)
        self.top_delta = torch.where(_wide(higher, self.delta), self.delta, self.top_delta)
        self.top_gradient = torch.where(_wide(higher, self.delta), gradient, self.top_gradient)
        self.wrong, self.margin = keep_smaller(self.wrong, self.margin, self.delta, found)

    def reconsider(self, window: int) -> None:
        """Halve the step where fewer than ``RISING`` of the steps rose, or where nothing was gained with the step unchanged."""
        few = self.rises < RISING * window
        stuck = ~self.halved & (self.top <= self.top_before)
        halve = few | stuck
        wide = _wide(halve, self.delta)
        self.size = torch.where(halve, self.size / 2, self.size)
        self.delta = torch.where(wide, self.top_delta, self.delta)
        self.gradient = torch.where(wide, self.top_gradient, self.gradient)
        self.value = torch.where(halve, self.top, self.value)
        self.previous = torch.where(wide, self.delta, self.previous)
        self.halved, self.top_before, self.rises = halve, self.top, torch.zeros_like(self.rises)
