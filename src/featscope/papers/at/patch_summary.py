"""Key numbers of `patch-fig3`, read from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from featscope.core.rows import last_rows
from featscope.core.store import Folder, Json, Rows


def phase_switch(rows: pl.DataFrame) -> dict[int, list[int | None]]:
    """For each run and class the first recorded step from which on max_r⟨w,u⟩ exceeds max_r⟨w,v⟩ to the end; None if there is none."""
    switches: dict[int, list[int | None]] = {}
    for (run,), group in rows.sort("step").group_by("run", maintain_order=True):
        steps = group["step"].to_list()
        ahead = np.array(group["u"].to_list()) > np.array(group["v"].to_list())
        found: list[int | None] = []
        for column in ahead.T:
            behind = np.flatnonzero(~column)
            first = 0 if behind.size == 0 else int(behind[-1]) + 1
            found.append(steps[first] if first < len(steps) else None)
        switches[int(str(run))] = found
    return switches


def _mean(values: Sequence[Any]) -> Any:
    """The mean over runs; None where no run is left."""
    return np.asarray(values, dtype=float).mean(0).tolist() if len(values) else None


def summarise(arms: Sequence[str], folder: Folder, eps: float) -> Json:
    """`u`, `v`, clean, feature and robust accuracies of each arm at the end, means over seeds; those that diverged are in no mean, and are listed."""
    summary: Json = {}
    for arm in arms:
        saved, radii = folder.part(arm).load(), folder.part(f"{arm}-radii").load()
        assert saved is not None
        assert radii is not None
        lost = saved.notes.get("diverged", {})
        rows = pl.DataFrame(saved.rows, infer_schema_length=None)
        summary[arm] = _arm(rows.filter(~pl.col("run").cast(pl.String).is_in(list(lost))), radii.rows, eps, arm)
        if lost:
            summary[arm] |= {"diverged": lost, "how": saved.notes["how"]}
    return summary


def _arm(rows: pl.DataFrame, radii: Rows, eps: float, arm: str) -> Json:
    last = last_rows(rows)
    attacked = [c for c in last.columns if c.startswith("robust_") and not c.startswith("robust_train_")]
    robust = {c.removeprefix("robust_"): {"upper": _mean(last[c].to_list()), "lower": 0.0} for c in attacked}
    at_eps = [r for r in radii if r["eps"] == eps]
    for threat in {r["threat"] for r in at_eps}:
        same = [r for r in at_eps if r["threat"] == threat and r["points"] == "test"]
        keys = ("upper", "lower", "cross_entropy_alone")
        robust[threat] = {key: _mean([r[key] for r in same]) for key in keys}
    for name in ("training-attack", "model-free"):
        # One fixed perturbation each: what is measured is exact for it, so the bracket is closed.
        if name in robust:
            robust[name]["lower"] = robust[name]["upper"]
    found: Json = {
        "u": _mean(last["u"].to_list()),
        "v": _mean(last["v"].to_list()),
        "u_by_seed": last["u"].to_list(),
        "v_by_seed": last["v"].to_list(),
        "clean_train": _mean(last["clean_train"].to_list()),
        "clean_test": _mean(last["clean_test"].to_list()),
        "feature_accuracy": {
            "robust": _mean(last["feature_robust"].to_list()),
            "non_robust": _mean(last["feature_non_robust"].to_list()),
        },
        "robust_test": robust,
        "robust_train": {"training-attack": _mean(last["robust_train_training-attack"].to_list())},
        "noise_correlation": _mean(last["noise_max"].to_list()),
        "orthogonal_l1": _mean(last["rest_l1"].to_list()),
    }
    if arm == "adversarial":
        switches = phase_switch(rows)
        whole = [max(s for s in found_ if s is not None) for found_ in switches.values() if None not in found_]
        found["phase_switch"] = _mean(whole) if len(whole) == len(switches) else None
        found["phase_switch_by_seed"] = list(switches.values())
    return found
