"""Certificates of the patch network and the steps of its inner minimum, once more in plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from featscope.attacks.patch_certificate import certify
from featscope.attacks.patch_inner import (
    SUFFICIENT,
    TO_THE_BOUNDARY,
    _newton,
    _Patches,
    _Path,
    _room,
    _shortened,
    inner_minimum,
    relative,
)
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.nets.activations import smoothed_relu
from featscope.nets.patch_cnn import PatchNet

F64 = torch.float64
K, M, D, P = 3, 2, 4, 3


def network() -> PatchNet:
    w = torch.randn(K, M, D, generator=stream(0, "w"), dtype=F64)
    w[2, 1] = 0.0  # a neuron that cannot move
    return PatchNet(w, q=3, rho=0.7)


def points() -> tuple[Tensor, Tensor]:
    return torch.randn(4, P, D, generator=stream(0, "x"), dtype=F64), torch.tensor([0, 1, 2, 1])


def written_out(
    net: PatchNet, x: Tensor, y: int, mask: Tensor, eps: float, dual: float, steps: int
) -> tuple[float, float]:
    """Both bounds of one point, patch by patch and rival by rival."""

    def act(z: Tensor) -> Tensor:
        return smoothed_relu(z, net.q, net.rho)

    interval, linear = math.inf, math.inf
    for j in range(K):
        if j == y:
            continue
        sum_interval = sum_both = 0.0
        for p in range(P):
            own, rival = net.w[y] * mask[p], net.w[j] * mask[p]
            z, z_j = net.w[y] @ x[p], net.w[j] @ x[p]
            reach, reach_j = (eps * torch.stack([r.norm(p=dual) for r in rows]) for rows in (own, rival))
            by_interval = float(act(z - reach).sum() - act(z_j + reach_j).sum())
            low, high = z_j - reach_j, z_j + reach_j
            slope = torch.stack(
                [
                    (act(b) - act(a)) / (b - a) if b > a else torch.zeros((), dtype=F64)
                    for a, b in zip(low, high)
                ]
            )
            chord = (act(low) + slope * (z_j - low)).sum()
            fixed = slope @ rival

            def bound(
                at: Tensor, z: Tensor = z, own: Tensor = own, chord: Tensor = chord, fixed: Tensor = fixed
            ) -> Tensor:
                steep = (at / net.rho).clamp(0, 1) ** (net.q - 1)
                value = (act(at) + steep * (z - at)).sum() - chord
                return value - eps * (steep @ own - fixed).norm(p=dual)

            at = z.clone()
            best = float(bound(at))
            for t in range(steps):
                leaf = at.clone().requires_grad_(True)
                (uphill,) = torch.autograd.grad(bound(leaf), leaf)
                at = torch.minimum(
                    torch.maximum(at + 0.5 * (2 * reach) / (1 + t) * uphill.sign(), z - reach), z + reach
                )
                best = max(best, float(bound(at)))
            sum_interval += by_interval
            sum_both += max(by_interval, best)
        interval, linear = min(interval, sum_interval), min(linear, sum_both)
    return interval, linear


SUPPORTS = {
    "all": None,
    "coordinates": torch.tensor([1.0, 0.0, 1.0, 1.0]),
    "by patch": torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 1.0]]),
}


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize(("norm", "dual"), [("Linf", 1.0), ("L2", 2.0)])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_bounds_of_the_patch_network_by_plain_loops(support: str, norm: str, dual: float, steps: int) -> None:
    net, (x, y), eps = network(), points(), 0.3
    given = SUPPORTS[support]
    mask = torch.ones(P, D, dtype=F64) if given is None else given.double().expand(P, D)
    found = certify(net, x, y, Threat(norm, eps, 2, support=given, apart=1), steps)
    for i in range(len(y)):
        interval, linear = written_out(net, x[i], int(y[i]), mask, eps, dual, steps)
        assert float(found.interval[i]) == pytest.approx(interval, rel=1e-9)
        assert float(found.linear[i]) == pytest.approx(linear, rel=1e-9)


def test_twelve_steps_unless_told_otherwise_and_more_are_never_worse() -> None:
    net, (x, y) = network(), points()
    threat = Threat("Linf", 0.3, 2, apart=1)
    assert torch.equal(certify(net, x, y, threat).linear, certify(net, x, y, threat, 12).linear)
    before = certify(net, x, y, threat, 0).linear
    for steps in (1, 2, 12):
        after = certify(net, x, y, threat, steps).linear
        assert bool((after >= before).all())
        before = after
    single = certify(PatchNet(net.w.float(), 3, 0.7), x.float(), y, threat)
    assert single.linear.dtype == F64


# ---- the inner minimum


def problem() -> tuple[_Patches, Tensor, Tensor]:
    """Two points of three patches, two neurons, four coordinates."""
    w = torch.randn(2, M, D, generator=stream(1, "w"), dtype=F64)
    z = torch.rand(2, P, M, generator=stream(1, "z"), dtype=F64)
    made = _Patches(z, w, torch.tensor([0.02, 0.05], dtype=F64)[:, None, None], 0.4, 3, 0.7)
    delta = 0.3 * torch.randn(2, P, D, generator=stream(1, "d"), dtype=F64).tanh()
    barrier = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], dtype=F64)
    return made, delta, barrier


def g(made: _Patches, i: int, p: int, delta: Tensor) -> Tensor:
    return smoothed_relu(made.z[i, p] + made.w[i] @ delta, made.q, made.rho).sum()


def test_value_gradient_gap_and_merit_of_each_patch() -> None:
    made, delta, barrier = problem()
    for i in range(2):
        for p in range(P):
            leaf = delta[i, p].clone().requires_grad_(True)
            value = g(made, i, p, leaf)
            (slope,) = torch.autograd.grad(value, leaf)
            assert float(made.value(delta)[i, p]) == pytest.approx(float(value.detach()))
            torch.testing.assert_close(made.gradient(delta)[i, p], slope)
            linear = float(slope @ delta[i, p]) + 0.4 * float(slope.abs().sum())
            assert float(made.gap(delta)[i, p]) == pytest.approx(min(linear, float(value.detach())))
            logs = sum(math.log(0.4**2 - float(v) ** 2) for v in delta[i, p])
            pull = 0.5 * float(made.pull[i]) * float(delta[i, p].square().sum())
            assert float(made.merit(delta, barrier)[i, p]) == pytest.approx(
                float(value.detach()) + pull - float(barrier[i, p]) * logs
            )
    some = made.take(torch.tensor([1]))
    torch.testing.assert_close(some.value(delta[1:]), made.value(delta)[1:])
    path = _Path(delta, delta, delta, barrier).take(torch.tensor([1]))
    assert torch.equal(path.barrier, barrier[1:])


def test_the_newton_step_solves_the_dense_system() -> None:
    made, delta, _ = problem()
    diagonal = 0.5 + torch.rand(2, P, D, generator=stream(2, "diag"), dtype=F64)
    right = torch.randn(2, P, D, generator=stream(2, "right"), dtype=F64)
    found = _newton(made, delta, diagonal, right)
    for i in range(2):
        for p in range(P):
            bend = torch.autograd.functional.hessian(lambda t, i=i, p=p: g(made, i, p, t), delta[i, p])
            wanted = torch.linalg.solve(torch.diag(diagonal[i, p]) + bend, right[i, p])
            torch.testing.assert_close(found[i, p], wanted)


def test_steps_stop_before_the_boundary_and_are_one_at_most() -> None:
    value = torch.tensor([[1.0, 2.0], [1.0, 1.0], [0.5, 4.0]], dtype=F64)
    change = torch.tensor([[-2.0, -1.0], [3.0, 0.0], [-0.5, -8.0]], dtype=F64)
    assert _room(value, change).tolist() == pytest.approx([TO_THE_BOUNDARY / 2, 1.0, TO_THE_BOUNDARY / 2])
    assert _room(value, -0.01 * value).tolist() == [1.0, 1.0, 1.0]


def test_a_step_is_halved_until_the_merit_falls_enough() -> None:
    made, delta, barrier = problem()
    downhill = -made.gradient(delta)
    slope = -downhill.square().sum(-1)
    for start in (1e-6, 0.2):
        length = torch.full((2, P), start, dtype=F64)
        longest = torch.minimum(_room(0.4 - delta, -downhill), _room(0.4 + delta, downhill))
        length = torch.minimum(length, longest)
        # Without a barrier and a pull the merit is g alone.
        plain = made._replace(pull=0 * made.pull)
        found = _shortened(plain, delta, 0 * barrier, downhill, slope, length.clone())
        for i in range(2):
            for p in range(P):
                now, before = float(length[i, p]), float(g(made, i, p, delta[i, p]))
                for _ in range(12):
                    after = float(g(made, i, p, delta[i, p] + now * downhill[i, p]))
                    if after <= before + SUFFICIENT * now * float(slope[i, p]) + 1e-13 * abs(before):
                        break
                    now /= 2
                assert float(found[i, p]) == pytest.approx(now)


def test_relative_amounts_are_zero_where_there_is_nothing() -> None:
    assert relative(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 0.0])).tolist() == [0.5, 0.0]


@pytest.mark.parametrize("runs", [False, True])
def test_free_coordinates_alone_move_and_the_minimum_is_that_of_a_fine_search(runs: bool) -> None:
    net, (x, y) = network(), points()
    if runs:
        net, x, y = PatchNet(torch.stack([net.w, -net.w]), 3, 0.7), torch.stack([x, x]), torch.stack([y, y])
    free = torch.tensor([0, 2])
    found = inner_minimum(net, x, y, 0.25, free=free)
    assert float(found.delta[..., [1, 3]].abs().max()) == 0
    assert float(found.delta.abs().max()) <= 0.25
    outputs = net(x + found.delta)
    torch.testing.assert_close(found.value, outputs.gather(-1, y[..., None])[..., 0])
    torch.testing.assert_close(found.start, net(x).gather(-1, y[..., None])[..., 0])
    assert float(found.relative_gap.max()) <= 1.01e-8
    line = torch.linspace(-0.25, 0.25, 21, dtype=F64)
    grid = torch.cartesian_prod(line, line)
    w = net.w[1] if runs else net.w
    at, value = (x[1], found.value[1]) if runs else (x, found.value)
    for i in range(4):
        total = 0.0
        for p in range(P):
            moved = at[i, p].repeat(len(grid), 1)
            moved[:, free] += grid
            total += float(smoothed_relu(moved @ w[int(points()[1][i])].mT, 3, 0.7).sum(-1).min())
        assert float(value[i]) <= total + 1e-7
        assert float(value[i]) >= total - 0.05


@pytest.mark.parametrize("size", [0.05, 1.0, 3.0])
def test_the_gap_is_a_share_of_the_output_however_small_that_is(size: float) -> None:
    x, y = points()
    net = PatchNet(size * network().w, 3, 0.7)
    found = inner_minimum(net, x, y, 0.25, tolerance=1e-4)
    assert float(found.start.min()) > 0
    assert float(found.relative_gap.max()) <= 1.01e-4
    assert bool((found.lower <= found.value).all())


@pytest.mark.parametrize(("eps", "tolerance", "told"), [(0.0, 1e-8, "eps"), (0.1, 0.0, "tolerance")])
def test_a_radius_and_a_tolerance_are_positive(eps: float, tolerance: float, told: str) -> None:
    x, y = points()
    with pytest.raises(BadInput, match=f"{told} must be positive"):
        inner_minimum(network(), x, y, eps, tolerance=tolerance)
