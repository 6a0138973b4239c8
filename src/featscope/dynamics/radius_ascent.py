"""Search for two-layer networks with large radii at given points: ascent of the least radius, many networks
at once.

A radius is estimated from above by tangent planes from several starts (attacks/readout_nearest.py has the
same iteration). At a boundary point z = x + δ with f(z) = 0 it grows by y ∂f(z)/‖∇f(z)‖ when the parameters
move, so that is what is ascended, weighted towards the smallest radii. What a search finds is a lower bound
of what a width can do; its networks are measured exactly elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

PLANES = 8
TINY = 1e-12


class Searched(NamedTuple):
    """Networks (runs, N, D), (runs, N), with fixed signs (runs, N) of the output weights."""

    w: Tensor
    b: Tensor
    a: Tensor


def _outputs(net: Searched, x: Tensor) -> tuple[Tensor, Tensor]:
    """f and ∇f at points (runs, P, D)."""
    z = x @ net.w.mT + net.b[:, None, :]
    return (z.clamp(min=0) * net.a[:, None, :]).sum(-1), ((z > 0) * net.a[:, None, :]) @ net.w


def boundary_points(net: Searched, x: Tensor, starts: Tensor) -> Tensor:
    """Points (runs, P, D) near f = 0 and near x, by tangent planes from ``starts``."""
    z = starts
    for _ in range(PLANES):
        f, slope = _outputs(net, z)
        step = ((slope * (z - x)).sum(-1) - f) / (slope * slope).sum(-1).clamp(min=TINY)
        z = x + step[..., None] * slope
    return z


def ascend_radii(
    net: Searched, x: Tensor, y: Tensor, steps: int, rate: float, rng: torch.Generator
) -> Searched:
    """Adam on the least radii of points x (P, D) with labels y (P,); planes start half-way to the other
    points and to noise."""
    runs, count = net.w.shape[0], x.shape[0]
    pairs = x[:, None, :].expand(count, count + 1, -1).reshape(1, -1, x.shape[1]).expand(runs, -1, -1)
    labels = y[:, None].expand(count, count + 1).reshape(-1)
    w, b = net.w.clone().requires_grad_(True), net.b.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([w, b], lr=rate)
    for t in range(steps):
        now = Searched(w.detach(), b.detach(), net.a)
        noise = torch.randn(runs, count, 1, x.shape[1], generator=rng, dtype=x.dtype)
        goals = torch.cat([x.expand(runs, count, count, -1), x[None, :, None] + 0.5 * noise], 2)
        starts = 0.5 * (pairs + goals.reshape(runs, -1, x.shape[1]))
        z = boundary_points(now, pairs, starts)
        f, _ = _outputs(now, pairs)
        reached, _ = _outputs(now, z)
        far = torch.linalg.vector_norm(z - pairs, dim=-1)
        found = (reached.abs() < 1e-3 * f.abs().clamp(min=TINY)) & (labels * f > 0)
        at = torch.where((labels * f > 0)[..., None], z, pairs)
        steep = torch.linalg.vector_norm(_outputs(now, at)[1], dim=-1).clamp(min=1e-6)
        radius = torch.where(labels * f > 0, torch.where(found, far, 1e3), labels * f / steep)
        weight = torch.softmax(-radius * (10 + 40 * t / steps), -1)
        with torch.enable_grad():
            goal = (weight * labels * _outputs(Searched(w, b, net.a), at)[0] / steep).sum()
            optimiser.zero_grad()
            (-goal).backward()
            optimiser.step()
    return Searched(w.detach(), b.detach(), net.a)
