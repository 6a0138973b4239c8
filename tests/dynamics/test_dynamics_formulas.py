"""Dynamics and observables by a second route: autograd on the objective, plain loops over the definitions,
and the limits of the formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from featscope.core import streams
from featscope.core.streams import stream
from featscope.dynamics import cluster_descent as cd
from featscope.dynamics import patch_observables as ob
from featscope.dynamics import patch_recursion as co
from featscope.dynamics import signal_descent as sg
from featscope.dynamics.cluster_flow import begin, finished, flow_step
from featscope.dynamics.cluster_observables import ClusterObservables, cosines, summarise_cosines
from featscope.dynamics.patch_descent import (
    Weights,
    by_class,
    descend,
    shuffled,
    training_epoch,
    training_step,
)
from featscope.laws.clusters import ClusterLaw
from featscope.laws.patches import PatchBatch, PatchLaw
from featscope.laws.signal import SignalLaw, stack
from featscope.nets.activations import smoothed_relu
from featscope.nets.cubic_cnn import output
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec
from featscope.nets.two_layer import output_weights

F64 = torch.float64


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=stream(seed, "normal"), dtype=F64)


# ---------------------------------------------------------------- FA: cluster descent and what is watched

LAW, N, M, H = ClusterLaw(k=3, d=12, alpha=1.3, sigma=0.8), 11, 2, 2


def binary_loss(w: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    z = (x @ w.mT + b).relu()
    return functional.softplus(-y * (z[:, :M].sum(-1) - z[:, M:].sum(-1)) / M).mean()


def fine_loss(w: Tensor, x: Tensor, cluster: Tensor, h: int = H) -> Tensor:
    return functional.cross_entropy((x @ w.mT).relu().view(len(x), -1, h).mean(-1), cluster)


@pytest.mark.parametrize("block", [4, 512])
def test_cluster_descent_steps_are_gradient_steps_in_weights_and_biases(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cd, "BLOCK", block)
    train = LAW.sample(N, stream(0, "data"))
    w, b = (0.3 * normal(2 * M, 12)).requires_grad_(True), normal(2 * M, seed=1).requires_grad_(True)
    c = normal(2 * M, N, seed=2)
    gw, gb = torch.autograd.grad(binary_loss(w, b, train.x, train.y), (w, b))
    assert int((gb.abs() > 1e-2).sum()) >= 3
    done = cd.binary_step(train, output_weights(M), 0.2)(cd.Descent(w.detach(), b.detach(), c), 0)
    assert torch.allclose(done.w, (w - 0.2 * gw).detach(), atol=1e-13)
    assert torch.allclose(done.b, (b - 0.2 * gb).detach(), atol=1e-13)
    assert torch.allclose((done.c - c) @ train.x, done.w - w.detach(), atol=1e-12)
    assert torch.allclose((done.c - c).sum(-1), done.b - b.detach(), atol=1e-13)
    wide = (0.3 * normal(3 * H, 12, seed=3)).requires_grad_(True)
    (gradient,) = torch.autograd.grad(fine_loss(wide, train.x, train.cluster), wide)
    bias, c = normal(3 * H, seed=4), normal(3 * H, N, seed=5)
    fine = cd.fine_step(train, H, 0.2)(cd.Descent(wide.detach(), bias, c), 0)
    assert torch.allclose(fine.w, (wide - 0.2 * gradient).detach(), atol=1e-13)
    assert torch.allclose((fine.c - c) @ train.x, fine.w - wide.detach(), atol=1e-12)
    assert torch.equal(fine.b, bias)


def test_cluster_starts_have_their_scales() -> None:
    directions = normal(400, 3)
    one = cd.start_binary(directions, 5, 0.01, 0.5, stream(0, "bias"))
    assert torch.equal(one.w, 0.01 * directions)
    assert float(one.b.std()) == pytest.approx(0.5, rel=0.15)
    assert one.c.shape == (400, 5)
    fine = cd.start_fine(directions, 5, 0.02)
    assert torch.equal(fine.w, 0.02 * directions)
    for zero in (one.c, fine.c, fine.b):
        assert not zero.any()


def watched(fine: bool, shift: int) -> tuple[dict[str, float], cd.Descent, ClusterObservables]:
    train = LAW.sample(N, stream(5, "data"))
    count = 3 * H if fine else 2 * M
    state = cd.Descent(
        0.4 * normal(count, 12, seed=6 + shift),
        torch.zeros(count, dtype=F64) if fine else normal(count, seed=7 + shift),
        normal(count, N, seed=8 + shift),
    )
    watch = ClusterObservables(LAW, train)
    row = watch.fine(state, H) if fine else watch.binary(state, output_weights(M))
    return {key: float(value) for key, value in row.items()}, state, watch


@pytest.mark.parametrize("shift", [0, 10, 20])
@pytest.mark.parametrize("fine", [False, True])
def test_cluster_observables_by_plain_loops(fine: bool, shift: int) -> None:
    row, state, watch = watched(fine, shift)
    train, mu = watch.train, LAW.features()
    xi = (train.x - 1.3 * mu[train.cluster]) / 0.8
    neurons = range(len(state.w))
    signs = LAW.signs()
    owns = [
        [(r // H == j) if fine else ((r < M) == (float(signs[j]) > 0)) for j in range(3)] for r in neurons
    ]
    lam = [
        [1.3 * 12 * sum(float(state.c[r, i]) for i in range(N) if train.cluster[i] == j) for j in range(3)]
        for r in neurons
    ]
    sig = [[0.8 * float(xi[i] @ xi[i]) * float(state.c[r, i]) for i in range(N)] for r in neurons]
    own = [lam[r][j] for r in neurons for j in range(3) if owns[r][j]]
    rest = [lam[r][j] for r in neurons for j in range(3) if not owns[r][j]]
    mine = [sig[r][i] for r in neurons for i in range(N) if owns[r][int(train.cluster[i])]]
    theirs = [sig[r][i] for r in neurons for i in range(N) if not owns[r][int(train.cluster[i])]]
    z = [[float(state.w[r] @ train.x[i]) + float(state.b[r]) for i in range(N)] for r in neurons]
    active = [float(z[r][i] >= 0) for r in neurons for i in range(N) if owns[r][int(train.cluster[i])]]
    expected = {
        "lambda_min": min(own),
        "lambda_max": max(own),
        "lambda_mean": sum(own) / len(own),
        "lambda_other": max(abs(v) for v in rest),
        "lambda_other_top": max(rest),
        "lambda_ratio": max(own) / min(own) if min(own) > 0 else -1.0,
        "sigma_min": min(mine),
        "sigma_max": max(mine),
        "sigma_other": max(abs(v) for v in theirs),
        "sigma_other_top": max(theirs),
        "own_active": sum(active) / len(active),
    }
    relu = [[max(v, 0.0) for v in zr] for zr in z]
    if fine:
        outputs = torch.tensor(
            [[sum(relu[j * H + r][i] for r in range(H)) / H for j in range(3)] for i in range(N)], dtype=F64
        )
        q = outputs[range(N), train.cluster]
        slope = 1 - outputs.softmax(-1)[range(N), train.cluster]
        expected["loss"] = float(functional.cross_entropy(outputs, train.cluster))
        expected["train"] = float((outputs.argmax(-1) == train.cluster).double().mean())
    else:
        f = torch.tensor(
            [
                (sum(relu[r][i] for r in range(M)) - sum(relu[r][i] for r in range(M, 2 * M))) / M
                for i in range(N)
            ],
            dtype=F64,
        )
        q = train.y * f
        slope = torch.sigmoid(-q)
        expected["loss"] = float(torch.log1p(torch.exp(-q)).mean())
        expected["train"] = float((q > 0).double().mean())
        expected["bias"] = max(abs(float(v)) for v in state.b)
        others = [
            float(z[r][i] >= 0) for r in neurons for i in range(N) if not owns[r][int(train.cluster[i])]
        ]
        expected["other_active"] = sum(others) / len(others)
    expected |= {
        "margin_min": float(q.min()),
        "margin_max": float(q.max()),
        "slope_ratio": float(slope.max() / slope.min()),
    }
    ideal = [
        sum(
            (expected["lambda_mean"] * mu[j] / 12 for j in range(3) if owns[r][j]), torch.zeros(12, dtype=F64)
        )
        for r in neurons
    ]
    expected["deviation"] = max(math.sqrt(12) * float((state.w[r] - ideal[r]).norm()) for r in neurons)
    weights = [state.w[j * H : (j + 1) * H].mean(0) for j in range(3)] if fine else list(state.w)
    table = [[float(m @ w / m.norm() / w.norm()) for w in weights] for m in mu]
    same = [(table[j][r], (j == r) if fine else owns[r][j]) for j in range(3) for r in range(len(weights))]
    inside, outside = [v for v, s in same if s], [v for v, s in same if not s]
    expected |= {
        "cosine_mean": sum(inside) / len(inside),
        "cosine_min": min(inside),
        "cosine_max": max(inside),
    }
    expected["cosine_other_max"] = max(abs(v) for v in outside)
    assert set(row) == set(expected)
    for key, value in expected.items():
        assert row[key] == pytest.approx(value, rel=1e-9), key


def test_ratios_of_positive_coefficients_and_of_vanishing_slopes() -> None:
    train = LAW.sample(N, stream(5, "data"))
    state = cd.Descent(60 * LAW.features()[[0, 1, 2]], torch.zeros(3, dtype=F64), 1 + normal(3, N).abs())
    row = ClusterObservables(LAW, train).fine(state, 1)
    assert row["lambda_ratio"] == pytest.approx(row["lambda_max"] / row["lambda_min"])
    assert float(row["lambda_ratio"]) > 1
    assert math.isfinite(float(row["slope_ratio"]))
    assert summarise_cosines(
        torch.tensor([[0.5, -0.9], [0.2, -0.7]]), torch.eye(2, dtype=torch.bool)
    ) == pytest.approx({"mean": -0.1, "min": -0.7, "max": 0.5, "other_max": 0.9})
    assert cosines(torch.tensor([[3.0, 0.0]]), torch.tensor([[1.0, 1.0], [-2.0, 0.0]]))[
        0
    ].tolist() == pytest.approx([2**-0.5, -1.0])


# ---------------------------------------------------------------- flow


def test_flow_solves_a_nonlinear_equation_in_every_part() -> None:
    """dw/dτ = −w³ with w = 1/√(1 + 2τ), db/dτ = w, dc/dτ = w²: biases and coefficients ride on the same
    stages."""

    def field(w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return w * w, -(w**3), w[:, 0]

    one = torch.ones(1, 1, dtype=F64)
    state, step, t = (
        begin(one, torch.zeros(1, dtype=F64), torch.zeros_like(one), 0.0, 0.5),
        flow_step(field, 3.0, 1e-7),
        0,
    )
    while not finished(3.0)(state, t):
        state, t = step(state, t), t + 1
        assert t < 2000
    assert float(state.time) == pytest.approx(3.0, rel=1e-12)
    assert float(state.w) == pytest.approx(7**-0.5, abs=1e-6)
    assert float(state.b) == pytest.approx(math.sqrt(7) - 1, abs=1e-6)
    assert float(state.c) == pytest.approx(math.log(7) / 2, abs=1e-6)
    assert not finished(3.1)(state, t)


def test_one_step_of_the_flow_is_bogacki_and_shampines() -> None:
    """On dw/dτ = −w the third-order step is 1 − h + h²/2 − h³/6; it differs from the embedded second-order
    one by h³/12 + h⁴/48 − …"""
    h, one = 0.1, torch.ones(1, 1, dtype=F64)
    calls = []

    def field(w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        calls.append(float(w))
        return torch.zeros_like(w), -w, torch.zeros_like(b)

    def start() -> object:
        return begin(one, torch.zeros(1, dtype=F64), torch.zeros_like(one), 0.0, h)

    step = flow_step(field, 10.0, 1e-2)
    state = step(start(), 0)  # type: ignore[arg-type]
    third = 1 - h + h**2 / 2 - h**3 / 6
    assert calls == pytest.approx([1, 1 - h / 2, 1 - 0.75 * h * (1 - h / 2), third])
    assert float(state.w) == pytest.approx(third, abs=1e-15)
    assert float(state.calls) == 4
    # The embedded solution is w + h(7/24 k1 + 1/4 k2 + 1/3 k3 + 1/8 k4); the error is relative to the larger
    # of both norms, 1.
    k = [-v for v in calls]
    second = 1 + h * (7 / 24 * k[0] + k[1] / 4 + k[2] / 3 + k[3] / 8)
    error = abs(third - second)
    assert float(state.size) == pytest.approx(h * min(4.0, 0.9 * (1e-2 / error) ** (1 / 3)))
    again = step(state, 1)
    assert float(again.calls) == 7  # the last stage is the next step's first
    tight = flow_step(field, 10.0, 0.5 * error)(start(), 0)  # type: ignore[arg-type]
    assert float(tight.time) == pytest.approx(h * 0.9 * 0.5 ** (1 / 3))  # refused once, then shortened
    assert float(tight.calls) == 7
    exact = flow_step(field, 10.0, error)(start(), 0)  # type: ignore[arg-type]
    assert float(exact.size) == pytest.approx(0.9 * h, rel=1e-6)


# ---------------------------------------------------------------- AT: descent, recursion, observables

PATCHES = PatchLaw(k=3, d=9, patches=4, robust_patches={"low": 1, "high": 3}, sigma_n=0.2)


def patch_case(runs: int | None = None) -> tuple[PatchNet, PatchBatch]:
    lead = () if runs is None else (runs,)
    net = PatchNet(0.8 * normal(*lead, 3, 2, 9), 3, 0.5)
    batches = [PATCHES.sample(8, stream(seed, "data")) for seed in range(runs or 1)]
    batch = (
        batches[0]
        if runs is None
        else PatchBatch(*(torch.stack(parts) for parts in zip(*batches, strict=True)))
    )
    return net, batch


def test_patch_descent_is_a_gradient_step_of_the_mean_loss() -> None:
    net, batch = patch_case()
    leaf = net.w.clone().requires_grad_(True)
    loss = functional.cross_entropy(
        smoothed_relu(batch.x @ leaf.flatten(0, 1).mT, 3, 0.5).view(8, 4, 3, 2).sum((1, 3)), batch.y
    )
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert torch.allclose(descend(net, batch.x, batch.y, 0.4), net.w - 0.4 * gradient, atol=1e-13)
    spec = PatchNetSpec(width=2, q=3, rho=0.5)
    shift = normal(8, 4, 9, seed=3)
    order = torch.argsort(batch.y, stable=True)
    moved = training_step(spec, batch.x, batch.y, 0.4, lambda net, x, y: shift[order])(Weights(net.w), 0).w
    assert torch.allclose(moved, descend(net, batch.x + shift, batch.y, 0.4), atol=1e-13)


def test_an_epoch_visits_every_point_once_in_an_order_of_seed_and_epoch() -> None:
    x, y = torch.arange(10.0)[:, None, None].expand(10, 1, 1), torch.arange(10)
    first = shuffled(x, y, [3], 7)
    assert torch.equal(first[0][:, 0, 0].long(), first[1])
    assert sorted(first[1].tolist()) == list(range(10))
    assert torch.equal(first[1], shuffled(x, y, [3], 7)[1])
    assert not torch.equal(first[1], shuffled(x, y, [4], 7)[1])
    assert not torch.equal(first[1], shuffled(x, y, [3], 8)[1])
    wide = shuffled(x.expand(2, 10, 1, 1), y.expand(2, 10), [3, 4], 7)[1]
    assert torch.equal(wide[0], first[1])
    assert not torch.equal(wide[1], first[1])
    sorted_x, sorted_y = by_class(x, torch.tensor([1, 0] * 5))
    assert sorted_y.tolist() == [0] * 5 + [1] * 5
    assert sorted_x[:, 0, 0].tolist() == [1.0, 3, 5, 7, 9, 0, 2, 4, 6, 8]


def test_no_two_draws_of_a_synthetic_training_share_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders of every run and epoch, points and initial directions: as many seeds as draws."""
    made, real = [], streams.derive
    monkeypatch.setattr(streams, "derive", lambda seed, *names: made.append(real(seed, *names)) or made[-1])
    x, y, seeds = normal(3, 6, 1, 2), torch.zeros(3, 6, dtype=torch.long), [4, 5, 6]
    made.clear()
    step = training_epoch(PatchNetSpec(width=1), x, y, 0.1, batch_size=2, seeds=seeds)
    state = Weights(torch.ones(3, 2, 1, 2, dtype=F64))
    for t in range(5):
        state = step(state, t)
    for seed in seeds:
        LAW.draw(N, 2, seed, compact=False)
    assert len(set(made)) == len(made) == 3 * (5 + 2)


