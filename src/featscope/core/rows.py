"""Reading rows: the last values of each seed."""

from __future__ import annotations

import polars as pl


def last_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """For each seed its last recorded value of every column; columns that are not recorded at every step give their last one."""
    return rows.sort("step").group_by("seed", maintain_order=True).agg(pl.all().drop_nulls().last())
