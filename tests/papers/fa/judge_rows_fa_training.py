"""What FA's judges of the course of training must say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from judge_runs_fa import GOOD, NAN, SPOILED, ULPS, UNMET, Fit, Row, assumption, ended, fig2, scaling
from judging import Cannot, Case, Entry, Table, judged

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

#: k = 3, n = 100, ε = .01, η = 1/1024 and t = 1/η: the proof's bounds are .06 ln 1025 on σ from above, 0 from
#: below, .01 on λ of others,
#: .02 on σ of others; 2-class .65 and 1.3 on margins' gap and derivatives' ratio, k-class 33·9·.01 and
#: 67·9·.01.
CONSTANTS = {"k": 3, "n": 100, "epsilon": 0.01, "learning_rate": 2.0**-10}
QUIET = GOOD | {"time": 1.0, "sigma_max": 0.1, "sigma_min": 0.05, "lambda_other": 0.0, "sigma_other": 0.0}


def lemma(net: str) -> Cannot:
    """The proof's items along the flow; the value is the largest excess of a quantity over its bound."""
    gap, slope = (0.65, 1.3) if net == "binary" else (2.97, 6.03)
    # time → bound of σ from above (at least one step) and from below
    upper, late, early = 0.06 * math.log(1025), 0.06 * math.log(1024 * math.e + 1), 0.06 * math.log(2)

    def case(would_be: str, value: float | None, *rows: Row, quiet: int = 1) -> Case:
        by_seed = [[SPOILED, *(QUIET | row for row in rows)], *([[SPOILED, QUIET]] * quiet)]
        return _case(assumption(net, by_seed, **CONSTANTS), "VACUOUS", value, 0.0, would_be)

    return Cannot(
        "VACUOUS in every setting: the judge does not compare ε with o(k^−2.5) nor T with T₀, it takes for "
        "granted that both are out of reach",
        (
            case("HOLDS", 0.0, {}),
            case("HOLDS", 0.0, {"lambda_other": 0.01}, {"sigma_other": 0.02}),
            case("FAILS", 0.1, {"lambda_other": 0.11}),
            case("FAILS", 0.1, {"sigma_other": 0.12}),
            case("FAILS", 0.1, {"own_active": 0.9}),
            case("FAILS", 0.1, {"sigma_max": upper + 0.1}),
            case("FAILS", 0.1, {"time": math.e, "sigma_max": late + 0.1}),
            case("FAILS", 0.1, {"time": 1e-9, "sigma_max": early + 0.1}),
            case("FAILS", 0.1, {"sigma_min": -0.1}),
            case("FAILS", 0.1, {"time": math.e, "sigma_min": 0.015 - 0.1}),
            case("FAILS", 0.1, {"margin_min": 1.0, "margin_max": 1.0 + gap + 0.1}),
            case("FAILS", 0.1, {"slope_ratio": 1 + slope + 0.1}),
            case("FAILS", 0.3, {"lambda_other": 0.11}, {"lambda_other": 0.31}, {"lambda_other": 0.21}),
            case("FAILS", 0.2, {"lambda_other": 0.11}, {"sigma_other": 0.22}, quiet=3),
            *(
                case("FAILS", None, {key: NAN})
                for key in ("sigma_max", "sigma_min", "margin_min", "slope_ratio", "own_active")
            ),
            *(case("FAILS", None, {}, {key: NAN}) for key in ("lambda_other", "sigma_other")),
        ),
    )


judged("FA-LB.7", "assumption", "assumption-large")(lambda: lemma("binary"))
judged("FA-LC.10", "assumption", "assumption-large")(lambda: lemma("fine"))


def growth(net: str) -> Cannot:
    """ln(Tη)/4 ≤ λ ≤ 4 ln(T+1) at the end of the flow, η = ½: at Tη = 1 from 0 to 4 ln 3, at Tη = e⁴ from 1
    to 4 ln(2e⁴ + 1)."""
    long = 4 * math.log(2 * math.exp(4) + 1)

    def case(would_be: str, value: float | None, *ends: tuple[float, float, float]) -> Case:
        rows = ended(*({"time": t, "lambda_min": low, "lambda_max": high} for t, low, high in ends))
        return _case(assumption(net, rows), "VACUOUS", value, 0.0, would_be)

    return Cannot(
        "VACUOUS in every setting: the judge writes that the window for T is empty without comparing T with "
        "T₀",
        (
            case("HOLDS", -0.2, (math.exp(4), 1.2, 2.0)),
            case("HOLDS", -0.5, (1.0, 0.5, 1.0), (1.0, 0.6, 1.0)),
            case("HOLDS", 0.0, (1.0, 0.0, 1.0)),
            case("FAILS", 0.3, (math.exp(4), 0.7, 2.0)),
            case("FAILS", 0.5, (math.exp(4), 1.2, long + 0.5)),
            case("FAILS", 0.25, (1.0, 0.5, 4 * math.log(3) + 0.25)),
            case("FAILS", 0.4, (1.0, 0.5, 1.0), (1.0, -0.4, 1.0), (1.0, 0.5, 1.0)),
            case("FAILS", None, (1.0, 0.5, 1.0), (1.0, NAN, 1.0)),
            case("FAILS", None, (1.0, 0.5, NAN)),
        ),
    )


judged("FA-LB.23", "assumption", "assumption-large")(lambda: growth("binary"))
judged("FA-LC.23", "assumption", "assumption-large")(lambda: growth("fine"))


def _ratios(*ratios: float) -> list[list[Row]]:
    return ended(
        *(
            {"lambda_ratio": r, "lambda_min": 0.0 if r < 0 else 1.0, "lambda_max": 1.0 if r < 0 else r}
            for r in ratios
        )
    )


def ratio(net: str) -> Table:
    """Largest ÷ least λ is at most 1 + 204ε (k-class: 1 + 204 k² ε) in every seed; a bound above 10 says
    nothing."""
    square = 1 if net == "binary" else 9

    def case(
        verdict: str, value: float | None, allowed: float, *ratios: float, would_be: str | None = None
    ) -> Case:
        run = assumption(net, _ratios(*ratios), epsilon=allowed / (204 * square))
        return _case(run, verdict, value, allowed, would_be)

    return Table(
        holds=case("HOLDS", 2.0, 2.04, 2.0, 3.0, 1.5),
        fails=case("FAILS", 2.5, 2.04, 3.4, 3.5, 3.2),
        at_bound=case("HOLDS", 1.0, 1.0, 2.0, 2.0),
        bad_seed=case("FAILS", 3.0, 2.04, 1.0, 4.0, 1.0),
        nan=case("FAILS", None, 2.04, 1.0, NAN, 1.0),
        more=(
            case("FAILS", None, 2.04, 1.0, -1.0),
            case("FAILS", 9.5, 9.0, 10.5),
            case("HOLDS", 1.0, 10.0, 2.0),
            case("VACUOUS", 1.0, 10.5, 2.0, would_be="HOLDS"),
            case("VACUOUS", 19.0, 10.5, 20.0, would_be="FAILS"),
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
    """No own λ is negative and no foreign one positive, in any row of any seed."""

    def case(verdict: str, value: float | None, *by_seed: Sequence[tuple[float, float]]) -> Case:
        rows = [
            [GOOD | {"lambda_min": own, "lambda_other_top": other} for own, other in pairs]
            for pairs in by_seed
        ]
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
        ),
    )


judged("FA-LC.9", "2-class")(lambda: signs("binary"))
judged("FA-LC.9", "k-class")(lambda: signs("fine"))
