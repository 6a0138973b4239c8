"""Key numbers of `patch-fig3`, read from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from featscope.core.rows import last_rows
from featscope.core.store import Json, Rows, table
from featscope.dynamics.patch_descent import Weights
from featscope.dynamics.trajectory import Recording
from featscope.papers.at.fig3_columns import ATTACKED_COLUMNS, Dynamics, Radii


def phase_switch(rows: pl.DataFrame) -> dict[int, list[int | None]]:
    """For each seed and class the first recorded step from which on max_r⟨w,u⟩ exceeds max_r⟨w,v⟩ to the end.

    None if there is none.
    """
    switches: dict[int, list[int | None]] = {}
    for (seed,), group in rows.sort(Dynamics.step).group_by(Dynamics.seed, maintain_order=True):
        steps = group[Dynamics.step].to_list()
        ahead = np.array(group[Dynamics.u].to_list()) > np.array(group[Dynamics.v].to_list())
        found: list[int | None] = []
        for column in ahead.T:
            behind = np.flatnonzero(~column)
            first = 0 if behind.size == 0 else int(behind[-1]) + 1
            found.append(steps[first] if first < len(steps) else None)
        switches[int(str(seed))] = found
    return switches


def mean_switch(switches: dict[int, list[int | None]]) -> float | None:
    """The step by which all classes have switched, mean over seeds; None if one never does."""
    whole = [max(s for s in found if s is not None) for found in switches.values() if None not in found]
    return float(np.mean(whole)) if whole and len(whole) == len(switches) else None


def _mean(values: Sequence[Any]) -> Any:
    """The mean over seeds; None where none is left."""
    return np.asarray(values, dtype=float).mean(0).tolist() if len(values) else None


def summarise(trained: Recording[Weights], radii: Rows, eps: float, arm: str) -> Json:
    """`u`, `v`, clean, feature and robust accuracies of an arm at the end, means over seeds.

    Seeds that diverged are in no mean, and are listed.
    """
    lost = trained.diverged
    rows = table(trained.rows).filter(~pl.col(Dynamics.seed).cast(pl.String).is_in(list(lost)))
    summary = _ends(last_rows(rows)) | {"robust_test": _robust(last_rows(rows), radii, eps)}
    if arm == "adversarial":
        switches = phase_switch(rows)
        summary |= {"phase_switch": mean_switch(switches), "phase_switch_by_seed": list(switches.values())}
    return summary | ({"diverged": lost, "how": trained.how} if lost else {})


def _ends(last: pl.DataFrame) -> Json:
    end = {name: _mean(last[name].to_list()) for name in Dynamics.all() if name in last.columns}
    return {
        "u": end[Dynamics.u],
        "v": end[Dynamics.v],
        "u_by_seed": last[Dynamics.u].to_list(),
        "v_by_seed": last[Dynamics.v].to_list(),
        "clean_train": end[Dynamics.clean_train],
        "clean_test": end[Dynamics.clean_test],
        "feature_accuracy": {
            "robust": end[Dynamics.feature_robust],
            "non_robust": end[Dynamics.feature_non_robust],
        },
        "robust_train": {"training-attack": end[Dynamics.robust_train_training_attack]},
        "noise_correlation": end[Dynamics.noise_max],
        "orthogonal_l1": end[Dynamics.rest_l1],
    }


def _robust(last: pl.DataFrame, radii: Rows, eps: float) -> Json:
    """The bracket of the robust test accuracy under every attack and threat."""
    robust: Json = {}
    for name in ATTACKED_COLUMNS:
        if name in last.columns:
            # Of one fixed perturbation what is measured is exact, so the bracket is closed; threats follow
            # below.
            reached = _mean(last[name].to_list())
            robust[name.removeprefix("robust_")] = {"upper": reached, "lower": reached}
    at_eps = [row for row in radii if row[Radii.eps] == eps and row[Radii.points] == "test"]
    for threat in sorted({row[Radii.threat] for row in at_eps}):
        same = [row for row in at_eps if row[Radii.threat] == threat]
        ends = (Radii.upper, Radii.lower, Radii.cross_entropy_alone)
        robust[threat] = {str(end): _mean([row[end] for row in same]) for end in ends}
    return robust
