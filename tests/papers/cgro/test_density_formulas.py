"""`known-density`: every number against a quadrature, a sum or a search of its own."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from featscope.core.streams import derive
from featscope.papers.cgro import known_density as kd
from featscope.papers.cgro.known_density import KnownDensity

SPEC = KnownDensity(
    dimensions=(1, 3),
    samples=(50, 100, 200),
    repeats=40,
    points=300,
    seeds=(0, 1),
    slope=1.5,
    radius=0.4,
    output=0.7,
)
ALL = (-8.0, 8.0)


def loss(z: float) -> float:
    return math.log(1 + math.exp(-z))


def expected(value, breaks=(0.0,)) -> float:
    """E value(X₁) for a Gaussian, by adaptive quadrature."""
    return quad(lambda x: value(x) * norm.pdf(x), *ALL, points=breaks, limit=400)[0]


def test_nodes_are_a_gaussian() -> None:
    x, weights = kd.nodes()
    assert [float(weights @ x**p) for p in (0, 1, 2, 4)] == pytest.approx([1, 0, 1, 3], abs=1e-9)
    z = np.array([-30.0, -1.0, 0.0, 2.0, 40.0])
    assert kd.softplus(z) == pytest.approx([math.log1p(math.exp(v)) for v in z])
    assert kd.sigmoid(z) == pytest.approx([1 / (1 + math.exp(-v)) for v in z])


def test_attacked_loss_and_flatness_are_the_largest_within_the_radius() -> None:
    a, delta = SPEC.slope, SPEC.radius
    moves = np.linspace(-delta, delta, 2001)
    linear, constant = kd.networks(SPEC).values()
    for x in (-2.0, -0.1, 0.3, 1.7):
        margins = a * np.sign(x) * (x + moves)
        assert linear.attacked(np.array([x]))[0] == pytest.approx(max(np.log1p(np.exp(-margins))))
        assert linear.flat(np.array([x]))[0] == pytest.approx(max(a / (1 + np.exp(margins))))
        assert constant.attacked(np.array([x]))[0] == pytest.approx(loss(np.sign(x) * 0.7))
        assert constant.flat(np.array([x]))[0] == 0.0


def test_gaps_are_quantiles_over_samples_and_stand_at_every_dimension() -> None:
    rows = kd.gap_rows(SPEC)
    assert len(rows) == 2 * 3 * 2 * 2
    attacked = {
        "linear": lambda x: loss(SPEC.slope * (abs(x) - SPEC.radius)),
        "constant": lambda x: loss(math.copysign(0.7, x)),
    }
    flat = expected(lambda x: SPEC.slope / (1 + math.exp(SPEC.slope * (abs(x) - SPEC.radius))))
    for row in rows:
        name, n = row["network"], row["n"]
        draws = np.random.default_rng(derive(row["seed"], "gap", name, n)).standard_normal((40, n))
        gaps = sorted(
            expected(attacked[name]) - sum(map(attacked[name], sample)) / n for sample in draws.tolist()
        )
        # the 95 % quantile of 40 numbers lies 1/20 beyond the 38th
        assert row["gap"] == pytest.approx(gaps[37] + 0.05 * (gaps[38] - gaps[37]), abs=3e-5)
        assert row["flatness"] == pytest.approx(flat if name == "linear" else 0.0, abs=1e-6)
        assert row["rate"] == pytest.approx((1 / n) ** (1 / (row["D"] + 2)))


def test_a_loss_that_remembers_by_hand() -> None:
    distance = np.array([0.05, 0.1, 0.15, 0.2, 0.3])
    found = kd.remembered(distance, 0.1, 2, 2)
    # (dist − .1)/.1 in [0, 1]: 0, 0, ½, 1, 1; on the slope is the third alone; 2 boxes of half-width .3 in [0, 1)²
    assert found == pytest.approx({"clean": 0.5, "flatness_low": 2.0, "flatness_high": 2 * 0.6**2 / 0.1})
    assert kd.remembered(distance, 0.1, 5, 2)["flatness_high"] == pytest.approx(10.0)


def test_distances_are_those_of_the_torus() -> None:
    rows = kd.memory_rows(SPEC)
    assert len(rows) == 2 * 3 * 2 * 4
    for dim, n, seed in product((1, 3), (50, 200), (0, 1)):
        mine = [row for row in rows if (row["D"], row["n"], row["seed"]) == (dim, n, seed)]
        rate, spacing = n ** (-1 / (dim + 2)), n ** (-1 / dim)
        assert [(row["radius_rule"], row["radius"]) for row in mine] == [
            ("proof", rate),
            *(("apart", pytest.approx(part * spacing)) for part in (0.3, 0.03, 0.003)),
        ]
        assert [row["share"] for row in mine] == pytest.approx([rate / spacing, 0.3, 0.03, 0.003])
        assert {row["rate"] for row in mine} == {rate}
        rng = np.random.default_rng(derive(seed, "memory", dim, n))
        sample, fresh = rng.random((n, dim)), rng.random((300, dim))
        straight = np.abs(fresh[:, None] - sample)
        distance = np.minimum(straight, 1 - straight).max(-1).min(-1)
        for row in mine:
            delta = row["radius"]
            slope = np.clip((distance - delta) / delta, 0, 1)
            assert row["clean"] == pytest.approx(slope.mean())
            assert row["flatness_low"] == pytest.approx(((slope > 0) & (slope < 1)).mean() / delta)


@pytest.mark.parametrize(("dim", "h"), [(1, 0.4), (2, 0.4), (5, 0.1)])
def test_the_first_term_is_that_of_a_ball(dim: int, h: float) -> None:
    """The first coordinate of a uniform point of the unit ball has density ∝ (1 − t²)^((D−1)/2)."""
    density = lambda t: (1 - t * t) ** ((dim - 1) / 2)  # noqa: E731
    whole = quad(density, -1, 1)[0]

    def moved(x: float) -> float:
        at = lambda t: density(t) * loss(SPEC.slope * (abs(x) + h * t)) / whole  # noqa: E731
        return quad(at, -1, 1)[0] - loss(SPEC.slope * abs(x))

    grid = np.linspace(0, 8, 401)
    values = np.array([moved(x) for x in grid]) * 2 * norm.pdf(grid)
    assert kd.bias(SPEC, h, dim) == pytest.approx(abs(np.trapezoid(values, grid)), rel=5e-3)


@pytest.mark.parametrize(("n", "h", "dim"), [(100, 0.05, 1), (100, 0.2, 2), (1000, 0.1, 3), (30, 0.45, 2)])
def test_the_second_term_is_the_mean_deviation_of_a_binomial(n: int, h: float, dim: int) -> None:
    p = (2 * h) ** dim
    k = np.arange(n + 1)
    mean = (binom.pmf(k, n, p) * np.abs(k / (n * p) - 1)).sum()
    assert kd.worst_variance(n, h, dim) == pytest.approx(mean / 2)
    assert kd.worst_variance(n, 0.5, dim) == 0.0
    assert kd.worst_variance(n, 0.7, dim) == 0.0


@pytest.fixture
def quick_bias(monkeypatch):
    """A first term that is cheap to tell apart."""
    monkeypatch.setattr(kd, "bias", lambda spec, h, dim: spec.slope * h + dim)


def test_the_terms_orders(quick_bias) -> None:
    rows = kd.term_rows(SPEC)
    assert len(rows) == 2 * 5 * (1 + 3)
    for row in rows:
        h, dim, n = row["bandwidth"], row["D"], row["n"]
        if row["term"] == "I":
            assert (n, row["order"]) == (None, h * h)
            assert row["value"] == kd.bias(SPEC, h, dim)
        else:
            assert row["order"] == pytest.approx(1 / math.sqrt(n * h**dim))
            assert row["value"] == kd.worst_variance(n, h, dim)


@pytest.mark.parametrize("phase", [0.05, 1.0, 3.0, 9.0])
def test_the_waves_constant_is_that_of_a_search(phase: float) -> None:
    """The worst of the loss over 2001 moves within δ at 8001 points."""
    a, delta = SPEC.slope, SPEC.radius
    omega = phase / delta
    x = np.linspace(-8, 8, 8002)
    weights = norm.pdf(x) / norm.pdf(x).sum()
    y = np.sign(x)
    worst = np.full(len(x), -math.inf)
    for move in np.linspace(-delta, delta, 401):
        worst = np.maximum(worst, np.log1p(np.exp(-y * a * np.sin(omega * (x + move)))))
    f = y * a * np.sin(omega * x)
    slope = a * omega * np.abs(np.cos(omega * x)) / (1 + np.exp(f))
    found = weights @ (worst - np.log1p(np.exp(-f))) / (delta * (weights @ slope))
    assert kd.wave_constant(SPEC, phase) == pytest.approx(found, rel=3e-3)


@pytest.mark.parametrize("phase", [0.01, 1.0, 10.0])
def test_the_linear_networks_constant(phase: float) -> None:
    a = SPEC.slope
    gained = expected(lambda x: loss(a * abs(x) - phase) - loss(a * abs(x)))
    slope = expected(lambda x: a / (1 + math.exp(a * abs(x))))
    assert kd.linear_constant(SPEC, phase) == pytest.approx(gained / (phase / a * slope), rel=1e-6)


def test_constants_stand_at_their_phase_and_radius() -> None:
    rows = kd.constant_rows(SPEC)
    assert [(row["network"], row["phase"], row["radius"]) for row in rows] == [
        (name, phase, phase / 1.5 if name == "linear" else 0.4)
        for phase in SPEC.phases
        for name in ("linear", "wave")
    ]
    for row in rows:
        of = kd.linear_constant if row["network"] == "linear" else kd.wave_constant
        assert row["constant"] == of(SPEC, row["phase"])


def test_the_summary_says_the_worst(quick_bias) -> None:
    parts = {}

    class Folder:
        def add(self, part, rows):
            parts[part] = rows

    found = kd.run_density(SPEC, Folder())
    assert parts["terms"] == kd.term_rows(SPEC)
    linear = [row for row in parts["gaps"] if row["network"] == "linear"]
    shares = [row["gap"] / row["rate"] / row["flatness"] for row in linear]
    assert found["largest_share_linear"] == pytest.approx(max(shares))
    assert found["gap_of_a_constant"] == max(r["gap"] for r in parts["gaps"] if r["network"] == "constant")
    apart = [row["clean"] for row in parts["memory"] if row["radius_rule"] == "apart"]
    assert found["largest_gap_remembered"] == max(apart)
    waves = [row["constant"] for row in parts["constants"] if row["network"] == "wave"]
    assert found["least_constant_wave"] == min(waves)
