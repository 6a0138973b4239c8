"""How far along given directions a two-layer ReLU network changes its sign, exactly: f is piecewise linear on
a ray, and its kinks are where neurons switch."""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.nets.two_layer import TwoLayer, preactivations

#: a sum of terms is 0 up to this share of their size
ROUNDING = 1e-13


def flip_along(net: TwoLayer, x: Tensor, y: Tensor, direction: Tensor) -> Tensor:
    """(n,) the least t ≥ 0 at which f(x + tu) has not the sign y, for unit directions u (n, D).

    0 where f is wrong at x, infinite where no t does it; sgn(0) = −1.
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
    # f = 0 is wrong for y = +1 and right for y = −1, up to the rounding of the sums.
    height, fall = y[:, None] * value, y[:, None] * rise
    rounding = ROUNDING * (
        (z[:, None, :].abs() + (finite[..., None] * slope[:, None, :]).abs()) @ net.a.abs()
    )
    length = torch.where(ends.isfinite(), ends - finite, torch.inf)
    lowest = torch.minimum(height, height + torch.where(fall == 0, 0.0, fall * length))
    flips = torch.where(y[:, None] > 0, lowest <= rounding, lowest < -rounding) & starts.isfinite()
    crossed = torch.where(fall < 0, height / torch.where(fall < 0, -fall, 1.0), 0.0).clamp(min=0)
    found = torch.where(flips, finite + torch.minimum(crossed, length), torch.inf).amin(-1)
    wrong = (z.clamp(min=0) @ net.a > 0) != (y > 0)
    return torch.where(wrong, 0.0, found)
