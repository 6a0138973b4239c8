"""Rows for CG-E.1-density and CG-E.2-density: `known-density`."""

from __future__ import annotations

import math
from typing import Any

from judging import Case, Table, judged, made

from featscope.experiments.run import Run

NAN = math.nan
SEEDS = (0, 1, 2)
Rows = list[dict[str, Any]]


def density(**parts: Rows) -> dict[str, Run]:
    return {
        "run": made("known-density", parts, seeds=list(SEEDS), dimensions=[1, 2], samples=[100, 400, 1600])
    }


def gaps(linear: tuple[float, ...], constant: tuple[float, ...] = (0.1, 0.1, 0.1)) -> dict[str, Run]:
    """One gap for each seed; rate ½, flatness 1 for the linear network and 0 for the constant one."""
    return density(
        gaps=[
            {"network": name, "D": 2, "n": 100, "seed": seed, "gap": gap, "flatness": flat, "rate": 0.5}
            for name, values, flat in (("linear", linear, 1.0), ("constant", constant, 0.0))
            for seed, gap in enumerate(values)
        ]
    )


@judged("CG-E.1-density", "known density, fixed network")
def _fixed() -> Table:
    return Table(
        holds=Case(gaps((0.5, 1.0, 0.75), (9.0, 9.0, 9.0)), "HOLDS", 1.5, 3.0),
        fails=Case(gaps((2.0, 2.5, 3.0)), "FAILS", 5.0, 3.0),
        at_bound=Case(gaps((1.5, 1.5, 1.5)), "HOLDS", 3.0, 3.0),
        bad_seed=Case(gaps((0.5, 0.5, 5.0)), "INCONCLUSIVE", 4.0),
        nan=Case(gaps((0.5, NAN, 0.5)), "INCONCLUSIVE"),
    )


@judged("CG-E.1-density", "known density, constant network")
def _constant() -> Table:
    return Table(
        holds=Case(gaps((9.0, 9.0, 9.0), (-0.1, -0.2, -0.3)), "HOLDS", -0.2, 0.0),
        fails=Case(gaps((0.0, 0.0, 0.0), (0.1, 0.2, 0.3)), "FAILS", 0.2, 0.0),
        at_bound=Case(gaps((9.0, 9.0, 9.0), (0.0, 0.0, 0.0)), "HOLDS", 0.0, 0.0),
        bad_seed=Case(gaps((0.0, 0.0, 0.0), (-0.1, -0.1, 0.5)), "INCONCLUSIVE"),
        nan=Case(gaps((0.0, 0.0, 0.0), (-0.1, NAN, -0.1)), "INCONCLUSIVE"),
    )


@judged("CG-E.1-density", "as proven")
def _proven() -> Table:
    """½·(1 + 1) = 1 for the linear network, ½ for the constant one."""
    return Table(
        holds=Case(gaps((2.0, 2.0, 2.0)), "HOLDS", 2.0, 3.0),
        fails=Case(gaps((4.0, 5.0, 6.0)), "FAILS", 5.0, 3.0),
        at_bound=Case(gaps((1.0, 1.0, 1.0), (1.5, 1.5, 1.5)), "HOLDS", 3.0, 3.0),
        bad_seed=Case(gaps((1.0, 1.0, 9.0)), "INCONCLUSIVE"),
        nan=Case(gaps((1.0, NAN, 1.0)), "INCONCLUSIVE"),
        more=(Case(gaps((1.0, 1.0, 1.0), (2.0, 2.0, 2.0)), "FAILS", 4.0, 3.0),),
    )


def fallen(linear: float, constant: float = -0.5, wild: float = 1.0) -> dict[str, Run]:
    """Gaps n^b at D = 1, the same at all seeds but one; D = 2 would decide otherwise."""
    return density(
        gaps=[
            {
                "network": name,
                "D": d,
                "n": n,
                "seed": seed,
                "gap": (n**b if d == 1 else float(n)) * (wild if (seed, n) == (1, 1600) else 1.0),
                "flatness": 1.0,
                "rate": 1.0,
            }
            for name, b in (("linear", linear), ("constant", constant))
            for d in (1, 2)
            for n in (100, 400, 1600)
            for seed in SEEDS
        ]
    )


@judged("CG-E.1-density", "rate in N")
def _rate() -> Table:
    return Table(
        holds=Case(fallen(-0.5), "HOLDS", -0.5, -1 / 3 + 0.1),
        fails=Case(fallen(-0.1), "FAILS", -0.1, -1 / 3 + 0.1),
        at_bound=Case(fallen(-0.2334), "HOLDS"),
        bad_seed=Case(fallen(-0.4, wild=100.0), "INCONCLUSIVE"),
        nan=Case(fallen(-0.5, wild=NAN), "INCONCLUSIVE"),
        more=(Case(fallen(-0.5, 0.0), "FAILS", 0.0, -1 / 3 + 0.1),),
    )


