"""Experiments `built-memorise` and `built-fstar`: EP's networks built by hand, counted and certified."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.settings import Sizes, setting
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.experiments.built import SampledNetwork, network_row, summary_of
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.separated import PackingLaw, RadiusSetting, SeparatedLaw
from featscope.nets.built.fstar import GridClassifier, f_star, grid_parameters, slope_bound
from featscope.nets.built.robust import Indicator, memorising_network, memorising_parameters, norm_of

Row = dict[str, Any]
#: squares for each point cost more and give nothing here
MEMORISING_KINDS: tuple[Indicator, ...] = ("Linf", "L2-shared")


class BuiltMemorise(Spec):
    """EP's memorising network on random separated sets."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {"dimensions": [8, 16, 32], "samples": [5, 10, 30], "seeds": [0]}
    }

    dimensions: Sizes = setting((8, 16, 32, 64), "dimensions that are swept", letter="d")
    samples: Sizes = setting((10, 30, 100), "training points that are swept", letter="N")
    separation: float = setting(
        0.3, "distance between points of different labels, in the norm", letter="R", gt=0
    )
    delta: float = setting(0.1, "radius of the balls that are memorised", letter="δ", gt=0)

    def law(self, dim: int, kind: Indicator) -> SeparatedLaw:
        """The separated set that an indicator's norm asks for."""
        return SeparatedLaw(d=dim, norm=norm_of(kind), separation=self.separation)


class Memorising(SampledNetwork):
    """One memorising network on a random separated set."""


def _memorise_row(spec: BuiltMemorise, seed: int, dim: int, n: int, kind: Indicator) -> Row:
    data = spec.law(dim, kind).sample(n, stream(seed, "data", dim, n, kind))
    built = memorising_network(data.x, data.y, spec.delta, spec.separation, kind)
    formula = memorising_parameters(n, dim, built.local.levels, kind)
    return {Memorising.seed: seed, **network_row(built), Memorising.formula: formula}


def run_memorise(spec: BuiltMemorise, folder: Folder) -> Json:
    """Build and certify on separated sets drawn at random."""
    cases = product(spec.seeds, spec.dimensions, spec.samples, MEMORISING_KINDS)
    rows = [_memorise_row(spec, *case) for case in cases]
    folder.add("memorise", rows)
    for dim, kind in product(spec.dimensions, MEMORISING_KINDS):
        law = spec.law(dim, kind)
        folder.conditions(law.check(RadiusSetting(spec.delta)), D=dim, norm=law.norm)
    return summary_of(rows, spec.seeds[0])


