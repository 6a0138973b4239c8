"""The loss around images (CGRO §6): for δ in a list of radii, the largest change of the loss and the largest
gradient norm within δ.

    change(δ) = max_{‖ξ‖≤δ} L(f(X+ξ), y) − L(f(X), y)          gradient(δ) = max_{‖ξ‖≤δ} ‖∇_X L(f(X+ξ), y)‖_*

with the dual norm (ℓ1 for ℓ∞). Both are searched by projected ascent, the second by the gradient of the
gradient's norm, so both are the largest values *found*: lower bounds. Radii ascend, each starts where the
last ended, and what was found at a smaller radius counts at every larger one.

Along the segment from X to the loss maximiser X+ξ found, the loss rises by ∫⟨∇L(X+tξ), ξ⟩dt, so some point of
it has ‖∇L‖_* ≥ change/δ (the mean value theorem; CGRO appendix F's Taylor step). Where the search for the
gradient stayed below change/δ it was too weak, and bisection finds such a point: of two halves of a segment
one rises at least as fast as the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from featscope.attacks.ascent import Highest, Seen, ascend, by_autograd, falling, stepping, widened
from featscope.attacks.curve import require_ascending
from featscope.attacks.mode import in_mode
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.losses import CROSS_ENTROPY

#: halvings of a segment: beyond these, differences of a loss in float32 are rounding
HALVINGS = 12
#: a loss in float32 is known to about this much
ROUNDING = 1e-5


class Landscape(NamedTuple):
    """What was found for N images and R radii.

    ``loss`` and ``slope`` (N): L and ‖∇L‖_* at the images; ``change`` and ``gradient`` (R, N): the largest
    within each radius; ``repaired`` (R, N): whether the gradient came from bisection because the search for
    it was too weak.
    """

    loss: Tensor
    slope: Tensor
    change: Tensor
    gradient: Tensor
    repaired: Tensor

    def mean_value(self, radii: Sequence[float]) -> Tensor:
        """change ÷ (δ·gradient), (R, N), the loss known to ``ROUNDING``: at most 1 by the mean value theorem
        if the gradient was found.
        """
        reach = (
            torch.as_tensor(radii, dtype=self.change.dtype, device=self.change.device)[:, None]
            * self.gradient
        )
        return self.change / (reach + ROUNDING)


def landscape(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    radii: Sequence[float],
    steps: int,
    rng: Generator,
    batch: int = 500,
) -> Landscape:
    """Measure both at all radii, in evaluation mode, in batches."""
    require_ascending(radii)
    parts = []
    with in_mode(net, "eval"):
        for start in range(0, len(y), batch):
            part = slice(start, start + batch)
            parts.append(_one_batch(net, x[part], y[part], threat, radii, steps, rng))
    return Landscape(*(torch.cat(values, -1) for values in zip(*parts, strict=True)))


def largest_change(
    net: nn.Module, x: Tensor, y: Tensor, threat: Threat, radii: Sequence[float], steps: int, rng: Generator
) -> tuple[Tensor, Tensor]:
    """The largest loss change found within each radius, (R, N), and the perturbation that attains it, (R, N,
    …).
    """
    require_ascending(radii)
    with in_mode(net, "eval"), torch.no_grad():
        clean = _loss(net, x, y)
        top, last = clean.clone(), 0.0
        delta: Tensor | None = None
        best = torch.zeros_like(x)
        found, where = [], []
        for radius in radii:
            if radius > 0:
                here = threat.with_radius(radius)
                start = None if delta is None else delta * (radius / last)
                delta = here.project(PGD(steps=steps, goal=CROSS_ENTROPY)(net, x, y, here, rng, start), x)
                value, last = _loss(net, x + delta, y), radius
                best = torch.where(widened(value > top, x), delta, best)
                top = torch.maximum(top, value)
            found.append(top - clean)
            where.append(best)
        return torch.stack(found), torch.stack(where)


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


def loss_and_norm(net: nn.Module, x: Tensor, y: Tensor, threat: Threat) -> tuple[Tensor, Tensor]:
    """L and ‖∇_X L‖_* at each image."""
    seen = by_autograd(lambda points: _loss(net, points, y))(x)
    return seen.score, threat.dual_norm(seen.gradient())


def _loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(net(x), y, reduction="none")


def _one_batch(
    net: nn.Module, x: Tensor, y: Tensor, threat: Threat, radii: Sequence[float], steps: int, rng: Generator
) -> Landscape:
    loss, slope = loss_and_norm(net, x, y, threat)
    change, where = largest_change(net, x, y, threat, radii, steps, rng)
    top, best, last = slope, torch.zeros_like(x), 0.0
    gradients, repaired = [], []
    for radius, rise, worst in zip(radii, change, where, strict=True):
        weak = torch.zeros_like(y, dtype=torch.bool)
        if radius > 0:
            here = threat.with_radius(radius)
            # The saturated loss is flat to the second order at many images, so the search begins at a random
            # point there.
            start = here.sample(x, rng) if last == 0 else here.project(best * (radius / last), x)
            top, best = _climb(net, x, y, here, steps, _steeper(net, x, y, here, start, worst), top, best)
            weak = rise > radius * top + ROUNDING
            top, best = _bisect(net, x, y, here, worst, rise, weak, top, best)
            last = radius
        gradients.append(top)
        repaired.append(weak)
    return Landscape(loss, slope, change, torch.stack(gradients), torch.stack(repaired))


def _steeper(net: nn.Module, x: Tensor, y: Tensor, threat: Threat, one: Tensor, other: Tensor) -> Tensor:
    """For each image the one of two perturbations with the larger gradient norm."""
    norms = [loss_and_norm(net, x + delta, y, threat)[1] for delta in (one, other)]
    return torch.where(widened(norms[1] > norms[0], x), other, one)


def _climb(
    net: nn.Module, x: Tensor, y: Tensor, threat: Threat, steps: int, delta: Tensor, top: Tensor, best: Tensor
) -> tuple[Tensor, Tensor]:
    """Projected ascent of the gradient norm with falling steps; the largest norm so far and where it is."""

    def look(points: Tensor) -> Seen:
        norms, uphill = gradient_norms(net, points, y, threat)
        return Seen(norms, lambda: norms, lambda: uphill)

    found = Highest(best, top)
    ascend(look, stepping(threat, falling(threat.eps, steps + 1)), delta, steps, found, x)
    return found.score, found.delta


def _bisect(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    delta: Tensor,
    rise: Tensor,
    weak: Tensor,
    top: Tensor,
    best: Tensor,
) -> tuple[Tensor, Tensor]:
    """Where ``weak``, follow the faster rising half of the segment from x to x + delta until a gradient norm
    ≥ rise ÷ radius is found.
    """
    left = weak.nonzero()[:, 0]
    if not len(left):
        return top, best
    top, best = top.clone(), best.clone()
    x, y, delta, rise = x[left], y[left], delta[left], rise[left]
    ends = [
        torch.zeros(len(left), dtype=x.dtype, device=x.device),
        torch.ones(len(left), dtype=x.dtype, device=x.device),
    ]
    values = [loss_and_norm(net, x + widened(t, x) * delta, y, threat)[0] for t in ends]
    for _ in range(HALVINGS):
        middle = (ends[0] + ends[1]) / 2
        here = widened(middle, x) * delta
        value, norm = loss_and_norm(net, x + here, y, threat)
        higher = norm > top[left]
        best[left] = torch.where(widened(higher, x), here, best[left])
        top[left] = torch.maximum(top[left], norm)
        if bool((rise <= threat.eps * top[left]).all()):
            break
        first = value - values[0] >= values[1] - value
        ends = [torch.where(first, ends[0], middle), torch.where(first, middle, ends[1])]
        values = [torch.where(first, values[0], value), torch.where(first, value, values[1])]
    return top, best
