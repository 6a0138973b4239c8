"""What FA's judges of statements without training must say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judge_runs_fa import GOOD, NAN, SPOILED, assumption
from judging import Case, Entry, Table, judged, made

from featscope.experiments.run import Run

NO_SEEDS = "nothing is drawn: there are no seeds"


def _run(**parts: list[dict[str, Any]]) -> dict[str, Run]:
    return {"run": made("clusters-elementary", parts)}


def tail(lemma: str) -> Table:
    """ln of the probability is at most ln of its bound at every point; other lemmas' rows do not count."""
    spoiled = [{"lemma": "other", "size": 2, "t": 0.0, "exact": 9.0, "bound": 0.0}]

    def case(verdict: str, value: float | None, *excess: float) -> Case:
        rows = [
            {"lemma": lemma, "size": 10 + i, "t": 0.5, "exact": -3.0 + e, "bound": -3.0}
            for i, e in enumerate(excess)
        ]
        return Case(_run(tails=rows + spoiled), verdict, value, 1e-9)

    return Table(
        holds=case("HOLDS", -0.1, -0.5, -0.1),
        fails=case("FAILS", 0.2, 0.1, 0.2),
        at_bound=case("HOLDS", 0.0, 0.0),
        bad_seed=case("FAILS", 0.1, -1.0, 0.1, -1.0),
        nan=case("FAILS", None, -1.0, NAN),
        more=(case("FAILS", 1e-8, 1e-8),),
    )


judged("FA-LA.8", "exact")(lambda: tail("A.8"))
judged("FA-LA.9", "least")(lambda: tail("A.9 min"))
judged("FA-LA.9", "largest")(lambda: tail("A.9 max"))


@judged("FA-PA.12", "limit")
def _limit() -> Entry:
    """Failing is nowhere more likely than allowed."""

    def case(verdict: str, value: float | None, *pairs: tuple[float, float]) -> Case:
        rows = [{"k": 10**i, "m": 5.0, "fails": f, "allowed": a} for i, (f, a) in enumerate(pairs)]
        return Case(_run(activation=rows), verdict, value, 0.0)

    return Table(
        holds=case("HOLDS", -0.1, (0.7, 0.9), (0.7, 0.8)),
        fails=case("FAILS", 0.1, (0.7, 0.9), (0.7, 0.6)),
        at_bound=case("HOLDS", 0.0, (0.7, 0.7)),
        bad_seed=NO_SEEDS,
        nan=case("FAILS", None, (0.7, 0.9), (NAN, 0.6)),
    )


@judged("FA-LA.15", "margins")
def _slopes() -> Entry:
    """Derivatives lie between −1 and 0."""

    def case(verdict: str, *pairs: tuple[float, float]) -> Case:
        rows = [{"least_slope": low, "largest_slope": high} for low, high in pairs]
        return Case(_run(derivatives=rows), verdict)

    return Table(
        holds=case("HOLDS", (-0.9, -0.1), (-0.5, -0.5)),
        fails=case("FAILS", (-1.1, -0.1)),
        at_bound=case("HOLDS", (-1.0, 0.0)),
        bad_seed=case("FAILS", (-0.9, -0.1), (-0.9, 0.01)),
        nan=case("FAILS", (-0.9, NAN)),
        more=(case("FAILS", (NAN, -0.1)),),
    )


@judged("FA-LB.6", "as printed", "q_i + q_j ≥ 0")
def _ratios(name: str) -> Entry:
    """Δ/2 ≤ ln ratio ≤ Δ; pairs whose margins add up to less than 0 count as printed only."""

    def case(verdict: str, *rows: tuple[float, float, float]) -> Case:
        found = [{"q_i": a, "q_j": b, "log_ratio": r} for a, b, r in rows]
        return Case(_run(derivatives=found), verdict)

    good, odd = (3.0, 1.0, 1.5), (0.0, -10.0, 0.7)
    return Table(
        holds=case("HOLDS", good, good),
        fails=case("FAILS", good, (3.0, 1.0, 0.9)),
        at_bound=case("HOLDS", (3.0, 1.0, 1.0), (3.0, 1.0, 2.0), (2.0, -2.0, 2.0)),
        bad_seed=NO_SEEDS,
        nan=case("FAILS", good, (3.0, 1.0, NAN)),
        more=(
            case("FAILS", good, (3.0, 1.0, 2.1)),
            case("FAILS" if name == "as printed" else "HOLDS", good, odd),
        ),
    )


@judged("FA-LB.6", "in training")
def _met() -> Entry:
    """No margin is negative from step 1 on."""

    def case(verdict: str, value: float | None, start: Sequence[float], *flows: Sequence[float]) -> Case:
        rows = [[GOOD | {"margin_min": low} for low in flow] for flow in flows]
        first = [SPOILED, *(GOOD | {"margin_min": low} for low in start)]
        return Case({"run": assumption("binary", rows, [first] * len(rows))}, verdict, value, 0.0)

    return Table(
        holds=case("HOLDS", 0.1, [0.1], [0.2, 0.3], [0.4, 0.5]),
        fails=case("FAILS", -0.1, [0.1], [-0.1, 0.3]),
        at_bound=case("HOLDS", 0.0, [0.0], [0.1]),
        bad_seed=case("FAILS", -0.2, [0.1], [0.2, 0.3], [0.4, -0.2]),
        nan=case("FAILS", None, [0.1], [0.2, NAN]),
        more=(case("FAILS", -0.3, [-0.3], [0.2]),),
    )


@judged("FA-LC.18", "grid")
def _softmax() -> Entry:
    """The ratio lies between both sides at every pair."""

    def case(verdict: str, *rows: tuple[float, float, float]) -> Case:
        found = [{"k": 3, "log_low": low, "log_ratio": ratio, "log_top": top} for low, ratio, top in rows]
        return Case(_run(softmax=found), verdict)

    return Table(
        holds=case("HOLDS", (0.1, 0.5, 1.0), (0.1, 0.9, 1.0)),
        fails=case("FAILS", (0.1, 0.5, 1.0), (0.1, 0.05, 1.0)),
        at_bound=case("HOLDS", (0.5, 0.5, 0.5)),
        bad_seed=NO_SEEDS,
        nan=case("FAILS", (0.1, NAN, 1.0)),
        more=(case("FAILS", (0.1, 1.1, 1.0)),),
    )
