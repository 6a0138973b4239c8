"""The loss around images (CGRO §6): for δ in a list of radii, the largest change of the loss and the largest gradient norm within δ.

    change(δ) = max_{‖ξ‖≤δ} L(f(X+ξ), y) − L(f(X), y)          gradient(δ) = max_{‖ξ‖≤δ} ‖∇_X L(f(X+ξ), y)‖_*

with the dual norm (ℓ1 for ℓ∞). Both are searched by projected ascent, the second by the gradient of the gradient's norm, so both are the largest values
*found*: lower bounds. Radii ascend, each starts where the last ended, and what was found at a smaller radius counts at every larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from featscope.attacks.mode import in_mode
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.losses import CROSS_ENTROPY


class Landscape(NamedTuple):
    """For each radius and each image the largest loss change and the largest gradient norm found, (R, N)."""

    change: Tensor
    gradient: Tensor


def landscape(
    net: nn.Module, x: Tensor, y: Tensor, threat: Threat, radii: Sequence[float], steps: int, rng: torch.Generator, batch: int = 500
) -> Landscape:
    """Measure both at all radii, in evaluation mode, in batches."""
    ascending = all(a < b for a, b in zip(radii, list(radii)[1:], strict=False))
    require(len(radii) > 0 and min(radii) >= 0 and ascending, "radii must be ascending", f"{tuple(radii)}", "sort them")
    parts = []
    with in_mode(net, "eval"):
        for start in range(0, len(y), batch):
            part = slice(start, start + batch)
            change = _largest_change(net, x[part], y[part], threat, radii, steps, rng)
            gradient = _largest_gradient(net, x[part], y[part], threat, radii, steps, rng)
            parts.append(Landscape(change, gradient))
    return Landscape(torch.cat([p.change for p in parts], 1), torch.cat([p.gradient for p in parts], 1))


def _loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(net(x), y, reduction="none")


@torch.no_grad()
def _largest_change(
    net: nn.Module, x: Tensor, y: Tensor, threat: Threat, radii: Sequence[float], steps: int, rng: torch.Generator
) -> Tensor:
    clean = _loss(net, x, y)
    top, last = clean.clone(), 0.0
    delta: Tensor | None = None
    found = []
    for radius in radii:
        if radius > 0:
            here = threat.with_radius(radius)
            start = None if delta is None else delta * (radius / last)
            delta = here.project(PGD(steps=steps, goal=CROSS_ENTROPY)(net, x, y, here, rng, start), x)
            top, last = torch.maximum(top, _loss(net, x + delta, y)), radius
        found.append(top - clean)
    return torch.stack(found)


def gradient_norms(net: nn.Module, x: Tensor, y: Tensor, threat: Threat) -> tuple[Tensor, Tensor]:
    """‖∇_X L‖_* at each image, and the gradient of that norm by the image (double backward)."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(_loss(net, leaf, y).sum(), leaf, create_graph=True)
        norms = threat.dual_norm(gradient)
        if not norms.requires_grad:
            return norms.detach(), torch.zeros_like(x)
        (uphill,) = torch.autograd.grad(norms.sum(), leaf, allow_unused=True)
    return norms.detach(), torch.zeros_like(x) if uphill is None else torch.nan_to_num(uphill)


def _largest_gradient(
    net: nn.Module, x: Tensor, y: Tensor, threat: Threat, radii: Sequence[float], steps: int, rng: torch.Generator
) -> Tensor:
    top, uphill = gradient_norms(net, x, y, threat)
    delta, last = torch.zeros_like(x), 0.0
    found = []
    for radius in radii:
        if radius > 0:
            here = threat.with_radius(radius)
            # The saturated loss is flat to the second order at many images, so the search begins at a random point there.
            delta = here.sample(x, rng) if last == 0 else here.project(delta * (radius / last), x)
            best = delta
            for step in range(steps + 1):
                norms, uphill = gradient_norms(net, x + delta, y, threat)
                higher = norms > top
                top = torch.where(higher, norms, top)
                best = torch.where(higher.view(-1, *[1] * (x.dim() - 1)), delta, best)
                delta = here.project(delta + radius * (1 - step / (steps + 1)) * here.direction(uphill), x)
            delta, last = best, radius
        found.append(top)
    return torch.stack(found)
