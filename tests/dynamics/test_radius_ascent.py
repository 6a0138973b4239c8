"""The search for robust networks: boundary points lie on the boundary, and ascent enlarges exact radii."""

import math

import pytest
import torch

from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.streams import stream
from featscope.dynamics.radius_ascent import Searched, ascend_radii, boundary_points
from featscope.laws.clusters import ClusterLaw
from featscope.nets.two_layer import TwoLayer, averaging, forward

LAW = ClusterLaw(k=4, d=4)
X, Y = LAW.features() / 2, LAW.signs()


def least(net: Searched, run: int = 0) -> float:
    return float(exact_radii(TwoLayer(net.w[run], net.b[run], net.a[run]), X, Y).upper.min())


def averaged() -> Searched:
    net = averaging(X, Y)
    return Searched(net.w[None], net.b[None], net.a[None])


def test_tangent_planes_end_on_the_boundary_at_the_exact_distance() -> None:
    net = averaged()
    x = X[None]
    z = boundary_points(net, x, 0.5 * (x + x.flip(1)))
    assert forward(TwoLayer(net.w[0], net.b[0], net.a[0]), z[0]).abs().max() < 1e-9
    exact = exact_radii(TwoLayer(net.w[0], net.b[0], net.a[0]), X, Y).upper
    assert torch.linalg.vector_norm(z - x, dim=-1)[0].tolist() == pytest.approx(exact.tolist())


def test_ascent_passes_the_averaging_network_and_stays_below_the_bound() -> None:
    assert least(averaged()) == pytest.approx(0.5)
    rng = stream(0, "search")
    a = torch.tensor([[1.0, 1.0, -1.0, -1.0]] * 4, dtype=torch.float64)
    start = Searched(
        0.5 * torch.randn(4, 4, 4, generator=rng, dtype=torch.float64),
        0.1 * torch.randn(4, 4, generator=rng, dtype=torch.float64),
        a,
    )
    found = ascend_radii(start, X, Y, 150, 0.02, rng)
    best = max(least(found, run) for run in range(4))
    assert max(least(start, run) for run in range(4)) < 0.3
    assert 0.55 < best <= math.sqrt(0.5) * (1 + 1e-9)
    assert torch.equal(found.a, a)


def plain_step_goal(
    w: torch.Tensor, b: torch.Tensor, a: torch.Tensor, noise: torch.Tensor, heat: float
) -> torch.Tensor:
    """What one step ascends for one network, pair by pair, as a function of its weights."""

    def f(z: torch.Tensor) -> torch.Tensor:
        return ((w @ z + b).clamp(min=0) * a).sum()

    def value(z: torch.Tensor) -> float:
        return float(f(z).detach())

    def slope(z: torch.Tensor) -> torch.Tensor:
        return (((w @ z + b) > 0) * a) @ w.detach()

    radii, terms = [], []
    for i, x in enumerate(X):
        for goal in (*X, x + 0.5 * noise[i]):
            right = float(Y[i]) * value(x) > 0
            at = x
            if right:
                z = 0.5 * (x + goal)
                for _ in range(8):
                    s = slope(z)
                    z = x + (float(s @ (z - x)) - value(z)) / max(float(s @ s), 1e-12) * s
                at = z
            steep = max(float(slope(at).norm()), 1e-6)
            if not right:
                radii.append(float(Y[i]) * value(x) / steep)
            elif abs(value(at)) < 1e-3 * max(abs(value(x)), 1e-12):
                radii.append(float((at - x).norm()))
            else:
                radii.append(1e3)
            terms.append(Y[i] * f(at) / steep)
    weight = torch.softmax(-heat * torch.tensor(radii, dtype=torch.float64), -1)
    return (weight * torch.stack(terms)).sum()


def test_a_step_of_the_ascent_is_its_formula_by_autograd() -> None:
    rng = stream(3, "search")
    a = torch.tensor([[1.0, 1.0, -1.0, -1.0]] * 2, dtype=torch.float64)
    w = 0.5 * torch.randn(2, 4, 4, generator=rng, dtype=torch.float64)
    b = 0.1 * torch.randn(2, 4, generator=rng, dtype=torch.float64)
    steps, rate = 3, 0.02
    found = ascend_radii(Searched(w, b, a), X, Y, steps, rate, stream(4, "noise"))
    draws = stream(4, "noise")
    noise = [torch.randn(2, 4, 1, 4, generator=draws, dtype=torch.float64) for _ in range(steps)]
    for run in range(2):
        own_w, own_b = w[run].clone().requires_grad_(True), b[run].clone().requires_grad_(True)
        optimiser = torch.optim.Adam([own_w, own_b], lr=rate)
        for t in range(steps):
            optimiser.zero_grad()
            (-plain_step_goal(own_w, own_b, a[run], noise[t][run, :, 0], 10 + 40 * t / steps)).backward()
            optimiser.step()
        torch.testing.assert_close(found.w[run], own_w.detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.b[run], own_b.detach(), rtol=1e-4, atol=1e-5)


def test_planes_start_half_way_to_the_other_points_and_to_noise_around_the_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def watched(net: Searched, x: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        seen.append((x, starts))
        return boundary_points(net, x, starts)

    monkeypatch.setattr("featscope.dynamics.radius_ascent.boundary_points", watched)
    net = Searched(*(torch.cat([part, part]) for part in averaged()))
    ascend_radii(net, X, Y, 1, 0.01, stream(4, "noise"))
    noise = torch.randn(2, 4, 1, 4, generator=stream(4, "noise"), dtype=torch.float64)
    ((own, starts),) = seen
    for run in range(2):
        for i in range(4):
            goals = [*X, X[i] + 0.5 * noise[run, i, 0]]
            for j, goal in enumerate(goals):
                torch.testing.assert_close(own[run, 5 * i + j], X[i])
                torch.testing.assert_close(starts[run, 5 * i + j], 0.5 * (X[i] + goal))
