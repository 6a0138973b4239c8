"""Certified bounds lie below everything that attacks and enumeration find, and meet the exact value where it
is known."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.attacks.patch_axis_margin import outputs, worst_margins
from featscope.attacks.patch_certificate import certify, is_certified
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.losses import margin
from featscope.core.streams import stream
from featscope.laws.patches import PatchLaw
from featscope.nets.patch_cnn import PatchNet


def case(seed: int, k: int = 3) -> tuple[PatchNet, torch.Tensor, torch.Tensor]:
    w = torch.randn(k, 4, 6, generator=stream(seed, "w"), dtype=torch.float64)
    x = torch.randn(10, 3, 6, generator=stream(seed, "x"), dtype=torch.float64)
    net = PatchNet(w, 3, 0.7)
    return net, x, net(x).argmax(-1)


@given(
    seed=st.integers(0, 10**6),
    eps=st.floats(0.001, 0.5),
    norm=st.sampled_from(["Linf", "L2"]),
    masked=st.booleans(),
)
def test_no_perturbation_goes_below_the_bound(seed: int, eps: float, norm: str, masked: bool) -> None:
    net, x, y = case(seed)
    support = torch.tensor([1.0, 0, 1, 0, 1, 1]) if masked else None
    threat = Threat(norm, eps, 2, support=support)
    bounds = certify(net, x, y, threat)
    assert (bounds.linear >= bounds.interval - 1e-9).all()
    attacked = margin(net(x + PGD("margin", 15, every_target=True)(net, x, y, threat, stream(seed, "a"))), y)
    random = torch.stack(
        [margin(net(x + threat.sample(x, stream(seed, "r", i))), y) for i in range(20)]
    ).amin(0)
    assert (torch.minimum(attacked, random) >= bounds.linear - 1e-9).all()


def test_no_perturbation_in_a_subspace_goes_below_the_bound() -> None:
    net, x, y = case(5)
    basis = torch.linalg.qr(torch.randn(6, 2, generator=stream(0, "b"), dtype=torch.float64)).Q.mT
    threat = Threat("L2", 0.3, 2, basis=basis)
    bounds = certify(net, x, y, threat)
    attacked = margin(net(x + PGD("margin", 15, every_target=True)(net, x, y, threat, stream(0, "a"))), y)
    assert (attacked >= bounds.linear - 1e-9).all()
    assert (bounds.linear >= certify(net, x, y, Threat("L2", 0.3, 2)).linear - 1e-9).all()


def test_bound_at_radius_zero_is_the_margin() -> None:
    net, x, y = case(1)
    bounds = certify(net, x, y, Threat("Linf", 0.0, 2))
    assert torch.allclose(bounds.linear, margin(net(x), y), atol=1e-9)
    assert torch.allclose(bounds.interval, margin(net(x), y), atol=1e-9)


def test_interval_bound_is_exact_for_networks_along_axes() -> None:
    law = PatchLaw(k=3, d=8)
    batch = law.sample(50, stream(0, "data"))
    u, _ = law.features()
    for gamma, eps in ((0.5, 0.1), (2.0, 0.3), (10.0, 1.2)):
        net = PatchNet(gamma * u[:, None, :])
        exact = worst_margins(batch.x @ u.mT, batch.y, gamma, eps, 3, 1.0)
        assert torch.allclose(
            certify(net, batch.x, batch.y, Threat("Linf", eps, 2)).interval, exact, atol=1e-9
        )
        assert torch.allclose(net(batch.x), outputs(batch.x @ u.mT, gamma, 3, 1.0), atol=1e-12)


def test_axis_minimum_is_attained_by_its_own_perturbation() -> None:
    law = PatchLaw()
    batch = law.sample(40, stream(0, "data"))
    u, _ = law.features()
    net, eps = PatchNet(2.0 * u[:, None, :]), 0.3
    delta = eps * (u[1 - batch.y] - u[batch.y])[:, None, :].expand_as(batch.x)
    exact = worst_margins(batch.x @ u.mT, batch.y, 2.0, eps, 3, 1.0)
    assert torch.allclose(margin(net(batch.x + delta), batch.y), exact, atol=1e-9)
    found = margin(
        net(
            batch.x
            + PGD("margin", 60, restarts=3)(net, batch.x, batch.y, Threat("Linf", eps, 2), stream(0, "a"))
        ),
        batch.y,
    )
    # PGD stays above the minimum: where a neuron is off its gradient is zero, and nothing tells the attack to
    # switch it on.
    assert (found >= exact - 1e-9).all()
    assert (found > exact + 1e-3).any()


@pytest.mark.parametrize("eps", [0.01, 0.1])
def test_certified_points_withstand_attacks(eps: float) -> None:
    net, x, y = case(3)
    threat = Threat("Linf", eps, 2)
    safe = is_certified(certify(net, x, y, threat).linear, net(x))
    attacked = (
        margin(
            net(x + PGD("margin", 30, restarts=3, every_target=True)(net, x, y, threat, stream(0, "a"))), y
        )
        > 0
    )
    assert (attacked | ~safe).all()
