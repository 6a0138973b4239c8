"""The talk's Table 1 recomputed from definitions alone, and the constructions behind its lower bounds."""

import itertools
import math

import pytest
import torch

from featscope.laws.graph_packing import GraphPackingLaw, packing_levels
from featscope.nets.built.counting import parameters_to_shatter, shattered_in_balls
from featscope.nets.built.fstar import GridClassifier
from featscope.nets.built.robust import memorising_network
from featscope.papers.ep.bounds import RobustSizes, held, packed, table

EPS, DELTA, N, MU, K = 0.2, 0.15, 100, 0.1, 4


def vc(parameters: float, layers: float, units: float) -> float:
    """Bartlett et al. 2019, Theorem 7, ReLU: L + L·W·log2(4e R log2(2e R)), R = Σ i·k_i ≤ L·U."""
    r = layers * units
    return layers + layers * parameters * math.log(4 * math.e * r * math.log(2 * math.e * r, 2), 2)


def fewest(points: float, share: float) -> int:
    """By trying: the least M whose envelope (M layers of M units, M³ parameters) reaches share·points."""
    low, high = 0, 1
    while vc(high**3, high, high**2) < share * points:
        low, high = high, 2 * high
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (mid, high) if vc(mid**3, mid, mid**2) < share * points else (low, mid)
    return high


def shattered_share(mu: float) -> float:
    """H⁻¹(1 − H(μ)) by bisection."""

    def h(p: float) -> float:
        return -p * math.log2(p) - (1 - p) * math.log2(1 - p)

    low, high = 1e-12, 0.5
    for _ in range(200):
        mid = (low + high) / 2
        low, high = (mid, high) if h(mid) < 1 - h(mu) else (low, mid)
    return low


