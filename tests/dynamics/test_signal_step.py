"""A step on CGRO's objective (O) for one run and for several, by autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from featscope.core.streams import stream
from featscope.dynamics.signal_descent import CubicWeights, descent_step, steepest_ball, weakened

F64 = torch.float64
ETA, LAM = 0.3, 0.7


def goal(w: Tensor, x: Tensor, moved: Tensor, y: Tensor) -> Tensor:
    """(1 − λ) L(X) + λ L(X + ξ) with L the mean of log(1 + e^{−y Σ⟨w_r, X_p⟩³})."""

    def loss(points: Tensor) -> Tensor:
        f = (points @ w.mT).pow(3).sum((-1, -2))
        return torch.nn.functional.softplus(-y * f).mean()

    return (1 - LAM) * loss(x) + LAM * loss(moved)


@pytest.mark.parametrize("runs", [None, 2])
def test_a_step_descends_the_objective_of_each_run(runs: int | None) -> None:
    shape = () if runs is None else (runs,)
    x = 0.5 * torch.randn(*shape, 5, 3, 4, generator=stream(0, "x"), dtype=F64)
    w = 0.5 * torch.randn(*shape, 6, 4, generator=stream(0, "w"), dtype=F64)
    y = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=F64).expand(*shape, 5)
    moved = weakened(x, 0.4)
    torch.testing.assert_close(moved[..., 0], 0.4 * x[..., 0])
    torch.testing.assert_close(moved[..., 1:], x[..., 1:])
    fixed = descent_step(x, y, ETA, LAM, moved)(CubicWeights(w), 0).w
    asked = descent_step(x, y, ETA, LAM, lambda w, x, y: weakened(x, 0.4))(CubicWeights(w), 0).w
    torch.testing.assert_close(fixed, asked)
    for run in range(runs or 1):
        one = (lambda t, run=run: t) if runs is None else (lambda t, run=run: t[run])
        leaf = one(w).clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(goal(leaf, one(x), one(moved), one(y)), leaf)
        torch.testing.assert_close(one(fixed), one(w) - ETA * slope)


@pytest.mark.parametrize(("steps", "size"), [(1, 0.2), (4, 2.5 * 0.2 / 4)])
def test_the_ball_attack_takes_normalised_steps_against_the_label(steps: int, size: float) -> None:
    x = torch.randn(5, 3, 4, generator=stream(0, "x"), dtype=F64)
    w = torch.randn(6, 4, generator=stream(0, "w"), dtype=F64)
    y = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=F64)
    found = steepest_ball(0.2, steps)(w, x, y)
    for i in range(5):
        delta = torch.zeros(3, 4, dtype=F64)
        for _ in range(steps):
            leaf = (x[i] + delta).requires_grad_(True)
            (slope,) = torch.autograd.grad(-y[i] * (leaf @ w.mT).pow(3).sum(), leaf)
            delta = delta + size * slope / slope.norm()
            delta = delta * min(1.0, 0.2 / float(delta.norm()))
        torch.testing.assert_close(found[i], x[i] + delta)
