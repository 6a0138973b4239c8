"""What AT's judges beyond the paper's setting must say: AT-R2.5 (the inner maximum) and AT-depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judge_rows_at_training import lost
from judging import Case, Table, judged, made

from featscope.experiments.run import Run

NAN = float("nan")
ARMS = (
    "patch",
    "coordinate",
    "features-only",
    "pgd-1",
    "pgd-3",
    "pgd-10",
    "pgd-50",
    "exact",
    "exact-features",
)


def inner(
    arm: str, rows: Sequence[dict[str, Any]], opposite: dict[str, Any], gone: Sequence[int] = ()
) -> Run:
    """The last rows of each seed of one arm; earlier rows and the other arms hold ``opposite``."""
    listed = [{"arm": arm, "step": 300, "seed": seed, **row} for seed, row in enumerate(rows)]
    listed += [{"arm": arm, "step": 0, "seed": seed, **opposite} for seed in range(len(rows))]
    other = "pgd-3" if arm == "patch" else "patch"
    listed += [{"arm": other, "step": step, "seed": 0, **opposite} for step in (0, 300)]
    return lost(made("patch-inner", {"dynamics": listed}, seeds=list(range(len(rows)))), arm, gone)


def worst(
    column: str, values: Sequence[float | None], verdict: str, value: float | None, bound: float
) -> Case:
    """A column in two arms and at two times; the largest decides wherever it stands."""
    rows = [
        {"arm": ARMS[-1 - at % 2], "step": 150 * (at // 2), "seed": 0, "u": [1.0], column: found}
        for at, found in enumerate(values)
    ]
    return Case({"run": made("patch-inner", {"dynamics": rows})}, verdict, value, bound)


@judged("AT-R2.5", "gap", "gap-in-training", "unbeaten")
def largest_of_all(name: str) -> Table:
    column = {"gap": "gap", "gap-in-training": "training_gap", "unbeaten": "beaten_by"}[name]
    bound = 1e-3 if name == "gap-in-training" else 1e-8
    return Table(
        holds=worst(column, [0.0, None, bound / 2, -1.0], "HOLDS", bound / 2, bound),
        fails=worst(column, [0.0, 2 * bound, 0.0, 0.0], "FAILS", 2 * bound, bound),
        at_bound=worst(column, [bound, None, 0.0, 0.0], "HOLDS", bound, bound),
        bad_seed=worst(column, [0.0, 0.0, 0.0, 3 * bound], "FAILS", 3 * bound, bound),
        nan=worst(column, [0.0, NAN, 0.0, 0.0], "FAILS", None, bound),
        more=(worst(column, [None, None], "FAILS", None, bound),),
    )


@judged("AT-R2.5", "converged (patch)", "converged (pgd-50)")
def converged(name: str) -> Table:
    arm = name.removeprefix("converged (").removesuffix(")")

    def case(left: Sequence[float], verdict: str, value: float | None, gone: Sequence[int] = ()) -> Case:
        opposite = {"left": 1.0 if verdict == "HOLDS" else 0.0}
        return Case({"run": inner(arm, [{"left": x} for x in left], opposite, gone)}, verdict, value, 0.05)

    return Table(
        holds=case([0.01, 0.03, -1e-12], "HOLDS", (0.04 - 1e-12) / 3),
        fails=case([0.06, 2.0, 0.5], "FAILS", 2.56 / 3),
        at_bound=case([0.05, 0.05], "HOLDS", 0.05),
        bad_seed=case([0.0, 0.0, 3.0], "INCONCLUSIVE", 1.0),
        nan=case([0.0, NAN], "INCONCLUSIVE", None),
        more=(case([0.0, 0.0], "INCONCLUSIVE", None, gone=[1]),),
    )


@judged("AT-R2.5", *(f"switch ({arm})" for arm in ARMS))
def switch(name: str) -> Table:
    arm = name.removeprefix("switch (").removesuffix(")")

    def case(u: Sequence[Any], v: Sequence[Any], verdict: str, value: float | None) -> Case:
        rows = [{"u": a, "v": b} for a, b in zip(u, v, strict=True)]
        opposite = (
            {"u": [0.1, 0.1], "v": [0.1, 0.1]} if verdict == "HOLDS" else {"u": [9.0, 9.0], "v": [0.1, 0.1]}
        )
        return Case({"run": inner(arm, rows, opposite)}, verdict, value, 10)

    return Table(
        holds=case([[2.0, 3.0], [1.2, 4.0]], [[0.1, 0.1], [0.1, -0.2]], "HOLDS", 12),
        fails=case([[0.02, 0.01], [0.2, -0.1]], [[0.02, 0.02], [0.1, -0.1]], "FAILS", None),
        at_bound=case([[2.0, 1.0]], [[0.2, 0.1]], "HOLDS", 10),
        bad_seed=case([[2.0, 2.0], [2.0, 0.1]], [[0.1, 0.1], [0.1, 0.1]], "INCONCLUSIVE", 1),
        nan=case([[2.0, 2.0], [2.0, NAN]], [[0.1, 0.1], [0.1, 0.1]], "INCONCLUSIVE", None),
    )


KINDS = ("conv-1", "conv-2", "conv-3", "conv-4", "residual", "attention")
#: accuracies that a reading of the arm asks for, and what fails it
GOOD = {
    "standard": {"feature_robust": 0.5, "feature_non_robust": 1.0, "robust_model-free": 0.0},
    "adversarial": {"feature_robust": 1.0, "feature_non_robust": 0.1, "robust_model-free": 1.0},
}


def depth(kind: str, arm: str, k: int, seeds: Sequence[dict[str, float]], clean: float = 1.0) -> Run:
    """Accuracies by seed after the last step. At the start nothing is read; whatever else is recorded says the
    opposite."""
    rows = []
    for seed, ends in enumerate(seeds):
        for step in (0, 12):
            row = dict.fromkeys(GOOD["standard"], 0.5) if step == 0 else GOOD[arm] | ends
            rows.append({"net": kind, "arm": arm, "seed": seed, "step": step, "clean_test": 1.0, **row})
    if arm == "adversarial":
        rows += [
            {"net": kind, "arm": "standard", "seed": 0, "step": step, "clean_test": clean} for step in (0, 12)
        ]
    else:
        rows = [{**row, "clean_test": clean} for row in rows]
    other = next(found for found in KINDS if found != kind)
    for each in ("standard", "adversarial"):
        wrong = {name: 1 - value for name, value in GOOD[each].items()}
        rows.append({"net": other, "arm": each, "seed": 0, "step": 12, "clean_test": 0.0, **wrong})
    renamed = [{key.replace("model-free", "model_free"): value for key, value in row.items()} for row in rows]
    return made("patch-depth", {"dynamics": renamed}, seeds=list(range(len(seeds))), law__k=k)


@judged("AT-depth", *(f"{arm} ({kind}, k = {k})" for k in (2, 10) for kind in KINDS for arm in GOOD))
def order_of_learning(name: str) -> Table:
    arm, _, place = name.partition(" ")
    kind, k = place.strip("()").split(", k = ")
    decides = "robust_model-free" if arm == "standard" else "feature_robust"
    bad = 1 - GOOD[arm][decides]
    edge = 0.05 if arm == "standard" else 0.95

    def case(
        seeds: Sequence[dict[str, float]], verdict: str, value: float | None = None, **more: Any
    ) -> Case:
        return Case({"run": depth(kind, arm, int(k), seeds)}, verdict, value, **more)

    unlearned = depth(kind, arm, int(k), [{}] * 5, clean=0.3)
    early = {"feature_robust": 1.0} if arm == "standard" else {"robust_model-free": 0.0}
    return Table(
        holds=case([{}] * 5, "HOLDS"),
        fails=case([{decides: bad}] * 5, "FAILS"),
        at_bound=case([{decides: edge}] * 5, "HOLDS"),
        bad_seed=case([{}] * 4 + [{decides: bad}], "INCONCLUSIVE"),
        nan=case([{}] * 4 + [{decides: NAN}], "INCONCLUSIVE"),
        more=(
            case([early] * 5, "FAILS"),
            Case({"run": unlearned}, "OUT_OF_SCOPE", would_be="HOLDS"),
            Case(
                {"run": depth(kind, arm, int(k), [{decides: bad}] * 5, 0.3)}, "OUT_OF_SCOPE", would_be="FAILS"
            ),
        ),
    )
