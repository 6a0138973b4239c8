"""The copy whose steps have a slope: outputs of the network, gradients as if the steps were not there; and
what the search does with examples that have no gradient at all."""

import pytest
import torch
from torch import Tensor, nn

from featscope.attacks.copies import fast_copy
from featscope.attacks.curve import fall
from featscope.attacks.pgd import PGD
from featscope.attacks.square import Square
from featscope.attacks.straight_through import StraightThrough, blind, seeing_copy
from featscope.attacks.threat import Threat
from featscope.core.linearise import linearise
from featscope.core.losses import margin
from featscope.core.streams import stream

THREAT = Threat("Linf", 0.2, 1, bounds=(0.0, 1.0))


class Stepped(nn.Module):
    """A linear network behind something without slope."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.linear, self.kind = nn.Linear(8, 3), kind
        with torch.no_grad():
            self.linear.weight.copy_(torch.randn(3, 8, generator=stream(0, "w")))
            self.linear.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "round":
            x = torch.round(x * 10) / 10
        elif self.kind == "floor":
            x = (x * 10).floor() / 10
        elif self.kind == "detach":
            x = x.detach()
        elif self.kind == "threshold":
            x = (x > 0.5).float() + 0 * x
        return self.linear(x)


def examples(kind: str) -> tuple[Stepped, Tensor, Tensor]:
    net = Stepped(kind).eval().requires_grad_(False)
    x = torch.rand(40, 8, generator=stream(0, "x"))
    return net, x, net(x).argmax(-1)


@pytest.mark.parametrize("kind", ["round", "floor", "detach"])
def test_the_copy_has_the_networks_outputs_and_the_linear_layers_gradient(kind):
    net, x, _ = examples(kind)
    copy = StraightThrough(net)
    assert torch.equal(copy(x), net(x))
    assert blind(net, x).all()
    assert not blind(copy, x).any()
    outputs, pull = linearise(copy, x)
    weights = torch.randn(outputs.shape, generator=stream(0, "c"))
    assert torch.allclose(pull(weights), weights @ net.linear.weight, atol=1e-6)


def test_only_a_network_without_gradients_gets_the_copy():
    net, x, _ = examples("plain")
    assert seeing_copy(net, x) is None
    stepped, x, _ = examples("round")
    assert isinstance(fast_copy(stepped, x)[0], StraightThrough)
    assert fast_copy(stepped, x, fast=False)[0] is stepped


def test_a_network_that_stays_blind_is_searched_as_it_is():
    net, x, _ = examples("threshold")
    assert seeing_copy(net, x) is None


def test_examples_without_gradient_are_left_to_the_search_without():
    net, x, y = examples("threshold")
    calls: list[int] = []

    class Counted(PGD):
        def __call__(self, model, x, y, threat, rng, start=None):
            calls.append(len(x))
            return torch.zeros_like(x)

    cheap = PGD("margin", 2, stop_early=True)
    found = fall(net, x, y, THREAT, (0.2,), [cheap, Counted("margin", 3), Square(200)], stream(0, "a"))
    assert calls == []
    fooled = found.fooled_at == 0.2
    assert 0 < int(fooled.sum()) < len(y)
    moved = x + found.delta
    assert not (margin(net(moved), y) > 0)[fooled].any()
    near = (x - 0.5).abs().amin(1) <= 0.2
    assert not fooled[~near].any()
