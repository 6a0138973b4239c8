"""Balls, losses, streams and intervals against their definitions and against SciPy."""

import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sps

from featscope.core.balls import Ball, ball
from featscope.core.errors import BadInput, FeatscopeError, unknown
from featscope.core.losses import LOSSES, margin
from featscope.core.stats import exponent, mean_interval, wilson
from featscope.core.streams import derive, stream

NORMS = ["Linf", "L2", "L3", "L4.5"]


def vectors(seed: int, n: int = 40, d: int = 6, scale: float = 2.0) -> torch.Tensor:
    return scale * torch.randn(n, d, generator=stream(seed, "vectors"), dtype=torch.float64)


@pytest.mark.parametrize("norm", NORMS)
@given(seed=st.integers(0, 10**6), eps=st.floats(0.05, 5))
def test_projection_is_inside_idempotent_and_nearest(norm: str, seed: int, eps: float) -> None:
    b = ball(norm, eps)
    x = vectors(seed, n=8)
    p = b.project(x)
    assert (b.norm(p) <= eps * (1 + 1e-9)).all()
    inside = b.norm(x) <= eps
    assert torch.equal(p[inside], x[inside])
    assert torch.allclose(b.project(p), p, atol=1e-9)
    # Nearest point of a convex set: ⟨x − p, z − p⟩ ≤ 0 for every z in the set.
    z = b.sample((64, 6), stream(seed, "z"), x)
    angle = torch.einsum("nd,nmd->nm", x - p, z[None] - p[:, None])
    assert float(angle.max()) <= 1e-6 * (1 + float(x.norm(dim=-1).max()) ** 2)


@pytest.mark.parametrize("norm", NORMS)
def test_steepest_attains_the_dual_norm(norm: str) -> None:
    b, g = ball(norm, 1.0), vectors(1)
    u = b.steepest(g)
    assert (b.norm(u) <= 1 + 1e-9).all()
    assert torch.allclose((g * u).sum(-1), b.dual_norm(g), rtol=1e-9)
    assert torch.equal(b.steepest(torch.zeros(2, 3)), torch.zeros(2, 3))


@pytest.mark.parametrize("norm", NORMS)
def test_samples_are_uniform_in_the_ball(norm: str) -> None:
    d, eps = 5, 1.7
    b = ball(norm, eps)
    x = b.sample((4000, d), stream(3, "uniform"), torch.zeros(1, dtype=torch.float64))
    # Uniform in a ball of any norm: (‖x‖/ε)^d is uniform on [0, 1]; and every sign is equally likely.
    assert sps.kstest(((b.norm(x) / eps) ** d).numpy(), "uniform").pvalue > 1e-3
    assert sps.binomtest(int((x > 0).sum()), x.numel()).pvalue > 1e-3


def test_l2_projection_agrees_with_the_general_route() -> None:
    x = vectors(5)
    general = Ball(2.0000001, 1.0).project(x)
    assert torch.allclose(Ball(2.0, 1.0).project(x), general, atol=1e-5)


@pytest.mark.parametrize(
    ("norm", "eps"), [("L1", 1.0), ("Linf", -1.0), ("Linf", math.nan), ("max", 1.0), ("L2", math.inf)]
)
def test_balls_refuse(norm: str, eps: float) -> None:
    with pytest.raises(BadInput):
        ball(norm, eps)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_loss_derivatives_are_those_of_autograd(name: str) -> None:
    loss = LOSSES[name]
    outputs = torch.randn(3, 20, 5, dtype=torch.float64, generator=stream(0, name)).requires_grad_(True)
    y = torch.randint(0, 5, (3, 20), generator=stream(1, name))
    expected = torch.autograd.grad(loss.value(outputs, y).sum(), outputs)[0]
    assert torch.allclose(loss.grad(outputs.detach(), y), expected, atol=1e-12)


def test_margin_is_positive_exactly_where_the_class_wins_alone() -> None:
    outputs = torch.tensor([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 3.0, 1.0]])
    y = torch.tensor([0, 0, 0])
    assert margin(outputs, y).tolist() == [1.0, 0.0, -3.0]


@given(n=st.integers(1, 300), data=st.data())
def test_wilson_agrees_with_scipy(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    ours, theirs = wilson(hits, n), sps.binomtest(hits, n).proportion_ci(method="wilson")
    assert np.allclose([ours.low, ours.high], [theirs.low, theirs.high], atol=1e-12)


def test_exponent_recovers_a_power_and_covers_noise() -> None:
    x = np.logspace(1, 6, 12)
    exact = exponent(x.tolist(), (3 * x**-0.5).tolist())
    assert exact.value == pytest.approx(-0.5, abs=1e-12)
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        fit = exponent(x.tolist(), (x**0.3 * np.exp(0.2 * rng.standard_normal(12))).tolist())
        covered += fit.low <= 0.3 <= fit.high
    assert covered >= 180


def test_mean_interval_of_one_value_is_unbounded() -> None:
    assert mean_interval([2.0]) == (2.0, -math.inf, math.inf)
    few = mean_interval([1.0, 2.0, 3.0])
    assert few.low < 2.0 < few.high


def test_streams_depend_on_names_alone() -> None:
    assert derive(0, "data", "train") == derive(0, "data", "train")
    assert len({derive(s, n) for s in range(20) for n in ("data", "init", "attack")}) == 60
    a = torch.rand(4, generator=stream(7, "x"))
    torch.rand(100, generator=stream(7, "y"))
    assert torch.equal(a, torch.rand(4, generator=stream(7, "x")))


def test_errors_name_the_nearest_and_survive_processes() -> None:
    error = unknown("experiment", "patch-fgi3", ["patch-fig3", "clusters-fig2"])
    assert "patch-fig3" in str(error)
    back = pickle.loads(pickle.dumps(error))
    assert isinstance(back, FeatscopeError)
    assert str(back) == str(error)
