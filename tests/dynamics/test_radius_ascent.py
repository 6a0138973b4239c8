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
