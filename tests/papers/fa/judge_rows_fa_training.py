"""What FA's judges of the course of training must say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from judge_runs_fa import GOOD, NAN, SPOILED, ULPS, UNMET, Fit, Row, assumption, ended, fig2, scaling
from judging import Case, Entry, Table, judged

from featscope.experiments.run import Run

Make = Callable[..., Run]


def _case(
    run: Run,
    verdict: str,
    value: float | None = None,
    bound: float | None = None,
    would_be: str | None = None,
) -> Case:
    return Case({"run": run}, verdict, value, bound, would_be)


def falling(sweep: str, key: str) -> Table:
    """o(1) along a sweep: the interval of the fitted exponent is at most −.1."""

    def case(verdict: str, fit: Fit | None) -> Case:
        return _case(
            scaling({(sweep, key): fit}), verdict, None if fit is None or math.isnan(fit[1]) else fit[1], -0.1
        )

    return Table(
        holds=case("HOLDS", (-0.6, -0.5, -0.4)),
        fails=case("FAILS", (-0.05, 0.0, 0.05)),
        at_bound=case("HOLDS", (-0.3 + ULPS, -0.2, -0.1 - ULPS)),
        bad_seed=case("INCONCLUSIVE", (-0.9, -0.4, 0.1)),
        nan=case("INCONCLUSIVE", (NAN, NAN, NAN)),
        more=(
            case("INCONCLUSIVE", (-0.3 - ULPS, -0.2, -0.1 + ULPS)),
            case("INCONCLUSIVE", (-0.1 - ULPS, -0.05, ULPS)),
            case("FAILS", (-0.0999, 0.0, 0.0999)),
            # a quantity that is 0 somewhere has no exponent
            case("FAILS", None),
        ),
    )


judged("FA-L5.3", "scaling")(lambda: falling("n", "margin_gap"))
judged("FA-LB.24", "scaling")(lambda: falling("n", "ratio_excess"))
judged("FA-LC.10", "margins")(lambda: falling("n", "fine_margin_gap"))
judged("FA-LC.25", "scaling")(lambda: falling("n", "fine_deviation"))


def _margins(*pairs: tuple[float, float]) -> list[list[Row]]:
    return ended(*({"margin_min": low, "margin_max": high} for low, high in pairs))


@judged("FA-L5.3", "paper", "assumption", "assumption-large")
def _balanced(name: str) -> Entry:
    """(largest − least) ÷ largest margin at the end is at most 5 % in every seed."""
    make: Make = fig2 if name == "paper" else assumption
    bad = _margins((5.0, 10.0), (4.0, 10.0), (8.0, 10.0))
    return Table(
        holds=_case(make("binary", _margins((9.8, 10.0), (9.7, 10.0), (9.6, 10.0))), "HOLDS", 0.03, 0.05),
        fails=_case(make("binary", bad), "FAILS", (0.5 + 0.6 + 0.2) / 3, 0.05),
        at_bound=_case(make("binary", _margins((19.0, 20.0), (19.0, 20.0))), "HOLDS", 0.05, 0.05),
        bad_seed=_case(
            make("binary", _margins((10.0, 10.0), (5.0, 10.0), (10.0, 10.0))), "INCONCLUSIVE", 0.5 / 3, 0.05
        ),
        nan=_case(
            make("binary", _margins((10.0, 10.0), (10.0, 10.0), (NAN, 10.0))), "INCONCLUSIVE", None, 0.05
        ),
        more=(
            _case(make("binary", _margins((-2.0, -1.0), (-2.0, -1.0))), "FAILS"),
            _case(make("binary", _margins((-2.0, 0.0), (0.0, 0.0))), "FAILS"),
            _case(make("binary", bad, unmet=UNMET), "OUT_OF_SCOPE", None, 0.05, "FAILS"),
            _case(make("binary", _margins((10.0, 10.0)), unmet=UNMET), "OUT_OF_SCOPE", 0.0, 0.05, "HOLDS"),
        ),
    )


def _activity(*by_seed: Sequence[float]) -> list[list[Row]]:
    return [[GOOD | {"own_active": share} for share in shares] for shares in by_seed]


@judged("FA-L5.5", "paper")
def _active_paper() -> Entry:
    """From step 1 on every own neuron of every point is active; step 0 is not looked at."""

    def case(verdict: str, value: float | None, *by_seed: Sequence[float], **more: Any) -> Case:
        return _case(fig2("binary", _activity(*by_seed), **more), verdict, value, 0.0)

    always = (0.5, 1.0, 1.0)
    return Table(
        holds=case("HOLDS", 0.0, always, always),
        fails=case("FAILS", 0.25, (1.0, 0.75, 1.0), (1.0, 1.0, 0.8)),
        at_bound=case("FAILS", 1e-6, always, (0.5, 1.0, 1 - 1e-6)),
        bad_seed=case("FAILS", 0.1, always, (0.5, 0.9, 1.0), always),
        nan=case("FAILS", None, always, (0.5, NAN, 1.0)),
        more=(
            case("FAILS", None, (0.5, 1.0, NAN)),
            _case(fig2("binary", _activity(always), unmet=UNMET), "OUT_OF_SCOPE", 0.0, 0.0, "HOLDS"),
            _case(fig2("binary", _activity((0.5, 0.5, 1.0)), unmet=UNMET), "OUT_OF_SCOPE", 0.5, 0.0, "FAILS"),
        ),
    )


def active(net: str) -> Table:
    """At Assumption 4.3 the first steps of descent are rows of their own; the flow begins after them, so that
    its first row counts."""

    def case(
        verdict: str, value: float | None, starts: Sequence[Sequence[float]], flows: Sequence[Sequence[float]]
    ) -> Case:
        return _case(assumption(net, _activity(*flows), _activity(*starts)), verdict, value, 0.0)

    first, always = (0.5, 1.0, 1.0), (1.0, 1.0, 1.0)
    return Table(
        holds=case("HOLDS", 0.0, [first, first], [always, always]),
        fails=case("FAILS", 0.3, [(0.5, 0.7, 1.0), (0.5, 0.8, 1.0)], [always, always]),
        at_bound=case("FAILS", 1e-6, [first], [(1.0, 1.0, 1 - 1e-6)]),
        bad_seed=case("FAILS", 0.2, [first, first, first], [always, (0.8, 1.0, 1.0), always]),
        nan=case("FAILS", None, [first], [(1.0, NAN, 1.0)]),
        more=(
            case("FAILS", 0.1, [(0.5, 1.0, 0.9)], [always]),
            case("FAILS", 0.4, [first], [(1.0, 0.6, 0.7)]),
            case("FAILS", None, [(0.5, NAN, 1.0)], [always]),
            _case(
                assumption(net, _activity(always), _activity(first), unmet=UNMET),
                "OUT_OF_SCOPE",
                0.0,
                0.0,
                "HOLDS",
            ),
        ),
    )


judged("FA-L5.5", "assumption-literal", "assumption-lemma", "assumption-lemma-large")(
    lambda: active("binary")
)
judged("FA-LC.10", "activation, literal", "activation, lemma")(lambda: active("fine"))


def growth(net: str) -> Table:
    """ln(Tη)/4 ≤ λ ≤ 4 ln(T+1) at the end of the flow, η = ½: at Tη = 1 from 0 to 4 ln 3, at Tη = e⁴ from 1
    to 4 ln(2e⁴ + 1); no T is allowed where 1/η (k-class: k^8/η) exceeds exp(√k)."""
    long = 4 * math.log(2 * math.exp(4) + 1)
    key = "least_steps" if net == "binary" else "least_steps_fine"

    def case(
        verdict: str, value: float | None, *ends: tuple[float, float, float], would_be: str | None = None
    ) -> Case:
        rows = ended(*({"time": t, "lambda_min": low, "lambda_max": high} for t, low, high in ends))
        closed = {key: 4.1} if would_be else {}
        return _case(assumption(net, rows, **closed), verdict, value, 0.0, would_be)

    return Table(
        holds=case("HOLDS", -0.2, (math.exp(4), 1.2, 2.0)),
        fails=case("FAILS", 0.3, (math.exp(4), 0.7, 2.0)),
        at_bound=case("HOLDS", 0.0, (1.0, 0.0, 1.0)),
        bad_seed=case("FAILS", 0.4, (1.0, 0.5, 1.0), (1.0, -0.4, 1.0), (1.0, 0.5, 1.0)),
        nan=case("FAILS", None, (1.0, 0.5, 1.0), (1.0, NAN, 1.0)),
        more=(
            case("HOLDS", -0.5, (1.0, 0.5, 1.0), (1.0, 0.6, 1.0)),
            case("FAILS", 0.5, (math.exp(4), 1.2, long + 0.5)),
            case("FAILS", 0.25, (1.0, 0.5, 4 * math.log(3) + 0.25)),
            case("FAILS", None, (1.0, 0.5, NAN)),
            case("VACUOUS", -0.2, (math.exp(4), 1.2, 2.0), would_be="HOLDS"),
            case("VACUOUS", 0.3, (math.exp(4), 0.7, 2.0), would_be="FAILS"),
        ),
    )


judged("FA-LB.23", "assumption", "assumption-large")(lambda: growth("binary"))
judged("FA-LC.23", "assumption", "assumption-large")(lambda: growth("fine"))


def rate(net: str) -> Table:
    """λ grows by ¼ to 4 for a factor e of time, over the rows with ηt ≥ 1, in every seed."""

    def case(
        verdict: str, value: float | None, *slopes: float, bound: float = 0.25, before: float = 9.0
    ) -> Case:
        by_seed = [
            [{**GOOD, "time": t, "lambda_mean": slope * math.log(t) if t >= 1 else before} for t in TIMES]
            for slope in slopes
        ]
        return _case(assumption(net, by_seed), verdict, value, bound)

    return Table(
        holds=case("HOLDS", 1.0, 1.0, 0.9, 1.1),
        fails=case("FAILS", 0.15, 0.1, 0.15, 0.2),
        at_bound=case("HOLDS", 0.3, 0.25 + 1e-6, 0.35 - 1e-6),
        bad_seed=case("INCONCLUSIVE", 0.7, 1.0, 1.0, 0.1),
        nan=case("INCONCLUSIVE", None, 1.0, NAN),
        more=(
            case("FAILS", 5.0, 5.0, 5.0, bound=4.0),
            case("HOLDS", 4.0 - 1e-6, 4.0 - 1e-6),
            case("HOLDS", 1.0, 1.0, before=-50.0),
            case("FAILS", 0.2, 0.2, 0.2),
        ),
    )


#: times before and after ηt = 1
TIMES = (1e-3, 1e-2, 1.0, 10.0, 100.0, 1000.0)
judged("FA-LB.23", "rate")(lambda: rate("binary"))
judged("FA-LC.23", "rate")(lambda: rate("fine"))


@judged("FA-L5.3", "as printed")
def _gap_along_k() -> Entry:
    """The largest gap over all t ≥ 1 falls at least like k^−.1; step 0 is not looked at."""

    def run(k: int, *gaps: float, start: float = 0.0) -> Run:
        rows = [GOOD | {"margin_min": 1.0, "margin_max": 1.0 + gap} for gap in gaps]
        first = [SPOILED, GOOD | {"margin_min": 1.0, "margin_max": 1.0 + start}]
        return assumption("binary", [rows], [first], k=k)

    def case(verdict: str, value: float | None, smaller: Run, larger: Run) -> Case:
        return Case({"smaller": smaller, "larger": larger}, verdict, value, -0.1)

    return Table(
        holds=case("HOLDS", -2.0, run(2, 0.1, 0.4), run(4, 0.1, 0.1)),
        fails=case("FAILS", 0.0, run(2, 0.1, 0.4), run(4, 0.4, 0.1)),
        at_bound=case("HOLDS", -0.1 - 1e-9, run(2, 1.0), run(4, 2 ** (-0.1 - 1e-9))),
        bad_seed="each run has one flow; its largest gap is what counts",
        nan=case("FAILS", None, run(2, 0.4), run(4, 0.1, NAN)),
        more=(
            case("FAILS", -0.09, run(2, 1.0), run(4, 2**-0.09)),
            # the first steps count as well
            case("FAILS", 1.0, run(2, 0.4), run(4, 0.1, start=0.8)),
            case("FAILS", None, run(2, 0.0), run(4, 0.0)),
        ),
    )


def _ratios(*ratios: float) -> list[list[Row]]:
    return ended(
        *(
            {"lambda_ratio": r, "lambda_min": 0.0 if r < 0 else 1.0, "lambda_max": 1.0 if r < 0 else r}
            for r in ratios
        )
    )


def ratio(net: str) -> Table:
    """Largest ÷ least λ is at most 1 + 204ε (k-class: 1 + 204 k² ε) in every seed; met within a bound above .1
    it says nothing."""
    square = 1 if net == "binary" else 9

    def case(
        verdict: str, value: float | None, allowed: float, *ratios: float, would_be: str | None = None
    ) -> Case:
        run = assumption(net, _ratios(*ratios), epsilon=allowed / (204 * square))
        return _case(run, verdict, value, allowed, would_be)

    return Table(
        holds=case("HOLDS", 0.04, 0.08, 1.02, 1.04, 1.01),
        fails=case("FAILS", 2.5, 0.08, 3.4, 3.5, 3.2),
        at_bound=case("HOLDS", 0.0625, 0.0625, 1.0625, 1.0625),
        bad_seed=case("FAILS", 3.0, 0.08, 1.0, 4.0, 1.0),
        nan=case("FAILS", None, 0.08, 1.0, NAN, 1.0),
        more=(
            case("FAILS", None, 0.08, 1.0, -1.0),
            case("FAILS", 9.5, 9.0, 10.5),
            case("HOLDS", 0.01, 0.0999, 1.01),
            case("VACUOUS", 1.0, 10.5, 2.0, would_be="HOLDS"),
            case("VACUOUS", 0.01, 0.1001, 1.01, would_be="HOLDS"),
            # a bound that says little can still be missed
            case("FAILS", 19.0, 10.5, 20.0),
        ),
    )


judged("FA-LB.24", "assumption", "assumption-large")(lambda: ratio("binary"))
judged("FA-LC.24", "assumption", "assumption-large")(lambda: ratio("fine"))


def near_one(net: str) -> Table:
    """λ ratios within 5 % of 1 in every seed."""

    def case(verdict: str, value: float | None, *ratios: float, would_be: str | None = None) -> Case:
        run = assumption(net, _ratios(*ratios), unmet=UNMET if would_be else ())
        return _case(run, verdict, value, 0.05, would_be)

    return Table(
        holds=case("HOLDS", 0.03, 1.02, 1.03, 1.04),
        fails=case("FAILS", 0.2, 1.1, 1.2, 1.3),
        # 1.05 − 1 in binary is a little above .05
        at_bound=case("HOLDS", 0.05, math.nextafter(1.05, 1.0)),
        bad_seed=case("INCONCLUSIVE", 0.1, 1.01, 1.01, 1.28),
        nan=case("INCONCLUSIVE", None, 1.01, 1.01, NAN),
        more=(
            case("FAILS", 0.0501, 1.0501),
            case("FAILS", None, -1.0, -1.0),
            case("INCONCLUSIVE", None, 1.01, -1.0),
            case("OUT_OF_SCOPE", 0.01, 1.01, would_be="HOLDS"),
        ),
    )


judged("FA-LB.24", "o(1)", "o(1)-large")(lambda: near_one("binary"))
judged("FA-LC.24", "o(1)-large")(lambda: near_one("fine"))


def signs(net: str) -> Table:
    """No own λ or σ is negative and no foreign one positive, in any row of any seed."""

    def case(verdict: str, value: float | None, *by_seed: Sequence[tuple[float, float]]) -> Case:
        rows = [
            [
                GOOD
                | {"lambda_min": own, "lambda_other_top": other, "sigma_min": 1.0, "sigma_other_top": -1.0}
                for own, other in pairs
            ]
            for pairs in by_seed
        ]
        return _case(fig2(net, rows, unmet=UNMET), verdict, value, 0.0)

    def noise(verdict: str, value: float | None, own: float, other: float) -> Case:
        rows = [[GOOD | {"sigma_min": 0.1, "sigma_other_top": 0.0}] * 2]
        rows[0][1] = GOOD | {"sigma_min": own, "sigma_other_top": other}
        return _case(fig2(net, rows, unmet=UNMET), verdict, value, 0.0)

    start, good = (0.0, 0.0), (0.5, -0.2)
    return Table(
        holds=case("HOLDS", 0.0, [start, good, good], [start, good, good]),
        fails=case("FAILS", 0.3, [start, (-0.3, -0.1), good], [start, (-0.2, -0.1), good]),
        at_bound=case("HOLDS", 0.0, [start, start, start]),
        bad_seed=case("FAILS", 0.4, [start, good], [start, (0.5, 0.4), good], [start, good]),
        nan=case("FAILS", None, [start, (NAN, -0.1), good]),
        more=(
            case("HOLDS", -0.2, [good, good]),
            case("HOLDS", -0.1, [(0.1, -0.2), good]),
            case("FAILS", 0.2, [start, good, (-0.1, 0.2)]),
            case("FAILS", None, [start, (0.5, NAN), good]),
            noise("HOLDS", 0.0, 0.1, 0.0),
            noise("FAILS", 0.3, -0.3, 0.0),
            noise("FAILS", 0.2, 0.1, 0.2),
            noise("FAILS", None, NAN, 0.0),
            noise("FAILS", None, 0.1, NAN),
        ),
    )


judged("FA-LC.9", "2-class")(lambda: signs("binary"))
judged("FA-LC.9", "k-class")(lambda: signs("fine"))
