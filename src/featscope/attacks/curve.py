"""Robust accuracy at a list of radii in one pass: radii ascend, fooled examples stay fooled, the others start from where the last radius ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.attacks.mode import in_mode
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.losses import margin
from featscope.core.pullback import Model


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
    """Attack with growing radius. A perturbation found at a smaller radius is one at every larger radius, so accuracy never rises."""
    increasing = all(a < b for a, b in zip(radii, list(radii)[1:], strict=False))
    require(len(radii) > 0 and min(radii) >= 0 and increasing, "radii must be ascending", f"{tuple(radii)}", "sort them")
    fooled_at, delta = torch.full((len(y),), torch.inf), torch.zeros_like(x)
    with in_mode(model, "eval"):
        for first in range(0, len(y), batch):
            part = slice(first, first + batch)
            fooled_at[part], delta[part] = _one_batch(model, x[part], y[part], threat, radii, attack, rng)
    accuracy = tuple(float((fooled_at > radius).double().mean()) for radius in radii)
    return Curve(tuple(radii), accuracy, fooled_at, delta)


def _one_batch(
    model: Model, x: Tensor, y: Tensor, threat: Threat, radii: Sequence[float], attack: PGD, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    fooled_at, delta = torch.full((len(y),), torch.inf), torch.zeros_like(x)
    fooled_at[(~(margin(model(x), y) > 0)).cpu()] = 0.0
    last: float | None = None
    for radius in radii:
        left = torch.isinf(fooled_at).nonzero()[:, 0].to(x.device)
        if radius == 0 or not len(left):
            continue
        here = threat.with_radius(radius)
        start = None if last is None else delta[left] * (radius / last)
        found = here.project(attack(model, x[left], y[left], here, rng, start), x[left])
        delta[left] = found
        fooled = ~(margin(model(x[left] + found), y[left]) > 0)
        fooled_at[left[fooled].cpu()] = radius
        last = radius
    return fooled_at, delta
