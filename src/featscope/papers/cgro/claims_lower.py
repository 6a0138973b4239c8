"""CGRO Theorem 5.3 by its argument, judged from the rows of `lower-bound` and `packing`."""

from __future__ import annotations

import math
from itertools import pairwise

import polars as pl

from featscope.claims.claim import Claim, Finding, Need, Reading, Runs
from featscope.claims.judging import every, exactly, exceeds, largest, reaches, smallest
from featscope.claims.packing import law_holds
from featscope.core.rules import BEND, PROVEN_MARGIN
from featscope.papers.cgro.lower_bound import ExactCount, Growth, ListedSites, NeuralLaw, Shattered

ARGUMENT = {"run": Need("lower-bound")}
PACKING = {"run": Need("packing")}


def _least_slope(x: list[float], y: list[float]) -> float:
    """The least slope of log y against x between neighbours; NaN where there are no two or no logarithm."""
    pairs = sorted(zip(x, y, strict=True))
    if len(pairs) < 2 or not all(isinstance(b, int | float) and 0 < b < math.inf for _, b in pairs):
        return math.nan
    return min(
        math.log(after / before) / (right - left) for (left, before), (right, after) in pairwise(pairs)
    )


def argument(runs: Runs) -> Finding:
    """Every step: packing, shattering, counting, and that the dimension needed grows with the packing."""
    run = runs["run"]
    p, s, e = ListedSites, Shattered, ExactCount
    listed, shattered, exact = run.part("listed"), run.part("shattered"), run.part("exact")
    missing = listed[p.promised] - listed[p.sites]
    unseen = shattered[s.labellings] - shattered[s.patterns] + shattered[s.wrong]
    growth = [
        _least_slope([math.log(n) for n in same[e.sites]], same[e.dimension].to_list())
        for _, same in exact.group_by(e.mu, maintain_order=True)
    ]
    return every(
        {
            "sites that are not there": exactly(largest(missing.cast(pl.Float64).abs()), 0.0),
            "distance of sites ÷ 2δ": exceeds(smallest(listed[p.separation] / (2 * listed[p.radius])), 1.0),
            "labellings not spelled": exactly(largest(unseen.cast(pl.Float64)), 0.0),
            "certified margin": reaches(smallest(shattered[s.slack]), PROVEN_MARGIN),
            "built ÷ needed": reaches(smallest(shattered[s.parameters] / shattered[s.needed]), 1.0),
            "VC dimension ÷ C(μ)n": reaches(smallest(exact[e.dimension] / exact[e.by_entropy]), 1.0),
            "VC dimension against n": reaches(smallest(growth), 1 - BEND),
        }
    )


def neural(runs: Runs) -> Finding:
    """Random ReLU networks as clean classifiers: Assumption 5.1 and 3^(D−1) sites on each law."""
    rows, c = runs["run"].part("neural"), NeuralLaw
    sites = rows[c.sites] / (3.0 ** (rows[c.D] - 1))
    return every(
        {
            "separation ÷ 2δ": exceeds(smallest(rows[c.separation] / (2 * rows[c.radius])), 1.0),
            "clean error": exactly(largest(rows[c.clean_error]), 0.0),
            "robust error": reaches(smallest(rows[c.robust_error]), 0.5),
            "sites ÷ 3^(D−1)": reaches(smallest(sites), 1.0),
        },
        laws=rows.height,
    )


def base_e_for_some_radius(runs: Runs) -> Finding:
    """The theorem says that a law exists: the best δ's least rate between neighbouring D, against 1."""
    rows, c = runs["run"].part("growth"), Growth
    found = {
        f"{delta:g}": _least_slope(same[c.D].to_list(), same[c.needed].to_list())
        for (delta,), same in rows.group_by(c.radius, maintain_order=True)
    }
    known = {delta: value for delta, value in found.items() if not math.isnan(value)}
    return reaches(max(known.values(), default=math.nan), 1.0, rate_by_radius=found)


CLAIMS = (
    Claim(
        "CG-T5.3",
        "cgro",
        "CGRO Theorem 5.3",
        "Some law satisfying Assumption 5.1 needs a number of parameters exponential in D for a robust test "
        "error below a constant.",
        ("VC bound of Bartlett et al. 2019, Theorem 7", "enveloping network with M³ parameters"),
        (
            Reading(
                "exp(Ω(D))",
                "the argument: packing listed and measured, every labelling of small packings spelled by a "
                "certified network, VC dimension counted in whole numbers and growing like the packing",
                ARGUMENT,
                argument,
            ),
            Reading(
                "neural-separable",
                "the same law inside a linear region of a random ReLU network, which is its clean classifier",
                ARGUMENT,
                neural,
            ),
            Reading(
                "Ω(exp(D)), some δ",
                "rate at least 1 for some radius, because the statement lets the law choose it",
                ARGUMENT,
                base_e_for_some_radius,
            ),
            Reading("law", "the packing's own properties, its support listed in full", PACKING, law_holds),
        ),
    ),
)