@pytest.mark.parametrize("runs", [None, 2])
def test_patch_observables_by_plain_loops(runs: int | None) -> None:
    net, batch = patch_case(runs)
    if runs is not None:
        for name in ("noise_correlation_max", "noise_update_rest"):
            together = getattr(ob, name)(net, PATCHES, batch)
            for i in range(runs):
                alone = getattr(ob, name)(net.run(i), PATCHES, PatchBatch(*(part[i] for part in batch)))
                assert float(together[i]) == pytest.approx(float(alone)), name
        both = ob.own_outputs(net, batch.x, batch.y)
        alone = ob.own_outputs(net.run(1), batch.x[1], batch.y[1])
        assert float(both.largest[1]) == pytest.approx(float(alone.largest))
        assert float(both.ratio[1]) == pytest.approx(float(alone.ratio))
        return
    u, v = PATCHES.features()
    noise = batch.x - PATCHES.signal(batch.y, batch.robust, batch.amplitude)
    found = ob.feature_correlations(net.w, PATCHES)
    for i in range(3):
        for r in range(2):
            for j in range(3):
                assert float(found.u[i, r, j]) == pytest.approx(float(net.w[i, r] @ u[j]))
                assert float(found.v[i, r, j]) == pytest.approx(float(net.w[i, r] @ v[j]))
    assert torch.allclose(ob.own_correlations(found.u), torch.stack([found.u[i, :, i] for i in range(3)]))
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    assert ob.cross_correlations(found.v).tolist() == pytest.approx(
        [float(found.v[i, :, j].max()) for i, j in pairs]
    )
    dots = [
        abs(float(net.w[i, r] @ noise[n, p]))
        for i in range(3)
        for r in range(2)
        for n in range(8)
        for p in range(4)
    ]
    assert float(ob.noise_correlation_max(net, PATCHES, batch)) == pytest.approx(max(dots))
    outputs = net(batch.x)
    own = [float(outputs[n, batch.y[n]]) for n in range(8)]
    spread = ob.own_outputs(net, batch.x, batch.y)
    assert float(spread.largest) == pytest.approx(max(own))
    classes = [[f for f, label in zip(own, batch.y.tolist(), strict=True) if label == j] for j in range(3)]
    assert float(spread.ratio) == pytest.approx(min(min(c) / max(c) for c in classes if c))
    loss = ob.fit(net, batch.x, batch.y)
    assert float(loss.loss) == pytest.approx(float(functional.cross_entropy(outputs, batch.y)))
    assert float(loss.residual) == pytest.approx(float(1 - outputs.softmax(-1)[range(8), batch.y].mean()))
    right = float((outputs.argmax(-1) == batch.y).double().mean())
    assert float(loss.accuracy) == float(ob.accuracy(net, batch.x, batch.y)) == right


