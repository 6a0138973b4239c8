"""Balls, losses, input gradients, streams and refusals: values by hand, at the bounds and in the limits."""

import hashlib
import math

import polars as pl
import pytest
import torch
from torch import nn

from featscope.core import rules
from featscope.core.balls import Ball, ball
from featscope.core.conditions import asks_at_least, asks_at_most
from featscope.core.errors import BadInput, nearest, require_at_least, require_positive, require_whole
from featscope.core.frozen import Value
from featscope.core.linearise import linearise
from featscope.core.losses import (
    CROSS_ENTROPY,
    MARGIN,
    OWN_LOGIT,
    SOFT_MARGIN,
    loss,
    one_hot,
    own,
    rivals,
    runner_up,
)
from featscope.core.rows import last_rows, mean_rows
from featscope.core.streams import derive, stream
from featscope.nets.networks import NetworkSpec

TWO = [[3.0, -4.0], [0.3, 0.4]]


def double(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "norms", "duals"),
    [
        ("Linf", [4.0, 0.4], [7.0, 0.7]),
        ("L2", [5.0, 0.5], [5.0, 0.5]),
        (
            "L3",
            [91 ** (1 / 3), 0.091 ** (1 / 3)],
            [(3**1.5 + 4**1.5) ** (2 / 3), (0.3**1.5 + 0.4**1.5) ** (2 / 3)],
        ),
    ],
)
def test_norms_and_dual_norms_by_hand(name, norms, duals):
    b = ball(name, 1.0)
    assert b.name == name
    assert b.norm(double(TWO)).tolist() == pytest.approx(norms, rel=1e-12)
    assert b.norm(-double(TWO)).tolist() == pytest.approx(norms, rel=1e-12)
    assert b.dual_norm(double(TWO)).tolist() == pytest.approx(duals, rel=1e-12)


def test_rescaling_by_hand():
    b = Ball(2, 1.0)
    assert b.rescale(double(TWO)).tolist() == [pytest.approx([0.6, -0.8]), [0.3, 0.4]]
    # With a factor: 3·(.3, .4) has norm 1.5 and is cut to 1; half of it has .25 and stays.
    assert b.rescale(double([[0.3, 0.4]]), 3.0)[0].tolist() == pytest.approx([0.6, 0.8])
    assert b.rescale(double([[0.3, 0.4]]), 0.5)[0].tolist() == pytest.approx([0.15, 0.2])
    wide = Ball(math.inf, 2.0)
    assert wide.rescale(double(TWO)).tolist() == [pytest.approx([1.5, -2.0]), [0.3, 0.4]]
    assert wide.project(double(TWO)).tolist() == [[2.0, -2.0], [0.3, 0.4]]


@pytest.mark.parametrize("p", [2.0, 3.0, math.inf])
def test_radius_0_leaves_nothing(p):
    b = Ball(p, 0.0)
    for made in (
        b.project(double(TWO)),
        b.rescale(double(TWO)),
        b.sample((3, 2), stream(0, "s"), double([0.0])),
    ):
        assert not made.any()


@pytest.mark.parametrize("p", [2.0, 3.0, 10.0])
@pytest.mark.parametrize("eps", [0.01, 1.0, 30.0])
def test_the_lp_projection_satisfies_its_conditions(p, eps):
    """‖q‖ = ε and δ − q = λ·∇‖q‖_p^p with one λ ≥ 0 for all coordinates, also in high dimension and far
    away."""
    delta = 40 * torch.randn(5, 50, generator=stream(0, "far"), dtype=torch.float64)
    b = Ball(p, eps)
    q = b.project(delta)
    assert b.norm(q).tolist() == pytest.approx([eps] * 5, rel=1e-9)
    gap, slope = (delta - q) * q.sign(), (q.abs() / eps) ** (p - 1)
    multiplier = (gap * slope).sum(-1, keepdim=True) / slope.square().sum(-1, keepdim=True)
    assert bool((multiplier > 0).all())
    assert float((gap - multiplier * slope).abs().max()) < 1e-5 * 40


