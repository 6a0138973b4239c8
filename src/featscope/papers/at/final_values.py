"""The last values of an arm of `patch-fig3`."""

from __future__ import annotations

import numpy as np

from featscope.claims.judging import numbers
from featscope.core.rows import last_rows
from featscope.core.stored import labelled
from featscope.experiments.run import Run
from featscope.papers.at.fig3_columns import DYNAMICS, Dynamics


def final_values(run: Run, arm: str, column: str) -> np.ndarray:
    """A column's last value in each seed, (seeds, …).

    A seed that diverged stopped recording before: its last value is not known, NaN.
    """
    last = last_rows(run.part(DYNAMICS, arm=arm))
    values = numbers(last[column])
    diverged = run.diverged.get(labelled(DYNAMICS, {Dynamics.arm: arm}), [])
    values[[str(seed) in diverged for seed in last[Dynamics.seed].to_list()]] = np.nan
    return values
