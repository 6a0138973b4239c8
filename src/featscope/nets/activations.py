"""The smoothed ReLU of AT §2.3: 0 below 0, z^q / (qϱ^{q−1}) on [0, ϱ], and z − (1 − 1/q)ϱ above.

It is convex and once differentiable, with derivative clamp(z/ϱ, 0, 1)^{q−1}.
"""

from __future__ import annotations

from torch import Tensor

from featscope.core.errors import require, require_positive


def check_activation(q: int, rho: float) -> None:
    """Refuse q < 2 and ϱ ≤ 0."""
    require(q >= 2, "q must be a whole number of at least 2", f"q={q}", "raise q")
    require_positive("rho", rho)


def smoothed_relu(z: Tensor, q: int, rho: float | Tensor) -> Tensor:
    """σ̃(z) = (ϱ/q)·c^q + (z − ϱ)₊ with c = clamp(z/ϱ, 0, 1); one ϱ, or one that broadcasts with z."""
    return (rho / q) * (z / rho).clamp(0, 1).pow(q) + (z - rho).clamp(min=0)


def smoothed_relu_slope(z: Tensor, q: int, rho: float | Tensor) -> Tensor:
    """σ̃'(z) = clamp(z/ϱ, 0, 1)^{q−1}."""
    return (z / rho).clamp(0, 1).pow(q - 1)


def smoothed_relu_curvature(z: Tensor, q: int, rho: float) -> Tensor:
    """σ̃''(z) = (q − 1)/ϱ · (z/ϱ)^{q−2} on (0, ϱ), 0 elsewhere."""
    inside = (z > 0) & (z < rho)
    return ((q - 1) / rho * (z / rho).clamp(0, 1).pow(q - 2)).where(inside, z.new_zeros(()))


def value_and_slope_(z: Tensor, q: int, rho: float) -> tuple[Tensor, Tensor]:
    """σ̃(z) and σ̃'(z) for the price of few passes; the memory of ``z`` is used for the value."""
    c = (z / rho if rho != 1 else z).clamp(0, 1)
    slope = c if q == 2 else (c * c if q == 3 else c.pow(q - 1))
    value = z.sub_(rho).clamp_(min=0).addcmul_(c, slope, value=rho / q)
    return value, slope


def value_(z: Tensor, q: int, rho: float) -> Tensor:
    """σ̃(z) in the memory of ``z``."""
    return value_and_slope_(z, q, rho)[0]


def slope_(z: Tensor, q: int, rho: float) -> Tensor:
    """σ̃'(z) in the memory of ``z``."""
    if rho != 1:
        z.div_(rho)
    z.clamp_(0, 1)
    return z if q == 2 else (z.square_() if q == 3 else z.pow_(q - 1))
