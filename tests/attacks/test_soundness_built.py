"""Built networks: what they certify lies below dense grids of their balls and is tight; their counts and the
VC count in numbers by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from soundness import F64, assert_sound, assert_tight, ball_grid, tensor

from featscope.certificates.cgro import robust_memory
from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.core.streams import stream
from featscope.experiments.registry import experiment
from featscope.experiments.runner import run
from featscope.experiments.spec import Request
from featscope.nets.built import blocks
from featscope.nets.built.counting import (
    entropy,
    envelope_vc,
    packing_sites,
    parameters_needed,
    parameters_needed_at_depth,
    shattered_share,
    vc_bound,
)
from featscope.nets.built.fstar import (
    cell_certificate,
    cells_needed,
    distance_to,
    f_star,
    grid_network,
    grid_parameters,
    nodes,
    slope_bound,
)
from featscope.nets.built.graph import Graph
from featscope.nets.built.robust import (
    Robust,
    cgro_classifier,
    cgro_parameters,
    halfspace,
    memorising_network,
    memorising_parameters,
    norm_of,
    opposite_distance,
)
from featscope.papers.cgro.built import BuiltCgro

KINDS = ("Linf", "L2-shared", "L2-each")


def least_on_balls(built: Robust, size: int) -> torch.Tensor:
    """min y·f on a grid of B(X_i, δ) for each training point."""
    steps = ball_grid(norm_of(built.kind), built.delta, built.x.shape[1], size)
    return torch.stack(
        [(s * built.graph(p + steps)[:, 0]).amin() for p, s in zip(built.x, built.y.tolist(), strict=True)]
    )


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    dim=st.integers(2, 3),
    kind=st.sampled_from(KINDS),
    tied=st.booleans(),
    whole=st.booleans(),
)
def test_built_certificates_are_below_every_grid_on_unfriendly_sets(
    seed: int, dim: int, kind: str, tied: bool, whole: bool
) -> None:
    """Sets that are not separated at all, repeated points, points on the cube's corners."""
    rng = stream(seed, "built")
    x = torch.rand(5, dim, generator=rng, dtype=F64)
    if tied:
        x[1], x[2], x[3] = x[0], 0.0, 1.0
    y = tensor([1.0, 1.0, -1.0, 1.0, -1.0])
    built = (
        cgro_classifier(x, y, halfspace(dim, 0, 0.4, 0.2), 0.15, 0.5, kind)
        if whole
        else memorising_network(x, y, 0.15, 0.5, kind)
    )
    low, true = built.certificate(), least_on_balls(built, 13 if dim == 2 else 7)
    assert (low <= true + 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_certificate_is_tight_on_separated_sets(kind: str) -> None:
    x, y = tensor([[0.25, 0.25], [0.75, 0.25], [0.25, 0.875]]), tensor([1.0, -1.0, -1.0])
    for built in (
        memorising_network(x, y, 0.125, 0.5, kind),
        cgro_classifier(x, y, halfspace(2, 0, 0.5, 0.1), 0.125, 0.5, kind),
    ):
        low, true = built.certificate(), least_on_balls(built, 41)
        assert_sound(low, true)
        assert_tight(low, true)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("same", [True, False])
def test_the_certificate_is_tight_where_indicators_overlap(kind: str, same: bool) -> None:
    """A neighbour of the other class counts at its nearest, d − δ, one of the own class at its farthest, d +
    δ and the squares' error."""
    delta, separation, apart = 0.25, 0.5625, 0.04 if same else 0.54
    x, y = tensor([[0.25, 0.5], [0.25 + apart, 0.5]]), tensor([1.0, 1.0 if same else -1.0])
    built = memorising_network(x, y, delta, separation, kind)
    wide, d = delta + (separation - 2 * delta) / 8, apart + delta if same else apart - delta
    if kind == "Linf":
        error, other = 0.0, 1 - (d - wide) / (separation - 2 * wide)
    else:
        error = 2 * 4.0 ** -(built.local.levels + 1)
        other = 1 - (d**2 - wide**2 - (0 if same else error)) / ((separation - wide) ** 2 - wide**2 - error)
    assert 0.03 < other < 0.97
    low, true, expected = built.certificate(), least_on_balls(built, 33), 1 + other if same else 1 - other
    assert_sound(low, true)
    torch.testing.assert_close(low, torch.full((2,), expected, dtype=F64), rtol=0, atol=2e-7)
    if kind == "Linf":
        assert_tight(low, true)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_error_of_the_squares_is_paid_for(kind: str) -> None:
    """With coarse squares, points off their knots and a friend half way: a bound without the squares' error
    would be too large."""
    worst = math.inf
    for seed in range(12):
        x = 0.2 + 0.6 * torch.rand(2, 2, generator=stream(seed, "squares"), dtype=F64)
        built = memorising_network(x, torch.ones(2, dtype=F64), 0.05, 0.9, kind)
        low, true = built.certificate(), least_on_balls(built, 31)
        assert_sound(low, true)
        worst = min(worst, float((true - low).min()))
        assert built.local.levels <= 2
    error = 2 * blocks.square_error(built.local.levels)
    assert worst < 0.5 * error / (built.local.high - built.local.low)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_points_outside_the_cube_are_refused(kind: str) -> None:
    """The network clamps its input to the cube, so it cannot remember a point outside; it once certified
    one."""
    for bad in (-0.001, 1.2):
        with pytest.raises(BadInput, match="lie in"):
            memorising_network(tensor([[bad, 0.5], [0.5, 0.1]]), tensor([1.0, -1.0]), 0.1, 0.4, kind)


def test_perturbations_that_leave_the_cube_are_clamped_back() -> None:
    for kind in KINDS[1:]:
        built = memorising_network(tensor([[0.0, 1.0], [1.0, 0.0]]), tensor([1.0, -1.0]), 0.3, 1.0, kind)
        far = built.graph(tensor([[-5.0, 1.0], [0.0, 7.0], [6.0, -3.0]]))[:, 0]
        torch.testing.assert_close(far, tensor([1.0, 1.0, -1.0]), rtol=0, atol=1e-9)
        assert_tight(built.certificate(), least_on_balls(built, 21))
        narrow = memorising_network(tensor([[0.0, 1.0], [1.0, 0.0]]), tensor([1.0, -1.0]), 0.02, 0.1, kind)
        torch.testing.assert_close(
            narrow.graph(tensor([[-5.0, 7.0], [1.0, -3.0]]))[:, 0], tensor([1.0, -1.0]), rtol=0, atol=1e-9
        )


def test_f_s_keeps_the_clamped_clean_value_away_from_the_points() -> None:
    built = cgro_classifier(
        tensor([[0.1, 0.1]]), tensor([-1.0]), halfspace(2, 0, 0.5, 0.25), 0.05, 0.2, "Linf"
    )
    at = tensor([[0.9, 0.9], [0.6, 0.9], [0.5, 0.9], [0.3, 0.9], [0.1, 0.1], [0.0, 0.9]])
    torch.testing.assert_close(
        built.graph(at)[:, 0], tensor([1.0, 0.4, 0.0, -0.8, -1.0, -1.0]), rtol=0, atol=1e-12
    )


def test_opposite_distance_is_exact_for_many_points_and_each_norm() -> None:
    rng = stream(0, "far")
    x, y = (
        30 + torch.rand(80, 3, generator=rng, dtype=F64),
        torch.where(torch.arange(80) % 3 > 0, 1.0, -1.0).to(F64),
    )
    x[0] = x[1] + tensor([3e-9, 4e-9, 0.0])
    assert opposite_distance(x, y, "L2") == pytest.approx(5e-9, rel=1e-5)
    assert opposite_distance(x, y, "Linf") == pytest.approx(4e-9, rel=1e-5)
    assert opposite_distance(x, torch.ones(80), "L2") == math.inf
    assert float(distance_to(x[:1], x, "L2")) == 0.0


def test_the_stored_numbers_are_those_that_were_certified(tmp_path: Path) -> None:
    """δ and R once went through float32, so that .1599999964 was re-verified and not .16."""
    spec = BuiltCgro(
        dimensions=(3,), samples=(4,), accuracy_shares=(0.5,), least_sites=20, test=5, attacked=4
    )
    plan = experiment("built-cgro")
    done = run(Request(plan, spec), Store(tmp_path))
    row, kept = done.part("cgro").to_dicts()[0], done.part("memory", D=3).to_dicts()[0]
    assert (kept["delta"], kept["separation"]) == (row["radius"], row["separation"])
    x, y = (done.tensor("memory", name, D=3) for name in ("x", "y"))
    assert x.dtype == F64
    again = robust_memory(x.numpy(), y.numpy(), kept["delta"], kept["separation"])
    assert again["separated"]
    assert again["wide_enough"]


# --- f* and its grid
# -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_cell_bound_is_below_the_interpolant_and_tight(dim: int) -> None:
    cells = 4
    values = torch.randn((cells + 1) ** dim, generator=stream(0, "v", dim), dtype=F64)
    graph = grid_network(values, cells, dim)
    for centre, delta in ((0.5, 0.25), (0.5, 0.3), (0.1, 0.2), (0.99, 0.01), (0.5, 0.0)):
        for sign in (1.0, -1.0):
            ball = (centre + ball_grid("Linf", delta, dim, 9)).clamp(0, 1)
            sure = cell_certificate(values, cells, torch.full((dim,), centre, dtype=F64), delta, sign)
            assert sure <= float((sign * graph(ball)[:, 0]).min()) + 1e-9
    # A ball whose faces are grid lines: the corners are in it, so nothing lies between.
    ball = 0.5 + ball_grid("Linf", 0.25, dim, 5)
    sure = cell_certificate(values, cells, torch.full((dim,), 0.5, dtype=F64), 0.25, 1.0)
    lines = nodes(cells, dim)
    # The widening for rounding takes one more grid line on either side.
    assert sure == pytest.approx(float(values[((lines >= 0) & (lines <= 4)).all(-1)].min()))
    inner = cell_certificate(values, cells, torch.full((dim,), 0.5, dtype=F64), 0.24, 1.0)
    assert inner == pytest.approx(float(graph(ball)[:, 0].min()), abs=1e-12)


@pytest.mark.parametrize("norm", ["Linf", "L2", "L4"])
def test_f_star_rises_no_faster_than_its_bound_and_as_fast_between_the_sets(norm: str) -> None:
    rng = stream(0, "sets")
    a, b = torch.rand(4, 2, generator=rng, dtype=F64), 1.5 + torch.rand(4, 2, generator=rng, dtype=F64)
    x, step = 2.5 * torch.rand(400, 2, generator=rng, dtype=F64), 1e-6 * ball_grid(norm, 1.0, 2, 5)
    p = math.inf if norm == "Linf" else float(norm[1:])
    rise = (
        f_star((x[:, None] + step).view(-1, 2), a, b, norm).view(400, -1) - f_star(x, a, b, norm)[:, None]
    ).abs()
    length = torch.linalg.vector_norm(step, ord=p, dim=-1)
    slopes = (rise / length.clamp(min=1e-12))[:, length > 1e-9].amax(-1)
    assert (slopes <= slope_bound(x, a, b, norm) * (1 + 1e-4) + 1e-6).all()
    pair = tensor([[0.0, 0.0]]), tensor([[1.0, 0.0]])
    middle = tensor([[0.3, 0.0]])
    climb = (f_star(middle + tensor([1e-6, 0.0]), *pair, norm) - f_star(middle, *pair, norm)).abs() / 1e-6
    assert_tight(climb, slope_bound(middle, *pair, norm))
    assert float(f_star(middle, *pair, norm)) == pytest.approx(0.4)


def test_the_cells_needed_are_the_least() -> None:
    assert [cells_needed(0.5, 0.25), cells_needed(0.75, 0.25), cells_needed(0.3, 0.0625)] == [5, 3, 5]
    for eps, delta in ((0.31, 0.1), (0.5, 0.2), (0.11, 0.1)):
        k = cells_needed(eps, delta)
        assert 1 - delta / eps - 1 / (eps * k) > 0 >= 1 - delta / eps - 1 / (eps * (k - 1))


# --- counts, by hand -----------------------------------------------------------------------------------------------------------------------


def test_parameters_of_odd_sizes_by_hand() -> None:
    """One point in three dimensions, every coordinate off zero.

    ℓ∞: 6 neurons with a weight and a bias each, 6 slopes and the bias 1: 19. The label weight: 20.
    """
    x, y = tensor([[0.3, 0.4, 0.7]]), tensor([1.0])
    one = memorising_network(x, y, 0.1, 0.4, "Linf")
    assert one.graph.parameters == memorising_parameters(1, 3, 0, "Linf") == 20
    for kind in KINDS:
        for n, dim in ((1, 3), (3, 5), (2, 1)):
            points = 0.1 + 0.8 * torch.rand(n, dim, generator=stream(n, "odd"), dtype=F64)
            labels = torch.ones(n, dtype=F64)
            built, clean = memorising_network(points, labels, 0.1, 0.4, kind), halfspace(dim, 0, 0.5, 1.0)
            assert built.graph.parameters == memorising_parameters(n, dim, built.local.levels, kind)
            whole = cgro_classifier(points, labels, clean, 0.1, 0.4, kind)
            assert whole.graph.parameters == cgro_parameters(n, dim, whole.local.levels, kind, 2)


def test_the_trees_of_odd_widths_by_hand() -> None:
    """Width 3: one pair (4 parameters, two of them the kept one and its rise) and one passed on, then a pair: 2+1+2 and 2+1+1."""
    assert grid_parameters(1, 1) == 2 * (2 + 2 + 4) - 2
    assert grid_parameters(2, 3) == 27 * (12 + 2 * 9 + 4) - 2 * 3 * 9
    for width in (2, 3, 5, 7):
        graph = Graph(width)
        blocks.block_maximum(graph, graph.x, 1)
        x = torch.randn(40, width, generator=stream(width, "x"), dtype=F64)
        torch.testing.assert_close(graph(x)[:, 0], x.amax(-1), rtol=0, atol=1e-14)
        assert graph.depth == math.ceil(math.log2(width))


def test_the_vc_bound_in_numbers_by_hand() -> None:
    """L + L·W·log2(4eR·log2(2eR)), R = L·U. For W = 3, L = 2, U = 4: R = 8, 2eR = 43.4925, its log2 5.44269, 4eR = 86.9850, log2(473.43) = 8.88702."""
    assert vc_bound(3, 2, 4) == pytest.approx(55.3221, abs=1e-4)
    # R = 2 at the least: 2eR = 10.8731, log2 3.44269, 4eR = 21.7463, log2(74.8657) = 6.22624.
    assert vc_bound(5, 1, 1) == pytest.approx(1 + 5 * 6.22624, abs=1e-4)
    assert envelope_vc(2) == vc_bound(8, 2, 4) == pytest.approx(2 + 16 * 8.88701, abs=2e-4)
    assert envelope_vc(3) == vc_bound(27, 3, 9)


def test_the_entropy_and_its_inverse_in_numbers_by_hand() -> None:
    # H(.1) = .468996; H(.12) = .529361 with slope log2(.88/.12) = 2.8745, so .531004 is reached at .12 + .001643/2.87.
    assert entropy(0.25) == pytest.approx(2 - 0.75 * math.log2(3))
    assert [entropy(0.0), entropy(0.5), entropy(1.0)] == [0.0, 1.0, 0.0]
    # H(.11002786) = .5, so an error of that much halves the bits.
    assert shattered_share(0.11002786) == pytest.approx(0.11002786, abs=1e-7)
    assert shattered_share(0.1) == pytest.approx(0.12057, abs=1e-5)
    assert entropy(shattered_share(0.3)) == pytest.approx(1 - entropy(0.3))


def test_the_sites_of_a_packing_by_hand() -> None:
    """Spacing 1/(levels − 1) > 2δ on each of D − 1 axes: for δ = .2 three levels (spacing .5), for δ = .25 two (1), for δ = .1 five (.25)."""
    for delta, levels in ((0.2, 3), (0.25, 2), (0.1, 5), (0.24, 3), (0.49, 2)):
        assert packing_sites(4, delta) == levels**3
        assert 1 / (levels - 1) > 2 * delta >= 1 / levels
    assert packing_sites(1, 0.1) == 1
    for delta in (0.0, 0.5):
        with pytest.raises(BadInput, match="between 0 and"):
            packing_sites(3, delta)


def test_the_parameters_needed_in_numbers() -> None:
    """½·n ≤ bound for μ = 0: with M = 2 the envelope's bound is 144.19, so 288 sites need two and 289 need three."""
    assert parameters_needed(288, 0.0) == 2
    assert parameters_needed(289, 0.0) == 3
    assert parameters_needed_at_depth(2 * vc_bound(7, 2, 7), 0.0, 2) == 7
    assert parameters_needed_at_depth(2 * vc_bound(7, 2, 7) + 1e-6, 0.0, 2) == 8


def test_the_product_and_the_square_meet_their_errors() -> None:
    for levels in (1, 2, 3):
        middle = 2.0 ** -(levels + 1)
        graph = Graph(1)
        blocks.square(graph, graph.x, levels)
        assert float(graph(tensor([[middle]]))) - middle**2 == pytest.approx(4.0 ** -(levels + 1))
        pair = Graph(2)
        pick = torch.eye(2, dtype=F64)
        blocks.product(pair, pair.affine((pair.x, pick[:1])), pair.affine((pair.x, pick[1:])), 1.0, levels)
        both = tensor([[2 * middle, 2 * middle]])
        # x + y = 4·middle is a knot, x and y are not: the error is −2B²·2·4^−(n+1), all of the bound.
        assert float(pair(both)) - float(both.prod()) == pytest.approx(-blocks.product_error(1.0, levels))
    assert [blocks.levels_for(e) for e in (2.0, 4.0**-2, 4.0**-2 * 0.99, 4.0**-5)] == [1, 1, 2, 4]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_enclosures_of_odd_graphs_contain_grids_and_are_tight_for_one_neuron(seed: int) -> None:
    rng = stream(seed, "graph")
    graph = Graph(3)
    hidden = graph.relu(
        graph.affine(
            (graph.x, torch.randn(3, 3, generator=rng, dtype=F64)),
            bias=torch.randn(3, generator=rng, dtype=F64),
        )
    )
    graph.affine(
        (hidden, torch.randn(1, 3, generator=rng, dtype=F64)),
        (graph.x, torch.randn(1, 3, generator=rng, dtype=F64)),
        bias=0.3,
    )
    centre = torch.randn(3, generator=rng, dtype=F64)
    values = graph(centre + ball_grid("Linf", 0.7, 3, 7))[:, 0]
    low, high = graph.enclose((centre - 0.7)[None], (centre + 0.7)[None])
    assert float(low) <= float(values.min())
    assert float(high) >= float(values.max())
    one = Graph(3)
    row = torch.randn(1, 3, generator=rng, dtype=F64)
    one.relu(one.affine((one.x, row), bias=0.2))
    ends = one(centre + ball_grid("Linf", 0.7, 3, 3))[:, 0]
    low, high = one.enclose((centre - 0.7)[None], (centre + 0.7)[None])
    torch.testing.assert_close(
        torch.stack([low[0, 0], high[0, 0]]), torch.stack([ends.min(), ends.max()]), rtol=1e-12, atol=1e-12
    )
