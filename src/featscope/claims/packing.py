"""What the packing shows, judged from rows: CGRO Theorem 5.3 and EP's lower bounds both read it so."""

from __future__ import annotations

import polars as pl

from featscope.claims.claim import Finding, Runs
from featscope.claims.judging import every, exactly, largest, reaches, smallest
from featscope.experiments.packing import ListedLaw


def law_holds(runs: Runs) -> Finding:
    """The packing satisfies Assumption 5.1 and its clean classifier is fragile: in full for small D."""
    rows = runs["run"].part("law")
    apart = [rows[column].rename("apart") for column in (ListedLaw.separation_Linf, ListedLaw.separation_L2)]
    close = smallest(pl.concat([distance / (2 * rows[ListedLaw.radius]) for distance in apart]))
    return every(
        {
            "separation over 2δ": reaches(close, 1.0),
            "clean error of x_D > ½": exactly(largest(rows[ListedLaw.clean_error]), 0.0),
            "robust error of x_D > ½": reaches(smallest(rows[ListedLaw.linear_robust_error]), 0.5),
        }
    )
