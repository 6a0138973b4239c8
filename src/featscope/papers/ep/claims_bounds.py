"""EP's lower bounds and its Table 1 (talk), judged from rows."""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Kind, Need, Reading, Runs
from featscope.claims.judging import (
    at_least,
    every,
    exactly,
    explained,
    fitted,
    largest,
    numbers,
    reaches,
    smallest,
    trivially_met,
)
from featscope.claims.packing import law_holds
from featscope.core.rules import BEND, SAME
from featscope.core.stats import Interval
from featscope.laws.graph_packing import packing_levels
from featscope.nets.built.counting import packing_sites, parameters_needed
from featscope.papers.ep.bounds import (
    CountGrowth,
    HeldPoints,
    PackedManifold,
    RobustSizes,
    TableLine,
    TrainingGrowth,
)

BOUNDS = {"run": Need("bounds")}
PACKING = {"run": Need("packing")}


def _lawful(rows: pl.DataFrame, spec: RobustSizes) -> dict[str, Finding]:
    """The packings are 2ε apart, in the cube, linearly separable, and fragile for that classifier."""
    c = PackedManifold
    bent = rows.filter(pl.col(c.bend) > 0)[c.curvature]
    found = {
        "separation ÷ 2ε": reaches(smallest(rows[c.separation]) / (2 * spec.eps), 1.0),
        "in the cube": reaches(smallest(rows[c.inside].cast(pl.Float64)), 1.0),
        "clean error of x_k > ½": exactly(largest(rows[c.clean_error]), 0.0),
        "robust error of x_k > ½": reaches(smallest(rows[c.robust_error]), 0.5),
        "sites ÷ L^(k−1)": reaches(
            smallest(rows[c.sites] / float(packing_levels(spec.eps)) ** (rows[c.k] - 1)), 1.0
        ),
    }
    return found | ({"curvature of what is bent": reaches(smallest(bent), BEND)} if bent.len() else {})


def _rate(rows: pl.DataFrame) -> Interval:
    """The slope of ln(needed) in the dimension, with its interval."""
    dims, c = numbers(rows[CountGrowth.dimension]), CountGrowth
    scale = float(dims.max()) / 20
    fit = fitted([math.exp(d / scale) for d in dims], rows[c.needed].to_list())
    return Interval(fit.value / scale, fit.low / scale, fit.high / scale)


def opens_at(spec: RobustSizes, linear: int | None = None) -> int:
    """The dimension from which on the count exceeds the clean linear classifier's (d + 1, or ``linear``)."""
    dim = 2
    while parameters_needed(packing_sites(dim, spec.eps), spec.mu) <= (linear or dim + 1):
        dim += 1
    return dim


def grows_exponentially(kind: str) -> Judge:
    """The law is what it should be, and the count grows like e^{bD}, b at least a quarter of the packing's
    own rate; VACUOUS where it stays below the clean linear classifier's parameters."""

    def judge(runs: Runs) -> Finding:
        run, c = runs["run"], CountGrowth
        spec, general = RobustSizes.of(run), kind == "general"
        laws = run.part("packed").filter((pl.col(PackedManifold.k) == pl.col(PackedManifold.d)) == general)
        rows = run.part("growth", kind=kind).sort(c.dimension)
        rate = at_least(_rate(rows), math.log(packing_levels(spec.eps)) / 4 * (1 - BEND))
        share = largest(rows[c.needed] / rows[c.linear])
        opens = opens_at(spec, None if general else spec.ambient + 1)
        why = (
            f"at most {share:.3g} of the clean linear classifier's parameters; more from dimension {opens} on"
        )
        found = every(_lawful(laws, spec) | {"rate": rate}, laws=laws.height)
        shown = dict(zip(map(str, rows[c.dimension]), rows[c.needed], strict=True))
        return explained(trivially_met(found, not share > 1, why, dimension=opens), needed=shown)

    return judge


def training_lower(runs: Runs) -> Finding:
    """Every labelling is held by a pair of balls 2ε apart, and the count grows like (Nd)^½."""
    run, h, t = runs["run"], HeldPoints, TrainingGrowth
    held, grown = run.part("held"), run.part("training")
    fit = fitted((grown[t.n] * grown[t.d]).to_list(), grown[t.needed].to_list())
    missing = largest((2.0 ** held[h.points] - held[h.labellings]).to_list())
    return every(
        {
            "furthest point ÷ δ": exactly(largest(held[h.furthest]), 1 + SAME),
            "separation ÷ 2ε": reaches(smallest(held[h.separation]), 1 - SAME),
            "labellings that were not tried": exactly(missing, 0.0),
            "δ < ε": exactly(largest(held[h.delta_over_eps]), 1.0),
            "exponent of the count in N·d": at_least(fit, 0.5 - BEND),
        }
    )


def summary_table(runs: Runs) -> Finding:
    """Every cell of the talk's table: the lower bound may not exceed the upper one."""
    t, rows = TableLine, runs["run"].part("table")
    cells = {
        "robust training": rows[t.train_lower] / rows[t.train_upper],
        # Both sides have hundreds of digits; in logarithms nothing overflows before the quotient does.
        "general case": 10.0 ** (rows[t.general_lower].log(10) - rows[t.general_upper_log10]),
        "k-dimensional manifold": 10.0 ** (rows[t.manifold_lower].log(10) - rows[t.manifold_upper_log10]),
    }
    parts = {name: exactly(largest(cell.cast(pl.Float64)), 1.0) for name, cell in cells.items()}
    # Of cells that all hold, the tightest is shown.
    ordered = dict(sorted(parts.items(), key=lambda item: -(item[1].value or 0.0)))
    return explained(every(ordered), table=rows.drop("part").to_dicts())


CLAIMS = (
    Claim(
        "EP-train-lower",
        "ep",
        "EP, talk: robust training, lower bound",
        "Zero robust training error on any N separated points takes Ω(√(Nd)) parameters.",
        ("VC bound of Bartlett et al. 2019, Theorem 7", "ℓ2, balls that nearly touch: δ ≥ ε√(1 − 1/d)"),
        (
            Reading(
                "argument",
                "a pair of balls holds d points under every labelling: N·d/2 points are shattered; VC bound "
                "of one architecture of any depth",
                BOUNDS,
                training_lower,
            ),
        ),
        named_kind=Kind.THEOREM,
    ),
    Claim(
        "EP-lower",
        "ep",
        "EP, talk: lower bound",
        "Robust generalisation needs exp(Ω(d)) parameters already for a linearly separable law.",
        ("VC bound of Bartlett et al. 2019, Theorem 7",),
        (
            Reading(
                "count",
                "packings listed and measured, then the least number of parameters by VC counting along d",
                BOUNDS,
                grows_exponentially("general"),
            ),
            Reading(
                "law",
                "the packing is separated, linearly separable, and fragile for the linear classifier",
                PACKING,
                law_holds,
            ),
        ),
        named_kind=Kind.THEOREM,
    ),
    Claim(
        "EP-table",
        "ep",
        "EP, talk: Table 1",
        "Upper and lower bounds on parameters for robust training and robust generalisation.",
        (),
        (
            Reading(
                "cells",
                "every cell in one setting (ℓ∞, ε, δ, N, μ, k); no lower bound above its upper one",
                BOUNDS,
                summary_table,
            ),
        ),
    ),
)
