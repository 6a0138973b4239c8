"""Experiment `lower-bound`: the argument of CGRO Theorem 5.3, step by step and by exact counting.

1. The packing: sites of a grid on x_D = ½, listed, their least distance measured, their number counted.
2. Shattering: for every labelling φ of a small packing a certified robust network; its signs at the sites,
   which lie in the balls because ε0 < δ, must spell φ. So a family that is
   robust for every φ shatters the sites.
3. Counting: the least VC dimension l with 2^n ≤ Σ_{i≤μn} C(n,i) · Σ_{j≤l} C(n,j), in whole numbers.
   It is about the class alone: one with VCdim ≤ M^p needs M ≥ l^(1/p).
4. From l to parameters of networks, by the VC bound of Bartlett et al. (2019), for ever smaller radii.
5. Neural-separable laws, the theorem's news: a random ReLU network as clean classifier, a packing inside one
   of its linear regions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import setting
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.nets.built.counting import packing_sites, parameters_needed, shattered_share
from featscope.nets.built.robust import memorising_network

Row = dict[str, Any]
F64 = torch.float64
#: rows whose distances to all others are held at a time
CHUNK = 500
#: sites of which every labelling is built at most
MOST_SHATTERED = 12


class LowerBound(Spec):
    """Dimensions, radii and errors of the argument's steps."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {"quick": {"seeds": [0, 1], "shattered": [[2, 5], [3, 2]]}}

    listed: tuple[tuple[int, float], ...] = setting(
        ((2, 0.2), (3, 0.2), (5, 0.2), (7, 0.2), (3, 0.1), (4, 0.1), (3, 0.01), (2, 0.001)),
        "(D, δ) whose sites are listed",
    )
    shattered: tuple[tuple[int, int], ...] = setting(
        ((2, 5), (2, 9), (3, 2), (3, 3), (4, 2)), "(D, sites an axis), every labelling built"
    )
    counted: tuple[int, ...] = setting((81, 243, 729, 2187, 6561), "n of the exact count: 3^(D−1), D = 5 … 9")
    mus: tuple[float, ...] = setting((0.0, 0.05, 0.1), "robust error μ that is allowed", letter="μ")
    radii: tuple[float, ...] = setting((0.2, 0.1, 0.01, 0.005, 0.001), "δ of the growth", letter="δ")
    dimensions: tuple[int, ...] = setting((8, 16, 24, 32, 48), "D of the growth", letter="D")
    neural: tuple[int, ...] = setting((2, 3, 4, 5, 6), "D of the neural-separable laws")
    width: int = setting(16, "width of the random clean network's two layers", ge=2)


class ListedSites(Columns):
    """A packing whose sites are listed."""

    D = column("dimension")
    radius = column("radius δ")
    sites = column("sites listed")
    promised = column("sites that the count speaks of, ⌈1/2δ⌉^(D−1)")
    separation = column("least ℓ∞ distance of two sites")


class Shattered(Columns):
    """Every labelling of a small packing, each with a certified network."""

    D = column("dimension")
    sites = column("sites n")
    labellings = column("labellings built, 2^n")
    patterns = column("different sign patterns of these networks at the sites")
    wrong = column("labellings whose network's signs at the sites are not the labelling")
    slack = column("least certified margin on the balls over all labellings and points")
    parameters = column("parameters of the largest of these networks")
    needed = column("parameters that the VC count asks for at n sites, μ = 0")


class ExactCount(Columns):
    """The least VC dimension by whole numbers."""

    sites = column("sites n")
    mu = column("robust error μ that is allowed")
    dimension = column("least l with 2^n ≤ Σ_{i≤μn} C(n,i)·Σ_{j≤l} C(n,j)")
    by_entropy = column("the count's C(μ)·n, a lower bound of l")


class Growth(Columns):
    """Parameters needed over D, for each δ."""

    D = column("dimension")
    radius = column("radius δ")
    needed = column("least number of parameters by VC counting, μ = .1 or the one nearest")


class NeuralLaw(Columns):
    """A law whose clean classifier is a random ReLU network."""

    D = column("dimension")
    seed = column("seed of the network and of the labels")
    sites = column("points of the support")
    radius = column("radius δ")
    separation = column("least ℓ2 distance of opposite points")
    clean_error = column("error of the network")
    robust_error = column("share of points that a move of ℓ2 length δ takes across its boundary")
    room = column("radius of the ball around the middle in which the network is linear")


def axis_sites(delta: float) -> Tensor:
    """⌈1/2δ⌉ numbers in [0, 1], more than 2δ apart."""
    return torch.linspace(0, 1, math.ceil(1 / (2 * delta)), dtype=F64)


