"""The last values of an arm of `patch-fig3`."""

from __future__ import annotations

import numpy as np

from featscope.claims.judging import numbers
from featscope.core.rows import last_rows
from featscope.experiments.run import Run


def finals(run: Run, arm: str, column: str) -> np.ndarray:
    """A column's last value in each run, (runs, …). A run that diverged stopped recording before: its last value is not known, NaN."""
    last = last_rows(run.part(arm))
    values = numbers(last[column])
    diverged = run.summary.get(arm, {}).get("diverged", {})
    values[[str(name) in diverged for name in last["run"].to_list()]] = np.nan
    return values
