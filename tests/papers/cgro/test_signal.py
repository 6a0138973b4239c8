"""CGRO's signal/noise model: law, network, attack, certificate, recursions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from featscope.attacks.cubic_certificate import certified_margin
from featscope.attacks.evaluate import evaluate
from featscope.attacks.gta import GTA, linear_target, transferred
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.linearise import linearise
from featscope.core.losses import CROSS_ENTROPY
from featscope.core.signs import label_index
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import (
    CubicWeights,
    Kernel,
    Objective,
    descent_step,
    recursion_step,
    steepest_ball,
    weakened,
)
from featscope.laws.compact import rotate
from featscope.laws.signal import Instance, SignalBatch, SignalLaw, SignalSetting, stack
from featscope.nets.cubic_cnn import CubicCNN, input_gradient, output, reduce, weight_pullback

F64 = torch.float64


def draws(law: SignalLaw, n: int, m: int, seeds: int, compact: bool = False) -> Instance:
    draw = law.compact_instance if compact else law.instance
    return stack([draw(n, m, law.d**-0.5, stream(s, "data"), stream(s, "init")) for s in range(seeds)])


def test_a_point_has_one_signal_patch_and_noise_orthogonal_to_it() -> None:
    law = SignalLaw(d=300, patches=5)
    batch = law.sample(400, stream(0, "data"))
    along = batch.x[..., 0]
    assert ((along != 0).sum(-1) == 1).all()
    assert torch.equal(along.gather(1, batch.position[:, None])[:, 0], law.strength * batch.y)
    noise = batch.noise()[..., 1:]
    assert abs(float(noise.std()) / law.noise_scale - 1) < 0.01
    assert stats.chisquare(torch.bincount(batch.position, minlength=5).numpy()).pvalue > 1e-3
    assert abs(float(batch.y.mean())) < 0.2


def test_the_papers_powers_and_free_values() -> None:
    law = SignalLaw(d=1024)
    assert law.strength == pytest.approx(5.618, abs=1e-3)
    assert law.noise_scale == pytest.approx(0.02936, abs=1e-5)
    assert law.residual == pytest.approx(0.00451, abs=1e-5)
    assert law.radius == pytest.approx((1 - law.residual) * law.strength)
    assert law.critical_samples(1 / 32) == pytest.approx(7800, rel=0.01)
    assert SignalLaw(d=1024, alpha=2.0, sigma=0.1, gap=0.25).radius == pytest.approx(1.5)
    with pytest.raises(BadInput, match="1−γ must lie between"):
        SignalLaw(d=2, gap_logs=-9.0, gap=None).replace(d=2, gap_logs=9.0)


def test_check_reports_every_assumption_with_its_numbers() -> None:
    law = SignalLaw(d=512, gap_logs=0.0)
    found = {c.name: c for c in law.check(SignalSetting(80, 512**-0.5, 0.1, 0.9))}
    assert not found["samples"].met
    assert found["samples"].value == pytest.approx(80 / law.critical_samples(512**-0.5))
    assert found["radius-same"].met
    assert not found["radius-apart"].met
    assert {c.name: c for c in law.check(SignalSetting(1, 512**-0.5, 0.1, 0.9))}["samples"].met
    assert not {c.name: c for c in law.check(SignalSetting(1, 512**-0.5, 100.0, 0.9))}["step"].met


def test_class_distance_is_the_root_mean_square_distance() -> None:
    law = SignalLaw(d=200)
    batch = law.sample(600, stream(3, "data"))
    apart = torch.cdist(batch.x.flatten(1), batch.x.flatten(1)).square()
    opposite = batch.y[:, None] != batch.y[None]
    same = batch.position[:, None] == batch.position[None]
    for flag in (True, False):
        mean = apart[opposite & (same if flag else ~same)].mean().sqrt()
        assert float(mean) == pytest.approx(law.class_distance(flag), rel=0.01)


def test_the_compact_copy_has_the_law_of_the_full_instance() -> None:
    """Kolmogorov–Smirnov on inner products: noise with noise, noise with weights, weights with w*, fresh
    noise with weights."""
    law = SignalLaw(d=120)
    full, copy = draws(law, 3, 2, 300), draws(law, 3, 2, 300, compact=True)
    assert copy.w.shape[-1] == 1 + 3 * 3 + 2
    for measure in (
        lambda i: Kernel.of(i).gram[:, 0, 1],
        lambda i: Kernel.of(i).gram[:, 2, 2],
        lambda i: Kernel.of(i).v0[:, 1, 4],
        lambda i: i.w[:, 0, 0],
        lambda i: (i.w @ i.w.mT)[:, 0, 1],
    ):
        assert stats.ks_2samp(measure(full).numpy(), measure(copy).numpy()).pvalue > 1e-3
    fresh = [
        torch.cat(
            [(law.fresh(3, i.w[k], stream(k, "test")).noise() @ i.w[k].mT).flatten()[:3] for k in range(300)]
        )
        for i in (full, copy)
    ]
    assert stats.ks_2samp(fresh[0].numpy(), fresh[1].numpy()).pvalue > 1e-3


def test_closed_form_gradients_match_autograd() -> None:
    rng = stream(0, "net")
    w = torch.randn(3, 4, 7, generator=rng, dtype=F64, requires_grad=True)
    x = torch.randn(3, 5, 2, 7, generator=rng, dtype=F64, requires_grad=True)
    c = torch.randn(3, 5, generator=rng, dtype=F64)
    f, pull = weight_pullback(w, x)
    torch.testing.assert_close(f, output(w, x), rtol=0, atol=1e-12)
    dw, dx = torch.autograd.grad((c * output(w, x)).sum(), (w, x))
    torch.testing.assert_close(pull(c), dw, rtol=0, atol=1e-10)
    torch.testing.assert_close(input_gradient(w, x, c), dx, rtol=0, atol=1e-10)


def test_the_module_has_the_logistic_loss_and_the_closed_pullback() -> None:
    rng = stream(1, "net")
    net = CubicCNN(torch.randn(4, 6, generator=rng, dtype=F64))
    x = torch.randn(9, 3, 6, generator=rng, dtype=F64)
    y = 2.0 * torch.randint(0, 2, (9,), generator=rng).double() - 1
    expected = torch.nn.functional.softplus(-y * net.score(x))
    torch.testing.assert_close(CROSS_ENTROPY.value(net(x), label_index(y)), expected, rtol=0, atol=1e-12)
    cotangent = torch.randn(9, 2, generator=rng, dtype=F64)
    _, pull = net.linearise(x)
    _, slow = linearise(net.forward, x)
    torch.testing.assert_close(pull(cotangent), slow(cotangent), rtol=0, atol=1e-10)


def test_reduction_to_the_row_space_changes_no_output_and_rotation_neither() -> None:
    rng = stream(2, "net")
    w, x = torch.randn(3, 20, generator=rng, dtype=F64), torch.randn(8, 4, 20, generator=rng, dtype=F64)
    small, points, basis = reduce(w, x)
    assert small.shape == (3, 3)
    torch.testing.assert_close(output(small, points), output(w, x), rtol=0, atol=1e-10)
    q = torch.linalg.qr(torch.randn(20, 20, generator=rng, dtype=F64)).Q
    torch.testing.assert_close(output(w @ q, x @ q), output(w, x), rtol=0, atol=1e-9)
    delta = torch.randn(8, 4, 20, generator=rng, dtype=F64)
    kept = delta @ basis
    torch.testing.assert_close(output(small, points + kept), output(w, x + delta), rtol=0, atol=1e-9)
    assert (kept.flatten(1).norm(dim=-1) <= delta.flatten(1).norm(dim=-1) + 1e-12).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.001, 2.0))
def test_the_certificate_is_below_every_attack(seed: int, radius: float) -> None:
    rng = stream(seed, "cert")
    w, x = torch.randn(3, 5, generator=rng, dtype=F64), torch.randn(6, 2, 5, generator=rng, dtype=F64)
    y = torch.sign(output(w, x))
    sure = certified_margin(w, x, y, radius)
    threat = Threat("L2", radius, 2)
    found = PGD(steps=30, restarts=2)(CubicCNN(w), x, label_index(y), threat, rng)
    assert (sure <= y * output(w, x + found) + 1e-9).all()
    assert (sure <= y * output(w, x + threat.sample(x, rng)) + 1e-9).all()
    assert (certified_margin(w, x, y, radius / 2) >= sure - 1e-9).all()


def test_the_certificate_is_sharp_at_small_radius_and_for_one_neuron() -> None:
    rng = stream(5, "cert")
    w, x = torch.randn(4, 6, generator=rng, dtype=F64), torch.randn(5, 3, 6, generator=rng, dtype=F64)
    y = torch.sign(output(w, x))
    torch.testing.assert_close(certified_margin(w, x, y, 0.0), y * output(w, x), rtol=0, atol=1e-10)
    torch.testing.assert_close(certified_margin(w, x, y, 1e-9), y * output(w, x), rtol=0, atol=1e-6)
    one, point = torch.tensor([[2.0, 0.0]], dtype=F64), torch.tensor([[[3.0, 1.0]]], dtype=F64)
    exact = (2 * 3 - 2 * 0.5) ** 3
    assert float(certified_margin(one, point, torch.ones(1, dtype=F64), 0.5)[0]) == pytest.approx(
        exact, rel=0.02
    )


def test_fixed_patches_do_not_count_in_the_certificate() -> None:
    rng = stream(6, "cert")
    w, x = torch.randn(2, 4, generator=rng, dtype=F64), torch.randn(3, 2, 4, generator=rng, dtype=F64)
    y = torch.ones(3, dtype=F64)
    none = certified_margin(w, x, y, 0.5, torch.zeros(2))
    torch.testing.assert_close(none, output(w, x), rtol=0, atol=1e-10)
    assert (
        certified_margin(w, x, y, 0.5, torch.tensor([1.0, 0.0])) >= certified_margin(w, x, y, 0.5) - 1e-9
    ).all()


def test_gta_with_the_linear_target_leaves_one_minus_gamma_of_the_signal() -> None:
    law = SignalLaw(d=50)
    batch = law.sample(20, stream(0, "data"))
    attack = GTA(linear_target, 1 - law.residual)
    threat = Threat("L2", law.radius, 2)
    delta = attack(
        CubicCNN(torch.zeros(1, 50, dtype=F64)), batch.x, label_index(batch.y), threat, stream(0, "a")
    )
    torch.testing.assert_close(batch.x + delta, weakened(batch.x, law.residual), rtol=0, atol=1e-12)
    assert threat.contains(delta, batch.x).all()
    assert torch.equal(transferred(batch.x, batch.y, law), batch.x + delta)


def test_gta_keeps_the_axis_of_runs_and_only_touches_the_signal() -> None:
    law = SignalLaw(d=40)
    one = draws(law, 4, 2, 3)
    moved = transferred(one.train.x, one.train.y, law)
    torch.testing.assert_close(moved, weakened(one.train.x, law.residual), rtol=0, atol=1e-12)
    assert torch.equal(moved[..., 1:], one.train.x[..., 1:])


def test_gta_printed_and_geometric_differ_by_the_targets_slope() -> None:
    slope = 3.0

    def target(x: torch.Tensor) -> torch.Tensor:
        g = slope * x[..., 0, 0]
        return torch.stack([-g / 2, g / 2], -1)

    x = torch.full((1, 1, 2), 0.5, dtype=F64)
    wide = Threat("L2", 100.0, 2)
    steps = {
        kind: GTA(target, 0.5, kind)(target, x, torch.ones(1).long(), wide, stream(0, "a"))
        for kind in ("printed", "geometric")
    }
    assert float(steps["geometric"][0, 0, 0]) == pytest.approx(-0.25)
    assert float(steps["printed"][0, 0, 0]) == pytest.approx(-0.25 * slope)
    with pytest.raises(BadInput, match="γ must be positive"):
        GTA(target, 0.0)


def test_descent_is_gradient_descent_on_the_objective() -> None:
    law = SignalLaw(d=30)
    one = draws(law, 4, 3, 2)
    x, y = one.train.x, one.train.y
    attacked = weakened(x, law.residual)
    step = descent_step(x, y, 0.3, 0.7, attacked)
    w = one.w.clone().requires_grad_(True)
    plus = torch.nn.functional.softplus
    loss = (0.3 * plus(-y * output(w, x)) + 0.7 * plus(-y * output(w, attacked))).mean(-1).sum()
    (gradient,) = torch.autograd.grad(loss, w)
    torch.testing.assert_close(step(CubicWeights(one.w), 0).w, one.w - 0.3 * gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("compact", [False, True])
def test_the_recursions_are_descent(compact: bool) -> None:
    law = SignalLaw(d=200)
    one = draws(law, 8, 5, 2, compact)
    x, y = one.train.x, one.train.y
    kernel, objective = Kernel.of(one), Objective.of(law, 8, 0.2, 0.8)
    state, weights = kernel.start(8), CubicWeights(one.w)
    recursion, descent = (
        recursion_step(kernel, objective),
        descent_step(x, y, 0.2, 0.8, weakened(x, law.residual)),
    )
    for t in range(1500):
        state, weights = recursion(state, t), descent(weights, t)
    assert float((weights.w[..., 0] - state.u).abs().max()) < 1e-10
    assert float((weights.w @ kernel.noise.mT - state.v).abs().max()) < 1e-10
    assert float((kernel.weights(one.w, state) - weights.w).abs().max()) < 1e-10
    rates = objective.rates(state.u, state.v)
    margin = y * output(weights.w, x)
    torch.testing.assert_close(rates.signal[:, None] + rates.noise, margin, rtol=0, atol=1e-9)
    assert (rates.noise > 1).any()


def test_crossing_times_are_first_crossings() -> None:
    law = SignalLaw(d=200)
    kernel, objective = Kernel.of(draws(law, 5, 5, 1)), Objective.of(law, 5, 0.2, 0.8)
    state, step = kernel.start(5), recursion_step(kernel, objective)
    first: dict[int, int] = {}
    for t in range(1500):
        rates = objective.rates(state.u, state.v)
        for i in (rates.noise[0] >= 1).nonzero()[:, 0].tolist():
            first.setdefault(i, t)
        state = step(state, t)
    assert first
    assert {i: t for i, t in enumerate(state.memorised_at[0].tolist()) if t >= 0} == first


def test_a_rotated_copy_of_given_data_trains_the_same() -> None:
    law = SignalLaw(d=100)
    one = draws(law, 3, 2, 1)
    noise, w = one.train.noise()[0].flatten(0, 1), one.w[0]
    copy = rotate(torch.cat([noise[:, 1:], w[:, 1:]])).coordinates
    signs = one.train.y[0].repeat_interleave(3)[:, None]
    gram = (signs * copy[:9]) @ (signs * copy[:9]).mT
    torch.testing.assert_close(gram, Kernel.of(one).gram[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(copy[9:] @ (signs * copy[:9]).mT, Kernel.of(one).v0[0], rtol=0, atol=1e-12)


def test_without_attacked_points_nothing_is_memorised_and_fresh_points_stay_right() -> None:
    """λ = 0: the signal fits the clean points, and the noise components hardly move."""
    law = SignalLaw(d=400)
    one = draws(law, 6, 6, 1)
    kernel, objective = Kernel.of(one), Objective.of(law, 6, 0.1, 0.0)
    state, step = kernel.start(6), recursion_step(kernel, objective)
    for t in range(1500):
        state = step(state, t)
    rates = objective.rates(state.u, state.v)
    assert float(rates.signal) > 5
    assert float(rates.noise.abs().max()) < 0.5


def test_training_attacks_stay_in_the_ball_and_raise_the_loss() -> None:
    law = SignalLaw(d=60)
    one = draws(law, 5, 4, 2)
    for steps in (1, 5):
        moved = steepest_ball(0.3, steps)(one.w * 5, one.train.x, one.train.y)
        assert float((moved - one.train.x).flatten(-2).norm(dim=-1).max()) <= 0.3 * (1 + 1e-12)
        assert (
            one.train.y * output(one.w * 5, moved) <= one.train.y * output(one.w * 5, one.train.x) + 1e-12
        ).all()


def test_restarts_leave_the_point_where_the_gradient_vanishes() -> None:
    """At X = 0 the cubic network has no gradient; a random start finds the descent that exists."""
    net = CubicCNN(torch.tensor([[1.0, 0.0]], dtype=F64))
    x = torch.tensor([[[0.0, 0.0], [0.1, 0.0]]], dtype=F64)
    label = torch.ones(1, dtype=torch.long)
    threat = Threat("L2", 0.5, 2, support=torch.tensor([[1.0], [0.0]]))
    stuck = evaluate(net, x, label, threat, (PGD(steps=20, random_start=False),), stream(0, "a"))
    free = evaluate(net, x, label, threat, (PGD(steps=20, restarts=3),), stream(0, "a"))
    assert stuck.accuracy == 1.0
    assert free.accuracy == 0.0


def test_signal_first_is_a_permutation() -> None:
    batch = SignalLaw(d=10, patches=6).sample(30, stream(9, "data"))
    first = batch.signal_first()
    torch.testing.assert_close(first.sum(-2), batch.x.sum(-2))
    torch.testing.assert_close(first[:, 0, 0], batch.y * SignalLaw(d=10).strength)
    assert math.isclose(float(SignalBatch(*(t[:1] for t in batch)).noise()[..., 0].abs().max()), 0.0)