def test_the_remainder_of_a_noise_update_is_the_change_without_the_own_term() -> None:
    """Lemma E.4: the change of ⟨w_ir, ξ_p⟩ in one step, less (1{y=i} − logit_i) σ̃'(⟨w_ir, x_p⟩)⟨x_p, ξ_p⟩/N,
    patch by patch."""
    net, batch = patch_case()
    eta = 1e-3
    noise = batch.x - PATCHES.signal(batch.y, batch.robust, batch.amplitude)
    change = (descend(net, batch.x, batch.y, eta) - net.w) / eta
    logits = net(batch.x).softmax(-1)
    rest = []
    for n in range(8):
        for p in range(4):
            for i in range(3):
                for r in range(2):
                    slope = min(max(float(net.w[i, r] @ batch.x[n, p]) / 0.5, 0.0), 1.0) ** 2
                    own = (
                        (float(batch.y[n] == i) - float(logits[n, i]))
                        * slope
                        * float(batch.x[n, p] @ noise[n, p])
                        / 8
                    )
                    rest.append(abs(float(change[i, r] @ noise[n, p]) - own))
    assert float(ob.noise_update_rest(net, PATCHES, batch)) == pytest.approx(max(rest), rel=1e-9)


def test_a_single_point_has_no_remainder_in_its_own_patch() -> None:
    law = PatchLaw(k=2, d=6, patches=1, robust_patches=1, sigma_n=0.3)
    net, batch = PatchNet(normal(2, 2, 6), 2, 1.0), law.sample(1, stream(0, "data"))
    assert float(ob.noise_update_rest(net, law, batch)) < 1e-14


