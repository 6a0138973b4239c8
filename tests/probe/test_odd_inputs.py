"""Odd inputs get the right answer or one line that says what to do, and the user's network is as it was."""

import copy
from collections import namedtuple
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import foreign
import pytest
import torch
from torch import Tensor, nn

import featscope as fs
from featscope.core.errors import BadInput
from featscope.probe.admission import Given, admitted, lent
from featscope.probe.preflight import look


@pytest.fixture(scope="module")
def plain() -> nn.Module:
    torch.manual_seed(0)
    return foreign.fit(foreign.Viewing())


class Out(nn.Module):
    """A network whose outputs are wrapped."""

    def __init__(self, net: nn.Module, wrap: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.net, self.wrap = net, wrap

    def forward(self, x: Tensor) -> Any:
        return self.wrap(self.net(x))


def logits(model: Any, x: Any, y: Any) -> tuple[Tensor, list[str]]:
    given = Given(0.1)
    with lent(model) as network:
        subject = admitted(network, x, y, given)
        look(subject, given.notes, model)
        with torch.no_grad():
            return subject.network(subject.x), given.notes


Pair = namedtuple("Pair", ["features", "logits"])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: (f, f * 0),
        lambda f: {"loss": f.sum(), "logits": f},
        lambda f: SimpleNamespace(logits=f),
        lambda f: Pair(f * 0, f),
        lambda f: [f],
    ],
    ids=["tuple", "mapping", "attribute", "named tuple", "list"],
)
def test_the_logits_are_found_in_what_a_network_returns(
    wrap: Callable[[Tensor], Any], plain: nn.Module
) -> None:
    x, y = foreign.images(20, 3)
    found, notes = logits(Out(plain, wrap), x, y)
    assert torch.equal(found, plain(x).detach())
    assert any("taken for the logits" in note for note in notes)


def test_a_function_is_a_network_too(plain: nn.Module) -> None:
    x, y = foreign.images(20, 3)
    assert torch.equal(logits(lambda images: plain(images), x, y)[0], plain(x).detach())


@pytest.mark.parametrize("shape", [(20,), (20, 1)])
def test_one_logit_becomes_two(shape: tuple[int, ...]) -> None:
    weight = torch.randn(192, generator=fs.stream(0, "w"))
    x, _ = foreign.images(20, 3)
    score = x.flatten(1) @ weight - (x.flatten(1) @ weight).mean()
    shift = (x.flatten(1) @ weight).mean()
    found, _ = logits(
        lambda images: (images.flatten(1) @ weight - shift).view(len(images), *shape[1:]),
        x,
        (score > 0).long(),
    )
    assert torch.equal(found[:, 0], torch.zeros(20))
    assert torch.allclose(found[:, 1], score, atol=1e-5)


