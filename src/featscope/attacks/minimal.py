"""The smallest ℓ2 radius at which projected gradient ascent succeeds, example by example.

Each round is PGD at one radius for each example (all restarts at once, steps of 2.5·ε/steps); rounds bisect
the radius, and what is found is shortened along its own segment to the boundary. One call gives the whole
curve of attacked robust accuracy against the radius.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.attacks.ascent import Inspect, Move, Seen, ascend
from featscope.core.balls import Ball
from featscope.core.errors import require_at_least
from featscope.core.losses import CROSS_ENTROPY
from featscope.nets import multiclass, two_layer
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import TwoLayer

_UNIT = Ball(2.0, 1.0)
#: x (restarts, n, D) ↦ the signed score (negative or zero means misclassified) and the direction to ascend.
AttackObjective = Callable[[Tensor], tuple[Tensor, Tensor]]


class Found(NamedTuple):
    """The smallest norm found for each example and its perturbation; infinite and zero where no attempt
    succeeded.
    """

    radius: Tensor
    delta: Tensor


def binary_objective(net: TwoLayer, y: Tensor) -> AttackObjective:
    """Descend the margin y f.

    The logistic loss is monotone in it, so its normalised gradient is the same: one attack, both losses.
    """

    def objective(x: Tensor) -> tuple[Tensor, Tensor]:
        f, gradient = two_layer.input_gradient(net, x)
        # sgn(0) = −1: f = 0 is wrong for y = +1 and right for y = −1.
        score = torch.where(y > 0, f, -f + torch.finfo(f.dtype).tiny)
        return score, -y[:, None] * gradient

    return objective


def readout_objective(net: MultiClass, signs: Tensor, y: Tensor) -> AttackObjective:
    """Descend y · (logsumexp_{J₊} F − logsumexp_{J₋} F)."""

    def objective(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x @ net.w.mT
        outputs = multiclass.from_hidden(net, z)
        slope = -y[:, None] * multiclass.readout_slope(outputs, signs)
        return y * multiclass.readout(outputs, signs), multiclass.pull_inputs(net, z, slope)

    return objective


def own_loss_objective(net: MultiClass, signs: Tensor, y: Tensor, cluster: Tensor) -> AttackObjective:
    """Ascend the cross-entropy with the cluster label; success is still a wrong binary read-out."""

    def objective(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x @ net.w.mT
        outputs = multiclass.from_hidden(net, z)
        slope = CROSS_ENTROPY.grad(outputs, cluster.expand(outputs.shape[:-1]))
        return y * multiclass.readout(outputs, signs), multiclass.pull_inputs(net, z, slope)

    return objective


@dataclass(frozen=True)
class MinimalPGD:
    """PGD-ℓ2 with a radius for each example, found by bisection in ``rounds`` rounds below ``reach``.

    ``last_only`` is the usual protocol at a fixed radius: only the last iterate counts, and it is not
    shortened.
    """

    steps: int = 60
    restarts: int = 5
    rounds: int = 12
    reach: float = 100.0
    last_only: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "restarts", "rounds"):
            require_at_least(name, getattr(self, name), 1)

    def __call__(self, objective: AttackObjective, x: Tensor, rng: torch.Generator) -> Found:
        """Return the smallest radius at which some restart succeeded; examples misclassified as they are have
        radius 0.
        """
        wrong = objective(x[None])[0][0] <= 0
        low = torch.zeros(x.shape[0], dtype=x.dtype)
        best = torch.where(wrong, 0.0, torch.inf).to(x)
        delta = torch.zeros_like(x)
        for _ in range(self.rounds):
            high = best.clamp(max=self.reach)
            eps = torch.where(best.isinf() & (low == 0), high, 0.5 * (low + high))
            found = self._attack(objective, x, eps, rng)
            size = torch.linalg.vector_norm(found, dim=-1)
            better = (objective((x + found)[None])[0][0] <= 0) & (size < best)
            best, delta = torch.where(better, size, best), torch.where(better[:, None], found, delta)
            low = torch.where(better | wrong, low, torch.maximum(low, eps)).clamp(max=self.reach)
        return Found(best, delta)

    def _attack(self, objective: AttackObjective, x: Tensor, eps: Tensor, rng: torch.Generator) -> Tensor:
        """PGD at radius eps_i from uniform starts; the shortened shortest success, or the last point."""
        radius = eps[:, None]
        start = radius * _UNIT.sample((self.restarts, *x.shape), rng, x)
        start[0] = 0
        found = _Shortest(start[0].clone(), torch.full_like(eps, torch.inf))
        look = _look(objective)
        last = ascend(look, self._move(radius), start, self.steps, None if self.last_only else found, x)
        if self.last_only:
            found(last, look(x + last).score)
            return found.delta
        return self._shorten(objective, x, found.delta, found.size.isfinite())

    def _move(self, radius: Tensor) -> Move:
        """PGD's step in units of each example's radius."""

        def move(step: int, x: Tensor, delta: Tensor, seen: Seen) -> Tensor:
            ahead = delta / radius.clamp(min=1e-300) + (2.5 / self.steps) * _UNIT.direction(seen.gradient())
            return radius * _UNIT.project(ahead)

        return move

    def _shorten(self, objective: AttackObjective, x: Tensor, delta: Tensor, success: Tensor) -> Tensor:
        """Bisect the segment from the example to the success for its last point that is misclassified."""
        low, high = torch.zeros_like(x[:, :1]), torch.ones_like(x[:, :1])
        for _ in range(25):
            mid = 0.5 * (low + high)
            wrong = (objective((x + mid * delta)[None])[0][0] <= 0)[:, None]
            low, high = torch.where(wrong, low, mid), torch.where(wrong, mid, high)
        return torch.where(success[:, None], high * delta, delta)


def _look(objective: AttackObjective) -> Inspect:
    def look(points: Tensor) -> Seen:
        margin, direction = objective(points)
        return Seen(-margin, lambda: -margin, lambda: direction)

    return look


class _Shortest:
    """Of the restarts along the first axis, and of all steps, the shortest perturbation that is
    misclassified.
    """

    def __init__(self, delta: Tensor, size: Tensor) -> None:
        self.delta, self.size = delta, size

    def __call__(self, delta: Tensor, score: Tensor) -> None:
        norm = torch.where(score >= 0, torch.linalg.vector_norm(delta, dim=-1), torch.inf)
        least, which = norm.min(0)
        better = least < self.size
        chosen = delta.gather(0, which[None, :, None].expand(1, *delta.shape[1:]))[0]
        self.delta = torch.where(better[:, None], chosen, self.delta)
        self.size = torch.where(better, least, self.size)
