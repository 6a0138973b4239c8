"""The nearest point at which the binary read-out of FA's k-class network flips, searched rival by rival.

From the point where the outputs of the own class and of one rival meet, the boundary g = 0 is replaced by its
tangent plane and the plane's nearest point is taken, again and again: what this iteration rests at is a point
whose displacement is normal to the boundary. What is found is shortened along its own ray to the last point
that is misclassified, so it is an upper bound of the radius whatever the iteration did. Ascent at a given
radius, which sees all rivals at once, stays some 2 % above it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.attacks.minimal import AttackObjective, Found, readout_objective
from featscope.nets.multiclass import MultiClass

#: tangent planes for each rival, and halvings of the ray
PLANES, HALVINGS = 30, 45
#: how far beyond the tangent planes' point a misclassified one is looked for
STRETCH = 1.5


def nearest_flip(net: MultiClass, signs: Tensor, x: Tensor, y: Tensor, own: Tensor) -> Found:
    """The shortest perturbation found for points of the classes ``own``; 0 where the read-out is wrong."""
    objective, mean = readout_objective(net, signs, y), net.equivalent()
    wrong = objective(x[None])[0][0] <= 0
    best = Found(torch.where(wrong, 0.0, torch.inf).to(x), torch.zeros_like(x))
    for rival in range(net.k):
        apart = mean[rival] - mean[own]
        meet = -(apart * x).sum(-1) / (apart * apart).sum(-1).clamp(min=torch.finfo(x.dtype).tiny)
        delta = _shortened(objective, x, _planes(objective, x, meet[:, None] * apart))
        size = torch.linalg.vector_norm(delta, dim=-1)
        fools = (objective((x + delta)[None])[0][0] <= 0) & (signs[rival] != y) & (size < best.radius)
        best = Found(torch.where(fools, size, best.radius), torch.where(fools[:, None], delta, best.delta))
    return best


def _planes(objective: AttackObjective, x: Tensor, delta: Tensor) -> Tensor:
    """δ ← the nearest point of the tangent plane of g at x + δ."""
    for _ in range(PLANES):
        score, ascent = (part[0] for part in objective((x + delta)[None]))
        # ``ascent`` is −∇g.
        steep = (ascent * ascent).sum(-1).clamp(min=torch.finfo(x.dtype).tiny)
        moved = (((ascent * delta).sum(-1) + score) / steep)[:, None] * ascent
        delta = torch.where(moved.isfinite(), moved, delta)
    return delta


def _shortened(objective: AttackObjective, x: Tensor, delta: Tensor) -> Tensor:
    """The last misclassified point of each ray below ``STRETCH`` times its length."""
    low, high = torch.zeros_like(x[:, :1]), torch.full_like(x[:, :1], STRETCH)
    for _ in range(HALVINGS):
        mid = 0.5 * (low + high)
        wrong = (objective((x + mid * delta)[None])[0][0] <= 0)[:, None]
        low, high = torch.where(wrong, low, mid), torch.where(wrong, mid, high)
    return high * delta
