"""The least F_y over the ball: against a general solver, a linear model and PGD; its gap is a true bound; ties
have the least norm."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from featscope.attacks.patch_inner import inner_minimum, own_output, relative
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.losses import OWN_LOGIT
from featscope.core.streams import stream
from featscope.nets.activations import smoothed_relu_curvature, smoothed_relu_slope
from featscope.nets.patch_cnn import PatchNet


def problem(d: int = 6, width: int = 5, shift: float = 0.0, q: int = 3) -> tuple[PatchNet, Tensor, Tensor]:
    """Two runs of three points with two patches; ``shift`` makes minima that are not 0."""
    rng = stream(0, "inner")
    w = torch.randn(2, 2, width, d, generator=rng, dtype=torch.float64) + shift
    x = torch.randn(2, 3, 2, d, generator=rng, dtype=torch.float64) + shift
    return PatchNet(w, q, 0.8), x, torch.tensor([[0, 1, 0], [1, 1, 0]])


@pytest.mark.parametrize("q", [2, 3, 4])
def test_the_minimum_is_that_of_a_general_solver(q: int) -> None:
    net, x, y = problem(shift=0.7, q=q)
    found = inner_minimum(net, x, y, 0.3)
    one = net.run(1)

    def value(flat: np.ndarray) -> float:
        delta = torch.from_numpy(flat).view_as(x[1, 2])
        return float(own_output(one, (x[1, 2] + delta)[None], y[1, 2:]))

    scipy = minimize(value, np.zeros(12), bounds=[(-0.3, 0.3)] * 12, options={"ftol": 1e-15, "gtol": 1e-10})
    assert float(found.value[1, 2]) > 0.1
    assert float(found.value[1, 2]) == pytest.approx(scipy.fun, rel=1e-6)
    assert float(found.relative_gap.max()) <= 1e-8
    assert float(found.delta.abs().max()) <= 0.3


def test_gap_and_values_are_what_they_say() -> None:
    net, x, y = problem(shift=0.4)
    found = inner_minimum(net, x, y, 0.5, tolerance=1e-6)
    assert torch.allclose(found.value, own_output(net, x + found.delta, y), atol=1e-14)
    assert torch.equal(found.start, own_output(net, x, y)) or torch.allclose(
        found.start, own_output(net, x, y), rtol=1e-14
    )
    assert bool((found.lower <= found.value).all())
    assert bool((found.value < found.start).all())


def test_the_lower_bound_holds_where_the_search_has_hardly_begun() -> None:
    net, x, y = problem(shift=0.6)
    best, rough = inner_minimum(net, x, y, 0.4), inner_minimum(net, x, y, 0.4, iterations=2)
    assert float(rough.relative_gap.max()) > 1e-3
    assert bool((rough.lower <= best.value).all())
    assert bool((rough.value >= best.lower).all())


def test_pgd_with_restarts_does_not_beat_it_and_comes_near() -> None:
    net, x, y = problem(shift=0.5)
    found = inner_minimum(net, x, y, 0.3)
    pgd = PGD(steps=50, restarts=10, goal=OWN_LOGIT)(
        net, x, y, Threat("Linf", 0.3, event=2), stream(1, "pgd")
    )
    better = relative(found.value - own_output(net, x + pgd, y), found.start)
    assert float(better.max()) <= 1e-8
    assert float(better.min()) > -0.02


def test_among_many_minimisers_the_nearest_is_taken() -> None:
    """One neuron, where everything below a plane is a minimum: the nearest point of it is along w."""
    w = torch.tensor([[[3.0, 4.0, 0.0]], [[1.0, 0.0, 0.0]]], dtype=torch.float64)
    x = torch.tensor([[[1.0, 0.5, 2.0]]], dtype=torch.float64)
    found = inner_minimum(PatchNet(w), x, torch.tensor([0]), 2.0, tolerance=1e-10)
    expected = -torch.tensor([3.0, 4.0, 0.0], dtype=torch.float64) * 5.0 / 25.0
    assert float(found.value) < 1e-9
    assert torch.allclose(found.delta[0, 0], expected, atol=2e-3)


def test_only_free_coordinates_move_and_what_nothing_can_lower_stays() -> None:
    net, x, y = problem(shift=0.5)
    found = inner_minimum(net, x, y, 0.3, free=torch.tensor([1, 4]))
    still = [0, 2, 3, 5]
    assert float(found.delta[..., still].abs().max()) == 0
    assert float(found.delta[..., [1, 4]].abs().max()) > 0.29
    assert bool((found.value >= inner_minimum(net, x, y, 0.3).value - 1e-9).all())
    dead = inner_minimum(PatchNet(-torch.ones_like(net.w)), x.abs(), y, 0.3)
    assert float(dead.delta.abs().max()) == 0
    assert float(dead.relative_gap.max()) == 0


def test_bad_input_is_refused() -> None:
    net, x, y = problem()
    with pytest.raises(BadInput, match="eps"):
        inner_minimum(net, x, y, 0.0)
    with pytest.raises(BadInput, match="float64"):
        inner_minimum(net, x.float(), y, 0.1)


def test_curvature_is_the_slope_s_derivative() -> None:
    z = torch.tensor([-0.5, 0.1, 0.3, 0.69, 0.9], dtype=torch.float64)
    step = 1e-6
    for q in (2, 3, 5):
        rise = smoothed_relu_slope(z + step, q, 0.7) - smoothed_relu_slope(z - step, q, 0.7)
        assert torch.allclose(smoothed_relu_curvature(z, q, 0.7), rise / (2 * step), atol=1e-6)
