"""AT-depth: does the order of learning survive in deeper networks?"""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Kind, Runs
from featscope.claims.judging import (
    at_least,
    at_most,
    below,
    every,
    largest,
    number,
    one_run,
    over_seeds,
    scoped,
    threshold,
)
from featscope.core.rows import last_rows
from featscope.core.rules import SMALL
from featscope.core.stored import labelled
from featscope.experiments.run import Run
from featscope.nets.deep_patch import DEEP_KINDS
from featscope.papers.at.patch_depth import DEPTH_DYNAMICS, DepthDynamics, PatchDepth
from featscope.papers.at.runs import DEPTH, DEPTH_TEN

READ_FROM = 1 - SMALL


def final_errors(run: Run, kind: str, arm: str, column: str) -> list[float]:
    """The share of wrong test points at the end of each seed; NaN for a seed that diverged, whose end is not
    known."""
    points = PatchDepth.of(run).test_size
    last = last_rows(run.part(DEPTH_DYNAMICS, net=kind, arm=arm))
    lost = run.diverged.get(labelled(DEPTH_DYNAMICS, {DepthDynamics.net: kind, DepthDynamics.arm: arm}), [])
    return [
        _wrong(math.nan if str(seed) in lost else number(value), points)
        for seed, value in zip(last[DepthDynamics.seed].to_list(), last[column].to_list(), strict=True)
    ]


def _wrong(accuracy: float, points: int) -> float:
    """1 − accuracy as the share that was counted, without rounding of its own."""
    return math.nan if math.isnan(accuracy) else round((1 - accuracy) * points) / points


def lag(run: Run, kind: str, arm: str) -> list[float]:
    """For each seed the steps until D_NR is read over those until D_R is: below 1 where non-robust features
    come first, 0 where robust ones never do, NaN where neither does."""
    found = []
    for _, rows in run.part(DEPTH_DYNAMICS, net=kind, arm=arm).group_by(
        DepthDynamics.seed, maintain_order=True
    ):
        robust = _first(rows, DepthDynamics.feature_robust)
        other = _first(rows, DepthDynamics.feature_non_robust)
        found.append(math.nan if math.isinf(robust) and math.isinf(other) else other / robust)
    return found


def _first(rows: pl.DataFrame, column: str) -> float:
    """The first step, counted from 1, at which an accuracy is at least 1 − SMALL; infinite if none."""
    read = rows.filter(pl.col(column) >= READ_FROM)[DepthDynamics.step]
    return 1.0 + min(read.to_list(), default=math.inf)


def _standard(kind: str) -> Judge:
    """Theorem 4.3's picture: D_NR is read, and before D_R; the model-free Δ fools."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        other, swapped = (
            final_errors(run, kind, "standard", column)
            for column in (DepthDynamics.feature_non_robust, DepthDynamics.robust_model_free)
        )
        behind = lag(run, kind, "standard")
        found = every(
            {
                "order": below(over_seeds(behind), 1.0, by_seed=behind),
                "non-robust-features": at_most(over_seeds(other), SMALL, by_seed=other),
                "robust-bad": at_least(over_seeds(swapped), 1 - SMALL, by_seed=swapped),
            }
        )
        return scoped(_unlearned(run, kind), found)

    return judge


def _adversarial(kind: str) -> Judge:
    """Theorem 4.4's picture: D_R is read, and the model-free Δ does not fool."""

    def judge(runs: Runs) -> Finding:
        parts = {
            "robust-features": DepthDynamics.feature_robust,
            "model-free": DepthDynamics.robust_model_free,
        }
        errors = {
            name: final_errors(runs["run"], kind, "adversarial", column) for name, column in parts.items()
        }
        clean = final_errors(runs["run"], kind, "adversarial", DepthDynamics.clean_test)
        found = every(
            {name: at_most(over_seeds(wrong), SMALL, by_seed=wrong) for name, wrong in errors.items()},
            clean_error=clean,
        )
        return scoped(_unlearned(runs["run"], kind), found)

    return judge


def _unlearned(run: Run, kind: str) -> list[str]:
    """What both pictures suppose: that the steps are enough for standard training to learn the task, in every
    seed."""
    errors = final_errors(run, kind, "standard", DepthDynamics.clean_test)
    least, needed = 1 - largest(errors), threshold(PatchDepth.of(run).law.k)
    if least >= needed:
        return []
    return [f"standard training learns the task: test accuracy {least:.2f} against {needed:.2f}"]


#: arm → what must be seen, and the judge of it
PICTURES = {
    "standard": ("D_NR is read first, and the model-free Δ fools", _standard),
    "adversarial": ("D_R is read, and the model-free Δ does not fool", _adversarial),
}

CLAIMS = (
    Claim(
        id="AT-depth",
        paper="at",
        named_kind=Kind.QUESTION,
        reference="AT §7, deeper networks on the law of Figure 3",
        statement="In deeper networks, and with attention, standard training still learns the non-robust "
        "features first and stays open to the perturbation that looks at no model, and adversarial training "
        "learns the robust ones.",
        hypotheses=("Figure 3's law, ReLU or attention, a trained read-out",),
        readings=tuple(
            one_run(f"{arm} ({kind}, k = {k})", f"{told}; {kind}, {k} classes", need, judge(kind))
            for k, need in ((2, DEPTH), (10, DEPTH_TEN))
            for kind in DEEP_KINDS
            for arm, (told, judge) in PICTURES.items()
        ),
    ),
)
