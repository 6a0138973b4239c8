"""f_S around a trained network: the ReLU form against its definition, the certificate, and what it leaves of
the network."""

import math

import pytest
import torch
from torch import nn

from featscope.attacks.evaluate import evaluate
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.attacks.transfer import Transfer
from featscope.core.errors import BadInput
from featscope.nets.built.around import BuiltAround, largest_logit

DELTA, APART, CLASSES = 0.1, 0.5, 3


@pytest.fixture
def images() -> tuple[torch.Tensor, torch.Tensor]:
    """Twelve images of three labels, at least .5 apart in ℓ∞, on a grid of one pixel."""
    rng = torch.Generator().manual_seed(0)
    x = 0.04 * torch.rand(12, 1, 3, 3, generator=rng)
    y = torch.arange(12) % CLASSES
    x[:, 0, 0, 0] += 0.52 * (y == 1)
    x[:, 0, 1, 1] += 0.55 * (y == 2)
    return x, y


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, CLASSES)).eval()


def separation(x: torch.Tensor, y: torch.Tensor) -> float:
    apart = torch.cdist(x.flatten(1), x.flatten(1), p=math.inf)
    return float(apart[y[:, None] != y[None, :]].min())


def built(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> BuiltAround:
    return BuiltAround(net, x, y, DELTA, separation(x, y), largest_logit(net, x)).eval()


def by_definition(f_s: BuiltAround, x: torch.Tensor) -> torch.Tensor:
    """Every pair and every coordinate, one after the other."""
    z, found = f_s.net(x), []
    for point, logits in zip(x.flatten(1), z, strict=True):
        votes = torch.zeros(CLASSES)
        for image, label in zip(f_s.memory, f_s.labels, strict=True):
            excess = sum(max(abs(float(a - b)) - f_s.wide, 0.0) for a, b in zip(point, image, strict=True))
            votes[label] += max(0.0, 1 - excess / (f_s.reach - f_s.wide))
        total, mean, c = float(votes.sum()), float(logits.mean()), f_s.scale
        clean = [min(max(0.5 + (float(v) - mean) / (2 * c), 0.0), 1.0) for v in logits]
        found.append(2 * c * (torch.tensor([max(v - total, 0.0) for v in clean]) + votes))
    return torch.stack(found)


def test_it_is_its_definition_inside_between_and_outside_the_balls(images, net):
    x, y = images
    f_s = built(net, x, y)
    rng = torch.Generator().manual_seed(2)
    near = x + DELTA * (2 * torch.rand(x.shape, generator=rng) - 1)
    between = (x + x.roll(1, 0)) / 2
    edge = x.clone()
    edge[:, 0, 2, 2] += f_s.wide + 0.9 * (f_s.reach - f_s.wide)
    for points in (x, near, between, edge, torch.rand(20, 1, 3, 3, generator=rng)):
        with torch.no_grad():
            torch.testing.assert_close(f_s(points), by_definition(f_s, points), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        ramp = f_s.votes(edge, CLASSES)
    assert bool(((ramp > 0.05) & (ramp < 0.95)).any()), "the edge of a ball was not looked at"


def test_far_from_the_training_images_it_is_the_network(images, net):
    x, y = images
    f_s = built(net, x, y)
    far = x.clone()
    far[:, 0, 2, :] += 0.9
    f_s.scale = 10 * largest_logit(net, far)
    with torch.no_grad():
        assert float(f_s.votes(far, CLASSES).max()) == 0
        z, shown = net(far), f_s(far)
    torch.testing.assert_close(shown - shown[:, :1], z - z[:, :1], rtol=1e-4, atol=1e-4)


def test_every_training_ball_is_certified_and_no_attack_gets_in(images, net):
    x, y = images
    f_s = built(net, x, y)
    wrong = ~(net(x).argmax(-1) == y)
    assert bool(wrong.any()), "a network that is right everywhere shows nothing"
    assert bool(f_s.certified().all())
    attacks = (PGD(steps=20, restarts=3), Transfer(net, PGD(steps=20)))
    found = evaluate(f_s, x, y, Threat("Linf", DELTA, 3), attacks, torch.Generator().manual_seed(3))
    assert found.accuracy == 1
    rng = torch.Generator().manual_seed(4)
    corners = DELTA * torch.randn(50, *x.shape, generator=rng).sign()
    with torch.no_grad():
        for corner in corners:
            shown = f_s(x + corner)
            own = shown.gather(1, y[:, None])[:, 0]
            rival = shown.scatter(1, y[:, None], -math.inf).amax(-1)
            assert float((own - rival).min()) >= 2 * f_s.scale * (1 - 1e-5)


def test_the_certificate_sees_a_separation_that_is_not_there(images, net):
    x, y = images
    x = x.clone()
    x[1] = x[0] + 0.3
    f_s = BuiltAround(net, x, y, DELTA, APART, 1.0)
    proven = f_s.certified()
    assert not bool(proven[0])
    assert not bool(proven[1])
    assert bool(proven[2:].any())


def test_what_cannot_be_built_is_refused(images, net):
    x, y = images
    with pytest.raises(BadInput, match="more than 2δ apart"):
        BuiltAround(net, x, y, 0.25, 0.5, 1.0)
    with pytest.raises(BadInput, match="scale"):
        BuiltAround(net, x, y, 0.1, 0.5, 0.0)


def test_what_fools_the_target_is_tried_on_the_network():
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
        second.weight.copy_(torch.tensor([[1.0, 1e-9], [-1.0, -1e-9]]))
    x, y, threat = torch.tensor([[0.05, 0.0]]), torch.tensor([0]), Threat("Linf", 0.1, 1)
    attack = Transfer(first, PGD(steps=5))
    delta = attack(nn.Identity(), x, y, threat, torch.Generator().manual_seed(0))
    assert float(first(x + delta)[0, 0].detach()) < 0
    assert "transferred" in attack.name
    assert evaluate(second, x, y, threat, (attack,), torch.Generator().manual_seed(0)).accuracy == 0
