"""A gradient's size must not decide whether an attack moves."""

import pytest
import torch

from featscope.core.balls import ball


@pytest.mark.parametrize("scale", [1e-290, 1e-200, 1.0, 1e150, 1e200, 1e300])
@pytest.mark.parametrize("norm", ["L2", "L3", "Linf"])
def test_direction_does_not_depend_on_the_gradients_size(scale: float, norm: str) -> None:
    g = torch.tensor([[3.0, -4.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(
        ball(norm, 1.0).direction(g * scale), ball(norm, 1.0).direction(g), rtol=1e-12, atol=0
    )


def test_direction_in_single_precision_survives_tiny_gradients() -> None:
    g = torch.tensor([[3e-28, -4e-28]])
    torch.testing.assert_close(ball("L2", 1.0).direction(g), torch.tensor([[0.6, -0.8]]))


def test_direction_of_zero_is_zero() -> None:
    assert float(ball("L2", 1.0).direction(torch.zeros(2, 3)).abs().max()) == 0.0