def least_distance(x: Tensor, chunk: int = CHUNK) -> float:
    """The least ℓ∞ distance of two rows."""
    least = math.inf
    for start in range(0, len(x), chunk):
        apart = torch.cdist(x[start : start + chunk], x, p=math.inf)
        own = torch.arange(len(apart))
        apart[own, start + own] = math.inf
        least = min(least, float(apart.min()))
    return least


def listed_rows(spec: LowerBound) -> list[Row]:
    """List, count and measure."""
    c, rows = ListedSites, list[Row]()
    for dim, delta in spec.listed:
        grid = torch.cartesian_prod(*[axis_sites(delta)] * (dim - 1)).view(-1, dim - 1)
        row: Row = {c.D: dim, c.radius: delta, c.sites: len(torch.unique(grid, dim=0))}
        rows.append(row | {c.promised: packing_sites(dim, delta), c.separation: least_distance(grid)})
    return rows


def shattered_row(dim: int, axis: int) -> Row:
    """A network for every labelling: Σ y_i I_i on the displaced points, read at the sites."""
    spacing = 0.8 / (axis - 1)
    delta, shift = 0.4 * spacing, 0.2 * spacing
    site = torch.cartesian_prod(*[0.1 + spacing * torch.arange(axis, dtype=F64)] * (dim - 1)).view(
        -1, dim - 1
    )
    n = len(site)
    require(n <= MOST_SHATTERED, "every labelling is built, 2^n of them", f"n={n}", "take fewer sites")
    middle = torch.cat([site, torch.full((n, 1), 0.5, dtype=F64)], -1)
    seen, wrong, slack, size = set[tuple[bool, ...]](), 0, math.inf, 0
    for signs in product((-1.0, 1.0), repeat=n):
        y = torch.tensor(signs, dtype=F64)
        x = middle.clone()
        x[:, -1] += shift * y
        built = memorising_network(x, y, delta, spacing, "Linf")
        said = built.graph(middle)[:, 0] > 0
        seen.add(tuple(said.tolist()))
        wrong += int(not torch.equal(said, y > 0))
        slack, size = min(slack, float(built.certificate().min())), max(size, built.graph.parameters)
    c = Shattered
    found: Row = {c.D: dim, c.sites: n, c.labellings: 2**n, c.patterns: len(seen), c.wrong: wrong}
    return found | {c.slack: slack, c.parameters: size, c.needed: parameters_needed(n, 0.0)}


def binomial_sum(n: int, most: int) -> int:
    """Σ_{i≤most} C(n,i)."""
    total, term = 1, 1
    for i in range(1, most + 1):
        term = term * (n - i + 1) // i
        total += term
    return total


def least_dimension(n: int, mu: float) -> int:
    """The least l with 2^n ≤ Σ_{i≤μn} C(n,i)·Σ_{j≤l} C(n,j), in whole numbers."""
    ball, total, term, most = binomial_sum(n, math.floor(mu * n)), 1, 1, 0
    while ball * total < 2**n:
        most += 1
        term = term * (n - most + 1) // most
        total += term
    return most


def count_rows(spec: LowerBound) -> list[Row]:
    """Exact counts beside the entropy bound that the formula uses."""
    c = ExactCount
    return [
        {c.sites: n, c.mu: mu, c.dimension: least_dimension(n, mu), c.by_entropy: shattered_share(mu) * n}
        for n, mu in product(spec.counted, spec.mus)
    ]


def growth_rows(spec: LowerBound) -> list[Row]:
    """Parameters over D for each δ."""
    c, mu = Growth, min(spec.mus, key=lambda mu: abs(mu - 0.1))
    rows: list[Row] = []
    for delta, dim in product(spec.radii, spec.dimensions):
        n = packing_sites(dim, delta)
        rows.append({c.D: dim, c.radius: delta, c.needed: float(parameters_needed(n, mu))})
    return rows


class RandomClassifier:
    """A ReLU network with two hidden layers whose boundary passes through the middle of the cube."""

    def __init__(self, dim: int, width: int, rng: torch.Generator) -> None:
        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=rng, dtype=F64)

        self.first, self.shift = draw(width, dim) / math.sqrt(dim), 0.5 * draw(width)
        self.second, self.third = draw(width, width) / math.sqrt(width), draw(width) / math.sqrt(width)
        self.middle = torch.full((dim,), 0.5, dtype=F64)
        self.bias = -float(self._raw(self.middle[None])[0])

    def _raw(self, x: Tensor) -> Tensor:
        hidden = torch.relu(x @ self.first.mT + self.shift)
        return torch.relu(hidden @ self.second.mT) @ self.third

    def __call__(self, x: Tensor) -> Tensor:
        """The output, 0 at the middle."""
        return self._raw(x) + self.bias

    def region(self) -> tuple[Tensor, float]:
        """The gradient at the middle, and the radius of the ball around it in which the network is linear.

        Within it no first pre-activation changes sign, so the second ones are affine, and none changes sign.
        """
        one = self.first @ self.middle + self.shift
        chain = self.second * (one > 0)
        two = chain @ one
        gradient = (self.third * (two > 0)) @ chain @ self.first
        slopes = torch.cat([self.first.norm(dim=-1), (chain @ self.first).norm(dim=-1)])
        return gradient, float((torch.cat([one, two]).abs() / slopes.clamp(min=1e-300)).min())


