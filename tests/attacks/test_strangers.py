"""What strangers' networks do that a number must not hide: buffers replaced, layers without weights, batches that matter."""

import pytest
import torch
from torch import nn

import featscope as fs
from featscope.attacks.admit import admit
from featscope.core.streams import stream

X = torch.rand(12, 3, 6, 6, generator=stream(0, "x"))


def linear() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(108, 4)).eval()


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = linear()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        return self.inner(x)


def test_a_buffer_that_the_forward_pass_replaces_is_put_back() -> None:
    net = Counting()
    before = net.calls
    fs.robustness(net, X, linear()(X).argmax(-1), eps=0.01, steps=2)
    assert net.calls is before
    assert float(net.calls) == 0


def test_layers_without_weights_are_refused() -> None:
    net = nn.Sequential(nn.Flatten(), nn.LazyLinear(4)).eval()
    with pytest.raises(fs.BadInput, match="must have weights"):
        fs.robustness(net, X, torch.zeros(12).long(), eps=0.01)
    assert torch.nn.parameter.is_lazy(net[1].weight)


def test_outputs_that_depend_on_the_batch_are_said() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten(), nn.Linear(64, 4)
    )
    found = fs.robustness(net.eval(), X, net(X).argmax(-1), eps=0.01, steps=2)
    assert any("other images of the batch" in text for text in found.warnings)
    assert not any(
        "other images" in text for text in fs.robustness(linear(), X, linear()(X).argmax(-1), 0.01).warnings
    )


@pytest.mark.parametrize(
    ("labels", "remedy"),
    [
        (torch.zeros(12, 1).long(), "flatten"),
        (torch.eye(4).repeat(3, 1), "argmax"),
        (torch.ones(12), r"y > 0"),
    ],
)
def test_the_remedy_for_labels_leads_to_labels(labels: torch.Tensor, remedy: str) -> None:
    with pytest.raises(fs.BadInput, match=remedy):
        fs.robustness(linear(), X, labels, eps=0.01)


def test_a_norm_that_is_a_number_is_refused() -> None:
    with pytest.raises(fs.BadInput, match="by name"):
        fs.robustness(linear(), X, linear()(X).argmax(-1), eps=0.01, norm=2)


class Doubled(nn.Module):
    """Weights of single precision, logits of double."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = linear()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).double()


def test_logits_of_another_precision_come_in_that_of_the_images_and_nothing_else_is_wrapped() -> None:
    y, threat = linear()(X).argmax(-1), fs.Threat("Linf", 0.01, event=3)
    assert torch.equal(admit(Doubled(), X, y, threat)[0](X), linear()(X))
    plain = linear()
    assert admit(plain, X, y, threat)[0] is plain

    def function(x: torch.Tensor) -> torch.Tensor:
        return plain(x).double()

    # What is no module cannot be wrapped as one; it is attacked as it is.
    assert admit(function, X, y, threat)[0] is function


def test_labels_are_class_numbers_from_zero_to_the_last_output() -> None:
    threat, y = fs.Threat("Linf", 0.01, event=3), torch.arange(12) % 4
    assert torch.equal(admit(linear(), X, y, threat)[1], y)
    for wrong, told in ((-1, "labels from -1 to 3, 4 outputs"), (4, "labels from 0 to 4, 4 outputs")):
        with pytest.raises(fs.BadInput, match=told):
            admit(linear(), X, torch.cat([y[:-1], torch.tensor([wrong])]), threat)
