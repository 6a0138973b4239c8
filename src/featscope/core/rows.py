"""Reading rows: the last values of each seed, and means over seeds."""

from __future__ import annotations

import polars as pl
import polars.selectors as cs


def last_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """For each seed its last recorded value of every column; columns that are not recorded at every step give
    their last one."""
    return rows.sort("step").group_by("seed", maintain_order=True).agg(pl.all().drop_nulls().last())


def mean_rows(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """For each value of a column the means of all columns of numbers, in the column's order."""
    return rows.group_by(by).agg(cs.numeric().exclude(by).mean()).sort(by)
