"""Robust accuracy at a list of radii, by bisection of the list for each example.

Who is fooled at a radius is fooled at every larger one, so an attack that fails leaves only the larger radii to try and one that succeeds only the smaller:
an example meets about log₂ of the number of radii attacks, not one at each radius. It ends between two neighbours of the list: fooled at one, withstanding
the attack at the one below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.attacks.mode import in_mode
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.linearise import Model
from featscope.core.losses import margin


class Curve(NamedTuple):
    """Robust accuracy at each radius, and for each example the smallest radius of the list at which it is fooled (∞: none; 0: at once)."""

    radii: tuple[float, ...]
    accuracy: tuple[float, ...]
    fooled_at: Tensor
    delta: Tensor


@torch.no_grad()
def robust_curve(
    model: Model, x: Tensor, y: Tensor, threat: Threat, radii: Sequence[float], attack: PGD, rng: torch.Generator, batch: int = 500
) -> Curve:
    """Attack each example at radii that bisect the list. A perturbation found at a smaller radius is one at every larger radius, so accuracy never rises."""
    increasing = all(a < b for a, b in zip(radii, list(radii)[1:], strict=False))
    require(len(radii) > 0 and min(radii) >= 0 and increasing, "radii must be ascending", f"{tuple(radii)}", "sort them")
    positive = [radius for radius in radii if radius > 0]
    fooled_at, delta = torch.full((len(y),), torch.inf), torch.zeros_like(x)
    with in_mode(model, "eval"):
        for first in range(0, len(y), batch):
            part = slice(first, first + batch)
            search = _Search(model, x[part], y[part], threat, positive, attack, rng, fooled_at[part], delta[part])
            search.run()
    return count(radii, fooled_at, delta)


def count(radii: Sequence[float], fooled_at: Tensor, delta: Tensor) -> Curve:
    """The share of examples that no perturbation within each radius fools."""
    accuracy = tuple(float((fooled_at > radius).double().mean()) for radius in radii)
    return Curve(tuple(radii), accuracy, fooled_at, delta)


@dataclass
class _Search:
    """The bisection for one batch; ``fooled_at`` and ``delta`` are filled in."""

    model: Model
    x: Tensor
    y: Tensor
    threat: Threat
    radii: Sequence[float]
    attack: PGD
    rng: torch.Generator
    fooled_at: Tensor
    delta: Tensor

    def run(self) -> None:
        """Examples that are wrong as they are have radius 0; the others begin at the middle of the list, from a random start."""
        right = margin(self.model(self.x), self.y) > 0
        self.fooled_at[~right.cpu()] = 0.0
        left = right.nonzero()[:, 0]
        whole = self.threat.with_radius(1.0)
        self._between(left, 0, len(self.radii), whole.sample(self.x[left], self.rng), 1.0)

    def _between(self, left: Tensor, low: int, high: int, start: Tensor, size: float) -> None:
        """Examples ``left`` withstood the attack at the radius before ``low`` and were fooled at ``high`` (or are beyond the list); ``start`` has radius ``size``."""
        if low == high or not len(left):
            return
        middle = (low + high) // 2
        radius = self.radii[middle]
        here, x, y = self.threat.with_radius(radius), self.x[left], self.y[left]
        found = here.project(self.attack(self.model, x, y, here, self.rng, start * (radius / size)), x)
        fooled = ~(margin(self.model(x + found), y) > 0)
        # What is kept for an example is the last success, or the last try if there is none: then it was at the largest radius.
        new = fooled | torch.isinf(self.fooled_at[left.cpu()]).to(fooled.device)
        self.delta[left[new]] = found[new]
        self.fooled_at[left[fooled].cpu()] = radius
        self._between(left[fooled], low, middle, found[fooled], radius)
        self._between(left[~fooled], middle + 1, high, found[~fooled], radius)
