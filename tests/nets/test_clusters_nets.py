"""The cluster model's networks and descent: closed form against autograd, coefficients against weights,
copies against data."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from featscope.attacks.evaluate import evaluate
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.losses import CROSS_ENTROPY
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import (
    Descent,
    binary_direction,
    binary_step,
    coefficients,
    decomposed,
    fine_direction,
    fine_step,
    hidden_values,
    start_binary,
    start_fine,
)
from featscope.dynamics.cluster_observables import ClusterObservables
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.laws.compact import rotate
from featscope.nets import multiclass, two_layer
from featscope.nets.multiclass import MultiClass, MultiClassNet
from featscope.nets.two_layer import TwoLayer, TwoLayerNet, averaging, decoupled, in_span, output_weights
from featscope.papers.fa.clusters_built import along_proof


def _random(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=stream(seed, "test"), dtype=torch.float64)


@pytest.mark.parametrize("runs", [(), (3,)])
def test_two_layer_gradients_match_autograd(runs: tuple[int, ...]) -> None:
    m, d, n = 3, 11, 7
    w, b = _random((*runs, 2 * m, d), 0).requires_grad_(True), _random((*runs, 2 * m), 1).requires_grad_(True)
    x, y, a = _random((n, d), 2).requires_grad_(True), _random((n,), 3).sign(), output_weights(m)
    f = ((x @ w.mT + b[..., None, :]).relu() * a).sum(-1)
    loss = torch.nn.functional.softplus(-y * f).mean(-1).sum()
    gw, gb = torch.autograd.grad(loss, (w, b), retain_graph=True)
    net = TwoLayer(w.detach(), b.detach(), a)
    c, q = two_layer.point_coefficients(net, x.detach(), y)
    assert torch.allclose(-(c @ x.detach()) / n, gw, atol=1e-12)
    assert torch.allclose(-c.sum(-1) / n, gb, atol=1e-12)
    assert torch.allclose(q, y * f.detach(), atol=1e-12)
    if not runs:
        (gx,) = torch.autograd.grad(f.sum(), x)
        assert torch.allclose(two_layer.input_gradient(net, x.detach())[1], gx, atol=1e-12)


@pytest.mark.parametrize("h", [1, 3])
def test_multiclass_gradients_match_autograd(h: int) -> None:
    k, d, n = 4, 9, 6
    w, x = _random((k * h, d), 0).requires_grad_(True), _random((n, d), 1).requires_grad_(True)
    cluster, signs = (
        torch.tensor([0, 1, 2, 3, 0, 1]),
        torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64),
    )
    outputs = (x @ w.mT).relu().reshape(n, k, h).mean(-1)
    (gw,) = torch.autograd.grad(torch.nn.functional.cross_entropy(outputs, cluster), w, retain_graph=True)
    net = MultiClass(w.detach(), h)
    c, found = multiclass.point_coefficients(net, x.detach(), cluster)
    assert torch.allclose(found, outputs.detach(), atol=1e-12)
    assert torch.allclose(-(c @ x.detach()) / n, gw, atol=1e-12)
    score = torch.logsumexp(outputs[:, :2], -1) - torch.logsumexp(outputs[:, 2:], -1)
    (gx,) = torch.autograd.grad(score.sum(), x)
    slope = multiclass.readout_slope(outputs.detach(), signs)
    assert torch.allclose(multiclass.pull_inputs(net, x.detach() @ net.w.mT, slope), gx, atol=1e-12)


def test_modules_linearise_as_autograd_does() -> None:
    x, cotangent2, cotangent4 = _random((5, 8), 2), _random((5, 2), 3), _random((5, 4), 4)
    first = TwoLayerNet(TwoLayer(_random((6, 8), 0), _random((6,), 1), output_weights(3)))
    second = MultiClassNet(MultiClass(_random((4, 8), 5)))
    for module, cotangent in ((first, cotangent2), (second, cotangent4)):
        leaf = x.clone().requires_grad_(True)
        (wanted,) = torch.autograd.grad(module(leaf), leaf, cotangent)
        outputs, pull = module.linearise(x)
        assert torch.allclose(outputs, module(x).detach(), atol=1e-12)
        assert torch.allclose(pull(cotangent).detach(), wanted, atol=1e-12)


def test_relu_derivative_at_zero_is_one() -> None:
    net = TwoLayer(
        torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, dtype=torch.float64), output_weights(1)
    )
    c, _ = two_layer.point_coefficients(
        net, torch.ones(1, 3, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    )
    assert torch.equal(c[:, 0], torch.tensor([0.5, -0.5], dtype=torch.float64))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_readout_has_the_sign_of_the_probability_difference(seed: int) -> None:
    outputs, signs = (
        3 * _random((40, 5), seed),
        torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0], dtype=torch.float64),
    )
    literal = torch.softmax(outputs, -1) @ signs
    assert torch.equal(multiclass.readout(outputs, signs).sign(), literal.sign())


LAW = ClusterLaw(k=4, d=120, alpha=1.3, sigma=0.8)
N, M, ETA, STEPS = 30, 2, 0.02, 40


def _starts(drawn_directions: torch.Tensor) -> tuple[Descent, Descent]:
    bias = stream(0, "init", "bias")
    return start_binary(drawn_directions[: 2 * M], N, 1e-3, 1e-3, bias), start_fine(
        drawn_directions[2 * M :], N, 1e-3
    )


def _descend(train: ClusterBatch, start: Descent, fine: bool) -> Descent:
    step = fine_step(train, 1, ETA) if fine else binary_step(train, output_weights(M), ETA)
    for t in range(STEPS):
        start = step(start, t)
    return start


@pytest.mark.parametrize("fine", [False, True])
def test_coefficients_rebuild_the_weights(fine: bool) -> None:
    drawn = LAW.draw(N, 2 * M + 4, 0, compact=False)
    start = _starts(drawn.directions)[fine]
    done = _descend(drawn.train, start, fine)
    norms = LAW.noise_norms(drawn.train)
    found = coefficients(LAW, drawn.train, norms, done.c)
    rebuilt = decomposed(LAW, drawn.train, norms, start.w, found)
    assert float((rebuilt - done.w).abs().max() / done.w.abs().max()) < 1e-9
    # Corollary B.4, with α and σ: λ_j/(α‖μ_j‖²) is the sum of σ_i/(σ‖ξ_i‖²) over the cluster.
    for j in range(4):
        mine = drawn.train.cluster == j
        total = (found.noise[:, mine] / norms[mine]).sum(-1) / LAW.sigma
        assert torch.allclose(total, found.features[:, j] / (LAW.alpha * LAW.d), atol=1e-15)


@pytest.mark.parametrize("fine", [False, True])
def test_descent_on_the_rotated_copy_is_descent_on_the_data(fine: bool) -> None:
    drawn = LAW.draw(N, 2 * M + 4, 1, compact=False)
    noise = drawn.train.x - LAW.alpha * drawn.features[drawn.train.cluster]
    copy = rotate(torch.cat([drawn.features, noise, drawn.directions]))
    mu, xi, directions = copy.coordinates[:4], copy.coordinates[4 : 4 + N], copy.coordinates[4 + N :]
    train = ClusterBatch(LAW.alpha * mu[drawn.train.cluster] + xi, drawn.train.y, drawn.train.cluster)
    done = _descend(drawn.train, _starts(drawn.directions)[fine], fine)
    there = _descend(train, _starts(directions)[fine], fine)
    assert float((there.w @ copy.basis - done.w).abs().max() / done.w.abs().max()) < 1e-9
    assert torch.allclose(there.c, done.c, rtol=1e-9, atol=1e-15)


def test_a_pass_over_the_staircase_equals_a_pass_over_everything() -> None:
    drawn = ClusterLaw(k=4, d=10**6).draw(700, 12, 0, compact=True)
    dense = drawn.train._replace(reach=0)
    w, b, a = drawn.directions[:8], _random((8,), 3), output_weights(4)
    for one, two in zip(
        binary_direction(w, b, a, drawn.train), binary_direction(w, b, a, dense), strict=True
    ):
        assert torch.allclose(one, two, rtol=1e-11, atol=1e-12)
    for one, two in zip(
        fine_direction(drawn.directions[8:], 1, drawn.train),
        fine_direction(drawn.directions[8:], 1, dense),
        strict=True,
    ):
        assert torch.allclose(one, two, rtol=1e-11, atol=1e-12)
    assert torch.allclose(hidden_values(w, b, drawn.train), dense.x @ w.mT + b, rtol=1e-11, atol=1e-9)


def test_observables_are_what_they_say() -> None:
    drawn = LAW.draw(N, 2 * M + 4, 2, compact=False)
    done = _descend(drawn.train, _starts(drawn.directions)[0], False)
    a = output_weights(M)
    row = ClusterObservables(LAW, drawn.train).binary(done, a)
    q = drawn.train.y * two_layer.forward(TwoLayer(done.w, done.b, a), drawn.train.x)
    assert row["margin_min"] == pytest.approx(float(q.min()))
    slopes = torch.sigmoid(-q)
    assert row["slope_ratio"] == pytest.approx(float(slopes.max() / slopes.min()))
    lam = coefficients(LAW, drawn.train, LAW.noise_norms(drawn.train), done.c).features
    assert row["lambda_min"] == pytest.approx(
        float(torch.cat([lam[:M, :2].flatten(), lam[M:, 2:].flatten()]).min())
    )
    assert row["lambda_other"] == pytest.approx(
        float(torch.cat([lam[:M, 2:].flatten(), lam[M:, :2].flatten()]).abs().max())
    )
    ideal = row["lambda_mean"] * LAW.features()[:2].sum(0) / LAW.d  # type: ignore[operator]
    gaps = [float(torch.linalg.vector_norm(done.w[r] - ideal)) * LAW.d**0.5 for r in range(M)]
    assert row["deviation"] >= max(gaps) - 1e-12  # type: ignore[operator]


def test_built_networks_are_their_formulas() -> None:
    law = ClusterLaw(k=5, d=64)
    mu, signs, x = law.features(), law.signs(), _random((20, 64), 7) * 4
    plus, minus = mu[:3].mean(0), mu[3:].mean(0)
    wanted = 3 * (x @ plus).relu() - 2 * (x @ minus).relu()
    assert torch.allclose(two_layer.forward(averaging(mu, signs), x), wanted, atol=1e-9)
    wanted = (x @ mu[:3].mT - 32).relu().sum(-1) - (x @ mu[3:].mT - 32).relu().sum(-1)
    assert torch.allclose(two_layer.forward(decoupled(mu, signs, 64), x), wanted, atol=1e-9)
    outputs = multiclass.logits(multiclass.fragile(mu, signs), x)
    assert torch.allclose(outputs[:, 4], (x @ (mu[4] + mu[3] + mu[4])).relu(), atol=1e-9)


def test_restriction_to_the_span_keeps_outputs() -> None:
    net, x = TwoLayer(_random((6, 40), 0), _random((6,), 1), output_weights(3)), _random((9, 40), 2)
    small, points, basis = in_span(net, x)
    assert basis.shape == (6, 40)
    assert torch.allclose(two_layer.forward(small, points), two_layer.forward(net, x), atol=1e-11)
    doubled = TwoLayer(torch.cat([net.w[:3], net.w[:3]]), net.b, net.a)
    assert in_span(doubled, x)[2].shape[0] == 3


def test_the_general_evaluator_and_attack_run_on_these_networks() -> None:
    law = ClusterLaw(k=4, d=100)
    mu, signs = law.features(), law.signs()
    batch = law.sample(60, stream(0, "data", "test"))
    labels = (batch.y > 0).long()
    nets = ((TwoLayerNet(averaging(mu, signs)), labels), (MultiClassNet(MultiClass(mu / 20)), batch.cluster))
    for net, labels in nets:
        strong = evaluate(net, batch.x, labels, Threat("L2", 40.0, 1), [PGD(steps=20)], stream(0, "attack"))
        weak = evaluate(net, batch.x, labels, Threat("L2", 0.0, 1), [PGD(steps=5)], stream(0, "attack"))
        assert weak.accuracy == float(weak.clean.double().mean()) > 0.9
        assert strong.accuracy < 0.1


def test_losses_fall_along_descent() -> None:
    drawn = LAW.draw(N, 2 * M + 4, 3, compact=False)
    first = _starts(drawn.directions)[1]
    done = _descend(drawn.train, first, True)
    before = CROSS_ENTROPY.value(
        multiclass.logits(MultiClass(first.w), drawn.train.x), drawn.train.cluster
    ).mean()
    after = CROSS_ENTROPY.value(
        multiclass.logits(MultiClass(done.w), drawn.train.x), drawn.train.cluster
    ).mean()
    assert float(after) < 0.5 * float(before)


def test_the_slope_of_a_confident_point_keeps_its_digits() -> None:
    outputs = torch.tensor([[30.0, 0.0, 1.0]])
    found = multiclass.cross_entropy_slope(outputs, torch.tensor([0]))
    wanted = CROSS_ENTROPY.grad(outputs.double(), torch.tensor([0]))
    assert float(found[0, 0]) == pytest.approx(-float(wanted[0, 1] + wanted[0, 2]), rel=1e-5)
    assert float(CROSS_ENTROPY.grad(outputs, torch.tensor([0]))[0, 0]) == 0.0


def test_the_proofs_direction_fools_the_fragile_network_where_geometry_says() -> None:
    """Without noise: t(Σ₊ − Σ₋) brings own outputs to 2d − td(k/2 + 1) and rivals' to td(k/2 + 1)."""
    law = ClusterLaw(k=8, d=64, sigma=0.0)
    net = multiclass.fragile(law.features(), law.signs())
    found = along_proof(law, net, law.sample(20, seed=0), tried=4000)
    # k/2 rivals reach log-sum-exp parity a little before their outputs reach the own one
    assert found.tolist() == pytest.approx([math.sqrt(8 * 64) / 5] * 20, rel=0.02)
