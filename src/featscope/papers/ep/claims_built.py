"""EP's statements (talk), judged from rows; the separation of real data (EP-sep) is judged with the images."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from featscope.claims.claim import Claim, Finding, Need, Reading, Runs, plain
from featscope.claims.judging import every, exactly, exceeds, grows_at_most, largest, reaches, smallest
from featscope.claims.packing import exponential, law_holds
from featscope.core.rules import SAME

MEMORISE = {"run": Need("built-memorise")}
FSTAR = {"run": Need("built-fstar")}
PACKING = {"run": Need("packing")}
MANIFOLD = {"run": Need("manifold")}


def training(runs: Runs) -> Finding:
    """Zero robust training error, certified, with a count of order N·d; the talk's √(Nd) stays below it."""
    rows = runs["run"].part("memorise")
    parts = {
        "robust train margin": reaches(smallest(rows["slack"]), 1e-6, cases=rows.height),
        "formula mismatches": exactly(float(rows["parameters"].ne_missing(rows["formula"]).sum()), 0.0),
        "√(Nd) over count": exactly(largest(rows["lower_order"] / rows["parameters"]), 1.0),
    }
    for kind in ("Linf", "L2-shared"):
        chosen = rows.filter(pl.col("kind") == kind)
        by_n, by_d = chosen.filter(pl.col("D") == chosen["D"].max()), chosen.filter(pl.col("n") == chosen["n"].max())
        parts[f"{kind}: growth in N"] = grows_at_most(by_n["n"].to_list(), by_n["parameters"].to_list(), 1.0)
        parts[f"{kind}: growth in d"] = grows_at_most(by_d["D"].to_list(), by_d["parameters"].to_list(), 1.0)
    return every(parts)


def lipschitz(runs: Runs) -> Finding:
    """f* robust on the δ-balls and ε⁻¹-Lipschitz in ℓ∞."""
    rows = runs["run"].part("fstar")
    slope = largest(rows["slope"] / rows["slope_bound"])
    local = largest(rows["local_slope"] / rows["slope_bound"])
    short = largest(rows["f_star_bound"] - rows["f_star_on_balls"])
    return every(
        {
            "slope · ε": exactly(slope, 1 + 1e-6, cases=rows.height),
            "2ε/(d_A + d_B)": exactly(local, 1 + SAME),
            "(1 − δ/ε) − least y·f* on balls": exactly(short, SAME),
        }
    )


def grid(runs: Runs) -> Finding:
    """The grid network: robust by certificate, within its error bound, and exponential in d."""
    rows = runs["run"].part("fstar")
    runs_of = [rows.filter(pl.col("run") == seed).sort("d") for seed in sorted(set(rows["run"].to_list()))]
    floor = math.log(smallest(rows["cells"]) + 1)
    slowest = smallest(pl.concat([((one["parameters"] / one["parameters"].shift(1)).log() / one["d"].diff()).slice(1) for one in runs_of]))
    return every(
        {
            "robust margin": exceeds(smallest(rows["slack"]), 0.0),
            "error over bound": exactly(largest(rows["error"] / rows["error_bound"]), 1.0),
            "formula mismatches": exactly(float((rows["parameters"] + rows["zeros"]).ne_missing(rows["formula"]).sum()), 0.0),
            "rate in d": reaches(slowest, floor, counts=runs_of[0]["parameters"].to_list(), d=runs_of[0]["d"].to_list()),
        }
    )


def on_manifold(runs: Runs) -> Finding:
    """Behind a linear chart the count is k(d+1) plus a grid in k dimensions; robust on the manifold, certified."""
    rows = runs["run"].part("manifold")
    parts = {
        "robust margin": exceeds(smallest(rows["slack"]), 0.0),
        "clean test error": exactly(1 - smallest(rows["clean_test"]), 0.0),
        "attacked test error": exactly(1 - smallest(rows["attacked"]), 0.0),
        "formula mismatches": exactly(float((rows["parameters"] > rows["formula"]).sum()), 0.0),
    }
    for k in sorted(set(rows["k"].to_list())):
        chosen = rows.filter(pl.col("k") == k)
        parts[f"k={k}: growth in d"] = grows_at_most(chosen["d"].to_list(), chosen["parameters"].to_list(), 1.0)
    return every(parts, counts=_shown(rows.select("k", "d", "parameters", "needed")))


def _shown(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows as evidence, which has no NaN."""
    return [{key: plain(value) if isinstance(value, float) else value for key, value in row.items()} for row in rows.to_dicts()]


def manifold_lower(runs: Runs) -> Finding:
    """exp(Ω(k)) on a k-dimensional manifold: the packing count with k in place of D."""
    return exponential(runs)


def summary_table(runs: Runs) -> Finding:
    """Every cell of the talk's table: the lower bound may not exceed the upper one."""
    rows, behind = runs["run"].part("table"), runs["run"].part("manifold")
    cells = [
        rows["train_lower"] / rows["train_upper"],
        # Both sides have hundreds of digits; in logarithms nothing overflows before the quotient does.
        10.0 ** (rows["general_lower"].log(10) - rows["general_upper_log10"]),
        behind["needed"] / behind["parameters"],
    ]
    worst = largest(pl.concat([cell.cast(pl.Float64).rename("cell") for cell in cells]))
    return exactly(worst, 1.0, table=_shown(rows), manifold=_shown(behind.select("k", "d", "parameters", "needed")))


CLAIMS = (
    Claim(
        "EP-train",
        "ep",
        "EP, talk: robust training",
        "Õ(Nd) parameters give zero robust training error on any separated set.",
        ("separation above 2δ",),
        (Reading("built", "memorising network, certificate, exact count and its growth; √(Nd) beside it", MEMORISE, training),),
    ),
    Claim(
        "EP-f*",
        "ep",
        "EP, talk: robust classifier",
        "f* is robust on 2ε-separated sets and ε⁻¹-Lipschitz; a ReLU network with exp(d) parameters follows it.",
        ("separation 2ε", "δ < ε"),
        (
            Reading("exact", "f* itself: slopes over near and far pairs, values on the δ-balls", FSTAR, lipschitz),
            Reading("grid network", "exact interpolation on a grid: certificate, error, count", FSTAR, grid),
        ),
    ),
    Claim(
        "EP-lower",
        "ep",
        "EP, talk: lower bound",
        "Robust generalisation needs exp(Ω(d)) parameters already for a linearly separable law.",
        ("VC bound of Bartlett et al. 2019, Theorem 7",),
        (
            Reading("count", "least number of parameters by VC counting on the packing", PACKING, exponential),
            Reading("law", "the packing is separated, linearly separable, and fragile for the linear classifier", PACKING, law_holds),
        ),
    ),
    Claim(
        "EP-manifold",
        "ep",
        "EP, talk: manifold data",
        "On a k-dimensional manifold exp(O(k)) parameters suffice, and exp(Ω(k)) are needed.",
        ("the embedding is known", "its chart is linear"),
        (
            Reading("built", "chart then grid: certificate, attack, counts over k and d", MANIFOLD, on_manifold),
            Reading("lower", "the packing's count with k in place of D", PACKING, manifold_lower),
        ),
    ),
    Claim(
        "EP-table",
        "ep",
        "EP, talk: Table 1",
        "Upper and lower bounds on parameters for robust training and robust generalisation.",
        (),
        (Reading("cells", "our counts and bounds in every cell; no lower bound above an upper one", MANIFOLD, summary_table),),
    ),
)
