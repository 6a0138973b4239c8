"""PGD with an adaptive step (APGD, Croce and Hein 2020): momentum, and a step that halves where it stops
helping.

It has no step size to choose, so a robust accuracy that only holds for one step size does not survive it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.attacks.ascent import Highest, Seen, UntilFooled, ascend, fooling, through, widened
from featscope.attacks.mode import kept
from featscope.attacks.threat import Threat
from featscope.core.errors import require_at_least
from featscope.core.linearise import Model
from featscope.core.losses import loss

#: weight of the new direction against the last move
MOMENTUM = 0.75
#: share of steps that must raise the loss for the step size to stay
RISING = 0.75


def checkpoints(steps: int) -> list[int]:
    """When the step size is reconsidered: after .22 of the steps, then in intervals that shrink by .03 down
    to .06.
    """
    hundredths = [0, 22]  # whole numbers: rounded up after sums of floats, 57.000…1 would be 58
    while hundredths[-1] < 100:
        hundredths.append(hundredths[-1] + max(hundredths[-1] - hundredths[-2] - 3, 6))
    return sorted({min(-(-place * steps // 100), steps) for place in hundredths[1:]})


@dataclass(frozen=True)
class APGD:
    """Per example: a step of 2ε, halved where too few steps helped or nothing was gained, back at the best
    point. ``stop_early`` leaves an example alone once it is fooled, which is all that robust accuracy asks.
    """

    objective: str = "cross-entropy"
    steps: int = 50
    restarts: int = 1
    stop_early: bool = False

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
            kind = UntilFooled if self.stop_early else Highest
            best, look = kind(torch.zeros_like(x), fooling(model(x), y)), through(model, loss(self.objective))
            for _ in range(self.restarts):
                first, move = threat.sample(x, rng), AdaptiveSteps(threat, self.steps)
                climbing = best.begin(first, x, y) if isinstance(best, UntilFooled) else (first, x, y)
                ascend(look, move, climbing[0], self.steps, best, *climbing[1:])
        return best.delta


class AdaptiveSteps:
    """The moves of one ascent of a batch, with what they remember of each example."""

    def __init__(self, threat: Threat, steps: int) -> None:
        self.threat, self.marks, self.mark = threat, checkpoints(steps), 0

    def __call__(self, step: int, x: Tensor, delta: Tensor, seen: Seen) -> Tensor:
        """Note what is seen, reconsider the step's size at a checkpoint, and move."""
        if step == 0:
            self.begin(delta, seen.value(), seen.gradient())
        else:
            self.note(delta, seen.value(), seen.gradient())
        if step in self.marks:
            self.reconsider(step - self.mark)
            self.mark = step
        return self._move(x, 1.0 if step == 0 else MOMENTUM)

    def leave(self, going: Tensor) -> None:
        """Forget the examples that do not go on."""
        for name, kept_of_each in vars(self).items():
            if isinstance(kept_of_each, Tensor):
                setattr(self, name, kept_of_each[going])

    def begin(self, delta: Tensor, value: Tensor, gradient: Tensor) -> None:
        """Steps of 2ε, nothing gained yet."""
        self.delta, self.previous, self.gradient, self.value = delta, delta, gradient, value
        self.top, self.top_delta, self.top_gradient, self.top_before = value, delta, gradient, value
        self.size = torch.full_like(value, 2 * self.threat.eps)
        self.rises = torch.zeros_like(value)
        self.halved = torch.zeros_like(value, dtype=torch.bool)

    def note(self, delta: Tensor, value: Tensor, gradient: Tensor) -> None:
        """Whether the new point is higher than the last, and than all before."""
        self.rises += (value > self.value).to(value)
        self.delta, self.value, self.gradient = delta, value, gradient
        higher = value > self.top
        self.top = torch.where(higher, value, self.top)
        self.top_delta = torch.where(widened(higher, delta), delta, self.top_delta)
        self.top_gradient = torch.where(widened(higher, delta), gradient, self.top_gradient)

    def reconsider(self, window: int) -> None:
        """Halve the step where fewer than ``RISING`` of the steps rose, or none gained with the step
        unchanged.
        """
        few = self.rises < RISING * window
        stuck = ~self.halved & (self.top <= self.top_before)
        halve = few | stuck
        wide = widened(halve, self.delta)
        self.size = torch.where(halve, self.size / 2, self.size)
        self.delta = torch.where(wide, self.top_delta, self.delta)
        self.gradient = torch.where(wide, self.top_gradient, self.gradient)
        self.value = torch.where(halve, self.top, self.value)
        self.previous = torch.where(wide, self.delta, self.previous)
        self.halved, self.top_before, self.rises = halve, self.top, torch.zeros_like(self.rises)

    def _move(self, x: Tensor, weight: float) -> Tensor:
        """A step along the gradient, averaged with the last move."""
        step = widened(self.size, self.delta) * self.threat.direction(self.gradient)
        ahead = self.threat.project(self.delta + step, x)
        mixed = self.delta + weight * (ahead - self.delta) + (1 - weight) * (self.delta - self.previous)
        self.previous = self.delta
        return self.threat.project(mixed, x)