REFUSED: dict[str, tuple[Callable[[nn.Module, Tensor, Tensor], tuple[Any, Any, Any]], str]] = {
    "probabilities": (lambda net, x, y: (Out(net, lambda f: f.softmax(-1)), x, y), "leave out the last softmax"),
    "a sigmoid": (lambda net, x, y: (Out(net, lambda f: f[:, 0].sigmoid()), x, (y > 1).long()), "last sigmoid"),
    "labels ±1": (lambda net, x, y: (net, x, 2.0 * (y > 1) - 1), "(y > 0).long()"),
    "fractions": (lambda net, x, y: (net, x, y + 0.5), "use y.long()"),
    "one-hot": (lambda net, x, y: (net, x, torch.eye(4)[y]), "argmax"),
    "bytes as floats": (lambda net, x, y: (net, x * 255, y), "divide the images by 255"),
    "NaN images": (lambda net, x, y: (net, x * torch.nan, y), "remove NaN"),
    "another order": (lambda net, x, y: (net, x, (net(x).argmax(1) + 1) % 4), "number the labels as the network does"),
    "fewer labels": (lambda net, x, y: (net, x, y[:-1]), "check both"),
    "a label too many": (lambda net, x, y: (net, x, y + 3), "number the classes from 0"),
    "no logits": (lambda net, x, y: (Out(net, lambda f: {"loss": f.sum()}), x, y), "'logits'"),
    "text": (lambda net, x, y: (net, "images", y), "torch.as_tensor"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_answered_is_one_line_with_a_remedy(what: str, plain: nn.Module) -> None:
    given, remedy = REFUSED[what]
    with pytest.raises(BadInput) as error:
        logits(*given(plain, *foreign.images(40, 3)))
    assert remedy in str(error.value)
    assert "\n" not in str(error.value)


def test_broken_weights_are_named(plain: nn.Module) -> None:
    broken = copy.deepcopy(plain)
    with torch.no_grad():
        broken.head.weight[0, 0] = torch.nan
    with pytest.raises(BadInput, match=r"weights must be finite.*head.weight.*another checkpoint"):
        logits(broken, *foreign.images(20, 3))


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda x, y: ((x * 255).round().to(torch.uint8), y), "divided by 255"),
        (lambda x, y: (x.half(), y), "float32"),
        (lambda x, y: (x, y.float()), "class numbers"),
        (lambda x, y: (x.permute(0, 2, 3, 1), y), "(N, C, H, W)"),
        (lambda x, y: (x.numpy(), y.numpy()), ""),
        (lambda x, y: (x, y[:, None]), ""),
    ],
    ids=["bytes", "half", "float labels", "channels last", "numpy", "column of labels"],
)
def test_what_is_plainly_meant_is_made_right_and_said(change: Any, note: str, plain: nn.Module) -> None:
    x, y = foreign.images(20, 3)
    found, notes = logits(plain, *change(x, y))
    assert torch.allclose(found, plain(x).detach(), atol=0.1)
    assert bool((found.argmax(1) == plain(x).argmax(1)).double().mean() >= 0.95)
    assert note in " ".join(notes)


def test_a_network_of_half_precision_is_cast_inside(plain: nn.Module) -> None:
    x, y = foreign.images(20, 3)
    found, _ = logits(copy.deepcopy(plain).bfloat16(), x, y)
    assert found.dtype == torch.float32
    assert torch.allclose(found, plain(x).detach(), atol=0.5)


def test_the_network_is_as_it_was(plain: nn.Module) -> None:
    """Left in training mode, with BatchNorm and dropout: probed in evaluation mode, and nothing moved."""
    net = copy.deepcopy(plain).train()
    net.norm.eval()
    before = copy.deepcopy(net.state_dict())
    modes = [part.training for part in net.modules()]
    found = fs.probe(net, *foreign.images(24, 3), eps=0.05, budget="1s")
    expected = fs.probe(plain, *foreign.images(24, 3), eps=0.05, budget="1s")
    assert (
        found["robustness"]["at_eps"]["attacked"]["value"]
        == expected["robustness"]["at_eps"]["attacked"]["value"]
    )
    assert [part.training for part in net.modules()] == modes
    assert all(parameter.requires_grad and parameter.grad is None for parameter in net.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    mode = next(entry for entry in found["preflight"]["findings"] if entry["name"] == "mode")
    assert mode["value"] == "training"


def test_a_network_that_cannot_be_copied_is_lent_and_comes_back(plain: nn.Module) -> None:
    net = copy.deepcopy(plain).train()
    net.extra = (torch.ones(2, requires_grad=True) * 2,)  # no leaf: deepcopy refuses it
    with lent(net) as network:
        assert network is net
        assert not net.training
        assert not any(parameter.requires_grad for parameter in net.parameters())
    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_a_network_no_better_than_guessing_is_an_alarm(plain: nn.Module) -> None:
    x, y = foreign.images(60, 3)
    shuffled = y[torch.randperm(60, generator=fs.stream(0, "shuffle"))]
    given = Given(0.1)
    subject = admitted(copy.deepcopy(plain), x, shuffled, given)
    accuracy = next(f for f in look(subject, [], plain).findings if f.name == "accuracy")
    assert accuracy.alarm
    assert "normalisation" in accuracy.remedy