def terms(power: float = 2.0, second: float = 1.0, last: float = 1.0) -> dict[str, Run]:
    first = [
        {"term": "I", "D": d, "n": None, "bandwidth": h, "value": 7 * h**power, "order": h * h}
        for d in (1, 2)
        for h in (0.4, 0.2, 0.1)
    ]
    first[-1]["value"] *= last
    other = [
        {"term": "II", "D": 1, "n": 100, "bandwidth": 0.1, "value": v, "order": 1.0} for v in (0.1, second)
    ]
    return density(terms=first + other)


@judged("CG-E.1-density", "terms")
def _terms() -> Table:
    return Table(
        holds=Case(terms(), "HOLDS", 2.0, 1.9),
        fails=Case(terms(power=1.0), "FAILS", 1.0, 1.9),
        at_bound=Case(terms(power=1.9001, second=3.0), "HOLDS"),
        bad_seed="quadrature and a closed form: they have no seeds",
        nan=Case(terms(second=NAN), "FAILS", None, 3.0),
        more=(
            Case(terms(second=3.1), "FAILS", 3.1, 3.0),
            Case(terms(last=NAN), "INCONCLUSIVE"),
        ),
    )


def memory(rule: str, *rows: tuple[float, float, float]) -> dict[str, Run]:
    """L_clean and the bounds of flatness for each seed; rate ½, δ = ½, so δ ÷ rate is 1."""
    other = {"proof": "apart", "apart": "proof"}[rule]
    return density(
        memory=[
            {
                "D": 2,
                "n": 100,
                "seed": seed,
                "radius_rule": which,
                "share": 1.0,
                "radius": 0.5,
                "rate": 0.5,
                "clean": clean,
                "flatness_low": low,
                "flatness_high": high,
            }
            for seed, found in enumerate(rows)
            for which, (clean, low, high) in ((rule, found), (other, (NAN, 1.0, 1.0)))
        ]
    )


@judged("CG-E.1-density", "remembering network, δ as in the proof", "remembering network, δ apart")
def _memory(reading: str) -> Table:
    rule = "apart" if reading.endswith("apart") else "proof"
    fine, bad = (0.5, 1.0, 2.0), (4.0, 1.0, 2.0)
    return Table(
        # At most 1 + .5/(½·1) = 2; at least 4/(½·2) = 4.
        holds=Case(memory(rule, fine, fine, fine), "HOLDS", 2.0, 3.0),
        fails=Case(memory(rule, bad, bad, bad), "FAILS", 4.0, 3.0),
        at_bound=Case(memory(rule, *[(1.0, 1.0, 2.0)] * 3), "HOLDS", 3.0, 3.0),
        bad_seed=Case(memory(rule, fine, fine, bad), "INCONCLUSIVE"),
        nan=Case(memory(rule, fine, (NAN, 1.0, 2.0), fine), "INCONCLUSIVE"),
        more=(
            # Nothing is lost, so flatness does not matter.
            Case(memory(rule, *[(0.0, 0.0, 2.0)] * 3), "HOLDS", 1.0, 3.0),
            # The bounds of flatness leave it open.
            Case(memory(rule, *[(2.0, 0.1, 8.0)] * 3), "INCONCLUSIVE"),
        ),
    )


def constants(linear: dict[float, float], wave: dict[float, float]) -> dict[str, Run]:
    return density(
        constants=[
            {"network": name, "phase": phase, "radius": 0.25, "constant": value}
            for name, found in (("linear", linear), ("wave", wave))
            for phase, value in found.items()
        ]
    )


@judged(
    "CG-E.2-density", "known density, convex loss", "known density, small δ", "known density, any network"
)
def _lower(reading: str) -> Table:
    network = "linear" if "convex" in reading else "wave"

    def found(first: float, second: float = 1.0, far: float = 1.0) -> dict[str, Run]:
        chosen, other = {0.1: first, 1.0: second, 10.0: far}, {0.1: 0.0, 1.0: 0.0, 10.0: 0.0}
        return constants(chosen, other) if network == "linear" else constants(other, chosen)

    small = "small" in reading
    return Table(
        holds=Case(found(0.5, far=0.1 if small else 1.0), "HOLDS", 0.5, 1 / 3),
        fails=Case(found(0.5, 0.2), "FAILS", 0.2, 1 / 3),
        at_bound=Case(found(1 / 3), "HOLDS", 1 / 3, 1 / 3),
        bad_seed="quadrature: it has no seeds",
        nan=Case(found(0.5, NAN), "FAILS", None, 1 / 3),
        more=(Case(found(0.5, far=0.1), "HOLDS" if small else "FAILS", None, 1 / 3),),
    )
