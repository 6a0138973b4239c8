"""EP's statements (talk), judged from rows; the separation of real data is judged with the images."""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.built import formula_met, linear_growth, robust_by_certificate
from featscope.claims.claim import Claim, Finding, Kind, Need, Reading, Runs
from featscope.claims.judging import every, exactly, exceeds, grows_at_most, largest, reaches, smallest
from featscope.core.rules import ROUNDED_SLOPE, SAME
from featscope.papers.ep.built import MEMORISING_KINDS, RobustClassifier
from featscope.papers.ep.claims_bounds import BOUNDS, grows_exponentially
from featscope.papers.ep.manifold import BehindChart

MEMORISE = {"run": Need("built-memorise")}
FSTAR = {"run": Need("built-fstar")}
MANIFOLD = {"run": Need("manifold")}


def training(runs: Runs) -> Finding:
    """Zero robust training error, certified, with a count of order N·d."""
    rows = runs["run"].part("memorise")
    parts = {
        "robust train margin": robust_by_certificate(rows),
        "formula mismatches": formula_met(rows),
    }
    for kind in MEMORISING_KINDS:
        parts |= linear_growth(rows, kind, "d")
    return every(parts)


def lipschitz(runs: Runs) -> Finding:
    """f* robust on the δ-balls and ε⁻¹-Lipschitz in ℓ∞."""
    c, rows = RobustClassifier, runs["run"].part("fstar")
    slope = largest(rows[c.slope] / rows[c.slope_bound])
    local = largest(rows[c.local_slope] / rows[c.slope_bound])
    short = largest(rows[c.f_star_bound] - rows[c.f_star_on_balls])
    return every(
        {
            "slope · ε": exactly(slope, 1 + ROUNDED_SLOPE, cases=rows.height),
            "2ε/(d_A + d_B)": exactly(local, 1 + SAME),
            "(1 − δ/ε) − least y·f* on balls": exactly(short, SAME),
        }
    )


def grid(runs: Runs) -> Finding:
    """The grid network: robust by certificate, within its error bound, and exponential in d."""
    c, rows = RobustClassifier, runs["run"].part("fstar")
    seeds = [rows.filter(pl.col(c.seed) == seed).sort(c.d) for seed in sorted(set(rows[c.seed].to_list()))]
    floor = math.log(smallest(rows[c.cells]) + 1)
    slowest = smallest(pl.concat([_rates(one) for one in seeds]))
    stored = rows[c.parameters] + rows[c.zeros]
    return every(
        {
            "robust margin": exceeds(smallest(rows[c.slack]), 0.0),
            "error over bound": exactly(largest(rows[c.error] / rows[c.error_bound]), 1.0),
            "formula mismatches": exactly(float(stored.ne_missing(rows[c.formula]).sum()), 0.0),
            "rate in d": reaches(
                slowest, floor, counts=seeds[0][c.parameters].to_list(), d=seeds[0][c.d].to_list()
            ),
        }
    )


def _rates(rows: pl.DataFrame) -> pl.Series:
    """The slope of the count's logarithm between neighbouring d."""
    c = RobustClassifier
    return ((rows[c.parameters] / rows[c.parameters].shift(1)).log() / rows[c.d].diff()).slice(1)


def on_manifold(runs: Runs) -> Finding:
    """Behind a linear chart the count is k(d+1) plus a grid in k dimensions; robust, certified."""
    c, rows = BehindChart, runs["run"].part("manifold")
    parts = {
        "robust margin": exceeds(smallest(rows[c.slack]), 0.0),
        "clean test error": exactly(1 - smallest(rows[c.clean_test]), 0.0),
        "attacked test error": exactly(1 - smallest(rows[c.attacked]), 0.0),
        "formula mismatches": exactly(float((rows[c.parameters] > rows[c.formula]).sum()), 0.0),
    }
    for k in sorted(set(rows[c.k].to_list())):
        chosen = rows.filter(pl.col(c.k) == k)
        parts[f"k={k}: growth in d"] = grows_at_most(
            chosen[c.d].to_list(), chosen[c.parameters].to_list(), 1.0
        )
    return every(parts, counts=rows.select(c.k, c.d, c.parameters).to_dicts())


CLAIMS = (
    Claim(
        "EP-train",
        "ep",
        "EP, talk: robust training",
        "Õ(Nd) parameters give zero robust training error on any separated set.",
        ("separation above 2δ",),
        (
            Reading(
                "built",
                "memorising network, certificate, exact count and its growth",
                MEMORISE,
                training,
            ),
        ),
        named_kind=Kind.THEOREM,
    ),
    Claim(
        "EP-f*",
        "ep",
        "EP, talk: robust classifier",
        "f* is robust on 2ε-separated sets and ε⁻¹-Lipschitz; a ReLU network with exp(d) parameters follows "
        "it.",
        ("separation 2ε", "δ < ε"),
        (
            Reading(
                "exact", "f* itself: slopes over near and far pairs, values on the δ-balls", FSTAR, lipschitz
            ),
            Reading("grid network", "exact interpolation on a grid: certificate, error, count", FSTAR, grid),
        ),
        named_kind=Kind.THEOREM,
    ),
    Claim(
        "EP-manifold",
        "ep",
        "EP, talk: manifold data",
        "On a k-dimensional manifold exp(O(k)) parameters suffice, and exp(Ω(k)) are needed.",
        ("the embedding is known", "its chart is linear"),
        (
            Reading(
                "built", "chart then grid: certificate, attack, counts over k and d", MANIFOLD, on_manifold
            ),
            Reading(
                "lower",
                "packings on flat and curved graphs, listed and measured; the count along k in R^200",
                BOUNDS,
                grows_exponentially("manifold"),
            ),
        ),
        named_kind=Kind.THEOREM,
    ),
)
