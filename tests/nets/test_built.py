"""Networks built by hand: blocks, counts, intervals, certificates, f*, and the VC count."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from featscope.core.balls import ball
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.laws.separated import ManifoldLaw, PackingLaw, SeparatedLaw
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
    GridClassifier,
    cell_certificate,
    cells_needed,
    f_star,
    grid_network,
    grid_parameters,
    nodes,
    slope_bound,
)
from featscope.nets.built.graph import Graph, append
from featscope.nets.built.robust import (
    cgro_classifier,
    cgro_parameters,
    halfspace,
    memorising_network,
    memorising_parameters,
    norm_of,
)

F64 = torch.float64
KINDS = ("Linf", "L2-shared", "L2-each")


def points(n: int, d: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    return low + (high - low) * torch.rand(n, d, generator=stream(seed, "points"), dtype=F64)


def test_clamp_and_absolute_are_exact() -> None:
    x = points(200, 4)
    for build, expected, parameters in (
        (lambda g: blocks.clamp(g, g.x, -1.0, 0.5), x.clamp(-1.0, 0.5), 4 * 7),
        (lambda g: blocks.clamp(g, g.x, 0.0, 1.0), x.clamp(0.0, 1.0), 4 * 5),
        (lambda g: blocks.absolute(g, g.x), x.abs(), 4 * 4),
    ):
        graph = Graph(4)
        build(graph)
        torch.testing.assert_close(graph(x), expected, rtol=0, atol=1e-14)
        assert graph.parameters == parameters


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
def test_the_tree_takes_the_maximum_of_each_block(width: int) -> None:
    x = points(50, 3 * width)
    graph = Graph(3 * width)
    blocks.block_maximum(graph, graph.affine((graph.x, 1.0)), 3)
    torch.testing.assert_close(graph(x), x.view(50, 3, width).amax(-1), rtol=0, atol=1e-14)


@pytest.mark.parametrize("levels", [1, 2, 5, 9])
def test_yarotsky_square_is_above_and_within_its_bound(levels: int) -> None:
    x = torch.linspace(0, 1, 1001, dtype=F64)[:, None]
    graph = Graph(1)
    blocks.square(graph, graph.x, levels)
    gap = graph(x) - x * x
    assert float(gap.min()) >= -1e-14
    assert float(gap.max()) <= blocks.square_error(levels) + 1e-14
    assert float(gap.max()) >= 0.9 * blocks.square_error(levels) or levels == 9
    assert graph.parameters == blocks.square_parameters(levels)
    assert (
        blocks.square_error(blocks.levels_for(1e-3))
        <= 1e-3
        < blocks.square_error(blocks.levels_for(1e-3) - 1)
    )


@settings(max_examples=40, deadline=None)
@given(st.floats(-3, 3), st.floats(-3, 3), st.integers(1, 8))
def test_the_product_is_within_its_bound_for_signed_factors_and_zero_at_zero(
    a: float, b: float, levels: int
) -> None:
    graph = Graph(2)
    pick = torch.eye(2, dtype=F64)
    blocks.product(graph, graph.affine((graph.x, pick[:1])), graph.affine((graph.x, pick[1:])), 3.0, levels)
    found = graph(torch.tensor([[a, b], [a, 0.0], [0.0, b]], dtype=F64))[:, 0]
    assert abs(float(found[0]) - a * b) <= blocks.product_error(3.0, levels) + 1e-12
    assert float(found[1:].abs().max()) <= 1e-12


def random_graph(seed: int, inputs: int = 3) -> Graph:
    """Two hidden layers with skips, for a property of any graph."""
    rng = stream(seed, "graph")
    graph = Graph(inputs)
    first = graph.relu(
        graph.affine(
            (graph.x, torch.randn(5, inputs, generator=rng, dtype=F64)),
            bias=torch.randn(5, generator=rng, dtype=F64),
        )
    )
    second = graph.relu(
        graph.affine(
            (first, torch.randn(4, 5, generator=rng, dtype=F64)),
            (graph.x, torch.randn(4, inputs, generator=rng, dtype=F64)),
        )
    )
    graph.affine(
        (second, torch.randn(2, 4, generator=rng, dtype=F64)),
        (first, torch.randn(2, 5, generator=rng, dtype=F64)),
    )
    return graph


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 1))
def test_intervals_contain_every_value(seed: int, width: float) -> None:
    graph = random_graph(seed)
    low = points(4, 3, seed)
    high = low + width
    below, above = graph.enclose(low, high)
    inside = low + (high - low) * torch.rand(64, 4, 3, generator=stream(seed, "inside"), dtype=F64)
    values = graph(inside)
    assert (values >= below).all()
    assert (values <= above).all()
    tight = graph.enclose(low, low)
    assert float((tight[1] - tight[0]).max()) < 1e-10


def test_outward_rounding_contains_the_exact_rational_value() -> None:
    weights = torch.tensor([[0.1, 0.2, -0.3, 1e-17, 1e17, -1e17]], dtype=F64)
    graph = Graph(6)
    graph.affine((graph.x, weights), bias=0.1)
    x = torch.tensor([[0.7, 1 / 3, 0.9, 1.0, 1.0, 1.0]], dtype=F64)
    exact = Fraction(0.1) + sum(
        Fraction(w) * Fraction(v) for w, v in zip(weights[0].tolist(), x[0].tolist(), strict=True)
    )
    low, high = graph.enclose(x, x)
    assert Fraction(float(low)) <= exact <= Fraction(float(high))
    assert float(low) < float(high)


def test_the_module_computes_the_graph_and_has_its_parameters() -> None:
    graph = random_graph(1)
    module = graph.module()
    x = points(20, 3)
    torch.testing.assert_close(module(x), graph(x), rtol=0, atol=1e-12)
    assert sum(p.numel() for p in module.parameters()) == graph.parameters
    leaf = x.clone().requires_grad_(True)
    module(leaf).sum().backward()
    assert leaf.grad is not None
    step = 1e-6 * torch.randn(x.shape, generator=stream(0, "step"), dtype=F64)
    rise = (graph(x + step) - graph(x - step)).sum(-1) / 2
    torch.testing.assert_close((leaf.grad * step).sum(-1), rise, rtol=1e-3, atol=1e-10)


def test_append_copies_a_network_onto_another() -> None:
    inner, outer = random_graph(3), Graph(3)
    doubled = outer.affine((outer.x, 2.0))
    append(outer, inner, doubled)
    x = points(10, 3)
    torch.testing.assert_close(outer(x), inner(2 * x), rtol=0, atol=1e-12)
    with pytest.raises(BadInput, match="must fit its source"):
        append(Graph(2), inner, Graph(2).x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [4, 16])
def test_f_s_is_certified_counted_and_clean(kind: str, dim: int) -> None:
    law = PackingLaw(D=dim, levels=9 if dim == 4 else 3)
    train, test = law.sample(12, stream(0, "train")), law.sample(200, stream(0, "test"))
    clean = halfspace(dim, dim - 1, 0.5, law.shift)
    built = cgro_classifier(train.x, train.y, clean, law.radius, law.spacing, kind)
    assert float(built.certificate().min()) > 1 - 1e-6
    assert built.graph.parameters == cgro_parameters(12, dim, built.local.levels, kind, clean.parameters)
    assert (test.y * built.graph(test.x)[:, 0] > 0).all()
    sphere = ball(norm_of(kind), law.radius)
    for seed in range(5):
        delta = sphere.sample(train.x.shape, stream(seed, "ball"), train.x)
        assert (train.y * built.graph(train.x + delta)[:, 0] >= 1 - 1e-9).all()
    moved = test.x.clone()
    moved[:, -1] -= test.y * law.radius
    unseen = (torch.cdist(test.x, train.x) > 0).all(-1)
    assert (test.y * built.graph(moved)[:, 0] <= 0)[unseen].all()


def test_the_certificate_is_lost_when_the_classes_come_too_close() -> None:
    x = torch.tensor([[0.3, 0.5], [0.55, 0.5]], dtype=F64)
    y = torch.tensor([1.0, -1.0], dtype=F64)
    built = memorising_network(x, y, 0.1, 0.4, "Linf")
    assert float(built.certificate().min()) < 0.5
    with pytest.raises(BadInput, match="separation above 2δ"):
        memorising_network(x, y, 0.2, 0.4, "Linf")


def test_f_s_accepts_any_clean_network() -> None:
    law = PackingLaw(D=4, levels=5)
    train = law.sample(10, stream(2, "train"))
    built = cgro_classifier(train.x, train.y, _scalar(random_graph(7, 4)), law.radius, law.spacing, "Linf")
    assert float(built.certificate().min()) > 1 - 1e-6


def _scalar(graph: Graph) -> Graph:
    graph.affine((graph.last, torch.tensor([[1.0, -1.0]], dtype=F64)))
    return graph


@pytest.mark.parametrize("kind", KINDS)
def test_the_memorising_network_is_robust_on_random_separated_sets(kind: str) -> None:
    data = SeparatedLaw(d=8, norm=norm_of(kind), separation=0.3).sample(25, stream(4, "data"))
    built = memorising_network(data.x, data.y, 0.1, 0.3, kind)
    assert float(built.certificate().min()) > 1 - 1e-6
    assert built.graph.parameters == memorising_parameters(25, 8, built.local.levels, kind)


def test_the_packing_is_separated_and_fragile() -> None:
    law = PackingLaw(D=4)
    data = law.support()
    assert len(data.y) == law.sites == 27
    apart = torch.cdist(data.x[data.y > 0], data.x[data.y < 0], p=math.inf)
    assert float(apart.min()) >= law.spacing - 1e-12 > 2 * law.radius
    assert (data.y * (data.x[:, -1] - 0.5) > 0).all()
    assert (data.y * (data.x[:, -1] - 0.5) - law.radius < 0).all()
    assert all(c.met for c in law.check(law.own_radius))
    torch.testing.assert_close(law.place(torch.tensor([[0, 1, 2]])).y, law.place(torch.tensor([[0, 1, 2]])).y)
    assert not torch.equal(law.support().y, law.replace(label_seed=1).support().y)
    with pytest.raises(BadInput, match="too large to list"):
        PackingLaw(D=40).support()


def test_separated_samples_are_separated_or_refused() -> None:
    data = SeparatedLaw(d=3, norm="L2", separation=0.2).sample(30, stream(0, "data"))
    assert float(torch.cdist(data.x[data.y > 0], data.x[data.y < 0]).min()) >= 0.2
    with pytest.raises(BadInput, match="leaves no room"):
        SeparatedLaw(d=1, norm="Linf", separation=1.1).sample(5, stream(0, "data"))


def test_the_chart_reads_the_manifold_and_contracts() -> None:
    law = ManifoldLaw(k=3, d=20)
    z = torch.rand(50, 3, generator=stream(0, "z"), dtype=F64)
    x = law.embed(z)
    rows, shift = law.reader()
    torch.testing.assert_close(x @ rows.mT + shift, z, rtol=0, atol=1e-12)
    assert bool((x >= 0).all() and (x <= 1).all())
    delta = torch.randn(50, 20, generator=stream(0, "d"), dtype=F64)
    moved = ((delta @ rows.mT).norm(dim=-1) * law.scale) <= delta.norm(dim=-1) + 1e-12
    assert moved.all()
    bent = law.embed(torch.stack([z[0], z[1], (z[0] + z[1]) / 2]))
    assert float((bent[2] - (bent[0] + bent[1]) / 2).norm()) > 1e-3


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_grid_network_interpolates(dim: int) -> None:
    cells = 4
    values = torch.randn((cells + 1) ** dim, generator=stream(0, "v"), dtype=F64)
    graph = grid_network(values, cells, dim)
    grid = nodes(cells, dim).double() / cells
    torch.testing.assert_close(graph(grid)[:, 0], values, rtol=0, atol=1e-12)
    slope = torch.randn(dim, generator=stream(1, "v"), dtype=F64)
    linear = grid_network(grid @ slope + 0.3, cells, dim)
    x = torch.rand(100, dim, generator=stream(2, "v"), dtype=F64)
    torch.testing.assert_close(linear(x)[:, 0], x @ slope + 0.3, rtol=0, atol=1e-11)
    assert graph.parameters == grid_parameters(cells, dim)


def test_a_grid_that_cannot_be_built_is_refused() -> None:
    with pytest.raises(BadInput, match="too large to build"):
        nodes(10**6, 3)
    with pytest.raises(BadInput, match="only for δ < ε"):
        cells_needed(0.1, 0.1)


def test_f_star_is_robust_lipschitz_and_followed_by_its_network() -> None:
    law = PackingLaw(D=3, delta_share=0.4)
    data = law.support()
    a, b = data.x[data.y > 0], data.x[data.y < 0]
    eps = float(torch.cdist(a, b, p=math.inf).min()) / 2
    torch.testing.assert_close(f_star(data.x, a, b, "Linf"), data.y)
    x, step = points(500, 3, 1, 0.0, 1.0), points(500, 3, 2, -0.05, 0.05)
    rise = (f_star(x + step, a, b, "Linf") - f_star(x, a, b, "Linf")).abs()
    assert (rise <= step.abs().amax(-1) / eps + 1e-12).all()
    assert float(slope_bound(x, a, b, "Linf").max()) <= 1 / eps + 1e-9
    cells = cells_needed(eps, law.radius)
    values = f_star(nodes(cells, 3).double() / cells, a, b, "Linf")
    graph = grid_network(values, cells, 3)
    corner = law.radius * (2 * torch.rand(data.x.shape, generator=stream(0, "c"), dtype=F64) - 1)
    for centre, label, value in zip(
        data.x, data.y.tolist(), (data.y * graph(data.x + corner)[:, 0]).tolist(), strict=True
    ):
        sure = cell_certificate(values, cells, centre, law.radius, label)
        assert 0 < sure <= value + 1e-12


def test_the_grid_classifier_is_made_of_these_parts() -> None:
    law = PackingLaw(D=2, delta_share=0.4)
    data = law.support()
    grid = GridClassifier.of(data.x, data.y, law.radius)
    a, b = data.x[data.y > 0], data.x[data.y < 0]
    assert torch.equal(grid.a, a)
    assert torch.equal(grid.b, b)
    assert grid.eps == pytest.approx(float(torch.cdist(a, b, p=math.inf).min()) / 2)
    assert grid.cells == cells_needed(grid.eps, law.radius)
    at = nodes(grid.cells, 2).double() / grid.cells
    torch.testing.assert_close(grid.network()(at)[:, 0], f_star(at, a, b, "Linf"), rtol=0, atol=1e-12)
    each = [
        cell_certificate(grid.values, grid.cells, c, law.radius, s)
        for c, s in zip(data.x, data.y.tolist(), strict=True)
    ]
    assert grid.certificate() == min(each) > 0


def test_a_built_classifiers_logits_differ_by_its_output() -> None:
    graph = halfspace(3, 1, 0.25, 0.5)
    x = points(20, 3)
    logits = graph.classifier()(x)
    torch.testing.assert_close(logits[:, 1] - logits[:, 0], (x[:, 1] - 0.25) / 0.5, rtol=0, atol=1e-12)
    assert torch.equal(logits[:, 0], -logits[:, 1])


def test_the_vc_count_against_exact_binomials() -> None:
    """No l below the entropy bound can satisfy the covering inequality, checked with exact integers for n =
    60."""
    n, mu = 60, 0.1
    share = shattered_share(mu)
    low = [sum(math.comb(n, i) for i in range(k + 1)) for k in range(n + 1)]
    least = next(j for j in range(n + 1) if low[j] * low[int(mu * n)] >= 2**n)
    assert share * n <= least
    assert entropy(share) == pytest.approx(1 - entropy(mu), abs=1e-9)
    assert shattered_share(0.0) == 0.5
    with pytest.raises(BadInput, match="below ½"):
        shattered_share(0.5)


def test_the_least_parameter_count_is_the_least() -> None:
    for sites in (10**4, 10**12, 3**63):
        m = parameters_needed(sites, 0.1)
        need = shattered_share(0.1) * sites
        assert envelope_vc(m) >= need > envelope_vc(m - 1)
        w = parameters_needed_at_depth(sites, 0.1, 3)
        assert vc_bound(w, 3, w) >= need > vc_bound(w - 1, 3, w - 1)
    assert parameters_needed(10**9, 0.0) >= parameters_needed(10**9, 0.2)
    assert packing_sites(5, 0.2) == 3**4
    assert vc_bound(11, 1, 1) >= 11


@pytest.mark.parametrize("levels", [1, 2, 4])
def test_the_square_attains_its_error_and_has_the_counted_parameters(levels: int) -> None:
    """The error is 4^−(n+1) at the middle of each of the 2^n pieces, 0 at their ends."""
    graph = Graph(1)
    blocks.square(graph, graph.x, levels)
    ends = torch.linspace(0, 1, 2**levels + 1, dtype=torch.float64)[:, None]
    middles = (ends[1:] + ends[:-1]) / 2
    assert (graph(ends) - ends**2).abs().max() < 1e-15
    assert (graph(middles) - middles**2).flatten().tolist() == pytest.approx(
        [4.0 ** -(levels + 1)] * 2**levels, rel=1e-12
    )
    assert blocks.square_error(levels) == 4.0 ** -(levels + 1)
    assert graph.parameters == blocks.square_parameters(levels)
    with pytest.raises(BadInput, match="levels"):
        blocks.square(Graph(1), Graph(1).x, 0)


def test_the_least_level_for_an_error() -> None:
    assert [blocks.levels_for(error) for error in (2.0, 1.0, 0.5, 1 / 16, 1 / 17, 1 / 64, 1 / 65)] == [
        1,
        1,
        1,
        1,
        2,
        2,
        3,
    ]
