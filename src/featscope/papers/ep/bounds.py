"""`bounds`: the talk's Table 1 in numbers, every cell in one setting, and what its lower bounds are built on.

The setting: points in [0, 1]^d, ℓ∞, opposite labels 2ε apart, perturbations of radius δ < ε, N training
points, robust test error μ, manifolds of dimension k. Upper bounds count networks that are built
(`built-memorise`, `built-fstar`, `manifold`); lower bounds count what networks must be able to tell apart and
hold it against the VC bound of Bartlett et al. 2019 for any network with M parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, ClassVar, Literal

import torch

from featscope.core.columns import Columns, column
from featscope.core.settings import Shares, Sizes, setting
from featscope.core.signs import share
from featscope.core.store import Folder, Json
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.graph_packing import GraphPackingLaw
from featscope.nets.built.counting import (
    envelope_vc,
    packing_sites,
    parameters_needed,
    parameters_to_shatter,
    shattered_in_balls,
)
from featscope.nets.built.fstar import cells_needed, grid_parameters
from featscope.nets.built.robust import memorising_parameters, opposite_distance

Row = dict[str, Any]


class RobustSizes(Spec):
    """The one setting of every cell, and the sizes that are swept."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {"quick": {"listed": [2, 3, 4], "held": [2, 3, 4, 6]}}

    seeds: tuple[int, ...] = (0,)
    eps: float = setting(0.2, "half the separation of opposite labels, ℓ∞", letter="ε", gt=0, lt=0.5)
    delta: float = setting(0.15, "radius of the perturbation, ℓ∞", letter="δ", gt=0)
    n: int = setting(100, "training points", letter="N", ge=2)
    mu: float = setting(0.1, "robust test error that is allowed", letter="μ", ge=0, lt=0.5)
    intrinsic: int = setting(4, "dimension of the manifold", letter="k", ge=2)
    dimensions: Sizes = setting((4, 16, 64), "dimensions of the table", letter="d")
    swept: Sizes = setting((8, 16, 24, 32, 48, 64, 96, 128), "dimensions along which counts grow")
    ambient: int = setting(200, "dimension around the manifolds that are swept", ge=2)
    bends: Shares = setting((0.0, 0.4), "heights of the manifold's waves; 0 is flat")
    listed: Sizes = setting((2, 3, 4, 5, 6), "dimensions whose packing is listed and measured")
    held: Sizes = setting((2, 3, 4, 6, 8, 10), "points that a pair of ℓ2 balls holds, all labellings tried")
    samples: Sizes = setting((10, 100, 1000, 10_000), "training points along which the ℓ2 count grows")

    def law(self, k: int, d: int, bend: float, seed: int) -> GraphPackingLaw:
        """The packing on a manifold of dimension k; k = d is the general case."""
        return GraphPackingLaw(k=k, d=d, eps=self.eps, delta=self.delta, bend=bend, label_seed=seed)


class TableLine(Columns):
    """One line of the talk's Table 1 with our counts."""

    dimension = column("dimension d")
    train_upper = column("parameters of the memorising network")
    train_lower = column("least number of parameters that can shatter what N balls hold")
    train_order = column("√(N·d), the order that the talk prints (ℓ2, touching balls)")
    general_upper_log10 = column("log10 of the grid network's parameters")
    general_lower = column("least number of parameters by VC counting; the law is linearly separable")
    manifold_upper_log10 = column("log10 of the parameters of a grid behind a chart of k dimensions")
    manifold_lower = column("least number of parameters by VC counting on a manifold of k dimensions")
    standard_linear = column("parameters of the clean linear classifier, d + 1")


class PackedManifold(Columns):
    """One packing that is listed in full: on a manifold of dimension k, or in general (k = d)."""

    seed = column("seed of the labels")
    k = column("intrinsic dimension")
    d = column("ambient dimension")
    bend = column("height of the waves")
    sites = column("points of the support")
    separation = column("least ℓ∞ distance of opposite points")
    inside = column("whether all points lie in the cube")
    clean_error = column("error of the classifier x_k > ½")
    robust_error = column("its robust error at radius δ")
    curvature = column("the (k+1)-st singular value of centred points of the manifold ÷ the first")


class CountGrowth(Columns):
    """The least number of parameters along a dimension."""

    kind = column("general (k = d) or manifold (k varies, d stays)")
    dimension = column("d, or k on a manifold")
    log10_sites = column("log10 of the number of sites")
    needed = column("least number of parameters")
    linear = column("parameters of the clean linear classifier: ambient dimension + 1")


class HeldPoints(Columns):
    """One pair of balls in ℓ2 that holds p points of R^p under every labelling."""

    points = column("p, the points that are held")
    labellings = column("labellings that were tried: all")
    delta_over_eps = column("δ/ε = √(1 − 1/p)")
    furthest = column("largest distance of a point from the centre of its ball ÷ δ")
    separation = column("least distance of the two centres ÷ 2ε")


class TrainingGrowth(Columns):
    """The least number of parameters for N touching ℓ2 balls in R^d, one architecture of any depth."""

    n = column("training points N")
    d = column("dimension d")
    shattered = column("N·d/2, points that must be shattered")
    needed = column("least number of parameters")