@pytest.mark.parametrize("p", [2.0, 3.0, math.inf])
def test_a_ball_is_of_the_last_axis_whatever_stands_before_it(p):
    b = Ball(p, 0.7)
    many = 10 * torch.rand(2, 5, 3, generator=stream(0, "axes"), dtype=torch.float64) - 5
    for step in (b.project, b.steepest, b.direction, b.rescale):
        torch.testing.assert_close(step(many), step(many.flatten(0, 1)).view_as(many), rtol=0, atol=1e-12)
    for size in (b.norm, b.dual_norm):
        torch.testing.assert_close(size(many), size(many.flatten(0, 1)).view(2, 5), rtol=0, atol=1e-12)


@pytest.mark.parametrize("p", [2.0, 3.0, math.inf])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float64, 1e-250), (torch.float64, 1e200), (torch.float32, 1e-25), (torch.float32, 1e25)],
)
def test_directions_do_not_depend_on_the_gradient_s_size(p, dtype, scale):
    """The square of a tiny or a huge gradient is 0 or ∞; the step must not be."""
    g = torch.tensor([[3.0, -4.0, 0.0], [1.0, 2.0, 2.0]], dtype=dtype)
    b = Ball(p, 1.0)
    for step in (b.direction, b.steepest):
        torch.testing.assert_close(step(g * scale), step(g), rtol=1e-5, atol=1e-6)
        assert b.norm(step(g)).tolist() == pytest.approx([1.0, 1.0], rel=1e-6)
        assert not step(torch.zeros_like(g)).any()


def test_the_direction_is_the_gradient_s_own():
    g = double([[3.0, -4.0]])
    assert Ball(2, 1.0).direction(g)[0].tolist() == pytest.approx([0.6, -0.8])
    assert Ball(3, 1.0).direction(g)[0].tolist() == pytest.approx([3 / 91 ** (1 / 3), -4 / 91 ** (1 / 3)])
    assert Ball(math.inf, 1.0).direction(g).tolist() == [[1.0, -1.0]]
    # The steepest ℓ3 step has |u| ∝ |g|^½.
    u = Ball(3, 1.0).steepest(g)[0]
    assert float(u[1] / u[0]) == pytest.approx(-((4 / 3) ** 0.5))


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
def test_each_coordinate_of_a_sample_has_the_ball_s_variance(p):
    """E x² in d dimensions: ∞: ε²/3; p: ε²·d/(d+2)·Γ(3/p)Γ(d/p)/(Γ(1/p)Γ((d+2)/p)); for p = 2 this is
    ε²/(d+2)."""
    d, eps = 3, 2.0
    if math.isinf(p):
        expected = 1 / 3
    else:
        expected = (
            d
            / (d + 2)
            * math.gamma(3 / p)
            * math.gamma(d / p)
            / (math.gamma(1 / p) * math.gamma((d + 2) / p))
        )
    x = Ball(p, eps).sample(torch.Size((40_000, d)), stream(0, "sample"), torch.zeros(1, dtype=torch.float32))
    assert x.dtype == torch.float32
    assert x.square().mean(0).tolist() == pytest.approx([eps**2 * expected] * d, rel=0.03)
    assert x.mean(0).tolist() == pytest.approx([0] * d, abs=0.03)
    assert float(Ball(p, eps).norm(x).max()) <= eps * (1 + 1e-6)


def test_the_smallest_norm_and_names_that_are_no_norm():
    assert ball("L2", 0.0) == Ball(2.0, 0.0)
    assert ball("Linf", 0.5).p == math.inf
    for name in ("L1.9", "2", "inf", "Lx", "L", "Lnan"):
        with pytest.raises(BadInput, match="norm"):
            ball(name, 1.0)
    with pytest.raises(BadInput, match="eps"):
        Ball(2, -1e-9)