def test_recursion_velocities_are_minus_the_gradients_of_the_loss() -> None:
    """On noiseless points the loss is a function of U and V alone; its gradient by autograd is the
    recursion's velocity."""
    law = PATCHES.replace(sigma_n=0.0, alpha={"name": "uniform", "low": 1, "high": 2}, beta=[0.5, 0.7, 0.9])
    batch, spec = law.sample(6, stream(1, "data")), PatchNetSpec(width=2, q=4, rho=0.6)
    data = co.latents(batch, 3)
    u, v = (0.7 * normal(2, 3, 2, 3, seed=s).requires_grad_(True) for s in (1, 2))
    state = co.Coefficients(
        u,
        v,
        torch.eye(6, dtype=F64).expand(2, 6, 6),
        torch.zeros(2, 6, 6, dtype=F64),
        torch.zeros(2, dtype=F64),
    )
    total = 0.0
    outputs = []
    for n in range(6):
        own, z = int(batch.y[n]), 0.0
        for p in range(4):
            along = u if batch.robust[n, p] else v
            z = z + smoothed_relu(batch.amplitude[n, p] * along[..., own], 4, 0.6).sum(-1)
        outputs.append(z)
        total = total + (torch.logsumexp(z, -1) - z[:, own]).sum() / 6
    assert torch.allclose(co.clean_pass(spec, state, data).outputs, torch.stack(outputs, 1), atol=1e-12)
    gu, gv = torch.autograd.grad(total, (u, v))  # type: ignore[arg-type]
    plain = co.Coefficients(*(part.detach() for part in state))
    motion = co.standard_velocity(spec, data)(plain)
    assert torch.allclose(motion.u, -gu, atol=1e-12)
    assert torch.allclose(motion.v, -gv, atol=1e-12)
    assert motion.e is None
    moved = co.descent(lambda _: motion, 1e-7)(plain, 0)
    rate = (co.clean_pass(spec, moved, data).outputs - co.clean_pass(spec, plain, data).outputs) / 1e-7
    assert torch.allclose(motion.outputs, rate, atol=1e-5)


