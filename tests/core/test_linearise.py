"""Input gradients in whatever mode of autograd the caller left on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from featscope.core.errors import BadInput
from featscope.core.frozen import Value, identity_form
from featscope.core.linearise import linearise
from featscope.core.settings import setting


class Doubling(torch.autograd.Function):
    """y = 2x, whose backward writes in place, as some fused layers do."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient.mul_(2)


def doubling(x: Tensor) -> Tensor:
    made: Tensor = Doubling.apply(x)  # type: ignore[no-untyped-call]
    return made


def test_points_and_cotangents_of_inference_mode_are_taken() -> None:
    with torch.inference_mode():
        x, cotangent = torch.arange(6.0).view(2, 3), torch.ones(2, 3)
        outputs, pull = linearise(lambda t: t.square(), x)
        inside = pull(cotangent)
    assert torch.equal(outputs, x.square())
    assert torch.equal(inside, 2 * x)
    # A backward that writes in place may not write into a tensor of inference mode.
    _, pull = linearise(doubling, torch.ones(2, 3))
    assert torch.equal(pull(cotangent), torch.full((2, 3), 2.0))


def test_a_network_that_lets_no_gradient_through_is_refused() -> None:
    x = torch.ones(2, 3)
    for blind in (lambda t: t.detach() * 2, lambda t: torch.ones(2, 3, requires_grad=True) * 1.0):
        _, pull = linearise(blind, x)
        with pytest.raises(BadInput, match="by autograd"):
            pull(torch.ones(2, 3))
    changed = x.clone()
    outputs, _ = linearise(lambda t: t.mul_(3), changed)
    assert torch.equal(changed, x)
    assert torch.equal(outputs, 3 * x)
    assert not outputs.requires_grad


def test_later_settings_are_left_out_wherever_they_stand() -> None:
    class Inner(Value):
        a: int = setting(1, "an old one")
        b: int = setting(0, "a later one", later=True)

    class Holder(Value):
        named: dict[str, Inner] = {}  # noqa: RUF012 - pydantic copies it
        listed: tuple[Inner, ...] = ()

    value = Holder(named={"x": Inner(), "y": Inner(b=2)}, listed=(Inner(b=3), Inner()))
    assert identity_form(value) == {
        "named": {"x": {"a": 1}, "y": {"a": 1, "b": 2}},
        "listed": [{"a": 1, "b": 3}, {"a": 1}],
    }