def test_losses_by_hand():
    outputs, y = double([[1.0, 3.0, 2.0], [0.0, -1.0, 4.0]]), torch.tensor([2, 2])
    assert own(outputs, y).tolist() == [2.0, 4.0]
    assert rivals(outputs, y).tolist() == [[1.0, 3.0, -math.inf], [0.0, -1.0, -math.inf]]
    assert runner_up(outputs, y).tolist() == [1, 0]
    assert one_hot(y, outputs).tolist() == [[0, 0, 1], [0, 0, 1]]
    assert MARGIN.value(outputs, y).tolist() == [1.0, -4.0]
    assert OWN_LOGIT.value(outputs, y).tolist() == [-2.0, -4.0]
    e = math.exp
    assert CROSS_ENTROPY.value(outputs, y).tolist() == pytest.approx(
        [math.log(e(-1) + e(1) + 1), math.log(e(-4) + e(-5) + 1)]
    )
    assert SOFT_MARGIN.value(outputs, y).tolist() == pytest.approx(
        [math.log(e(1) + e(3)) - 2, math.log(1 + e(-1)) - 4]
    )
    # Cross-entropy is log(1 + e^s) of the soft margin s.
    torch.testing.assert_close(
        CROSS_ENTROPY.value(outputs, y), torch.nn.functional.softplus(SOFT_MARGIN.value(outputs, y))
    )
    for name, one in (
        ("cross-entropy", CROSS_ENTROPY),
        ("margin", MARGIN),
        ("soft-margin", SOFT_MARGIN),
        ("own-logit", OWN_LOGIT),
    ):
        assert loss(name) is one
    with pytest.raises(BadInput, match="loss"):
        loss("crossentropy")


class Squares(nn.Module):
    """(x₀², x₀x₁), with or without a closed form."""

    def forward(self, x):
        return torch.stack([x[:, 0] ** 2, x[:, 0] * x[:, 1]], -1)


class Told(Squares):
    def linearise(self, x):
        return self(x), lambda c: c * 7


def test_input_gradients_by_autograd_or_by_the_network_itself():
    x = double([[2.0, 5.0], [1.0, -1.0]])
    with torch.no_grad():
        outputs, pull = linearise(Squares(), x)
        assert outputs.tolist() == [[4.0, 10.0], [1.0, -1.0]]
        assert not outputs.requires_grad
        assert not x.requires_grad
        assert pull(double([[1.0, 0.0], [1.0, 1.0]])).tolist() == [[4.0, 0.0], [1.0, 1.0]]
    assert linearise(Told(), x)[1](double([1.0])).tolist() == [7.0]


def test_a_stream_is_the_hash_of_seed_and_names():
    expected = int(hashlib.sha256(b"5/data/3").hexdigest()[:16], 16) // 2
    assert derive(5, "data", 3) == expected
    assert 0 <= expected < 2**63
    assert torch.equal(
        torch.rand(3, generator=stream(5, "data", 3)),
        torch.rand(3, generator=torch.Generator().manual_seed(expected)),
    )
    # Names are kept apart: ("ab", "c") is not ("a", "bc").
    assert derive(0, "ab", "c") != derive(0, "a", "bc")


def test_bounds_of_numbers_are_met_exactly():
    assert require_at_least("n", 3, 3) == 3
    assert require_positive("x", 1e-300) == 1e-300
    for refused, rule in ((2, "at least 3"), (math.inf, "finite"), (math.nan, "finite"), (True, "a number")):
        with pytest.raises(BadInput, match=rule):
            require_at_least("n", refused, 3)
    for refused, rule in ((0.0, "positive"), (-1.0, "positive"), (math.inf, "finite"), ("1", "a number")):
        with pytest.raises(BadInput, match=rule):
            require_positive("x", refused)
    for refused, rule in ((2.0, "whole"), (True, "whole"), (2, "at least 3")):
        with pytest.raises(BadInput, match=rule):
            require_whole("n", refused, 3)


