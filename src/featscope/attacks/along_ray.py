"""How far along given directions a two-layer ReLU network changes its sign, exactly: f is piecewise linear on
a ray, and its kinks are where neurons switch."""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.nets.two_layer import TwoLayer, preactivations


def flip_along(net: TwoLayer, x: Tensor, y: Tensor, direction: Tensor) -> Tensor:
    """(n,) the least t ≥ 0 at which f(x + tu) has not the sign y, for unit directions u (n, D).

    0 where f is wrong at x, infinite where no t does it. A flip at the end of a piece is found in the piece
    before; sgn(0) = −1.
    """
    z, slope = preactivations(net, x), direction @ net.w.mT
    kinks = torch.where(slope != 0, -z / torch.where(slope == 0, 1.0, slope), torch.inf)
    starts = torch.cat([torch.zeros_like(z[:, :1]), kinks.clamp(min=0).sort(-1).values], -1)  # (n, N+1)
    ends = torch.cat([starts[:, 1:], torch.full_like(z[:, :1], torch.inf)], -1)
    finite = torch.where(starts.isfinite(), starts, 0.0)
    # A neuron is active on a piece if it is so just inside it.
    inside = torch.where(ends.isfinite(), 0.5 * (finite + ends), finite + 1 + finite.abs())
    active = (z[:, None, :] + inside[..., None] * slope[:, None, :]) > 0
    rise = (active * (slope * net.a)[:, None, :]).sum(-1)
    value = (active * ((z[:, None, :] + finite[..., None] * slope[:, None, :]) * net.a)).sum(-1)
    # Solved for the sign's own side: y f falls to 0 on the piece.
    height, fall = y[:, None] * value, y[:, None] * rise
    at = finite + torch.where(fall < 0, -height / torch.where(fall < 0, fall, -1.0), torch.inf)
    meets = (fall < 0) & (at <= ends) & (height >= 0) & starts.isfinite()
    found = torch.where(meets, at, torch.inf).amin(-1)
    wrong = (z.clamp(min=0) @ net.a > 0) != (y > 0)
    return torch.where(wrong, 0.0, found)