def test_the_coefficient_clip_is_one_sided_as_printed_and_two_sided_on_request() -> None:
    ascent = torch.tensor([-3.0, -0.1, 0.1, 3.0], dtype=F64).view(1, 1, 1, 4)
    assert co.CoefficientClip(0.5, 1.0)(ascent).flatten().tolist() == pytest.approx([-3.0, -0.1, 0.1, 0.5])
    assert co.CoefficientClip(0.5, 2.0, two_sided=True)(ascent).flatten().tolist() == pytest.approx(
        [-0.5, -0.2, 0.2, 0.5]
    )


def test_features_only_moves_features_as_a_step_along_them_would() -> None:
    """Lemma 5.2's approximation: x̃ keeps off the initial directions; U and V follow the same descent at the
    perturbed coordinates."""
    law = PATCHES.replace(sigma_n=0.0)
    batch, spec = law.sample(5, stream(2, "data")), PatchNetSpec(width=2, q=3, rho=0.6)
    data, w = co.latents(batch, 3), 0.5 * normal(3, 2, 9, seed=4)
    state = co.from_weights(w, *law.features())
    clip = co.CoefficientClip(0.2, 1.5, two_sided=True, features_only=True)
    moved = co.perturb(spec, state, data, clip)
    assert not moved.gamma.any()
    xu, xv = data.coordinates()
    slope = co.clean_pass(spec, state, data).slope
    for n in range(5):
        y = int(batch.y[n])
        for g in range(xu.shape[1]):
            for j in range(3):
                step = 1.5 * sum(float(slope[n, g, y, s]) * float(state.u[y, s, j]) for s in range(2))
                assert float(moved.u[n, g, j]) == pytest.approx(
                    float(xu[n, g, j]) - min(max(step, -0.2), 0.2)
                )
                step = 1.5 * sum(float(slope[n, g, y, s]) * float(state.v[y, s, j]) for s in range(2))
                assert float(moved.v[n, g, j]) == pytest.approx(
                    float(xv[n, g, j]) - min(max(step, -0.2), 0.2)
                )
    motion = co.adversarial_velocity(spec, data, clip)(state)
    assert motion.e is None
    x = moved.u @ law.features()[0] + moved.v @ law.features()[1]
    net = spec.net(state.u @ law.features()[0] + state.v @ law.features()[1])
    change = descend(net, x, batch.y, 1.0) - net.w
    assert torch.allclose(change @ law.features()[0].mT, motion.u, atol=1e-12)
    assert torch.allclose(change @ law.features()[1].mT, motion.v, atol=1e-12)


