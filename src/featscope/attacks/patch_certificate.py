"""Certified lower bounds on the margin of the patch network over a threat.

The network is a sum over patches, so each patch is bounded by itself: over δ_p in the ball, ⟨w, x_p + δ_p⟩
stays within z ± ε‖w‖_*. The interval bound takes each neuron at its worst end. The linear bound uses that σ̃
is convex: any tangent bounds F_y from below and the chord bounds F_j from above, which leaves a linear
function of δ_p, whose minimum is exact. The tangents' points are improved by ascent.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from featscope.attacks.threat import Threat
from featscope.nets.activations import smoothed_relu, smoothed_relu_slope
from featscope.nets.patch_cnn import PatchNet

#: A bound counts as positive only beyond this share of the outputs' size, which covers the rounding of
#: float64 sums.
ROUNDING = 1e-9


class Bounds(NamedTuple):
    """Lower bounds on min over the threat of F_y − max_j F_j, (N): by intervals, and by the better of both
    for each patch."""

    interval: Tensor
    linear: Tensor


def _pieces(net: PatchNet, x: Tensor, threat: Threat) -> tuple[Tensor, Tensor, Tensor]:
    """Pre-activations (N, P, k, m), masked weights (P or 1, k, m, d) and the reach ε‖w‖_* of each neuron (P
    or 1, k, m)."""
    by_patch = threat.support is not None and threat.support.dim() > 1
    w = (
        net.w * threat.support.to(net.w)[:, None, None, :]
        if threat.support is not None and by_patch
        else threat.restrict(net.w[None])
    )
    z = net.preactivations(x).view(*x.shape[:2], *net.w.shape[:2])
    return z, w, threat.eps * threat.ball.dual_norm(w)


def _take(t: Tensor, label: Tensor) -> Tensor:
    """The slices of one class for each point: (N or 1, P or 1, k, …) → (N, P or 1, …)."""
    wide = t.expand(len(label), *t.shape[1:])
    return wide[torch.arange(len(label)), :, label]


def certify(net: PatchNet, x: Tensor, y: Tensor, threat: Threat, steps: int = 12) -> Bounds:
    """Bound the smallest margin over the threat from below for each point; valid for any ℓp and any support
    (x is (N, P, d)).

    The bounds are computed in float64 whatever the network's type.
    """
    net, x = PatchNet(net.w.double(), net.q, net.rho), x.double()
    z, w, reach = _pieces(net, x, threat)
    low, high = z - reach, z + reach
    worst_interval = torch.full(y.shape, torch.inf, dtype=x.dtype, device=x.device)
    worst_linear = worst_interval.clone()
    for shift in range(1, net.classes):
        other = (y + shift) % net.classes
        low_y, high_y = _take(low, y), _take(high, y)
        low_j, high_j = _take(low, other), _take(high, other)
        interval = smoothed_relu(low_y, net.q, net.rho).sum(-1) - smoothed_relu(high_j, net.q, net.rho).sum(
            -1
        )
        chords = _chords(net, low_j, high_j, _take(z, other))
        linear = _best_tangent(
            net, threat, _take(z, y), low_y, high_y, _take(w[None], y), chords, _take(w[None], other), steps
        )
        worst_interval = torch.minimum(worst_interval, interval.sum(-1))
        worst_linear = torch.minimum(worst_linear, torch.maximum(interval, linear).sum(-1))
    return Bounds(worst_interval, worst_linear)


def _chords(net: PatchNet, low: Tensor, high: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes of the chords of σ̃ over [low, high], and the chords' values at z."""
    width = high - low
    bottom = smoothed_relu(low, net.q, net.rho)
    rise = smoothed_relu(high, net.q, net.rho) - bottom
    slope = torch.where(width > 0, rise / width.clamp(min=1e-300), torch.zeros_like(width))
    return slope, bottom + slope * (z - low)


def _best_tangent(
    net: PatchNet,
    threat: Threat,
    z: Tensor,
    low: Tensor,
    high: Tensor,
    w_y: Tensor,
    chords: tuple[Tensor, Tensor],
    w_j: Tensor,
    steps: int,
) -> Tensor:
    """The best of the linear bounds over the tangents' points, for each patch (N, P)."""
    slope_j, value_j = chords
    fixed = (
        torch.einsum("npr,nqrd->npd", slope_j, w_j)
        if w_j.shape[1] == 1
        else torch.einsum("npr,nprd->npd", slope_j, w_j)
    )

    def bound(point: Tensor) -> Tensor:
        slope = smoothed_relu_slope(point, net.q, net.rho)
        moved = (
            torch.einsum("npr,nqrd->npd", slope, w_y)
            if w_y.shape[1] == 1
            else torch.einsum("npr,nprd->npd", slope, w_y)
        )
        value = (smoothed_relu(point, net.q, net.rho) + slope * (z - point)).sum(-1)
        return value - value_j.sum(-1) - threat.eps * threat.ball.dual_norm(moved - fixed)

    point = z.clone()
    best = bound(point)
    scale = 0.5 * (high - low)
    for step in range(steps):
        with torch.enable_grad():
            leaf = point.detach().requires_grad_(True)
            gradient = torch.autograd.grad(bound(leaf).sum(), leaf)[0]
        size = scale * (1.0 / (1 + step))
        point = torch.minimum(torch.maximum(point + size * gradient.sign(), low), high)
        best = torch.maximum(best, bound(point))
    return best


def is_certified(bound: Tensor, outputs: Tensor) -> Tensor:
    """Which points are certified robust: a lower bound that exceeds what rounding could explain."""
    return bound > ROUNDING * (1 + outputs.abs().sum(-1))