def table(spec: RobustSizes) -> list[Row]:
    """Every cell from one setting."""
    c, cells, k = TableLine, cells_needed(spec.eps, spec.delta), spec.intrinsic
    rows: list[Row] = []
    for d in spec.dimensions:
        held = shattered_in_balls(spec.n, d, spec.eps, spec.delta)
        rows.append(
            {
                c.dimension: d,
                c.train_upper: float(memorising_parameters(spec.n, d, 0, "Linf")),
                c.train_lower: float(_least_envelope(held)),
                c.train_order: math.sqrt(spec.n * d),
                c.general_upper_log10: math.log10(grid_parameters(cells, d)),
                c.general_lower: float(parameters_needed(packing_sites(d, spec.eps), spec.mu)),
                c.manifold_upper_log10: math.log10(k * (d + 1) + grid_parameters(cells, k)),
                c.manifold_lower: float(parameters_needed(packing_sites(k, spec.eps), spec.mu)),
                c.standard_linear: d + 1,
            }
        )
    return rows


def _least_envelope(points: int) -> int:
    """The least M whose enveloping network's VC bound reaches so many points."""
    m = 1
    while envelope_vc(m) < points:
        m += 1
    return m


def packed(spec: RobustSizes) -> Iterator[Row]:
    """The listed packings, measured."""
    c = PackedManifold
    cases = [(k, k, 0.0) for k in spec.listed]
    cases += [(k, 2 * k + 1, bend) for k in spec.listed for bend in spec.bends]
    for seed, (k, d, bend) in product(spec.seeds, cases):
        law = spec.law(k, d, bend, seed)
        x, y = law.support()
        margin = y * (x[:, k - 1] - 0.5)
        yield {
            c.seed: seed,
            c.k: k,
            c.d: d,
            c.bend: bend,
            c.sites: law.sites,
            c.separation: opposite_distance(x, y, "Linf"),
            c.inside: bool((x >= 0).all() and (x <= 1).all()),
            c.clean_error: float(share(margin <= 0)),
            c.robust_error: float(share(margin <= spec.delta)),
            c.curvature: law.curvature(),
        }


def growth(spec: RobustSizes) -> Iterator[Row]:
    """Counts along d, and along k in a space of fixed dimension."""
    c = CountGrowth
    for kind, dim in product(("general", "manifold"), spec.swept):
        sites = packing_sites(dim, spec.eps)
        yield {
            c.kind: kind,
            c.dimension: dim,
            c.log10_sites: math.log10(sites),
            c.needed: float(parameters_needed(sites, spec.mu)),
            c.linear: (dim if kind == "general" else spec.ambient) + 1,
        }


def held(spec: RobustSizes) -> Iterator[Row]:
    """All labellings s of the points r·e_j, r = ε/√p: the balls around ±ε s/√p of radius ε√(1 − 1/p)."""
    c = HeldPoints
    for p in spec.held:
        signs = 2.0 * torch.cartesian_prod(*[torch.arange(2)] * p).view(-1, p).double() - 1
        delta = spec.eps * math.sqrt(1 - 1 / p)
        points = spec.eps / math.sqrt(p) * torch.eye(p, dtype=torch.float64)
        centres = signs[:, :, None] * (spec.eps / math.sqrt(p) * signs)[:, None, :]
        away = torch.linalg.vector_norm(points - centres, dim=-1)
        apart = 2 * torch.linalg.vector_norm(spec.eps / math.sqrt(p) * signs, dim=-1)
        yield {
            c.points: p,
            c.labellings: len(signs),
            c.delta_over_eps: delta / spec.eps,
            c.furthest: float(away.max()) / delta,
            c.separation: float(apart.min()) / (2 * spec.eps),
        }


def training(spec: RobustSizes) -> Iterator[Row]:
    """W² log W against N·d/2."""
    c = TrainingGrowth
    for n, d in product(spec.samples, spec.dimensions):
        yield {c.n: n, c.d: d, c.shattered: n * d / 2, c.needed: float(parameters_to_shatter(n * d / 2))}


def run_bounds(spec: RobustSizes, folder: Folder) -> Json:
    """The table, and what it rests on."""
    for k, seed in product(spec.listed, spec.seeds):
        folder.conditions(spec.law(k, 2 * k + 1, max(spec.bends), seed).check(), k=k, seed=seed)
    parts = {
        "table": table(spec),
        "packed": list(packed(spec)),
        "growth": list(growth(spec)),
        "held": list(held(spec)),
        "training": list(training(spec)),
    }
    for part, rows in parts.items():
        folder.add(part, rows)
    c = TableLine
    return {
        "table": parts["table"],
        "general_lower": {str(row[c.dimension]): row[c.general_lower] for row in parts["table"]},
    }


def size(spec: RobustSizes) -> Size:
    """The largest packing that is listed, every pair of it."""
    sites = max(3 ** min(k, 100) for k in spec.listed)
    return Size(sites * sites, len(spec.seeds) * sites * sites * max(spec.listed) + 4.0 ** max(spec.held))


EXPERIMENTS = (
    Experiment(
        name="bounds",
        paper="ep",
        shows="EP: the talk's Table 1 in numbers, every cell in one setting; packings on curved manifolds "
        "and pairs of balls behind its lower bounds",
        spec=RobustSizes,
        run=run_bounds,
        columns={
            "table": TableLine,
            "packed": PackedManifold,
            "growth": CountGrowth,
            "held": HeldPoints,
            "training": TrainingGrowth,
        },
        takes={"quick": "1 s", "cpu": "3 s", "paper": "3 s"},
        highlights=(Highlight("general_lower/*", "parameters that robust generalisation needs, d = {}"),),
        size=size,
    ),
)
