"""The theory networks in closed form against autograd and against cases computed by hand, every branch and
every axis."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from featscope.attacks.patch_axis_margin import worst_margins
from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.core.losses import LOSSES, OWN_LOGIT, margin, runner_up
from featscope.core.signs import label_index
from featscope.core.streams import stream
from featscope.nets import cubic_cnn, multiclass, two_layer
from featscope.nets.activations import slope_, smoothed_relu, smoothed_relu_slope, value_and_slope_
from featscope.nets.multiclass import MultiClass, MultiClassNet
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec
from featscope.nets.two_layer import TwoLayer, TwoLayerNet, averaging_with_bias, output_weights

F64 = torch.float64


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=stream(seed, "normal"), dtype=F64)


@pytest.mark.parametrize("q", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("rho", [1.0, 0.4, 2.5])
def test_the_activation_on_both_sides_of_its_kinks(q: int, rho: float) -> None:
    """Values by the printed cases, slopes by their derivatives; at 0 and at ϱ both branches agree."""
    shares = [-2.0, -1e-3, 0.0, 1e-3, 0.5, 1 - 1e-3, 1.0, 1 + 1e-3, 4.0]
    z = rho * torch.tensor(shares, dtype=F64)
    value = [0.0 if s <= 0 else (rho * s**q / q if s <= 1 else rho * (s - 1 + 1 / q)) for s in shares]
    slope = [0.0 if s <= 0 else (s ** (q - 1) if s <= 1 else 1.0) for s in shares]
    both = value_and_slope_(z.clone(), q, rho)
    for found in (smoothed_relu(z, q, rho), both[0]):
        assert found.tolist() == pytest.approx(value, abs=1e-14)
    for found in (smoothed_relu_slope(z, q, rho), both[1], slope_(z.clone(), q, rho)):
        assert found.tolist() == pytest.approx(slope, abs=1e-14)


@pytest.mark.parametrize("q", [2, 3, 4, 5])
@pytest.mark.parametrize("rho", [1.0, 0.3, 2.0])
def test_the_own_logits_gradient_visits_the_own_class_only(q: int, rho: float) -> None:
    w, x, y = normal(3, 2, 5), normal(6, 4, 5, seed=1), torch.tensor([2, 0, 1, 1, 0, 2])
    leaf = x.clone().requires_grad_(True)
    outputs = PatchNet(w, q, rho)(leaf)
    (wanted,) = torch.autograd.grad(sum(outputs[i, y[i]] for i in range(6)), leaf)
    net = PatchNet(w, q, rho)
    assert torch.allclose(net.own_gradient(x, y), wanted, atol=1e-12)
    assert torch.allclose(PatchTrainingAttack().gradient(net, x, y), -wanted, atol=1e-12)
    order = torch.argsort(y, stable=True)
    assert torch.allclose(net.own_gradient(x[order], y[order]), wanted[order], atol=1e-12)


@pytest.mark.parametrize("objective", ["own-logit", "margin", "cross-entropy"])
def test_ascent_climbs_its_objective(objective: str) -> None:
    net, x, y = PatchNet(normal(3, 2, 5), 3, 0.5), normal(6, 4, 5, seed=1), torch.tensor([2, 0, 1, 1, 0, 2])
    ascent = PatchTrainingAttack(objective=objective, eps=1e-4, step_size=1e6)
    leaf = x.clone().requires_grad_(True)
    outputs = net(leaf)
    value = {
        "own-logit": -outputs.gather(1, y[:, None])[:, 0],
        "margin": -(
            outputs.gather(1, y[:, None])[:, 0]
            - outputs.masked_fill(functional.one_hot(y, 3).bool(), -math.inf).amax(-1)
        ),
        "cross-entropy": functional.cross_entropy(outputs, y, reduction="none"),
    }[objective]
    (wanted,) = torch.autograd.grad(value.sum(), leaf)
    assert torch.allclose(ascent.gradient(net, x, y), wanted, atol=1e-12)
    loss = LOSSES[objective]
    assert bool((loss.value(net(x + ascent.perturb(net, x, y)), y) >= loss.value(net(x), y)).all())


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize("runs", [(), (2,)])
def test_losses_are_their_formulas(name: str, runs: tuple[int, ...]) -> None:
    outputs, y = 3 * normal(*runs, 8, 4), torch.arange(8).remainder(4).expand(*runs, 8)
    own = outputs.gather(-1, y[..., None])[..., 0]
    rest = torch.stack(
        [outputs[..., [j for j in range(4) if j != i % 4]].select(-2, i) for i in range(8)], -2
    )
    expected = {
        "cross-entropy": outputs.exp().sum(-1).log() - own,
        "margin": rest.amax(-1) - own,
        "soft-margin": rest.exp().sum(-1).log() - own,
        "own-logit": -own,
    }
    assert torch.allclose(LOSSES[name].value(outputs, y), expected[name], atol=1e-12)
    leaf = outputs.clone().requires_grad_(True)
    (wanted,) = torch.autograd.grad(LOSSES[name].value(leaf, y).sum(), leaf)
    assert torch.allclose(LOSSES[name].grad(outputs, y), wanted, atol=1e-12)
    assert torch.allclose(margin(outputs, y), -expected["margin"])
    assert bool((runner_up(outputs, y) != y).all())
    assert bool((outputs.gather(-1, runner_up(outputs, y)[..., None])[..., 0] == rest.amax(-1)).all())


def test_the_own_logit_reading_leaves_the_others_as_they_are() -> None:
    """One feature a class: with ``raise_others`` False the others' outputs are the clean ones, and F_y falls
    by as much as ε allows."""
    gamma, eps, q, rho = 2.0, 0.3, 2, 0.01
    along = torch.tensor([[[1.0, 0.2]]], dtype=F64)
    y = torch.tensor([0])

    def f(t: float) -> float:
        return float(smoothed_relu(torch.tensor(gamma * t, dtype=F64), q, rho))

    low = worst_margins(along, y, gamma, eps, q, rho, raise_others=False)
    both = worst_margins(along, y, gamma, eps, q, rho, raise_others=True)
    assert float(low) == pytest.approx(f(0.7) - f(0.2))
    assert float(both) == pytest.approx(f(0.7) - f(0.5))
    assert OWN_LOGIT.grad(torch.zeros(1, 3), torch.tensor([1])).tolist() == [[0.0, -1.0, 0.0]]


def test_patch_networks_start_with_their_scale_and_keep_their_activation() -> None:
    spec = PatchNetSpec(width=50, q=4, rho=0.7, sigma_0=0.03)
    w = spec.init(2, 40, stream(0, "init"))
    assert w.shape == (2, 50, 40)
    assert float(w.std()) == pytest.approx(0.03, rel=0.05)
    net = spec.net(w)
    x = 30 * normal(3, 2, 40)
    module = net.module()
    assert torch.allclose(
        module(x), smoothed_relu(x.flatten(0, 1) @ w.flatten(0, 1).mT, 4, 0.7).view(3, 2, 2, 50).sum((1, 3))
    )
    assert torch.equal(PatchNet(w[None], 4, 0.7).run(0)(x), net(x))


@pytest.mark.parametrize("runs", [(), (2,)])
def test_two_layer_networks_by_autograd_in_weights_biases_and_inputs(runs: tuple[int, ...]) -> None:
    m, d, n = 2, 5, 9
    w, b = normal(*runs, 2 * m, d).requires_grad_(True), normal(*runs, 2 * m, seed=1).requires_grad_(True)
    x, y = (
        normal(*runs, n, d, seed=2).requires_grad_(True),
        torch.tensor([1.0, -1, 1, -1, 1, 1, -1, -1, 1], dtype=F64),
    )
    a = output_weights(m)
    assert a.tolist() == [0.5, 0.5, -0.5, -0.5]
    f = 0.5 * (x @ w.mT + b[..., None, :]).relu()[..., :m].sum(-1) - 0.5 * (
        x @ w.mT + b[..., None, :]
    ).relu()[..., m:].sum(-1)
    loss = torch.log1p(torch.exp(-y * f)).mean(-1)
    gw, gb = torch.autograd.grad(loss.sum(), (w, b), retain_graph=True)
    (gx,) = torch.autograd.grad(f.sum(), x)
    net, points = TwoLayer(w.detach(), b.detach(), a), x.detach()
    c, q = two_layer.point_coefficients(net, points, y)
    assert torch.allclose(-(c @ points) / n, gw, atol=1e-13)
    assert torch.allclose(-c.sum(-1) / n, gb, atol=1e-13)
    value, slope = two_layer.input_gradient(net, points)
    assert torch.allclose(value, f.detach(), atol=1e-13)
    assert torch.allclose(slope, gx, atol=1e-13)
    assert torch.allclose(two_layer.forward(net, points), f.detach(), atol=1e-13)
    assert torch.allclose(two_layer.logistic_loss(q), loss.detach(), atol=1e-13)
    assert net.positive.tolist() == [True, True, False, False]


def test_relu_has_slope_one_at_zero_everywhere() -> None:
    """The paper's convention 1{z ≥ 0}, in inputs and in points' coefficients, for both networks."""
    zero, ones = torch.zeros(2, 3, dtype=F64), torch.ones(1, 3, dtype=F64)
    net = TwoLayer(torch.ones(2, 3, dtype=F64), torch.tensor([-3.0, -3.0], dtype=F64), output_weights(1))
    net = net._replace(
        w=net.w * torch.tensor([[1.0], [2.0]], dtype=F64), b=torch.tensor([-3.0, -6.0], dtype=F64)
    )
    assert two_layer.input_gradient(net, ones)[1].tolist() == [[-1.0, -1.0, -1.0]]
    silent = TwoLayer(zero, torch.zeros(2, dtype=F64), output_weights(1))
    assert two_layer.point_coefficients(silent, ones, -ones[:, 0])[0][:, 0].tolist() == [-0.5, 0.5]
    flat = MultiClass(zero)
    coefficients, _ = multiclass.point_coefficients(flat, ones, torch.tensor([1]))
    assert coefficients[:, 0].tolist() == [-0.5, 0.5]
    many = MultiClass(torch.ones(2, 3, dtype=F64))
    assert multiclass.pull_inputs(
        many, torch.zeros(1, 2, dtype=F64), torch.tensor([[1.0, 2.0]], dtype=F64)
    ).tolist() == [[3.0] * 3]


@pytest.mark.parametrize("h", [1, 2, 3])
@pytest.mark.parametrize("runs", [(), (2,)])
def test_multiclass_networks_by_autograd(h: int, runs: tuple[int, ...]) -> None:
    k, d, n = 3, 5, 7
    w, x = normal(*runs, k * h, d).requires_grad_(True), normal(*runs, n, d, seed=1).requires_grad_(True)
    cluster = torch.tensor([0, 1, 2, 2, 1, 0, 2])
    outputs = torch.stack(
        [sum((x @ w[..., j * h + r, :, None])[..., 0].relu() for r in range(h)) / h for j in range(k)], -1
    )
    loss = (
        functional.cross_entropy(
            outputs.reshape(-1, k), cluster.repeat(runs[0] if runs else 1), reduction="sum"
        )
        / n
    )
    (gw,) = torch.autograd.grad(loss, w, retain_graph=True)
    net = MultiClass(w.detach(), h)
    c, found = multiclass.point_coefficients(net, x.detach(), cluster)
    assert torch.allclose(found, outputs.detach(), atol=1e-13)
    assert torch.allclose(-(c @ x.detach()) / n, gw, atol=1e-13)
    cotangent = normal(*runs, n, k, seed=3)
    (gx,) = torch.autograd.grad(outputs, x, cotangent)
    assert torch.allclose(multiclass.pull_inputs(net, x.detach() @ net.w.mT, cotangent), gx, atol=1e-13)
    mean = torch.stack([net.w[..., j * h : (j + 1) * h, :].mean(-2) for j in range(k)], -2)
    assert torch.allclose(net.equivalent(), mean, atol=1e-15)
    assert net.k == k


def test_read_outs_and_their_slopes() -> None:
    outputs, signs = 2 * normal(6, 5), torch.tensor([1.0, -1, -1, 1, -1], dtype=F64)
    leaf = outputs.clone().requires_grad_(True)
    plus, minus = leaf[:, [0, 3]].exp().sum(-1), leaf[:, [1, 2, 4]].exp().sum(-1)
    value = plus.log() - minus.log()
    assert torch.allclose(multiclass.readout(outputs, signs), value.detach(), atol=1e-12)
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    assert torch.allclose(multiclass.readout_slope(outputs, signs), slope, atol=1e-12)
    y = torch.tensor([0, 4, 2, 3, 1, 0])
    wanted = torch.softmax(outputs, -1) - functional.one_hot(y, 5)
    assert torch.allclose(multiclass.cross_entropy_slope(outputs, y), wanted, atol=1e-12)
    net, x = MultiClass(normal(10, 4, seed=4), 2), normal(3, 4, seed=5)
    outputs, pull = MultiClassNet(net).linearise(x)
    point = x.clone().requires_grad_(True)
    (wanted,) = torch.autograd.grad(MultiClassNet(net)(point), point, torch.ones(3, 5, dtype=F64))
    assert torch.allclose(pull(torch.ones(3, 5, dtype=F64)), wanted, atol=1e-13)


def test_the_networks_of_the_appendix_by_hand() -> None:
    mu, signs = torch.eye(4, dtype=F64) * 2, torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=F64)
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=F64)
    # ReLU(2 + 6 + 2) − ReLU(4 + 8 − 3)
    assert two_layer.forward(averaging_with_bias(mu, signs, 2.0, -3.0), x).tolist() == [1.0]
    assert two_layer.forward(two_layer.averaging(mu, signs), x).tolist() == [-4.0]
    # d = 4: (2 − 2)₊ + (6 − 2)₊ − (4 − 2)₊ − (8 − 2)₊
    apart = two_layer.decoupled(mu, signs, 4)
    assert two_layer.forward(apart, x).tolist() == [-4.0]
    assert apart.a.tolist() == [1.0, 1.0, -1.0, -1.0]
    # F_j = ReLU⟨μ_j + Σ of its class, x⟩
    assert multiclass.logits(multiclass.fragile(mu, signs), x).tolist() == [[2 + 8, 4 + 12, 6 + 8, 8 + 12]]


def test_logits_are_half_the_score_on_either_side() -> None:
    net = TwoLayer(normal(4, 3), normal(4, seed=1), output_weights(2))
    x = normal(5, 3, seed=2)
    f = two_layer.forward(net, x)
    module = TwoLayerNet(net)
    assert torch.allclose(module(x), torch.stack([-f / 2, f / 2], -1))
    outputs, pull = module.linearise(x)
    assert torch.allclose(outputs, module(x))
    slope = two_layer.input_gradient(net, x)[1]
    assert torch.allclose(pull(torch.tensor([[0.0, 1.0]], dtype=F64).expand(5, 2)), slope / 2)
    assert torch.allclose(pull(torch.tensor([[3.0, 0.0]], dtype=F64).expand(5, 2)), -1.5 * slope)


def test_the_cubic_network_by_plain_sums() -> None:
    w, x = normal(2, 3, 4), normal(2, 5, 2, 4, seed=1)
    for run in range(2):
        for i in range(5):
            total = sum(float(w[run, r] @ x[run, i, j]) ** 3 for r in range(3) for j in range(2))
            assert float(cubic_cnn.output(w, x)[run, i]) == pytest.approx(total)
    assert torch.allclose(cubic_cnn.signal_output(w), (w[..., 0] ** 3).sum(-1))
    assert cubic_cnn.projections(w, x).shape == (2, 5, 2, 3)
    assert float(cubic_cnn.projections(w, x)[1, 4, 0, 2]) == pytest.approx(float(w[1, 2] @ x[1, 4, 0]))
    leaf_w, leaf_x = w.clone().requires_grad_(True), x.clone().requires_grad_(True)
    c = normal(2, 5, seed=2)
    gw, gx = torch.autograd.grad(
        (c * ((leaf_x.flatten(1, 2) @ leaf_w.mT) ** 3).view(2, 5, 2, 3).sum((2, 3))).sum(), (leaf_w, leaf_x)
    )
    f, pull = cubic_cnn.weight_pullback(w, x)
    assert torch.allclose(pull(c), gw, atol=1e-11)
    assert torch.allclose(f, cubic_cnn.output(w, x), atol=1e-12)
    assert torch.allclose(cubic_cnn.input_gradient(w, x, c), gx, atol=1e-11)
    assert label_index(torch.tensor([-1.0, 1.0])).tolist() == [0, 1]
    basis = cubic_cnn.row_basis(w[0])
    assert torch.allclose(basis.mT @ basis, torch.eye(3, dtype=F64), atol=1e-12)
    assert torch.allclose(w[0] @ basis @ basis.mT, w[0], atol=1e-12)
    net = cubic_cnn.CubicCNN(w[0])
    outputs, pull_x = net.linearise(x[0])
    score = cubic_cnn.output(w[0], x[0])
    assert torch.allclose(outputs, torch.stack([-score / 2, score / 2], -1))
    assert torch.allclose(
        pull_x(torch.tensor([[1.0, 3.0]], dtype=F64).expand(5, 2)),
        cubic_cnn.input_gradient(w[0], x[0], torch.ones(5, dtype=F64)),
    )