def test_small_steps_are_the_largest_that_change_little() -> None:
    """max|U|, max|V| by at most the share, outputs by at most five times it, never beyond the horizon; one of
    the limits is attained."""
    law = PATCHES.replace(sigma_n=0.0)
    spec, seen = PatchNetSpec(width=2), set()
    for scale, alpha in ((1e-2, 2.0), (1e-2, 0.1), (3.0, 2.0), (20.0, 2.0)):
        data = co.latents(law.replace(alpha=alpha).sample(5, stream(2, "data")), 3)
        velocity = co.standard_velocity(spec, data)
        state = co.draw(3, 3, 2, 40, scale, stream(1, "draw"))
        motion, step = velocity(state), co.small_steps(velocity, 0.01)(state, 0)
        for run in range(3):
            eta = float(step.time[run])
            limits = {
                "u": float(state.u[run].abs().max() / motion.u[run].abs().max()),
                "v": float(state.v[run].abs().max() / motion.v[run].abs().max()),
                "outputs": 5 / float(motion.outputs[run].abs().max()),
            }
            assert eta == pytest.approx(0.01 * min(limits.values()))
            seen.add(min(limits, key=lambda name: limits[name]))
            assert torch.allclose(step.u[run], state.u[run] + eta * motion.u[run], atol=1e-14)
    assert seen == {"u", "v", "outputs"}
    short = co.small_steps(velocity, 0.01, torch.full((3,), 1e-9, dtype=F64))(state, 0)
    assert torch.allclose(short.time, torch.full((3,), 1e-9, dtype=F64), rtol=1e-12)
    assert torch.equal(co.small_steps(velocity, 0.01, short.time)(short, 1).u, short.u)


