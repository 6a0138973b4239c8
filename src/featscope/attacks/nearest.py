"""The smallest perturbation that changes a network's prediction, example by example, in ℓ∞ or ℓ2 (after the
fast minimum-norm attack of Pintor et al. 2021).

The radius follows the boundary: below it, it grows, beyond it, it shrinks, and it begins where the linearised
network would change. The perturbation takes gradient steps and is kept in the ball of the present radius.
What is found is shortened along its own segment. Rival classes are ranked by their linearised distance, which
is exact on a linear network; the nearest few are aimed at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.attacks.ascent import widened
from featscope.attacks.mode import in_mode
from featscope.attacks.threat import Threat
from featscope.core.errors import require_at_least
from featscope.core.linearise import Model, linearise
from featscope.core.losses import margin, one_hot, own

#: classes whose linearised distance is looked at: all of few, the most likely of many
RANKED = 10
#: how much the radius changes at the first and at the last step
FIRST_CHANGE, LAST_CHANGE = 0.05, 0.002


class NearestFound(NamedTuple):
    """For each example the norm of its smallest perturbation (0: wrong as it is; ∞: none found), and that."""

    radius: Tensor
    delta: Tensor


@dataclass(frozen=True)
class NearestAttack:
    """``steps`` for each of the ``targets`` nearest rival classes; the threat's radius plays no role."""

    steps: int = 40
    targets: int = 3

    def __post_init__(self) -> None:
        require_at_least("steps", self.steps, 1)
        require_at_least("targets", self.targets, 1)

    @property
    def name(self) -> str:
        """For example nearest40."""
        return f"nearest{self.steps}"

    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """Return the smallest perturbations, as an attack: those within the threat fool."""
        return self.find(model, x, y, threat).delta

    @torch.no_grad()
    def find(self, model: Model, x: Tensor, y: Tensor, threat: Threat) -> NearestFound:
        """Return the smallest perturbation found for each example."""
        with in_mode(model, "eval"):
            outputs = model(x)
            right = margin(outputs, y) > 0
            best = NearestFound(torch.where(right, torch.inf, 0.0).to(x), torch.zeros_like(x))
            left = right.nonzero()[:, 0]
            if len(left):
                rivals = ranked(model, x[left], y[left], threat, self.targets)
                for place in range(rivals.shape[1]):
                    found = self._towards(model, x[left], y[left], rivals[:, place], threat)
                    better = found.radius < best.radius[left]
                    best.radius[left[better]] = found.radius[better]
                    best.delta[left[better]] = found.delta[better]
        return best

    def _towards(self, model: Model, x: Tensor, y: Tensor, target: Tensor, threat: Threat) -> NearestFound:
        """The nearest perturbation on the way to one class each; any wrong class counts."""
        delta, whole = torch.zeros_like(x), _whole(threat, x)
        radius = torch.zeros_like(x.flatten(1)[:, 0])
        best = NearestFound(torch.full_like(radius, torch.inf), torch.zeros_like(x))
        for step in range(self.steps + 1):
            outputs, pull = linearise(model, x + delta)
            size = threat.ball.norm(delta.flatten(1))
            fooled = ~(margin(outputs, y) > 0)
            better = fooled & (size < best.radius)
            best.radius[better], best.delta[better] = size[better], delta[better]
            if step == self.steps:
                break
            gradient = pull(one_hot(target, outputs) - one_hot(y, outputs))
            gap = own(outputs, y) - own(outputs, target)
            ahead = size + gap / threat.dual_norm(gradient).clamp(min=1e-30)
            radius = self._radius(step, radius, ahead, fooled, best.radius).clamp(max=whole)
            pace = widened(radius * self._cosine(step, 1.0, 0.05), delta)
            delta = _within(threat, radius, delta + pace * threat.direction(gradient), x)
        return _shortened(model, x, y, threat, best)

    def _radius(self, step: int, radius: Tensor, ahead: Tensor, fooled: Tensor, best: Tensor) -> Tensor:
        """Where the linearised network changes until something is found; then a little in or out."""
        change = self._cosine(step, FIRST_CHANGE, LAST_CHANGE)
        found = best.isfinite()
        inward = torch.minimum(radius, best) * (1 - change)
        outward = torch.minimum(radius * (1 + change), best)
        beyond = ahead.clamp(min=0) * (1 + change)
        return torch.where(fooled, inward, torch.where(found, outward, beyond))

    def _cosine(self, step: int, first: float, last: float) -> float:
        return last + (first - last) * (1 + math.cos(math.pi * step / self.steps)) / 2


def ranked(model: Model, x: Tensor, y: Tensor, threat: Threat, targets: int) -> Tensor:
    """The rival classes nearest by (F_y − F_j) ÷ ‖∇(F_y − F_j)‖, (N, targets), nearest first."""
    outputs, pull = linearise(model, x)
    likely = outputs.scatter(-1, y[:, None], -torch.inf).topk(min(RANKED, outputs.shape[1] - 1)).indices
    far = []
    for place in range(likely.shape[1]):
        _, pull = linearise(model, x)
        gradient = pull(one_hot(y, outputs) - one_hot(likely[:, place], outputs))
        gap = own(outputs, y) - own(outputs, likely[:, place])
        far.append(gap / threat.dual_norm(gradient).clamp(min=1e-30))
    order = torch.stack(far, 1).argsort(1)[:, :targets]
    return likely.gather(1, order)


def _whole(threat: Threat, x: Tensor) -> float:
    """The largest radius that the bounds leave room for."""
    if threat.bounds is None:
        return torch.inf
    room = threat.bounds[1] - threat.bounds[0]
    return room if math.isinf(threat.ball.p) else room * math.sqrt(x[0].numel())


def _within(threat: Threat, radius: Tensor, delta: Tensor, x: Tensor) -> Tensor:
    """δ in the ball of each example's own radius, and x + δ in the bounds."""
    own_radius = widened(radius, delta)
    unit = (
        threat.with_radius(1.0).ball.project((delta / own_radius.clamp(min=1e-30)).flatten(1)).view_as(delta)
    )
    inside = own_radius * unit
    return inside if threat.bounds is None else (x + inside).clamp(*threat.bounds) - x


def _shortened(
    model: Model, x: Tensor, y: Tensor, threat: Threat, found: NearestFound, halvings: int = 12
) -> NearestFound:
    """The first wrong point on the way to what was found, by bisection; the end is a point that was tried."""
    low = torch.zeros_like(found.radius)
    high = torch.ones_like(low)
    for _ in range(halvings):
        middle = (low + high) / 2
        wrong = ~(margin(model(x + widened(middle, x) * found.delta), y) > 0)
        low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
    delta = widened(high, x) * found.delta
    size = threat.ball.norm(delta.flatten(1))
    return NearestFound(torch.where(found.radius.isfinite(), size, torch.inf), delta)
