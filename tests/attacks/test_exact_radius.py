"""Exact radii against brute force, linear networks and attacks; certificates re-verified and tampered
with."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from featscope.attacks.minimal import MinimalPGD, binary_objective, own_loss_objective, readout_objective
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.two_layer_radius import (
    LIMIT,
    _agree,
    _Halves,
    _rational,
    bracket_radii,
    exact_radii,
    lipschitz,
    subsets,
)
from featscope.certificates.fa import verify
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.laws.clusters import ClusterLaw
from featscope.nets import multiclass
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import TwoLayer, averaging, decoupled, forward, output_weights


def _random(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=stream(seed, "test"), dtype=torch.float64)


def _labelled(net: TwoLayer, x: torch.Tensor) -> torch.Tensor:
    """Labels that the network gets right."""
    return torch.where(forward(net, x) > 0, 1.0, -1.0).double()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 3))
def test_two_dimensional_networks_against_a_fine_polar_search(seed: int, m: int) -> None:
    net = TwoLayer(_random((2 * m, 2), seed), 0.7 * _random((2 * m,), seed + 1), output_weights(m))
    x = _random((4, 2), seed + 2)
    y = _labelled(net, x)
    found = exact_radii(net, x, y)
    angles = torch.arange(0, 2 * math.pi, 2 * math.pi / 360, dtype=torch.float64)
    lengths = torch.arange(0.005, 8, 0.005, dtype=torch.float64)
    disc = lengths[:, None, None] * torch.stack([angles.cos(), angles.sin()], -1)
    for i in range(4):
        f = forward(net, x[i] + disc)
        wrong = ((f <= 0) if y[i] > 0 else (f > 0)).any(-1)
        seen = float(lengths[wrong.int().argmax()]) if wrong.any() else math.inf
        # The search can only be too far out: a sharp corner of the region may lie between two of its angles.
        assert found.lower[i] <= seen + 1e-9
        if seen < 7:
            assert seen <= float(found.upper[i]) * 1.1 + 0.05


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 5), d=st.integers(2, 30))
def test_certificates_prove_what_is_claimed(seed: int, m: int, d: int) -> None:
    net = TwoLayer(_random((2 * m, d), seed), 0.3 * _random((2 * m,), seed + 1), output_weights(m))
    x = _random((5, d), seed + 2)
    y = _labelled(net, x)
    found = exact_radii(net, x, y)
    proof = verify(
        *(t.numpy() for t in net), x.numpy(), y.numpy(), found.delta.numpy(), found.certificate.numpy()
    )
    for i in range(5):
        if math.isfinite(float(found.upper[i])):
            assert proof.lower[i] == pytest.approx(float(found.lower[i]), rel=1e-9)
            assert proof.upper[i] == pytest.approx(float(found.upper[i]), rel=1e-5)
            if d >= 2 * m:
                assert float(found.upper[i] - found.lower[i]) <= 1e-6 * float(found.upper[i])


def test_a_tampered_certificate_proves_less() -> None:
    net = TwoLayer(_random((6, 20), 0), _random((6,), 1), output_weights(3))
    x = _random((6, 20), 2)
    y = _labelled(net, x)
    found = exact_radii(net, x, y)
    arrays = [t.numpy() for t in net]
    honest = verify(*arrays, x.numpy(), y.numpy(), found.delta.numpy(), found.certificate.numpy())
    outside = verify(
        *arrays, x.numpy(), y.numpy(), found.delta.numpy(), 5 * np.ones_like(found.certificate.numpy())
    )
    short = verify(*arrays, x.numpy(), y.numpy(), 0.9 * found.delta.numpy(), found.certificate.numpy())
    assert (outside.lower == 0).all()
    assert np.isinf(short.upper).all()
    assert np.isfinite(honest.upper).all()


def test_one_neuron_a_class_is_a_half_space_where_both_are_active() -> None:
    d = 12
    w = torch.zeros(2, d, dtype=torch.float64)
    w[0, 0], w[1, 1] = 3.0, 4.0
    net = TwoLayer(w, torch.zeros(2, dtype=torch.float64), output_weights(1))
    x = torch.zeros(1, d, dtype=torch.float64)
    x[0, 0], x[0, 1] = 10.0, 2.0
    # f = 3x₀ − 4x₁ = 22, ‖∇f‖ = 5; the other piece, x₀ ≤ 0, is 10 away.
    assert float(exact_radii(net, x, torch.ones(1, dtype=torch.float64)).upper[0]) == pytest.approx(22 / 5)


def test_sgn_zero_is_minus_one_on_the_decoupled_network() -> None:
    law = ClusterLaw(k=6, d=400)
    mu, signs = law.features(), law.signs()
    found = exact_radii(decoupled(mu, signs, law.d), mu, signs)
    assert torch.allclose(
        found.upper[:3], torch.full((3,), math.sqrt(400) / 2, dtype=torch.float64), rtol=1e-6
    )
    assert torch.allclose(found.upper[3:], torch.full((3,), math.sqrt(200.0), dtype=torch.float64), rtol=1e-6)


def test_averaging_network_flips_at_root_d_over_k() -> None:
    law = ClusterLaw(k=8, d=3200)
    found = exact_radii(averaging(law.features(), law.signs()), law.features(), law.signs())
    # f(μ_j) = d with gradient norm √(kd) where both neurons are on.
    assert torch.allclose(found.upper, torch.full((8,), math.sqrt(3200 / 8), dtype=torch.float64), rtol=1e-6)


def test_radii_turn_with_rotations_and_scale_with_the_input() -> None:
    net, x = TwoLayer(_random((8, 9), 0), _random((8,), 1), output_weights(4)), _random((6, 9), 2)
    y = _labelled(net, x)
    base = exact_radii(net, x, y).lower
    turn = torch.linalg.qr(_random((9, 9), 3))[0]
    assert torch.allclose(exact_radii(net._replace(w=net.w @ turn), x @ turn, y).lower, base, rtol=1e-7)
    assert torch.allclose(
        exact_radii(TwoLayer(net.w * 1e-6, net.b * 1e-6, net.a), x, y).lower, base, rtol=1e-7
    )
    assert torch.allclose(exact_radii(net._replace(w=net.w / 1e4), x * 1e4, y).lower, base * 1e4, rtol=1e-7)


def test_wrong_points_have_radius_zero() -> None:
    net, x = TwoLayer(_random((4, 6), 0), _random((4,), 1), output_weights(2)), _random((5, 6), 2)
    found = exact_radii(net, x, -_labelled(net, x))
    assert not found.correct.any()
    assert not found.upper.any()


def test_identical_neurons_are_no_obstacle() -> None:
    one = _random((2, 7), 0)
    net = TwoLayer(one.repeat_interleave(4, 0), torch.zeros(8, dtype=torch.float64), output_weights(4))
    merged = TwoLayer(one, torch.zeros(2, dtype=torch.float64), output_weights(1))
    x = _random((10, 7), 1)
    y = _labelled(net, x)
    assert torch.allclose(exact_radii(net, x, y).upper, exact_radii(merged, x, y).upper, rtol=1e-6)


def test_attacks_never_beat_the_exact_radius_and_come_close() -> None:
    net = TwoLayer(_random((8, 15), 0), 0.5 * _random((8,), 1), output_weights(4))
    x = _random((40, 15), 2)
    y = _labelled(net, x)
    exact = exact_radii(net, x, y)
    attacked = MinimalPGD(steps=60, restarts=8, rounds=12, reach=20.0)(
        binary_objective(net, y), x, stream(0, "attack")
    )
    ok = exact.upper.isfinite() & (exact.upper < 20)
    assert (attacked.radius[ok] >= exact.lower[ok] * (1 - 1e-9)).all()
    assert float((attacked.radius[ok] / exact.lower[ok]).median()) < 1.03
    hit = attacked.radius.isfinite() & (attacked.radius > 0)
    moved = forward(net, (x + attacked.delta)[hit])
    assert torch.where(y[hit] > 0, moved <= 0, moved > 0).all()
    assert torch.allclose(torch.linalg.vector_norm(attacked.delta[hit], dim=-1), attacked.radius[hit])


def test_beyond_the_limit_there_is_a_bracket() -> None:
    m = LIMIT + 1
    net, x = TwoLayer(_random((2 * m, 30), 0), _random((2 * m,), 1), output_weights(m)), _random((5, 30), 2)
    y = _labelled(net, x)
    with pytest.raises(BadInput, match=f"m={m}"):
        exact_radii(net, x, y)
    small = TwoLayer(net.w[[0, 1, m, m + 1]], net.b[[0, 1, m, m + 1]], output_weights(2))
    labels = _labelled(small, x)
    exact = exact_radii(small, x, labels)
    low, high = bracket_radii(small, x, labels, exact.upper)
    assert (low <= exact.lower + 1e-12).all()
    assert torch.equal(high, exact.upper)
    grads = torch.stack(
        [(small.a.abs()[:, None] * small.w).T @ torch.from_numpy(bits - 1e-9) for bits in subsets(4)]
    )
    assert lipschitz(small) >= float(torch.linalg.vector_norm(grads, dim=-1).max()) - 1e-6


def _fine(
    seed: int, k: int = 4, d: int = 25
) -> tuple[MultiClass, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    law = ClusterLaw(k=k, d=d)
    net = MultiClass(
        law.features()
        * (0.8 + 0.4 * torch.rand(k, 1, generator=stream(seed, "scale"), dtype=torch.float64))
        / 5
    )
    net = MultiClass(net.w + 0.02 * _random((k, d), seed))
    batch = law.sample(20, stream(seed, "data", "test"))
    return net, law.signs(), batch.x, batch.y, batch.cluster


@pytest.mark.parametrize("seed", range(4))
def test_certified_radius_is_below_every_attack_and_not_far(seed: int) -> None:
    net, signs, x, y, cluster = _fine(seed)
    pgd = MinimalPGD(steps=80, restarts=6, rounds=12, reach=30.0)
    attacked = torch.minimum(
        pgd(readout_objective(net, signs, y), x, stream(0, "attack")).radius,
        pgd(own_loss_objective(net, signs, y, cluster), x, stream(1, "attack")).radius,
    )
    lower = certified_radii(net, signs, x, y, cluster, attacked)
    good = attacked.isfinite() & (attacked > 0)
    assert (lower <= attacked).all()
    assert float((lower[good] / attacked[good]).median()) > 0.85
    coarse = certified_radii(net, signs, x, y, cluster, attacked, bins=60)
    assert (coarse <= attacked).all()


def test_certified_radius_against_sampling_on_its_sphere() -> None:
    net, signs, x, y, cluster = _fine(7, k=3, d=6)
    found = MinimalPGD(steps=60, restarts=4, rounds=12, reach=20.0)(
        readout_objective(net, signs, y), x, stream(0, "attack")
    ).radius
    lower = certified_radii(net, signs, x, y, cluster, found)
    directions = torch.nn.functional.normalize(_random((20000, 6), 9), dim=-1)
    for i in range(len(y)):
        if lower[i] > 0:
            values = y[i] * multiclass.readout(
                multiclass.logits(net, x[i] + 0.999 * lower[i] * directions), signs
            )
            assert float(values.min()) > 0


def test_several_neurons_a_class_fall_back_to_a_lipschitz_bound() -> None:
    net = MultiClass(_random((8, 10), 0), 2)
    signs, x = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64), _random((15, 10), 1)
    score = multiclass.readout(multiclass.logits(net, x), signs)
    y, cluster = torch.where(score > 0, 1.0, -1.0).double(), torch.where(score > 0, 0, 2)
    attacked = MinimalPGD(steps=60, restarts=5, rounds=12, reach=20.0)(
        readout_objective(net, signs, y), x, stream(0, "attack")
    ).radius
    lower = certified_radii(net, signs, x, y, cluster, attacked)
    assert (lower > 0).all()
    assert (lower <= attacked + 1e-12).all()


def test_subsets_are_the_bits_lowest_first() -> None:
    assert subsets(0).shape == (1, 0)
    assert subsets(2).tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert subsets(3)[6].tolist() == [0, 1, 1]
    assert subsets(3).shape == (8, 3)


def test_certificates_are_zero_where_a_class_has_fewer_neurons_and_at_wrong_points() -> None:
    # One neuron for y = +1 and three against it: vectors of one entry for eight sets, or of three for two.
    net = TwoLayer(_random((4, 5), 0), _random((4,), 1), torch.tensor([1.0, -1.0, -1.0, -1.0]).double())
    x = 3 * _random((40, 5), 2)
    y = _labelled(net, x)
    y[::4] *= -1
    found = exact_radii(net, x, y)
    positive, wrong = found.correct & (y > 0), ~found.correct
    negative = found.correct & (y < 0)
    assert min(int(kind.sum()) for kind in (positive, negative, wrong)) >= 4
    assert found.certificate.shape == (40, 8, 3)
    assert found.certificate[positive][..., 0].any()
    assert not found.certificate[positive][..., 1:].any()
    assert found.certificate[negative][:, 1].any()
    assert not found.certificate[negative][:, 2:].any()
    # No point has P < 0, so the empty set needs no vector.
    assert not found.certificate[negative][:, 0].any()
    assert not found.certificate[wrong].any()
    assert found.exact.all()


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_point_on_the_boundary_is_left_by_a_step_in_units_of_the_data(unit: float) -> None:
    # f = ReLU(x₀) − ReLU(x₁) is 0, which counts as −1; the nearest point with f > 0 is as near as one likes.
    net = TwoLayer(torch.eye(2).double(), torch.zeros(2).double(), output_weights(1))
    x = torch.full((1, 2), unit, dtype=torch.float64)
    found = exact_radii(net, x, torch.tensor([-1.0]).double())
    assert found.exact.all()
    assert 0 < float(found.upper[0]) <= 1e-12 * unit
    assert float(forward(net, x + found.delta)[0]) > 0


def test_bounds_agree_to_a_millionth_of_the_radius_or_a_thousandth_of_that_of_the_data() -> None:
    lower = np.array([2.0, 2.0, 0.0, 0.0, 0.0, 0.0, math.inf])
    upper = np.array([2.0 * (1 + 0.9e-6), 2.0 * (1 + 1.1e-6), 0.9e-9, 1.1e-9, 0.9e-6, 1.1e-6, math.inf])
    length = np.array([1e-3, 1e-3, 1.0, 1.0, 1e3, 1e3, 1.0])
    assert _agree(lower, upper, length).tolist() == [True, False, True, False, True, False, True]


def test_as_many_neurons_as_the_limit_are_enumerated(monkeypatch: pytest.MonkeyPatch) -> None:
    """f = ReLU(x₁) + ReLU(x₂) at (2, −3) has radius 2."""
    net = TwoLayer(torch.eye(2), torch.zeros(2), torch.ones(2))
    x, y = torch.tensor([[2.0, -3.0]]), torch.ones(1)
    monkeypatch.setattr("featscope.attacks.two_layer_radius.LIMIT", 2)
    assert exact_radii(net, x, y).upper.tolist() == pytest.approx([2.0], rel=1e-5)
    monkeypatch.setattr("featscope.attacks.two_layer_radius.LIMIT", 1)
    with pytest.raises(BadInput):
        exact_radii(net, x, y)


def test_longer_floats_enclose_more_tightly_and_both_hold_the_value() -> None:
    """f of a net whose terms nearly cancel, against rational arithmetic."""
    w = torch.tensor([[1.0, 2.0], [3.0, -1.0], [2.0, 0.5]], dtype=torch.float64)
    net = TwoLayer(
        w,
        torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64),
        torch.tensor([0.1, 0.2, -0.35], dtype=torch.float64),
    )
    whole, x = _Halves(net), np.array([0.7, 0.4])
    true = float(_rational(*whole.whole, x))
    widths = []
    for long in (False, True):
        low, high, explained = whole.enclose(x, long)
        assert low <= true <= high
        widths.append(high - low)
        size = np.abs(net.a.numpy()) @ (np.abs(w.numpy()) @ np.abs(x) + np.abs(net.b.numpy()))
        assert explained == pytest.approx(8 * np.finfo(np.float64).eps * size, rel=1e-6, abs=0)
    assert widths[1] < widths[0] / 100
    assert whole.enclose(x) == whole.enclose(x, False)


def test_the_unit_of_length_is_that_of_points_and_biases() -> None:
    """Σ|a||b| ÷ Σ|a|‖w‖ beside ‖x‖; where there are no weights ‖x‖ alone, and 1 where that is 0, too."""
    w, b = torch.tensor([[3.0, 4.0], [0.0, 2.0]]).double(), torch.tensor([1.0, -5.0]).double()
    a = torch.tensor([2.0, -1.0]).double()
    x = np.array([0.6, 0.8])
    assert _Halves(TwoLayer(w, b, a)).length(x) == pytest.approx(1 + (2 + 5) / (2 * 5 + 2))
    nothing = _Halves(TwoLayer(0 * w, b, a))
    assert nothing.length(x) == pytest.approx(1.0)
    assert nothing.length(3 * x) == pytest.approx(3.0)
    assert nothing.length(0 * x) == 1.0