def test_a_step_of_the_tensor_power_method_by_hand() -> None:
    step = co.tensor_power_step(4, 0.1, torch.tensor(3.0, dtype=F64), 2.0)
    pair = step(co.PowerPair(torch.tensor(2.0, dtype=F64), torch.tensor(0.5, dtype=F64)), 0)
    assert float(pair.x) == pytest.approx(2 + 0.1 * 2 * 8)
    assert float(pair.y) == pytest.approx(0.5 + 0.1 * 3 * 2 * 0.125)


def test_latents_merge_equal_patches_only() -> None:
    law = PATCHES.replace(sigma_n=0.0, robust_patches=1)
    merged = co.latents(law.sample(4, stream(0, "data")), 3)
    kinds = [
        dict(zip(*rows, strict=True))
        for rows in zip(merged.robust.tolist(), merged.multiplicity.tolist(), strict=True)
    ]
    assert kinds == [{True: 1.0, False: 3.0}] * 4
    assert bool((merged.amplitude == torch.where(merged.robust, 2.0, 1.0)).all())
    mixed = co.latents(PATCHES.replace(sigma_n=0.0).sample(30, stream(0, "data")), 3)
    assert mixed.multiplicity.shape == (30, 4)
    assert bool((mixed.multiplicity == 1).all())
    only = co.latents(law.replace(robust_patches=4).sample(3, stream(0, "data")), 3)
    assert only.multiplicity.tolist() == [[4.0]] * 3
    alone = co.latents(law.sample(1, stream(0, "data")), 3)
    assert sorted(alone.multiplicity[0].tolist()) == [1.0, 3.0]


def test_latents_keep_patches_that_differ_in_amplitude_alone_or_in_kind_alone() -> None:
    """Both must agree: the kinds between the points, and the amplitudes within a kind."""
    law = PATCHES.replace(sigma_n=0.0, robust_patches=2)
    batch = law.sample(5, stream(0, "data"))
    stronger = batch._replace(amplitude=batch.amplitude + torch.arange(4))
    kinds = torch.tensor([[True, True, False, False], [True, False, False, False]])
    mixed = batch._replace(
        y=batch.y[:2], robust=kinds, amplitude=torch.ones(2, 4, dtype=batch.amplitude.dtype)
    )
    for case in (stronger, mixed):
        kept = co.latents(case, 3)
        assert bool((kept.multiplicity == 1).all())
        for i in range(len(case.y)):
            pairs = sorted(zip(case.robust[i].tolist(), case.amplitude[i].tolist(), strict=True))
            assert sorted(zip(kept.robust[i].tolist(), kept.amplitude[i].tolist(), strict=True)) == pairs


# ---------------------------------------------------------------- CGRO: the signal model

SIGNAL = SignalLaw(d=20, patches=3, alpha=1.5, sigma=0.2, gap=0.4)
POINTS, ETA, LAM = 5, 0.3, 0.7


def signal_case():  # type: ignore[no-untyped-def]
    parts = [SIGNAL.instance(POINTS, 4, 0.6, stream(s, "data"), stream(s, "init")) for s in range(2)]
    instance = stack(parts)
    return instance, sg.Kernel.of(instance), sg.Objective.of(SIGNAL, POINTS, ETA, LAM)


def test_the_objective_and_its_rates_are_those_of_the_network() -> None:
    instance, kernel, objective = signal_case()
    x, y, w = instance.train.x, instance.train.y, instance.w
    assert objective.cube == pytest.approx(1.5**3)
    assert objective.rho == pytest.approx(0.4**3)
    clean, attacked = y * output(w, x), y * output(w, sg.weakened(x, 0.4))
    loss = ((1 - LAM) * torch.log1p(torch.exp(-clean)) + LAM * torch.log1p(torch.exp(-attacked))).mean(-1)
    assert torch.allclose(objective.loss(kernel.u0, kernel.v0), loss, atol=1e-12)
    rates = objective.rates(kernel.u0, kernel.v0)
    assert torch.allclose(rates.signal, 1.5**3 * (w[..., 0] ** 3).sum(-1), atol=1e-12)
    for run in range(2):
        for i in range(POINTS):
            noise = [p for p in range(3) if p != int(instance.train.position[run, i])]
            total = sum(float(y[run, i] * (w[run, r] @ x[run, i, p])) ** 3 for p in noise for r in range(4))
            assert float(rates.noise[run, i]) == pytest.approx(total, rel=1e-9, abs=1e-12)
    assert torch.allclose(rates.clean, 1 / (1 + torch.exp(clean)), atol=1e-12)
    assert torch.allclose(rates.attacked, 1 / (1 + torch.exp(attacked)), atol=1e-12)
    assert torch.allclose(rates.mixed, (1 - LAM) * rates.clean + LAM * rates.attacked, atol=1e-12)
    again = objective.rates(kernel.u0, kernel.v0, kernel.v0**2)
    assert all(torch.equal(one, two) for one, two in zip(rates, again, strict=True))


