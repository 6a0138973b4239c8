"""On linear networks everything is known: the attacked and the certified radius of every example lie within a
percent of the exact one, on either side of it."""

import math

import pytest
import torch
from torch import nn

import featscope as fs
from featscope.attacks.nearest import NearestAttack
from featscope.attacks.threat import Threat
from featscope.core.streams import stream
from featscope.nets.fold import evenly
from featscope.probe.bounds import bounded_radii
from featscope.probe.layers import layers_of
from featscope.probe.run import Probe


def linear(classes: int, d: int = 12) -> nn.Linear:
    net = nn.Linear(d, classes)
    with torch.no_grad():
        net.weight.copy_(torch.randn(classes, d, generator=stream(3, "weight")))
        net.bias.copy_(0.3 * torch.randn(classes, generator=stream(3, "bias")))
    return net.double().eval().requires_grad_(False)


def exact_radii(net: nn.Linear, x: torch.Tensor, y: torch.Tensor, norm: str) -> torch.Tensor:
    """min_j (F_y − F_j) ÷ ‖w_y − w_j‖ in the dual norm, class by class."""
    outputs, dual = net(x).detach(), 1 if norm == "Linf" else 2
    radii = []
    for values, label in zip(outputs, y.tolist(), strict=True):
        rivals = [j for j in range(len(values)) if j != label]
        gaps = [float(values[label] - values[j]) for j in rivals]
        sizes = [float((net.weight[label] - net.weight[j]).norm(dual)) for j in rivals]
        radii.append(max(min(gap / size for gap, size in zip(gaps, sizes, strict=True)), 0.0))
    return torch.tensor(radii, dtype=torch.float64)


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize("classes", [2, 10])
def test_both_radii_are_the_exact_one_within_a_percent(norm: str, classes: int) -> None:
    net = linear(classes)
    x = torch.randn(60, 12, generator=stream(0, "x")).double()
    y = net(x).argmax(1)
    exact, threat = exact_radii(net, x, y, norm), Threat(norm, 1.0, 1)
    above = NearestAttack().find(net, x, y, threat).radius
    below = bounded_radii(layers_of(net, x), x, y, threat, above)
    assert bool((above >= exact * (1 - 1e-5)).all())
    assert bool((above <= exact * 1.01).all())
    assert bool((below <= exact * (1 + 1e-5)).all())
    assert bool((below >= exact * 0.99).all())


def looked_at(values: torch.Tensor, found: Probe) -> torch.Tensor:
    """The values of the examples that the probe had time for."""
    return values[evenly(len(values), found["robustness"]["effort"]["examples"])]


@pytest.mark.parametrize("classes", [2, 10])
def test_the_probe_of_a_linear_network_has_the_exact_numbers(classes: int) -> None:
    net = linear(classes)
    x = torch.randn(60, 12, generator=stream(1, "x")).double()
    y = net(x).argmax(1)
    wrong = torch.arange(60) % 10 == 0
    y = torch.where(wrong, (y + 1) % classes, y)
    exact = exact_radii(net, x, y, "Linf")
    eps = float(exact[~wrong].quantile(0.4))
    found = fs.probe(net, x, y, eps=eps, budget="2s")
    at = found["robustness"]["at_eps"]
    assert found.established
    assert found["preflight"]["clean"]["value"] == pytest.approx(0.9)
    tried = looked_at(exact, found)
    expected = float((tried > eps).double().mean())
    assert abs(at["attacked"]["value"] - expected) <= 1 / len(tried) + 1e-9
    assert at["certified"]["value"] <= at["certified"]["attacked"]
    right = tried[tried > 0].sort().values
    near = right[len(right) // 2 - 2 : len(right) // 2 + 2]
    assert float(near[0]) * 0.99 <= found["robustness"]["distance"]["median"] <= float(near[-1]) * 1.01
    assert found["robustness"]["certificate"]["method"] == "linear bounds"


def test_one_logit_is_certified_as_the_two_that_it_stands_for() -> None:
    torch.manual_seed(0)
    net = nn.Linear(5, 1).requires_grad_(False)
    x = torch.randn(40, 5, generator=stream(0, "x"))
    y = (net(x)[:, 0] > 0).long()
    found = fs.probe(net, x, y, eps=0.05, budget="2s")
    exact = looked_at(net(x)[:, 0].abs() / net.weight.abs().sum(), found)
    share = float((exact > 0.05).double().mean())
    certificate = found["robustness"]["certificate"]
    assert found["robustness"]["at_eps"]["attacked"]["value"] == pytest.approx(share, abs=1e-9)
    assert certificate["median"] == pytest.approx(float(exact[: certificate["examples"]].median()), rel=0.01)
    assert any("(0, f)" in note for note in found["preflight"]["notes"])


def test_the_bounds_of_the_inputs_widen_the_certificate_and_the_distance_alike() -> None:
    """Where the box stops a coordinate, both sides know."""
    net = linear(2)
    x = torch.rand(30, 12, generator=stream(0, "box")).double()
    y = net(x).argmax(1)
    threat = Threat("Linf", 1.0, 1, bounds=(0.0, 1.0))
    above = NearestAttack().find(net, x, y, threat).radius
    found = above.isfinite()
    below = bounded_radii(layers_of(net, x), x, y, threat, above.clamp(max=1.0))
    assert bool((below[found] <= above[found] * (1 + 1e-6)).all())
    assert bool((below[found] >= above[found] * 0.97).all())
    free = exact_radii(net, x, y, "Linf")
    assert bool((above[found] >= free[found] * (1 - 1e-5)).all())
    assert float((above / free)[found].max()) > 1.05
    # Where nothing was found the certificate must not stop short of the whole box.
    assert bool((below[~found] >= 0.99).all()) or not bool((~found).any())


def test_an_exact_interval_holds_at_the_ends() -> None:
    from featscope.core.stats import exact_binomial

    assert exact_binomial(0, 10)[1:] == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    assert exact_binomial(10, 10)[1:] == (pytest.approx(0.025 ** (1 / 10)), 1.0)
    low, high = exact_binomial(3, 20)[1:]
    tail = sum(math.comb(20, k) * high**k * (1 - high) ** (20 - k) for k in range(4))
    head = sum(math.comb(20, k) * low**k * (1 - low) ** (20 - k) for k in range(3, 21))
    assert tail == pytest.approx(0.025)
    assert head == pytest.approx(0.025)