def neural_row(spec: LowerBound, dim: int, seed: int) -> Row:
    """Sites in a random network's boundary, inside one linear region, displaced towards random labels."""
    rng = stream(seed, "neural", dim)
    net = RandomClassifier(dim, spec.width, rng)
    gradient, room = net.region()
    while float(gradient.norm()) < 1e-9:  # a network that is constant at the middle has no boundary there
        net = RandomClassifier(dim, spec.width, rng)
        gradient, room = net.region()
    normal = gradient / gradient.norm()
    plane = torch.linalg.svd(normal[None]).Vh[1:]
    # A cube of half-diagonal ½·room holds 3 sites an axis; half of the room is left for ε0 and δ.
    spacing = min(room, 0.9) / (2 * math.sqrt(dim - 1))
    delta, shift = 0.45 * spacing, 0.2 * spacing
    steps = torch.cartesian_prod(*[spacing * (torch.arange(3, dtype=F64) - 1)] * (dim - 1)).view(-1, dim - 1)
    y = 1 - 2.0 * torch.randint(0, 2, (len(steps),), generator=rng).to(F64)
    x = net.middle + steps @ plane + (shift * y)[:, None] * normal
    crossed = x - (delta * y)[:, None] * normal
    opposite = torch.cdist(x[y > 0], x[y < 0])
    c = NeuralLaw
    return {
        c.D: dim,
        c.seed: seed,
        c.sites: len(x),
        c.radius: delta,
        c.separation: float(opposite.min()) if opposite.numel() else math.inf,
        c.clean_error: float((y * net(x) <= 0).double().mean()),
        c.robust_error: float((y * net(crossed) <= 0).double().mean()),
        c.room: room,
    }


def run_bound(spec: LowerBound, folder: Folder) -> Json:
    """All steps."""
    shattered = [shattered_row(dim, axis) for dim, axis in spec.shattered]
    laws = [neural_row(spec, dim, seed) for seed, dim in product(spec.seeds, spec.neural)]
    folder.add("listed", listed_rows(spec))
    folder.add("shattered", shattered)
    folder.add("exact", count_rows(spec))
    folder.add("growth", growth_rows(spec))
    folder.add("neural", laws)
    return {
        "labellings": sum(row[Shattered.labellings] for row in shattered),
        "least_slack": min(row[Shattered.slack] for row in shattered),
        "least_room": min(row[NeuralLaw.room] for row in laws),
    }


def size(spec: LowerBound) -> Size:
    """Distances of listed sites in chunks, a network for every labelling, and counts in whole numbers."""
    listed = [packing_sites(dim, delta) for dim, delta in spec.listed]
    # More sites than MOST_SHATTERED are refused, so they cost no more.
    shattered = [min(axis ** (dim - 1), MOST_SHATTERED) for dim, axis in spec.shattered]
    laws = sum(3 ** (dim - 1) * (3 ** (dim - 1) + spec.width**2) for dim in spec.neural)
    distances = sum(n * n * dim for n, (dim, _) in zip(listed, spec.listed, strict=True))
    # Measured: a small network takes 0.9 ms to build, whatever its sites.
    labelled = sum(9e5 * 2**n for n in shattered)
    # A binomial of n has about n digits, and about n of them are summed.
    counted = len(spec.mus) * sum(n * n for n in spec.counted)
    held = max(min(CHUNK, max(listed)) * max(listed), *(9 ** (dim - 1) for dim in spec.neural))
    return Size(held, distances + labelled + counted + len(spec.seeds) * laws)


EXPERIMENTS = (
    Experiment(
        name="lower-bound",
        paper="cgro",
        shows="CGRO Theorem 5.3: packing listed, every labelling shattered by certified networks, exact VC "
        "counts, neural-separable laws",
        spec=LowerBound,
        run=run_bound,
        columns={
            "listed": ListedSites,
            "shattered": Shattered,
            "exact": ExactCount,
            "growth": Growth,
            "neural": NeuralLaw,
        },
        takes={"quick": "2 s", "cpu": "10 s", "paper": "10 s"},
        highlights=(
            Highlight("labellings", "labellings built, each with a certified network"),
            Highlight("least_slack", "least certified margin on the balls"),
            Highlight("least_room", "neural-separable laws: least radius in which the network is linear"),
        ),
        size=size,
    ),
)
