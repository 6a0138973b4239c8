"""The patch network: plain loops, autograd, limits and symmetries."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from featscope.core.errors import BadInput
from featscope.core.linearise import linearise
from featscope.core.losses import CROSS_ENTROPY
from featscope.core.streams import stream
from featscope.dynamics.patch_descent import (
    Weights,
    by_class,
    descend,
    shuffled,
    training_epoch,
    training_step,
)
from featscope.nets.activations import smoothed_relu, smoothed_relu_slope, value_and_slope_
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec

CASES = [(2, 1.0), (3, 1.0), (3, 0.2), (4, 0.7), (5, 2.0)]


def example(seed: int = 0, runs: int | None = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    lead = () if runs is None else (runs,)
    w = torch.randn(*lead, 3, 7, 11, generator=stream(seed, "w"), dtype=torch.float64)
    x = torch.randn(*lead, 9, 4, 11, generator=stream(seed, "x"), dtype=torch.float64)
    y = torch.randint(0, 3, (*lead, 9), generator=stream(seed, "y"))
    return w, x, y


@given(z=st.floats(-5, 5), q=st.integers(2, 6), rho=st.floats(0.05, 3))
def test_activation_is_the_printed_one(z: float, q: int, rho: float) -> None:
    expected = 0.0 if z <= 0 else (z**q / (q * rho ** (q - 1)) if z <= rho else z - (1 - 1 / q) * rho)
    t = torch.tensor([z], dtype=torch.float64)
    assert float(smoothed_relu(t, q, rho)) == pytest.approx(expected, abs=1e-12)
    value, slope = value_and_slope_(t.clone(), q, rho)
    assert float(value) == pytest.approx(expected, abs=1e-12)
    assert float(slope) == pytest.approx(float(smoothed_relu_slope(t, q, rho)), abs=1e-12)


@pytest.mark.parametrize(("q", "rho"), CASES)
def test_activation_is_convex_and_smooth(q: int, rho: float) -> None:
    z = torch.linspace(-1, 3 * rho, 20001, dtype=torch.float64)
    slope = smoothed_relu_slope(z, q, rho)
    assert (slope.diff() >= -1e-15).all()
    numeric = smoothed_relu(z, q, rho).diff() / z.diff()
    assert torch.allclose(numeric, 0.5 * (slope[1:] + slope[:-1]), atol=1e-3)


@pytest.mark.parametrize(("q", "rho"), CASES)
def test_forward_is_the_double_sum(q: int, rho: float) -> None:
    w, x, _ = example()
    expected = torch.zeros(9, 3, dtype=torch.float64)
    for n in range(9):
        for i in range(3):
            for r in range(7):
                for p in range(4):
                    expected[n, i] += smoothed_relu(w[i, r] @ x[n, p], q, rho)
    assert torch.allclose(PatchNet(w, q, rho)(x), expected, atol=1e-12)


@pytest.mark.parametrize(("q", "rho"), CASES)
@pytest.mark.parametrize("runs", [None, 3])
def test_gradients_are_those_of_autograd(q: int, rho: float, runs: int | None) -> None:
    w, x, y = example(runs=runs)
    leaf_w, leaf_x = w.clone().requires_grad_(True), x.clone().requires_grad_(True)
    loss = CROSS_ENTROPY.value(PatchNet(leaf_w, q, rho)(leaf_x), y).sum()
    grad_w, grad_x = torch.autograd.grad(loss, (leaf_w, leaf_x))
    net = PatchNet(w, q, rho)
    outputs, pull_w = net.weight_pullback(x)
    cotangent = CROSS_ENTROPY.grad(outputs, y)
    assert torch.allclose(pull_w(cotangent), grad_w, atol=1e-10)
    outputs, pull_x = net.linearise(x)
    assert torch.allclose(pull_x(cotangent), grad_x, atol=1e-10)
    own = torch.autograd.grad(PatchNet(w, q, rho)(leaf_x).gather(-1, y[..., None]).sum(), leaf_x)[0]
    assert torch.allclose(net.own_gradient(x, y), own, atol=1e-10)


def test_closed_form_and_autograd_pullbacks_agree() -> None:
    w, x, y = example()
    net = PatchNet(w, 3, 0.5)
    module = net.module()
    assert torch.allclose(module(x), net(x))
    closed, auto = linearise(net, x), linearise(module, x)
    cotangent = CROSS_ENTROPY.grad(closed[0], y)
    assert torch.allclose(closed[1](cotangent), auto[1](cotangent), atol=1e-10)


def test_runs_are_independent() -> None:
    w, x, y = example(runs=4)
    spec = PatchNetSpec(width=7)
    together = descend(spec.net(w), x, y, 0.3)
    for i in range(4):
        assert torch.allclose(together[i], descend(spec.net(w[i]), x[i], y[i], 0.3), atol=1e-13)


def test_rotating_weights_and_data_together_changes_nothing() -> None:
    w, x, y = example()
    rotation = torch.linalg.qr(torch.randn(11, 11, generator=stream(0, "q"), dtype=torch.float64)).Q
    assert torch.allclose(PatchNet(w)(x), PatchNet(w @ rotation)(x @ rotation), atol=1e-12)
    moved = descend(PatchNet(w), x, y, 0.1) @ rotation
    assert torch.allclose(moved, descend(PatchNet(w @ rotation), x @ rotation, y, 0.1), atol=1e-12)


def test_patches_may_be_permuted() -> None:
    w, x, _ = example()
    assert torch.allclose(PatchNet(w)(x), PatchNet(w)(x[:, torch.randperm(4)]), atol=1e-12)


def test_full_batch_descent_is_the_mean_of_single_points() -> None:
    w, x, y = example()
    spec = PatchNetSpec(width=7)
    whole = training_step(spec, x, y, 0.5)(Weights(w), 0).w - w
    single = torch.stack(
        [training_step(spec, x[i : i + 1], y[i : i + 1], 0.5)(Weights(w), 0).w - w for i in range(9)]
    )
    assert torch.allclose(whole, single.mean(0), atol=1e-12)


def test_an_epoch_is_a_step_on_each_batch_in_turn() -> None:
    w, x, y = example()
    spec = PatchNetSpec(width=7)
    epoch = training_epoch(spec, x, y, 0.5, batch_size=4, seeds=[1])
    assert torch.equal(epoch(Weights(w), 4).w, epoch(Weights(w), 4).w)
    assert not torch.equal(epoch(Weights(w), 4).w, epoch(Weights(w), 5).w)
    by_hand, (points, labels) = w, shuffled(*by_class(x, y), [1], 4)
    for start in (0, 4, 8):  # nine points: the last batch is one point
        by_hand = descend(PatchNet(by_hand), points[start : start + 4], labels[start : start + 4], 0.5)
    assert torch.allclose(epoch(Weights(w), 4).w, by_hand, atol=1e-13)


def test_an_epoch_in_one_batch_is_a_step_on_all_points() -> None:
    w, x, y = example()
    spec = PatchNetSpec(width=7)
    whole = training_step(spec, x, y, 0.5)(Weights(w), 3).w
    for size in (None, 9):
        epoch = training_epoch(spec, x, y, 0.5, batch_size=size)
        assert torch.allclose(epoch(Weights(w), 3).w, whole, atol=1e-13)


def test_each_batch_is_attacked_at_the_weights_it_finds() -> None:
    w, x, y = example()
    spec, met = PatchNetSpec(width=7), []

    def attack(net: PatchNet, points: Tensor, labels: Tensor) -> Tensor:
        met.append(net.w)
        return 0.1 * torch.ones_like(points)

    epoch = training_epoch(spec, x, y, 0.5, attack, batch_size=5, seeds=[2])
    moved = epoch(Weights(w), 0).w
    points, labels = shuffled(*by_class(x, y), [2], 0)
    first = descend(PatchNet(w), points[:5] + 0.1, labels[:5], 0.5)
    assert len(met) == 2
    assert torch.equal(met[0], w)
    assert torch.allclose(met[1], first, atol=1e-13)
    assert torch.allclose(moved, descend(PatchNet(first), points[5:] + 0.1, labels[5:], 0.5), atol=1e-13)


def test_wrong_shapes_and_activations_are_refused() -> None:
    w, x, _ = example()
    with pytest.raises(BadInput, match="shape"):
        PatchNet(w)(x[..., :5])
    with pytest.raises(BadInput, match="q must be"):
        PatchNet(w, q=1)
    with pytest.raises(BadInput, match="rho"):
        PatchNet(w, rho=0.0)
    with pytest.raises(BadInput, match="one run"):
        PatchNet(w[None]).module()


def test_the_smallest_network_and_what_is_none() -> None:
    assert PatchNetSpec() == PatchNetSpec(width=100, q=3, rho=1.0, sigma_0=0.01)
    assert PatchNetSpec(width=1, sigma_0=0.0, q=2).init(2, 3, stream(0, "init")).tolist() == [[[0.0] * 3]] * 2
    for wrong in ({"width": 0}, {"sigma_0": -0.1}, {"q": 1}, {"rho": 0.0}):
        with pytest.raises(BadInput):
            PatchNetSpec(**wrong)
    w = PatchNetSpec(width=4000, sigma_0=0.5).init(2, 3, stream(0, "init"))
    assert w.shape == (2, 4000, 3)
    assert float(w.std()) == pytest.approx(0.5, rel=0.02)
    net = PatchNetSpec(q=4, rho=0.5).net(w)
    assert (net.q, net.rho) == (4, 0.5)