def test_a_step_of_the_recursion_is_a_gradient_step_and_sums_its_slack() -> None:
    instance, kernel, objective = signal_case()
    x, y = instance.train.x, instance.train.y
    w = instance.w.clone().requires_grad_(True)
    plus = functional.softplus
    loss = ((1 - LAM) * plus(-y * output(w, x)) + LAM * plus(-y * output(w, sg.weakened(x, 0.4)))).mean(-1)
    (gradient,) = torch.autograd.grad(loss.sum(), w)
    moved = (w - ETA * gradient).detach()
    state, step = kernel.start(POINTS), sg.recursion_step(kernel, objective)
    assert state.signal_at.tolist() == [-1, -1]
    assert bool((state.memorised_at == -1).all())
    first = step(state, 0)
    assert torch.allclose(first.u, moved[..., 0], atol=1e-12)
    assert torch.allclose(first.v, moved @ kernel.noise.mT, atol=1e-12)
    assert torch.allclose(kernel.weights(instance.w, first), moved, atol=1e-12)
    slack = objective.rates(state.u, state.v).attacked.mean(-1)
    assert torch.allclose(first.slack, slack, atol=1e-14)
    second = step(first, 1)
    assert torch.allclose(
        second.slack, slack + objective.rates(first.u, first.v).attacked.mean(-1), atol=1e-14
    )
    assert torch.allclose(
        second.c - first.c,
        objective.growth(first.u, first.v**2, objective.rates(first.u, first.v))[1],
        atol=1e-14,
    )


def test_crossing_times_of_the_signal_are_first_crossings_and_stay() -> None:
    _, kernel, objective = signal_case()
    quiet = kernel._replace(u0=0.2 * kernel.u0.abs(), v0=0.01 * kernel.v0)
    state, step, first = quiet.start(POINTS), sg.recursion_step(quiet, objective), {}
    for t in range(400):
        for run in (objective.rates(state.u, state.v).signal >= 1).nonzero()[:, 0].tolist():
            first.setdefault(run, t)
        state = step(state, t)
    assert len(first) == 2
    assert min(first.values()) > 0
    assert state.signal_at.tolist() == [first[0], first[1]]


def test_crossing_at_exactly_one_counts() -> None:
    objective = sg.Objective(cube=1.0, rho=0.5, eta=0.1, lam=0.5, n=1)
    one = torch.ones(1, 1, dtype=F64)
    kernel = sg.Kernel(torch.eye(1, dtype=F64)[None], one, one[None], torch.zeros(1, 1, 2, dtype=F64))
    state = sg.recursion_step(kernel, objective)(kernel.start(1), 3)
    assert state.signal_at.tolist() == [3]
    assert state.memorised_at.tolist() == [[3]]


def test_both_dynamics_side_by_side() -> None:
    instance, kernel, objective = signal_case()
    x, y = instance.train.x, instance.train.y
    descent = sg.descent_step(x, y, ETA, LAM, sg.weakened(x, 0.4))
    recursion, start = sg.recursion_step(kernel, objective), kernel.start(POINTS)
    step = sg.both_routes(recursion, start, descent)
    both = step(sg.RoutePair(start.u, start.v, start.c, instance.w), 0)
    assert torch.allclose(both.w[..., 0], both.u, atol=1e-12)
    alone = recursion(recursion(start, 0), 1)
    again = step(both, 1)
    assert all(torch.equal(getattr(again, name), getattr(alone, name)) for name in "uvc")
    called = sg.descent_step(x, y, ETA, LAM, lambda w, x, y: sg.weakened(x, 0.4))
    # A known attack is met patch by patch, each once: the same up to rounding.
    assert torch.allclose(called(sg.CubicWeights(instance.w), 0).w, both.w, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("steps", "size"), [(1, 0.3), (4, 2.5 * 0.3 / 4)])
def test_training_attacks_take_normalised_steps_against_the_margin(steps: int, size: float) -> None:
    instance, *_ = signal_case()
    x, y, w = instance.train.x[0], instance.train.y[0], instance.w[0]
    delta = torch.zeros_like(x)
    for _ in range(steps):
        leaf = (x + delta).requires_grad_(True)
        (g,) = torch.autograd.grad(functional.softplus(-y * output(w, leaf)).sum(), leaf)
        delta = delta + size * g / g.flatten(1).norm(dim=-1)[:, None, None]
        delta = delta * (0.3 / delta.flatten(1).norm(dim=-1)).clamp(max=1.0)[:, None, None]
    assert torch.allclose(sg.steepest_ball(0.3, steps)(w, x, y), x + delta, atol=1e-9)
