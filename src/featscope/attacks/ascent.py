"""The one loop of every search that climbs: look, keep, move.

An attack is this loop with its parts: what is looked at (:func:`through` a network, :func:`by_autograd`), how
it moves (:func:`stepping`, APGD's schedule), what is kept (:class:`Highest`, :class:`UntilFooled`, or the
last point alone), and where it starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.attacks.threat import Threat
from featscope.core.linearise import Model, linearise
from featscope.core.losses import Loss, margin


class Seen(NamedTuple):
    """What a look at points shows: the score they are kept by; on demand, the value climbed and gradient."""

    score: Tensor
    value: Callable[[], Tensor]
    gradient: Callable[[], Tensor]


#: (points x + δ, their labels if there are any) ↦ what is seen there
Inspect = Callable[..., Seen]
#: (number of the step, x, δ, what is seen at x + δ) ↦ the next δ; one that remembers something of each
#: example has ``leave``, which is told who goes on
Move = Callable[[int, Tensor, Tensor, Seen], Tensor]
#: (δ, score) ↦ which of the examples go on; None: all
Keep = Callable[[Tensor, Tensor], Tensor | None]
#: outputs and labels ↦ what is to become large
Score = Callable[[Tensor, Tensor], Tensor]


def ascend(
    look: Inspect, move: Move, delta: Tensor, steps: int, keep: Keep | None, x: Tensor, *labels: Tensor
) -> Tensor:
    """Move ``delta`` ``steps`` times and return where it ends; ``keep`` is shown every point on the way.

    The first and the last point are shown, too. Who does not go on leaves the batch.
    """
    leave = getattr(move, "leave", None)
    for step in range(steps):
        if not len(delta):
            return delta
        seen = look(x + delta, *labels)
        going = keep(delta, seen.score) if keep is not None else None
        delta = move(step, x, delta, seen)
        if going is not None:
            delta, x, labels = delta[going], x[going], tuple(part[going] for part in labels)
            if leave is not None:
                leave(going)
    if keep is not None and len(delta):
        keep(delta, look(x + delta, *labels).score)
    return delta


# ---- what is looked at


def fooling(outputs: Tensor, y: Tensor) -> Tensor:
    """max_{j≠y} F_j − F_y: negative exactly where the example is classified correctly."""
    return -margin(outputs, y)


def through(model: Model, goal: Loss, score: Score = fooling) -> Inspect:
    """Climb a loss of the outputs of a network; keep by a score of the outputs."""

    def look(points: Tensor, y: Tensor) -> Seen:
        outputs, pull = linearise(model, points)
        return Seen(score(outputs, y), lambda: goal.value(outputs, y), lambda: pull(goal.grad(outputs, y)))

    return look


def by_autograd(value: Callable[..., Tensor]) -> Inspect:
    """Climb any value for each example that autograd can follow; keep by it, too."""

    def look(points: Tensor, *labels: Tensor) -> Seen:
        with torch.enable_grad():
            leaf = points.detach().requires_grad_(True)
            values = value(leaf, *labels)

        def gradient() -> Tensor:
            return torch.autograd.grad(values, leaf, torch.ones_like(values))[0]

        return Seen(values.detach(), values.detach, gradient)

    return look


# ---- how it moves


def stepping(threat: Threat, size: Callable[[int], float]) -> Move:
    """δ ← Π(δ + s_t·direction(∇)), s_t = ``size(t)``."""

    def move(step: int, x: Tensor, delta: Tensor, seen: Seen) -> Tensor:
        return threat.project(delta + size(step) * threat.direction(seen.gradient()), x)

    return move


def falling(eps: float, steps: int) -> Callable[[int], float]:
    """Sizes that fall linearly from ε and would be 0 at ``steps``."""
    return lambda step: eps * (1 - step / steps)


# ---- what is kept


def widened(flags: Tensor, like: Tensor) -> Tensor:
    """One entry for each example, with the axes of an example added."""
    return flags.view(flags.shape + (1,) * (like.dim() - flags.dim()))


class Highest:
    """Example by example the perturbation with the highest score, the first of equals."""

    def __init__(self, delta: Tensor, score: Tensor) -> None:
        self.delta, self.score = delta, score

    def __call__(self, delta: Tensor, score: Tensor) -> Tensor | None:
        """Keep what is higher than all before; everyone goes on."""
        better = score > self.score
        self.delta = torch.where(widened(better, delta), delta, self.delta)
        self.score = torch.where(better, score, self.score)
        return None


class UntilFooled(Highest):
    """The same, but only examples with a negative score climb: each leaves the batch when first fooled."""

    def begin(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """The parts of those that climb."""
        self.left = (self.score < 0).nonzero()[:, 0]
        return tuple(part[self.left] for part in parts)

    def __call__(self, delta: Tensor, score: Tensor) -> Tensor:
        """Keep what is higher than all before, and say who goes on."""
        here = Highest(self.delta[self.left], self.score[self.left])
        here(delta, score)
        self.delta[self.left], self.score[self.left] = here.delta, here.score
        going = here.score < 0
        self.left = self.left[going]
        return going