def test_conditions_include_their_bound():
    assert [asks_at_least("a", "", v, 2.0).met for v in (1.9, 2.0, 2.1)] == [False, True, True]
    assert [asks_at_most("a", "", v, 2.0).met for v in (1.9, 2.0, 2.1)] == [True, True, False]
    assert asks_at_most("b", "x ≤ y", 1.0, 2.0).as_json() == {
        "name": "b",
        "text": "x ≤ y",
        "value": 1.0,
        "bound": 2.0,
        "met": True,
    }
    assert not asks_at_least("a", "", math.nan, 2.0).met


def test_the_words_of_asymptotics_have_the_values_that_the_docs_state():
    words = {name: value for name, value in vars(rules).items() if name.isupper()}
    assert words == {
        "MUCH": 10.0,
        "SMALL": 0.05,
        "SAME": 1e-9,
        "PROVEN_MARGIN": 1e-6,
        "ROUNDED_SLOPE": 1e-6,
        "CONSTANT": 3.0,
        "NEARLY": 1.5,
        "BEND": 0.1,
        "POLYLOG": 2,
        "USUAL": 0.5,
        "STILL": 1e-14,
        "LEARNED": 1 / 3,
        "SETTLED": 1e-5,
        "SAME_MINIMUM": 1e-8,
        "TRAINED_GAP": 1e-3,
        "PHASE_EDGE": 1.5,
        "SPEAKS": 0.1,
        "PREDICTED": 0.03,
        "AS_GOOD": 1.05,
        "ONE_DIRECTION": 0.98,
        "PRINTED_SHARE_REACHED": 0.9,
        "OWN_SET_READ": 0.9,
        "FEATURE_ERROR": 0.2,
        "NEARLY_ORTHOGONAL": 0.09,
        "HEAD_LEARNED": 0.5,
        "LINEAR_GROWTH": 2.0,
        "RATE_FALLEN": 0.5,
        "RECOMPUTED": 1e-12,
    }


def test_the_nearest_names_or_all_of_them():
    known = ["clusters-fig2", "patch-fig3", "patch-fig4", "patch-fig5", "patch-fig6"]
    assert nearest("patch-fgi3", known).startswith("did you mean patch-fig3")
    assert nearest("patch-fgi3", known).count(" or ") == 2
    assert nearest("zzz", known) == "choose one of " + ", ".join(known)


def test_mean_rows_are_means_of_the_numbers_in_each_group():
    rows = pl.DataFrame({"step": [1, 0, 1, 1], "a": [1.0, 5.0, 2.0, 6.0], "name": ["x", "y", "z", "w"]})
    assert mean_rows(rows, "step").to_dicts() == [{"step": 0, "a": 5.0}, {"step": 1, "a": 3.0}]


def test_last_rows_take_the_last_step_of_each_run_and_skip_what_was_not_recorded():
    rows = pl.DataFrame(
        {"seed": [1, 0, 1, 0], "step": [2, 1, 1, 0], "a": [5.0, 6.0, 7.0, 8.0], "b": [None, None, 1.0, 2.0]}
    )
    last = {row["seed"]: row for row in last_rows(rows).to_dicts()}
    assert last[0] == {"seed": 0, "step": 1, "a": 6.0, "b": 2.0}
    assert last[1] == {"seed": 1, "step": 2, "a": 5.0, "b": 1.0}
    assert last_rows(rows)["seed"].to_list() == [0, 1]


def test_a_value_is_frozen_finite_and_its_first_error_is_one_line():
    with pytest.raises(BadInput, match=r"^width: .*greater than or equal to 1: width=0; "):
        NetworkSpec(width=0, classes=1)
    with pytest.raises(BadInput, match="unknown key: widht; did you mean width"):
        NetworkSpec(widht=3)
    with pytest.raises(ValueError, match="frozen"):
        NetworkSpec().width = 3
    assert NetworkSpec(width=8).replace(classes=4) == NetworkSpec(width=8, classes=4)

    class Length(Value):
        metres: float = 1.0

    for wrong in (math.inf, math.nan):
        with pytest.raises(BadInput, match="metres"):
            Length(metres=wrong)