def grid_log10(d: int) -> float:
    """The grid network written out: for every node of {0, 1/K, …, 1}^d two ramps an axis and a hat; K is the
    least with 1 − δ/ε − 1/(εK) > 0."""
    k = 1
    while not 1 - DELTA / EPS - 1 / (EPS * k) > 1e-12:
        k += 1
    tree, width = 0, d
    while width > 1:
        # a maximum of two needs two weights in, one of their ramp out; what is left over is passed on
        tree += 3 * (width // 2) + (width + 1) // 2
        width = (width + 1) // 2
    # a bias of 0 is not stored: the node at 0 of each axis
    whole = (k + 1) ** d * (4 * d + 2 * tree + 4) - 2 * d * (k + 1) ** (d - 1)
    return math.log10(whole)


def test_every_cell_of_the_table() -> None:
    share = shattered_share(MU)
    for row in table(RobustSizes()):
        d = row["dimension"]
        assert row["general_lower"] == fewest(3 ** (d - 1), share)
        assert row["manifold_lower"] == fewest(3 ** (K - 1), share)
        assert row["general_upper_log10"] == pytest.approx(grid_log10(d), rel=1e-12)
        chart = 10 ** grid_log10(K) + K * (d + 1)
        assert row["manifold_upper_log10"] == pytest.approx(math.log10(chart), rel=1e-9)
        # 4 further coordinates tell 50 pairs apart (3⁴ = 81), the others part points
        points = {4: 81, 16: 50 * 4, 64: 50 * 6}[d]
        assert row["train_lower"] == fewest(points, 1.0)
        assert row["train_order"] == pytest.approx(10 * math.sqrt(d))
        assert row["standard_linear"] == d + 1
    lower = {row["dimension"]: row["general_lower"] for row in table(RobustSizes())}
    assert lower[16] == 18
    assert lower[64] == pytest.approx(6.5e6, rel=0.01)


def test_the_upper_cells_are_networks_that_exist() -> None:
    """Where they are small enough, the counts are those of networks that are built and certified."""
    gen = torch.Generator().manual_seed(0)
    x = torch.rand(12, 4, generator=gen, dtype=torch.float64)
    y = torch.tensor([1.0, -1.0] * 6, dtype=torch.float64)
    x[y < 0, 0] += 2.0
    built = memorising_network(x, y, DELTA, 2 * EPS, "Linf")
    assert built.graph.parameters == table(RobustSizes(n=12, dimensions=(4,)))[0]["train_upper"]
    law = GraphPackingLaw(k=2, d=2, eps=EPS, delta=DELTA, bend=0.0, label_seed=1)
    data = law.support()
    grid = GridClassifier.of(data.x, data.y, DELTA)
    assert grid.certificate() > 0


def test_balls_hold_what_is_said_of_them() -> None:
    """ℓ∞: every labelling of p points has two centres 2ε apart with the points in the δ-balls of their label."""
    p, room = 4, 7
    half = EPS - DELTA
    ways = [s for s in itertools.product((1, -1), repeat=p) if s[0] == 1 and -1 in s]
    assert len(ways) == room
    points = torch.tensor([[half * way[i] for way in ways] for i in range(p)], dtype=torch.float64)
    for labels in itertools.product((1, -1), repeat=p):
        centres = {1: torch.zeros(room, dtype=torch.float64), -1: torch.zeros(room, dtype=torch.float64)}
        if len(set(labels)) == 2:
            way = labels if labels[0] == 1 else tuple(-s for s in labels)
            at, sign = ways.index(way), labels[0]
            centres[1][at], centres[-1][at] = sign * (half + DELTA), -sign * (half + DELTA)
            assert float((centres[1] - centres[-1]).abs().max()) >= 2 * EPS - 1e-12
        for point, label in zip(points, labels, strict=True):
            assert float((point - centres[label]).abs().max()) <= DELTA + 1e-12
    assert shattered_in_balls(100, 4 + room, EPS, DELTA) == 50 * p
    assert shattered_in_balls(100, 4 + room - 1, EPS, DELTA) == 50 * (p - 1)
    # below ε/2 the parts of a way cannot be told apart in one coordinate
    assert shattered_in_balls(100, 64, EPS, 0.09) == 100
    assert shattered_in_balls(100, 2, EPS, DELTA) == 9


def test_touching_balls_hold_every_labelling() -> None:
    for row in held(RobustSizes(held=(2, 5))):
        assert row["labellings"] == 2 ** row["points"]
        assert row["furthest"] == pytest.approx(1.0, abs=1e-12)
        assert row["separation"] == pytest.approx(1.0, abs=1e-12)
        assert row["delta_over_eps"] == pytest.approx(math.sqrt(1 - 1 / row["points"]))


def test_parameters_to_shatter_is_the_first_that_can() -> None:
    for points in (10.0, 1e3, 1e6):
        w = parameters_to_shatter(points)
        assert vc(w, w, w) >= points > vc(w - 1, w - 1, w - 1)


@pytest.mark.parametrize("bend", [0.0, 0.4])
def test_the_packing_on_a_manifold(bend: float) -> None:
    law = GraphPackingLaw(k=3, d=9, bend=bend, label_seed=2)
    x, y = law.support()
    assert x.shape == (9, 9)
    assert law.levels == packing_levels(0.2) == 3
    pairs = torch.cdist(x[y > 0], x[y < 0], p=math.inf)
    assert float(pairs.min()) >= 2 * law.eps
    assert bool((y * (x[:, 2] - 0.5) > 0).all())
    # a curved graph lies in no 3-dimensional plane, a flat one does
    surface = law.surface(50)
    rank = int(torch.linalg.matrix_rank(surface - surface.mean(0), atol=1e-9))
    assert (rank > 3) == (bend > 0)
    assert (law.curvature() > 0.1) == (bend > 0)
    # the sites lie on the surface
    on = law._points(x[:, :2], x[:, 2])
    assert torch.equal(on, x)
    assert all(condition.met for condition in law.check())


def test_separation_is_measured_not_assumed() -> None:
    rows = list(packed(RobustSizes(listed=(2, 3), bends=(0.4,))))
    assert {row["separation"] for row in rows} == {0.5}
    assert [row["curvature"] > 0 for row in rows] == [False, False, True, True]
