"""Masked networks are never reported robust and are named for their cause; honest ones raise no alarm."""

from collections.abc import Callable

import foreign
import pytest
import torch
from torch import Tensor, nn

import featscope as fs
from featscope.core.errors import BadInput

EPS = 0.1


class Around(nn.Module):
    """A function of a network and its input."""

    def __init__(self, net: nn.Module, function: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.function = net, function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.net, x)


class Winners(nn.Module):
    """Keeps a tenth of the activations, the largest."""

    def forward(self, z: Tensor) -> Tensor:
        flat = z.flatten(1)
        least = flat.topk(flat.shape[1] // 10, 1).values[:, -1:]
        return (flat * (flat >= least)).view_as(z)


@pytest.fixture(scope="module")
def honest() -> nn.Module:
    torch.manual_seed(0)
    return foreign.fit(foreign.Viewing())


def winners() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3, padding=1), Winners(), nn.Conv2d(16, 16, 3, 2), Winners(), nn.Flatten()
    return foreign.fit(nn.Sequential(*layers, nn.Linear(144, 4)))


def probed(net: nn.Module, n: int = 24) -> fs.probe:
    x, y = foreign.images(n, 5)
    return fs.probe(net, x, y, eps=EPS, budget="1s")


MASKED = {
    "quantised input": lambda net, x: net((x * 8).round() / 8),
    "zero gradient": lambda net, x: net(x.detach()) + 0 * x.sum((1, 2, 3))[:, None],
    "random layer": lambda net, x: net(x + 0.3 * torch.randn_like(x)),
    "vanishing logit scale": lambda net, x: 1e-12 * net(x),
    "saturated softmax": lambda net, x: 1000 * net(x),
}


@pytest.mark.parametrize("cause", MASKED)
def test_a_masked_network_is_named_for_its_cause(cause: str, honest: nn.Module) -> None:
    torch.manual_seed(0)
    found = probed(Around(honest, MASKED[cause]))
    assert not found.established
    assert found.verdict.startswith("not established")
    assert cause in {entry["cause"] for entry in found["robustness"]["findings"] if entry["alarm"]}
    assert found.warnings


def test_winners_that_take_all_are_seen_to_jump() -> None:
    found = probed(winners())
    assert not found.established
    assert [entry["cause"] for entry in found["robustness"]["findings"] if entry["alarm"]] == ["jumps"]


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (lambda net, x: torch.softmax(50 * net(x), -1), "leave out the last softmax"),
        (lambda net, x: net(x.detach()), "take detach()"),
    ],
)
def test_what_makes_an_attack_meaningless_stops_the_probe(
    function: Callable[[nn.Module, Tensor], Tensor], remedy: str, honest: nn.Module
) -> None:
    with pytest.raises(BadInput, match=r"logits|autograd") as error:
        probed(Around(honest, function))
    assert remedy in str(error.value)
    assert "\n" not in str(error.value)


def conv(*middle: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), *middle, nn.Flatten(), nn.LazyLinear(4))


HONEST: dict[str, Callable[[], nn.Module]] = {
    "convolutions and BatchNorm": foreign.Viewing,
    "attention": foreign.Attention,
    "shared layers": foreign.Shared,
    "one hidden layer": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 4)),
    "tanh and max pool": lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4)
    ),
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 4)),
}


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_network_raises_no_alarm(kind: str) -> None:
    torch.manual_seed(0)
    found = probed(foreign.fit(HONEST[kind]()))
    assert found.warnings == []
    assert found.established
    assert "not established" not in found.verdict
