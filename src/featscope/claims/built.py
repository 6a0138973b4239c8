"""Counts of networks built by hand, judged from rows: CGRO Theorem 5.2 and EP both read them so."""

from __future__ import annotations

import polars as pl

from featscope.claims.claim import Finding
from featscope.claims.judging import exactly, grows_at_most, reaches, smallest
from featscope.core.rules import PROVEN_MARGIN
from featscope.experiments.built import SampledNetwork as C


def robust_by_certificate(rows: pl.DataFrame) -> Finding:
    """Every network is robust on its training balls, by certificate."""
    return reaches(smallest(rows[C.slack]), PROVEN_MARGIN, cases=rows.height)


def formula_met(rows: pl.DataFrame) -> Finding:
    """Every count is what its formula says."""
    return exactly(float(rows[C.parameters].ne_missing(rows[C.formula]).sum()), 0.0, cases=rows.height)


def linear_growth(rows: pl.DataFrame, kind: str, dimension: str = "D") -> dict[str, Finding]:
    """Of one kind: the count is O(N) at the largest D and O(D) at the largest N.

    Where every point has square networks of its own (L2-each), they may cost a factor of their levels.
    """
    chosen = rows.filter(pl.col(C.kind) == kind)
    by_n = chosen.filter(pl.col(C.D) == rows[C.D].max())
    by_d = chosen.filter(pl.col(C.n) == rows[C.n].max())
    counts = (
        by_d[C.parameters] / by_d[C.levels].clip(lower_bound=1) if kind == "L2-each" else by_d[C.parameters]
    )
    return {
        f"{kind}: growth in N": grows_at_most(by_n[C.n].to_list(), by_n[C.parameters].to_list(), 1.0),
        f"{kind}: growth in {dimension}": grows_at_most(by_d[C.D].to_list(), counts.to_list(), 1.0),
    }
