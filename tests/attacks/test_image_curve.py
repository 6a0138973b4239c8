"""Robust accuracy over radii: monotone, exact on linear models, every radius checked again, few attacks for
each example."""

import copy
import itertools

import pytest
import torch
from image_task import L2, LINF, Linear, task, trained
from torch import Tensor, nn

from featscope.attacks import copies
from featscope.attacks.curve import robust_curve
from featscope.attacks.evaluate import evaluate
from featscope.attacks.pgd import PGD
from featscope.attacks.suite import assess, assess_curve
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.losses import margin
from featscope.core.streams import stream
from featscope.nets.fold import Folded


def verify(net, x, y, threat, curve):
    """Every radius at which an example is said to be fooled, checked without the code that found it."""
    fooled = torch.isfinite(curve.fooled_at)
    limit = curve.fooled_at[fooled].view(-1, 1, 1, 1)
    delta = curve.delta[fooled]
    if threat.norm == "Linf":
        inside = torch.maximum(torch.minimum(delta, limit), -limit)
    else:
        inside = delta * (limit / delta.flatten(1).norm(dim=-1).clamp(min=1e-12).view(-1, 1, 1, 1)).clamp(
            max=1
        )
    torch.testing.assert_close(inside, delta, rtol=1e-5, atol=1e-7)
    moved = (x[fooled] + delta).clamp(0, 1)
    torch.testing.assert_close(moved, x[fooled] + delta, rtol=0, atol=1e-6)
    outputs = net(x[fooled] + delta).detach()
    others = outputs.clone()
    others[torch.arange(len(outputs)), y[fooled]] = -torch.inf
    assert bool((outputs[torch.arange(len(outputs)), y[fooled]] <= others.amax(-1)).all())


@pytest.mark.parametrize("threat", [LINF, L2], ids=["Linf", "L2"])
@pytest.mark.parametrize("objective", ["margin", "soft-margin"])
def test_the_curve_is_monotone_starts_clean_and_is_not_above_single_attacks(threat, objective):
    net = trained()
    x, y = task(90, 11)
    radii = [0.0, *(threat.eps * k / 4 for k in range(1, 9))]
    attack = PGD(objective, 15, stop_early=True)
    curve = robust_curve(net, x, y, threat, radii, attack, stream(0, "a"), batch=40)
    assert curve.accuracy[0] == float((margin(net(x), y) > 0).double().mean())
    assert all(a >= b for a, b in itertools.pairwise(curve.accuracy))
    assert curve.accuracy[-1] < 0.2 < curve.accuracy[0]
    for radius, accuracy in zip(radii[1:], curve.accuracy[1:], strict=True):
        alone = evaluate(net, x, y, threat.with_radius(radius), [attack], stream(1, "a")).accuracy
        assert accuracy <= alone + 2 / 90
    assert set(curve.fooled_at.tolist()) <= {*(float(torch.tensor(r)) for r in radii), float("inf")}
    verify(net, x, y, threat, curve)
    with pytest.raises(BadInput):
        robust_curve(net, x, y, threat, [0.2, 0.1], attack, stream(0, "a"))


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_curve_of_a_linear_model_is_exact(norm, count):
    model = Linear()
    x = torch.randn(200, 2, 6, 6, generator=stream(1, "x"))
    y = model(x).argmax(-1)
    y[:5] = 1 - y[:5]  # wrong as they are
    threat = Threat(norm, 1.0, 3)
    exact = model.radius(x, y, threat)
    radii = [float(q) for q in exact[5:].quantile(torch.linspace(0.1, 0.9, count))]
    clear = ((exact[:, None] / torch.tensor(radii) - 1).abs() > 0.01).all(
        1
    )  # attacks reach the radius within 1 %
    curve = robust_curve(model, x, y, threat, radii, PGD("margin", 40, stop_early=True), stream(0, "a"))
    expected = torch.tensor(
        [next((r for r in radii if r >= e), float("inf")) if e > 0 else 0.0 for e in exact.tolist()]
    )
    assert int(clear.sum()) > 150
    torch.testing.assert_close(curve.fooled_at[clear], expected[clear])


def test_an_example_meets_few_attacks_and_an_empty_list_of_examples_none():
    """About log₂ of the number of radii: counted as calls of the network for each example."""
    net, seen = trained(), []
    x, y = task(64, 11)
    radii = [LINF.eps * k / 8 for k in range(1, 17)]
    steps = 6

    def counted(inputs):
        seen.append(len(inputs))
        return net(inputs)

    robust_curve(counted, x, y, LINF, radii, PGD("margin", steps, stop_early=True), stream(0, "a"))
    most = (
        1 + 5 * (steps + 2)
        # the clean prediction; at most 5 attacks bisect 16 radii, each with its steps, the last look and the
        # check
    )
    assert sum(seen) <= most * len(y)
    none = robust_curve(net, x[:0], y[:0], LINF, radii, PGD("margin", steps, stop_early=True), stream(0, "a"))
    assert none.fooled_at.shape == (0,)


class Disagreeing(nn.Module):
    """The trained network with a bias on the first logit: with another bias it stands for a copy that differs
    from its network."""

    def __init__(self, bias: float) -> None:
        super().__init__()
        self.net, self.bias = trained(), bias

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + torch.tensor([self.bias, 0.0, 0.0, 0.0])


def test_a_curve_counts_on_the_network_itself(monkeypatch):
    """A copy that differs from the network (here grossly, in life at a tie) does not decide."""
    net = Disagreeing(0.0)
    x, y = task(60, 12)
    radii = [LINF.eps * k / 4 for k in range(1, 7)]
    plain = assess_curve(net, x, y, LINF, radii)
    verify(net, x, y, LINF, plain)
    monkeypatch.setattr(copies, "fold", lambda model, example: Folded(Disagreeing(5.0), 0, ""))
    misled = assess_curve(net, x, y, LINF, radii)
    verify(net, x, y, LINF, misled)
    assert all(a >= b for a, b in itertools.pairwise(misled.accuracy))
    monkeypatch.undo()
    slow = assess_curve(net, x, y, LINF, radii, fast=False)
    assert max(abs(a - b) for a, b in zip(plain.accuracy, slow.accuracy, strict=True)) <= 2 / 60


def test_a_network_that_cannot_be_folded_is_attacked_as_it_is():
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = trained()

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x) if float(x.detach().mean()) > -1 else -self.net(x)

    x, y = task(40, 13)
    attacks = [PGD("soft-margin", 8, stop_early=True)]
    plain, folded = assess(Looks(), x, y, LINF, attacks), assess(trained(), x, y, LINF, attacks)
    assert plain.folded == 0
    assert folded.folded > 0
    assert abs(plain.accuracy - folded.accuracy) <= 1 / 40
    curves = [assess_curve(model, x, y, LINF, [0.04, 0.08]).accuracy for model in (Looks(), trained())]
    assert all(abs(a - b) <= 1 / 40 for a, b in zip(*curves, strict=True))


def test_curves_leave_nothing_behind():
    net = copy.deepcopy(trained()).train()
    before, modes = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()]
    x, y = task(20, 5)
    assess_curve(net, x, y, LINF, [0.05, 0.1], fast=False)
    assess_curve(net, x, y, LINF, [0.05, 0.1])
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert modes == [m.training for m in net.modules()]
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
