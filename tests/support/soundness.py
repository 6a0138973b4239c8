"""What the soundness tests share: grids of balls, and the one rule, certified ≤ true, which a certificate 1 %
too large must break."""

from __future__ import annotations

import itertools

import torch

from featscope.core.balls import ball

F64 = torch.float64


def tensor(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=F64)


def grid(dim: int, size: int) -> torch.Tensor:
    """(size^dim, dim) points of [−1, 1]^dim, ends included."""
    return torch.cartesian_prod(*[torch.linspace(-1, 1, size, dtype=F64)] * dim).view(-1, dim)


def ball_grid(norm: str, eps: float, dim: int, size: int) -> torch.Tensor:
    """A dense grid of the ball in R^dim: the cube's points inside it, and all of them drawn onto its
    surface."""
    points, unit = grid(dim, size), ball(norm, 1.0)
    length = unit.norm(points)
    onto = points[length > 0] / length[length > 0, None]
    return eps * torch.cat([points[length <= 1], onto])


def assert_sound(certified: torch.Tensor, true: torch.Tensor, slack: float = 1e-9) -> None:
    """No certificate lies above what was found."""
    assert not certified.isnan().any()
    assert (certified <= true * (1 + slack) + slack).all(), (
        f"{float((certified - true).max()):.3g} above the truth"
    )


def assert_tight(certified: torch.Tensor, true: torch.Tensor) -> None:
    """A certificate 1 % larger would be caught at every one of these points."""
    assert (certified > 0).all()
    assert (1.01 * certified > true * (1 + 1e-9) + 1e-9).all(), (
        f"shares of the truth: {(certified / true).tolist()}"
    )


def combinations(count: int, most: int) -> list[tuple[int, ...]]:
    return [c for size in range(1, most + 1) for c in itertools.combinations(range(count), size)]