class BuiltFstar(Spec):
    """f* and its grid network for small d."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {"seeds": [0], "pairs": 500, "points": 50},
        "paper": {"dimensions": [2, 3, 4, 5]},
    }

    dimensions: Sizes = setting((2, 3, 4), "dimensions that are swept", letter="d")
    levels: int = setting(3, "sites of the packing along an axis", ge=2)
    delta_share: float = setting(0.4, "radius δ as a share of half the grid's spacing", gt=0, lt=1)
    pairs: int = setting(5000, "pairs of points for the Lipschitz check", ge=1)
    points: int = setting(200, "points for the error of the network", ge=1)

    def law(self, dim: int, seed: int) -> PackingLaw:
        """The packing whose support f* classifies."""
        return PackingLaw(D=dim, levels=self.levels, delta_share=self.delta_share, label_seed=seed)


class RobustClassifier(Columns):
    """f* and its grid network on the support of one packing."""

    seed = column("seed of the labels")
    d = column("dimension")
    cells = column("K, cells an axis")
    hats = column("(K+1)^d, the number of hats")
    parameters = column("stored weights and biases of the network")
    formula = column("parameters if no value of f* on the grid were 0")
    zeros = column("values of f* on the grid that are 0 and not stored")
    eps = column("ε, half the least distance of opposite points")
    delta = column("radius δ")
    slope = column("largest measured slope of f* in ℓ∞")
    local_slope = column("largest local bound 2/(d_A + d_B)")
    slope_bound = column("1/ε")
    error = column("largest distance of the network from f*")
    error_bound = column("1/(εK)")
    slack = column("certified margin of the network on the δ-balls")
    f_star_on_balls = column("least y·f* found on the δ-balls")
    f_star_bound = column("1 − δ/ε")


def _lipschitz(spec: BuiltFstar, a: Tensor, b: Tensor, rng: torch.Generator) -> tuple[float, float]:
    """The largest slope over near and far pairs, and the largest local bound 2/(d_A + d_B), in ℓ∞."""
    x = torch.rand(spec.pairs, a.shape[1], generator=rng, dtype=torch.float64)
    halfway = (
        a[torch.randint(len(a), (spec.pairs,), generator=rng)]
        + b[torch.randint(len(b), (spec.pairs,), generator=rng)]
    )
    x[: spec.pairs // 2] = 0.5 * halfway[: spec.pairs // 2]
    size = 10 ** (-4 * torch.rand(spec.pairs, 1, generator=rng, dtype=torch.float64))
    step = size * (2 * torch.rand(x.shape, generator=rng, dtype=torch.float64) - 1)
    rise = (f_star(x + step, a, b, "Linf") - f_star(x, a, b, "Linf")).abs()
    return float((rise / step.abs().amax(-1)).max()), float(slope_bound(x, a, b, "Linf").max())


def _fstar_row(spec: BuiltFstar, seed: int, grid: GridClassifier) -> Row:
    c, dim, a, b = RobustClassifier, grid.x.shape[1], grid.a, grid.b
    graph, rng = grid.network(), stream(seed, "points", dim)
    x = torch.rand(spec.points, dim, generator=rng, dtype=torch.float64)
    error = float((graph(x)[:, 0] - f_star(x, a, b, "Linf")).abs().max())
    slope, local = _lipschitz(spec, a, b, rng)
    return {
        c.seed: seed,
        c.d: dim,
        c.cells: grid.cells,
        c.hats: (grid.cells + 1) ** dim,
        c.parameters: graph.parameters,
        c.formula: grid_parameters(grid.cells, dim),
        c.zeros: int((grid.values == 0).sum()),
        c.eps: grid.eps,
        c.delta: grid.delta,
        c.slope: slope,
        c.local_slope: local,
        c.slope_bound: 1 / grid.eps,
        c.error: error,
        c.error_bound: 1 / (grid.eps * grid.cells),
        c.slack: grid.certificate(),
        c.f_star_on_balls: _worst_on_balls(grid, rng),
        c.f_star_bound: 1 - grid.delta / grid.eps,
    }


def run_fstar(spec: BuiltFstar, folder: Folder) -> Json:
    """f* exactly, its slope, and the network with its count and certificate."""
    c = RobustClassifier
    rows: list[Row] = []
    for seed, dim in product(spec.seeds, spec.dimensions):
        law = spec.law(dim, seed)
        data = law.support()
        folder.conditions(law.check(law.own_radius), d=dim, seed=seed)
        if bool((data.y > 0).any() and (data.y < 0).any()):
            rows.append(_fstar_row(spec, seed, GridClassifier.of(data.x, data.y, law.radius)))
    folder.add("fstar", rows)
    return {
        "parameters": {str(row[c.d]): row[c.parameters] for row in rows if row[c.seed] == spec.seeds[0]},
        "least_slack": min(row[c.slack] for row in rows),
        "largest_slope_share": max(row[c.slope] / row[c.slope_bound] for row in rows),
        "largest_error_share": max(row[c.error] / row[c.error_bound] for row in rows),
        "f_star_on_balls": min(row[c.f_star_on_balls] for row in rows),
    }


def _worst_on_balls(grid: GridClassifier, rng: torch.Generator) -> float:
    """The least y·f* found on the δ-balls: towards the nearest opposite point, and at random corners."""
    x, y, a, b = grid.x, grid.y, grid.a, grid.b
    other = [
        a[torch.cdist(p[None], a, p=math.inf).argmin()]
        if s < 0
        else b[torch.cdist(p[None], b, p=math.inf).argmin()]
        for p, s in zip(x, y, strict=True)
    ]
    towards = (torch.stack(other) - x).clamp(-grid.delta, grid.delta)
    corners = grid.delta * (2.0 * torch.randint(0, 2, x.shape, generator=rng) - 1)
    return min(float((y * f_star(x + step, a, b, "Linf")).min()) for step in (towards, corners))


#: layers of the square networks in ℓ2, about
SQUARE_LAYERS = 40
#: cells of the grid network for a site, along an axis, about
CELLS_A_SITE = 5
LARGEST_POWER = 1000


def memorise_size(spec: BuiltMemorise) -> Size:
    """The largest network on its own points."""
    largest = max(spec.samples) * max(spec.dimensions)
    met = sum(n * n for n in spec.samples) * sum(spec.dimensions)
    return Size(largest * (SQUARE_LAYERS + max(spec.samples)), len(spec.seeds) * met)


def fstar_size(spec: BuiltFstar) -> Size:
    """A cell of the grid network for every site and its neighbours, met by every point."""
    cells = [(CELLS_A_SITE * spec.levels) ** min(d, LARGEST_POWER) for d in spec.dimensions]
    return Size(max(cells) * spec.points, len(spec.seeds) * sum(cells) * (spec.points + spec.pairs))


EXPERIMENTS = (
    Experiment(
        name="built-memorise",
        paper="ep",
        shows="EP: a network of order N·d parameters with certified zero robust training error on any "
        "separated set",
        spec=BuiltMemorise,
        run=run_memorise,
        revision=4,
        columns={"memorise": Memorising},
        takes={"quick": "2 s", "cpu": "10 s", "paper": "10 s"},
        highlights=(
            Highlight("cases", "networks built"),
            Highlight("least_slack", "least certified margin on the balls"),
            Highlight("formula_mismatches", "parameter counts that differ from the formula"),
        ),
        size=memorise_size,
    ),
    Experiment(
        name="built-fstar",
        paper="ep",
        shows="EP: the robust classifier f*, its Lipschitz constant, and its grid network whose size grows "
        "exponentially with d",
        spec=BuiltFstar,
        run=run_fstar,
        revision=2,
        columns={"fstar": RobustClassifier},
        takes={"quick": "2 s", "cpu": "10 s", "paper": "2 min"},
        highlights=(
            Highlight("parameters/*", "parameters of the grid network, d = {}"),
            Highlight("largest_slope_share", "steepest slope of f* found, as a share of its bound"),
            Highlight("largest_error_share", "largest error of the network, as a share of its bound"),
            Highlight("least_slack", "least certified margin on the balls"),
        ),
        size=fstar_size,
    ),
)
