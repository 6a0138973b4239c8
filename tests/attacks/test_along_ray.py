"""Flips along given directions: against a fine walk, the exact radius, and by hand."""

import math

import pytest
import torch

from featscope.attacks.along_ray import flip_along
from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.streams import stream
from featscope.nets.two_layer import TwoLayer, forward

F64 = torch.float64


def line(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=F64)[:, None]


def test_a_kink_is_found_by_hand() -> None:
    # f(x) = ReLU(x) − 3 ReLU(x − 2): 0 again at x = 3.
    net = TwoLayer(line(1.0, 1.0), torch.tensor([0.0, -2.0], dtype=F64), torch.tensor([1.0, -3.0], dtype=F64))
    y = torch.ones(3, dtype=F64)
    forwards = flip_along(net, line(1.0, 2.5, 4.0), y, line(1.0, 1.0, 1.0))
    assert forwards.tolist() == pytest.approx([2.0, 0.5, 0.0])
    backwards = flip_along(net, line(1.0, 2.5, 4.0), y, line(-1.0, -1.0, -1.0))
    assert backwards.tolist() == pytest.approx([1.0, 2.5, 0.0])


def test_what_never_flips_is_infinite() -> None:
    net = TwoLayer(line(1.0), torch.zeros(1, dtype=F64), torch.ones(1, dtype=F64))
    assert flip_along(net, line(1.0), torch.ones(1, dtype=F64), line(1.0)).tolist() == [math.inf]


def random_network(seed: int) -> tuple[TwoLayer, torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = stream(seed, "test")
    net = TwoLayer(
        torch.randn(8, 4, generator=rng, dtype=F64),
        torch.randn(8, generator=rng, dtype=F64),
        torch.randn(8, generator=rng, dtype=F64),
    )
    x = 2 * torch.randn(60, 4, generator=rng, dtype=F64)
    y = torch.where(forward(net, x) > 0, 1.0, -1.0).to(F64)
    u = torch.nn.functional.normalize(torch.randn(60, 4, generator=rng, dtype=F64), dim=-1)
    return net, x, y, u


@pytest.mark.parametrize("seed", range(4))
def test_a_fine_walk_flips_where_it_says(seed: int) -> None:
    net, x, y, u = random_network(seed)
    found = flip_along(net, x, y, u)
    steps = torch.linspace(0, 20, 4001, dtype=F64)
    walked = x[:, None, :] + steps[None, :, None] * u[:, None, :]
    wrong = (forward(net, walked.reshape(-1, 4)).reshape(60, -1) > 0) != (y[:, None] > 0)
    first = torch.where(wrong.any(-1), steps[wrong.int().argmax(-1)], math.inf)
    for value, walk in zip(found.tolist(), first.tolist(), strict=True):
        assert (value > 20 and math.isinf(walk)) or walk - 0.0051 <= value <= walk + 1e-9


def test_it_is_never_below_the_exact_radius_and_meets_it_along_the_minimal_perturbation() -> None:
    net, x, y, u = random_network(7)
    exact = exact_radii(net, x, y)
    assert bool((flip_along(net, x, y, u) >= exact.lower * (1 - 1e-9)).all())
    some = (exact.upper > 0) & exact.upper.isfinite()
    minimal = torch.nn.functional.normalize(exact.delta[some], dim=-1)
    along = flip_along(net, x[some], y[some], minimal)
    assert along.tolist() == pytest.approx(exact.upper[some].tolist(), rel=1e-6)


def test_a_zero_that_is_rounded_is_a_zero_at_any_size_of_the_terms() -> None:
    """f(t) = |1 − t| + .1·z + .2·z − .3·z with a large z: the sum of the last three is 0, but not in binary."""
    w = torch.tensor([[-1.0], [1.0], [0.0], [0.0], [0.0]], dtype=torch.float64)
    b = torch.tensor([1.0, -1.0, *[1e6 + 1 / 3] * 3], dtype=torch.float64)
    net = TwoLayer(w, b, torch.tensor([1.0, 1.0, 0.1, 0.2, -0.3], dtype=torch.float64))
    x, ahead = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    assert 0 < float(forward(net, ahead)) < 1e-9
    # At t = 1 f touches 0, which is wrong for y = +1.
    assert flip_along(net, x, torch.ones(1, dtype=torch.float64), ahead).item() == pytest.approx(1.0)
