"""`lower-bound`: packings, counts and random classifiers against plain counting, autograd and search."""

import math
from itertools import pairwise

import pytest
import torch

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.nets.built.counting import packing_sites, parameters_needed, shattered_share
from featscope.nets.built.robust import memorising_network
from featscope.papers.cgro import lower_bound as lb
from featscope.papers.cgro.lower_bound import LowerBound, RandomClassifier

F64 = torch.float64


@pytest.mark.parametrize(("delta", "count"), [(0.2, 3), (0.1, 5), (0.15, 4), (0.24, 3), (0.001, 500)])
def test_sites_of_an_axis_are_more_than_two_radii_apart(delta: float, count: int) -> None:
    found = lb.axis_sites(delta).tolist()
    assert (len(found), found[0], found[-1]) == (count, 0.0, 1.0)
    assert min(b - a for a, b in pairwise(found)) > 2 * delta


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 500])
def test_least_distance_in_chunks(chunk: int) -> None:
    x = torch.rand(7, 3, generator=stream(0, "x"), dtype=F64)
    pairs = [
        max(abs(p - q) for p, q in zip(a, b, strict=True))
        for i, a in enumerate(x.tolist())
        for b in x[:i].tolist()
    ]
    assert lb.least_distance(x, chunk) == pytest.approx(min(pairs))


def test_listed_sites_are_counted_and_measured() -> None:
    rows = lb.listed_rows(LowerBound(listed=((2, 0.2), (3, 0.1), (4, 0.2))))
    assert [(r["D"], r["radius"], r["sites"], r["promised"]) for r in rows] == [
        (2, 0.2, 3, 3),
        (3, 0.1, 25, 25),
        (4, 0.2, 27, 27),
    ]
    assert [row["separation"] for row in rows] == pytest.approx([0.5, 0.25, 0.5])


@pytest.mark.parametrize(("dim", "axis", "n"), [(2, 3, 3), (3, 2, 4)])
def test_every_labelling_is_spelled(dim: int, axis: int, n: int) -> None:
    row = lb.shattered_row(dim, axis)
    assert (row["D"], row["sites"], row["labellings"], row["patterns"], row["wrong"]) == (
        dim,
        n,
        2**n,
        2**n,
        0,
    )
    assert row["needed"] == parameters_needed(n, 0.0)
    # one labelling again: sites from .1 to .9, displaced by a fifth of their distance, balls of two fifths of it
    spacing = 0.8 / (axis - 1)
    site = torch.cartesian_prod(*[torch.linspace(0.1, 0.9, axis, dtype=F64)] * (dim - 1)).view(-1, dim - 1)
    slacks, sizes = [], []
    for code in range(2**n):
        y = torch.tensor([1.0 if code >> i & 1 else -1.0 for i in range(n)], dtype=F64)
        x = torch.cat([site, (0.5 + 0.2 * spacing * y)[:, None]], -1)
        built = memorising_network(x, y, 0.4 * spacing, spacing, "Linf")
        slacks.append(float(built.certificate().min()))
        sizes.append(built.graph.parameters)
    assert row["slack"] == pytest.approx(min(slacks))
    assert row["slack"] > 0.1
    assert row["parameters"] == max(sizes)


def test_more_sites_than_labellings_can_be_built_for_are_refused() -> None:
    with pytest.raises(BadInput):
        lb.shattered_row(2, 13)


def test_counts_in_whole_numbers() -> None:
    for n in (1, 5, 12):
        for most in range(n + 1):
            assert lb.binomial_sum(n, most) == sum(math.comb(n, i) for i in range(most + 1))
    for n, mu in ((10, 0.0), (12, 0.1), (20, 0.1), (30, 0.25), (40, 0.05)):
        ball = sum(math.comb(n, i) for i in range(int(mu * n) + 1))
        sums = [sum(math.comb(n, j) for j in range(most + 1)) for most in range(n + 1)]
        assert lb.least_dimension(n, mu) == next(i for i, total in enumerate(sums) if ball * total >= 2**n)
    assert lb.least_dimension(10, 0.0) == 10
    spec = LowerBound(counted=(12, 20), mus=(0.0, 0.1))
    assert lb.count_rows(spec) == [
        {"sites": n, "mu": mu, "dimension": lb.least_dimension(n, mu), "by_entropy": shattered_share(mu) * n}
        for n in (12, 20)
        for mu in (0.0, 0.1)
    ]


