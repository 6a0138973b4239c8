"""CGRO's attack (A) against its formula."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from featscope.attacks.gta import GTA
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.streams import stream

WIDE = Threat("L2", 1e6, 1)


def cubic(x: Tensor) -> Tensor:
    """g(x) = x₁³ + 2x₂, as the difference of two logits."""
    g = x[..., 0] ** 3 + 2 * x[..., 1]
    return torch.stack([torch.zeros_like(g), g], -1)


@pytest.mark.parametrize(("scaling", "power"), [("printed", 1), ("geometric", 2)])
def test_the_step_is_gamma_g_over_the_gradients_norm(scaling: str, power: int) -> None:
    x = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.7, -1.0]], dtype=torch.float64)
    found = GTA(cubic, 0.8, scaling)(cubic, x, torch.zeros(2, dtype=torch.long), WIDE, stream(0, "a"))  # type: ignore[arg-type]
    for row, delta in zip(x, found):
        g = row[0] ** 3 + 2 * row[1]
        gradient = torch.tensor([3 * row[0] ** 2, 2.0, 0.0], dtype=torch.float64)
        torch.testing.assert_close(delta, -0.8 * g / gradient.norm() ** power * gradient)


def test_the_result_lies_in_the_threat_and_gamma_is_positive() -> None:
    x = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
    found = GTA(cubic, 1.0)(cubic, x, torch.tensor([0]), Threat("L2", 0.1, 1), stream(0, "a"))
    assert found.norm().item() == pytest.approx(0.1)
    for gamma in (0.0, -0.5):
        with pytest.raises(BadInput):
            GTA(cubic, gamma)
