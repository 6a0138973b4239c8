"""What FA's judges of data, initialisation, first step and coefficients must say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from judge_runs_fa import NAN, UNMET, conditions
from judging import Case, Entry, Table, judged, made

from featscope.core.conditions import Condition
from featscope.experiments.run import Run

SEVEN = [f"A.6.{i}" for i in range(1, 8)]
PROPERTIES = [
    *SEVEN,
    "A.6.literal.6",
    "A.10 w",
    "A.10 b",
    "A.12",
    "A.13",
    "A.14",
    "B.1",
    "B.1 before",
    "C.1",
    "C.3",
    "C.4",
    "C.5",
]
SETTING = {"law__k": 3, "law__d": 59049, "training__n": 2187, "training__m": 5}


def start(
    failing: Mapping[str, Iterable[int]],
    draws: int = 100,
    stated: float = 0.01,
    unmet: Sequence[Condition] = (),
    value: float = 2.0,
    missing: Mapping[str, Iterable[int]] | None = None,
    **setting: int,
) -> Run:
    """Fresh draws; each property fails on the draws named for it, and was not looked at on those of
    ``missing``."""
    lost = {(name, draw) for name, those in failing.items() for draw in those}
    absent = {(name, draw) for name, those in (missing or {}).items() for draw in those}
    rows = [
        {"seed": 0, "draw": i, "property": p, "text": p, "bound": 1.0}
        | {"value": value if (p, i) in lost else 0.5, "met": (p, i) not in lost}
        for i in range(draws)
        for p in PROPERTIES
        if (p, i) not in absent
    ]
    parts = {"draws": rows, "stated": [{"failure_probability": stated, "cross_bound": 1.0}]} | conditions(
        unmet
    )
    return made("clusters-properties", parts, **(SETTING | setting))


def _case(
    run: Run,
    verdict: str,
    value: float | None = None,
    bound: float | None = None,
    would_be: str | None = None,
) -> Case:
    return Case({"run": run}, verdict, value, bound, would_be)


def rates(names: Sequence[str], **setting: int) -> Table:
    """The failure rate over draws against 5 %: Wilson's interval of 0 of 100 ends at .037, that of 20 of 100
    begins at .133."""
    others = {p: range(100) for p in PROPERTIES if p not in names}
    single = [_case(start(others | {p: range(20)}, **setting), "FAILS", 0.2, 0.05) for p in names]
    twice = others | {p: range(3) for p in names}
    apart = others | {p: range(i, i + 1) for i, p in enumerate(names)}
    return Table(
        holds=_case(start(others, **setting), "HOLDS", 0.0, 0.05),
        fails=single[0],
        at_bound=_case(start(others | {names[-1]: range(5)}, **setting), "INCONCLUSIVE", 0.05, 0.05),
        bad_seed=_case(start(others | {names[0]: [7]}, draws=20, **setting), "INCONCLUSIVE", 0.05, 0.05),
        nan=_case(start(others | {names[-1]: range(20)}, value=NAN, **setting), "FAILS", 0.2, 0.05),
        more=(
            *single[1:],
            _case(start({}, **setting), "HOLDS", 0.0, 0.05),
            _case(start(twice, **setting), "INCONCLUSIVE", 0.03, 0.05),
            _case(start(apart, **setting), "INCONCLUSIVE", len(names) / 100, 0.05),
            _case(start(others, missing={names[0]: range(20)}, **setting), "FAILS", 0.2, 0.05),
            _case(start(others, unmet=UNMET, **setting), "OUT_OF_SCOPE", 0.0, 0.05, "HOLDS"),
            _case(
                start(others | {names[0]: range(20)}, unmet=UNMET, **setting),
                "OUT_OF_SCOPE",
                0.2,
                0.05,
                "FAILS",
            ),
        ),
    )


@judged("FA-PA.6", "paper", "assumption", "literal")
def _data(name: str) -> Entry:
    names = [*SEVEN, "A.6.literal.6"] if name == "literal" else SEVEN
    table = rates(names)
    more = (
        # A stated probability above 5 % is the bound: 10 of 100 ends at .174; 40 of 100 begins at .309.
        _case(start({names[2]: range(10)} | _spoil(names), stated=0.2), "HOLDS", 0.1, 0.2),
        _case(start({names[2]: range(40)} | _spoil(names), stated=0.2), "FAILS", 0.4, 0.2),
        _case(start({names[2]: range(100)} | _spoil(names), stated=1.0), "HOLDS", 1.0, 1.0),
        _case(start(_spoil(names), stated=NAN), "INCONCLUSIVE"),
    )
    return Table(table.holds, table.fails, table.at_bound, table.bad_seed, table.nan, (*table.more, *more))


def _spoil(names: Sequence[str]) -> dict[str, range]:
    return {p: range(100) for p in PROPERTIES if p not in names}


@judged("FA-PA.10", "paper", "assumption-literal", "assumption-lemma")
def _norms() -> Entry:
    # 4 m exp(−ln² d) + 2 m⁻³: about .016 at m = 5 and d = 59049, so that 5 % counts; m = 10 and d = 8 give
    # .532.
    table = rates(["A.10 w", "A.10 b"])
    spoil, wide = _spoil(["A.10 w", "A.10 b"]), {"training__m": 10, "law__d": 8}
    bound = 40 * math.exp(-(math.log(8) ** 2)) + 0.002
    more = (
        _case(start({"A.10 w": range(40)} | spoil, **wide), "HOLDS", 0.4, bound),
        _case(start({"A.10 b": range(90)} | spoil, **wide), "FAILS", 0.9, bound),
        # ln 6 = 1.79, where the square is not the double
        _case(
            start({"A.10 b": range(40)} | spoil, training__m=4, law__d=6),
            "HOLDS",
            0.4,
            16 * math.exp(-(math.log(6) ** 2)) + 1 / 32,
        ),
        _case(start({"A.10 b": range(1)} | spoil, training__m=2, law__d=10**9), "HOLDS", 0.01, 0.25),
    )
    # Gaussian draws have no hypotheses: Assumption 4.3 may be missed.
    anywhere = (
        _case(start(spoil, unmet=UNMET), "HOLDS", 0.0, 0.05),
        _case(start({"A.10 w": range(20)} | spoil, unmet=UNMET), "FAILS", 0.2, 0.05),
    )
    inside = tuple(case for case in table.more if case.verdict != "OUT_OF_SCOPE")
    cases = (*inside, *more, *anywhere)
    return Table(table.holds, table.fails, table.at_bound, table.bad_seed, table.nan, cases)


@judged("FA-PA.12", "paper", "assumption-literal", "assumption-lemma")
def _activated() -> Entry:
    """At most m^−.01 + 2mk exp(−n/(9km²)) of the draws fail: 10^−.1 = .794 at m = 10¹⁰ with points without end;
    what allows more than .95 says nothing when it is met."""
    spoil = _spoil(["A.12"])
    huge = {"training__m": 10**10, "law__k": 2, "training__n": 10**26}
    bound = 10**-0.1
    # k = 3, n = 2187, m = 2: 2187/108 = 20.25
    small = 2**-0.01 + 12 * math.exp(-20.25)

    def case(verdict: str, value: float, failed: int, **more: Any) -> Case:
        return _case(start({"A.12": range(failed)} | spoil, **{**huge, **more}), verdict, value, bound)

    return Table(
        holds=case("HOLDS", 0.5, 50),
        fails=case("FAILS", 1.0, 100),
        at_bound=case("INCONCLUSIVE", 0.79, 79),
        bad_seed="draws of all seeds count together",
        nan=_case(start({"A.12": range(100)} | spoil, value=NAN, **huge), "FAILS", 1.0, bound),
        more=(
            _case(start({"A.12": [3]} | spoil, draws=10, **huge), "HOLDS", 0.1, bound),
            _case(start(spoil, training__m=2), "VACUOUS", 0.0, small, "HOLDS"),
            _case(start({"A.12": range(100)} | spoil, training__m=2), "INCONCLUSIVE", 1.0, small),
            _case(start(spoil, training__m=3), "VACUOUS", 0.0, 3**-0.01 + 18 * math.exp(-9), "HOLDS"),
            _case(
                start({"A.12": range(100)} | spoil, training__m=1, training__n=3),
                "VACUOUS",
                1.0,
                1.0,
                "HOLDS",
            ),
            _case(start(spoil, unmet=UNMET, training__m=2), "OUT_OF_SCOPE", 0.0, small, "VACUOUS"),
        ),
    )


@judged("FA-PC.3", "paper", "assumption-literal", "assumption-lemma")
def _fine_activated() -> Entry:
    """At most (hk)^−.01 + 2hk² exp(−n/(9k³h²)) of the draws fail: 10^−.1 = .794 at k = 10¹⁰, h = 1 with points
    without end."""
    spoil = _spoil(["C.3"])
    huge = {"law__k": 10**10, "law__d": 10**11, "training__n": 10**45}
    bound = 10**-0.1
    # k = 3, n = 2187, h = 1: 2187/243 = 9
    small = 3**-0.01 + 18 * math.exp(-9)

    def case(verdict: str, value: float, failed: int) -> Case:
        return _case(start({"C.3": range(failed)} | spoil, **huge), verdict, value, bound)

    return Table(
        holds=case("HOLDS", 0.5, 50),
        fails=case("FAILS", 1.0, 100),
        at_bound=case("INCONCLUSIVE", 0.79, 79),
        bad_seed="draws of all seeds count together",
        nan=_case(start({"C.3": range(100)} | spoil, value=NAN, **huge), "FAILS", 1.0, bound),
        more=(
            _case(start(spoil), "VACUOUS", 0.0, small, "HOLDS"),
            # with h = 2: 6^−.01 + 36 exp(−9/4), more than all
            _case(start(spoil, training__h=2), "VACUOUS", 0.0, 1.0, "HOLDS"),
            _case(start({"C.3": range(100)} | spoil), "INCONCLUSIVE", 1.0, small),
            _case(start(spoil, unmet=UNMET), "OUT_OF_SCOPE", 0.0, small, "VACUOUS"),
        ),
    )


@judged("FA-PC.1", "paper", "assumption-literal", "assumption-lemma")
def _fine_norms() -> Entry:
    table, spoil = rates(["C.1"]), _spoil(["C.1"])
    inside = tuple(case for case in table.more if case.verdict != "OUT_OF_SCOPE")
    more = (
        # 4hm exp(−ln² d) + 2(hm)⁻³ at h = 2, m = 1, d = 8: .106 + .25; Assumption 4.3 may be missed
        _case(
            start({"C.1": range(20)} | spoil, training__m=1, training__h=2, law__d=8),
            "HOLDS",
            0.2,
            8 * math.exp(-(math.log(8) ** 2)) + 0.25,
        ),
        _case(start({"C.1": range(20)} | spoil, unmet=UNMET), "FAILS", 0.2, 0.05),
    )
    return Table(table.holds, table.fails, table.at_bound, table.bad_seed, table.nan, (*inside, *more))


@judged("FA-LC.4", "paper", "assumption-literal", "assumption-lemma")
def _probabilities() -> Entry:
    return rates(["C.4"])


@judged("FA-PA.13", "paper", "assumption-literal", "assumption-lemma")
def _outputs() -> Entry:
    return rates(["A.13"])


@judged("FA-PA.14", "paper", "assumption-literal", "assumption-lemma")
def _derivatives() -> Entry:
    return rates(["A.14"])


@judged("FA-LB.1", "paper", "assumption-literal", "assumption-lemma")
def _first_step() -> Entry:
    return rates(["B.1"])


@judged("FA-LC.5", "paper", "assumption-literal", "assumption-lemma")
def _first_fine_step() -> Entry:
    return rates(["C.5"])


ROUTES = [
    f"{net}_{route}"
    for net in ("binary", "fine")
    for route in ("autograd", "decomposition", "marginal", "rotated")
]


def routes(*by_seed: Mapping[str, Any]) -> Run:
    """Relative differences of two routes by seed; routes that are not named are far apart."""
    rows = [{"seed": seed, **dict.fromkeys(ROUTES, 1.0), **row} for seed, row in enumerate(by_seed)]
    return made("clusters-routes", {"routes": rows}, seeds=list(range(len(rows))))


def agree(*keys: str) -> Table:
    """The largest difference over seeds is at most 1e-9."""

    def case(verdict: str, value: float | None, *errors: float, key: str = keys[0]) -> Case:
        return Case(
            {"run": routes(*({**dict.fromkeys(keys, 0.0), key: error} for error in errors))},
            verdict,
            value,
            1e-9,
        )

    return Table(
        holds=case("HOLDS", 3e-10, 1e-10, 3e-10, 2e-10),
        fails=case("FAILS", 3e-3, 1e-3, 3e-3, 2e-3),
        at_bound=case("HOLDS", 1e-9, 1e-9, 1e-9, 1e-9),
        bad_seed=case("FAILS", 1e-3, 0.0, 1e-3, 0.0),
        nan=case("FAILS", None, 0.0, 0.0, NAN),
        more=(
            case("FAILS", 1.001e-9, 0.0, 1.001e-9, 0.0),
            *(case("FAILS", 0.5, 0.0, 0.5, key=key) for key in keys),
            *(case("FAILS", None, NAN, 0.0, key=key) for key in keys),
        ),
    )


judged("FA-L5.1", "2-class")(lambda: agree("binary_decomposition"))
judged("FA-L5.1", "compact")(lambda: agree("binary_rotated", "fine_rotated"))
judged("FA-L5.2", "2-class")(lambda: agree("binary_autograd", "binary_decomposition"))
judged("FA-L5.2", "k-class")(lambda: agree("fine_autograd", "fine_decomposition"))
judged("FA-CB.4", "2-class")(lambda: agree("binary_marginal"))
judged("FA-CB.4", "k-class")(lambda: agree("fine_marginal"))
judged("FA-LC.6", "k-class")(lambda: agree("fine_decomposition"))
judged("FA-LC.7", "k-class")(lambda: agree("fine_marginal"))
judged("FA-LC.8", "k-class")(lambda: agree("fine_autograd", "fine_decomposition"))