def test_growth_is_counted_at_the_error_nearest_to_a_tenth() -> None:
    rows = lb.growth_rows(LowerBound(radii=(0.2, 0.1), dimensions=(4, 6), mus=(0.0, 0.13, 0.06)))
    assert [(row["radius"], row["D"]) for row in rows] == [(0.2, 4), (0.2, 6), (0.1, 4), (0.1, 6)]
    assert [row["needed"] for row in rows] == [
        parameters_needed(packing_sites(row["D"], row["radius"]), 0.13) for row in rows
    ]


@pytest.mark.parametrize("dim", [2, 5])
def test_a_random_classifier_is_linear_in_its_region_and_not_beyond(dim: int) -> None:
    for seed in range(5):
        rng = stream(seed, "region")
        net = RandomClassifier(dim, 8, rng)
        middle = net.middle.clone().requires_grad_(True)
        value = net(middle[None])[0]
        value.backward()
        gradient, room = net.region()
        assert abs(float(value)) < 1e-12
        assert middle.grad.tolist() == pytest.approx(gradient.tolist(), abs=1e-12)
        ways = torch.randn(200, dim, generator=rng, dtype=F64)
        ways = room * 0.999 * ways / ways.norm(dim=1, keepdim=True)
        assert net(net.middle + ways).tolist() == pytest.approx((ways @ gradient).tolist(), abs=1e-9)

        def patterns(x: torch.Tensor, net: RandomClassifier = net) -> torch.Tensor:
            one = x @ net.first.mT + net.shift
            two = torch.relu(one) @ net.second.mT
            return torch.cat([one, two], -1) > 0

        # straight towards the nearest boundary of a neuron some pattern changes right after the region's end
        one = net.first @ net.middle + net.shift
        chain = net.second * (one > 0)
        slopes, values = torch.cat([net.first, chain @ net.first]), torch.cat([one, chain @ one])
        towards = -slopes * (values.sign() / slopes.norm(dim=1))[:, None]
        inside, outside = (patterns(net.middle + room * f * towards) for f in (0.999, 1.001))
        at_middle = patterns(net.middle[None])
        assert bool((inside == at_middle).all())
        assert not bool((outside == at_middle).all())


@pytest.mark.parametrize("dim", [2, 4])
def test_a_neural_law(dim: int) -> None:
    for seed in range(3):
        row = lb.neural_row(LowerBound(width=8), dim, seed)
        spacing = min(row["room"], 0.9) / (2 * math.sqrt(dim - 1))
        assert (row["D"], row["seed"], row["sites"]) == (dim, seed, 3 ** (dim - 1))
        assert row["radius"] == pytest.approx(0.45 * spacing)
        # opposite sites are a step along the plane and two shifts across it apart
        assert row["separation"] >= spacing * math.sqrt(1 + 0.4**2) - 1e-9 or math.isinf(row["separation"])
        assert (row["clean_error"], row["robust_error"]) == (0.0, 1.0)
    # a move of less than the shift of .2 steps crosses nothing: the radius is .45 steps
    assert 0.2 * spacing < row["radius"] < 0.5 * spacing


def test_the_summary_of_the_argument() -> None:
    parts = {}

    class Folder:
        def add(self, part, rows):
            parts[part] = rows

    spec = LowerBound(
        shattered=((2, 2), (2, 3)), neural=(2, 3), seeds=(0, 1), counted=(12, 20), listed=((2, 0.2),)
    )
    found = lb.run_bound(spec, Folder())
    assert [len(parts[p]) for p in ("listed", "shattered", "exact", "growth", "neural")] == [1, 2, 6, 25, 4]
    assert found["labellings"] == 4 + 8
    assert found["least_slack"] == min(row["slack"] for row in parts["shattered"])
    assert found["least_room"] == min(row["room"] for row in parts["neural"])
    assert [(row["seed"], row["D"]) for row in parts["neural"]] == [(0, 2), (0, 3), (1, 2), (1, 3)]
