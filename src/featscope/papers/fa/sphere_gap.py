"""How far a 2-class network is from a multiple of the averaging one on the sphere ‖x‖ = √d (Theorem 4.6)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from featscope.laws.clusters import ClusterLaw
from featscope.nets.two_layer import TwoLayer, averaging, input_gradient, span


def sphere_gap(
    net: TwoLayer, law: ClusterLaw, scale: float, features: Tensor, rng: torch.Generator
) -> tuple[float, float]:
    """Bounds of inf_C sup_{‖x‖=√d} |C f_FA(x) − f(x)|: above by the proof at C = λ/d, below by a search.

    Above: ReLU is 1-Lipschitz, so each neuron contributes at most |a_r| (√d ‖w_r − (λ/d) Σ_{J_s} μ‖ + |b_r|).
    Below: points found by ascent of the gap for some C stay fixed, and the smallest of their largest gaps
    over a grid of C is taken; between grid points the gap of a point is convex in C, so a fine grid loses
    little, and no more than that is claimed of it.
    """
    signs, root = law.signs(features.dtype), math.sqrt(law.d)
    ideal = averaging(features, signs)
    target = torch.where(net.positive[:, None], ideal.w[0], ideal.w[1]) * (scale / law.d)
    gaps = torch.linalg.vector_norm(net.w - target, dim=-1)
    above = float((net.a.abs() * (root * gaps + net.b.abs())).sum())
    net, ideal = TwoLayer(*(t.double() for t in net)), TwoLayer(*(t.double() for t in ideal))
    basis = span(torch.cat([net.w, ideal.w]))
    small, flat = TwoLayer(net.w @ basis.mT, net.b, net.a), TwoLayer(ideal.w @ basis.mT, ideal.b, ideal.a)
    grid = [scale / law.d * (1 + step / 100) for step in range(-50, 51)]
    points = torch.cat([_worst(small, flat, c, root, rng) for c in (grid[25], grid[50], grid[75])])
    f, g = input_gradient(small, points)[0], input_gradient(flat, points)[0]
    return above, min(float((c * g - f).abs().max()) for c in grid)


def _worst(
    net: TwoLayer,
    ideal: TwoLayer,
    c: float,
    root: float,
    rng: torch.Generator,
    starts: int = 64,
    steps: int = 80,
) -> Tensor:
    """Ascend |C f_FA − f| on the sphere from random starts and from the weights' own directions."""
    size = net.w.shape[1]
    random = torch.randn(starts, size, generator=rng, dtype=torch.float64).to(net.w)
    x = root * torch.nn.functional.normalize(torch.cat([random, net.w, -net.w]), dim=-1)
    for t in range(steps):
        f, df = input_gradient(net, x)
        g, dg = input_gradient(ideal, x)
        slope = (c * g - f).sign()[:, None] * (c * dg - df)
        move = torch.nn.functional.normalize(slope, dim=-1) * root * (1 - t / steps) * 0.2
        x = root * torch.nn.functional.normalize(x + move, dim=-1)
    return x
