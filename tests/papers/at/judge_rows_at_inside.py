"""What AT's judges of order, of end states and of logits must say: AT-LD.10 and LD.25 `order`, LB.1, LD.5, LD.6,
LD.8, LD.19, LD.20, TD.1, LD.12 to LD.14, TD.15, LD.27, LD.28, LE.11."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from judge_rows_at_scaling import INSIDE
from judging import Case, Table, judged, made

from featscope.experiments.run import Run

NAN, INF = float("nan"), float("inf")
GENTLE = "inside (c0 = 0.2)"
SIZES = (10**9, 10**12, 10**15)
#: 99 runs, 33 of each size: 99 good ones are enough for Wilson's interval to be above .95, 98 are not
SEEDS = 33
RUNS = [(d, seed) for d in SIZES for seed in range(SEEDS)]


def ends(
    arm: str,
    change: Callable[[int], Mapping[str, Any]],
    others: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Run:
    """End states of all runs; ``change`` gives those of a run by its number, ``others`` those of the other
    arm."""
    rows = []
    for number, (d, seed) in enumerate(RUNS):
        place = {"d": d, "seed": seed}
        rows.append({"arm": arm, **place, "arrived": 1.0, **change(number)})
        other = "standard" if arm != "standard" else "features-only"
        rows.append({"arm": other, **place, "arrived": 1.0, **(others or dict.fromkeys(change(number), 0.0))})
    return made("patch-scaling", {"ends": rows}, seeds=list(range(SEEDS)), dimensions=list(SIZES), **settings)


def share(arm: str, columns: tuple[str, ...], maybe: Mapping[str, str] | None = None) -> Table:
    """All columns are 1 in 95 % of the runs, by Wilson's interval; a column that is only possibly so decides
    what is open."""
    possible = maybe or {}

    def case(
        good: int, verdict: str, value: float | None = None, wrong: Mapping[str, Any] | None = None
    ) -> Case:
        """``good`` runs in which all is so; the others have what is wrong."""

        def of_run(number: int) -> dict[str, Any]:
            # Bad runs are spread over the sizes.
            fine = (number * 37) % len(RUNS) < good
            sure = dict.fromkeys((*columns, *possible.values()), 1.0)
            bad = {columns[-1]: 0.5, **({possible[columns[-1]]: 0.5} if possible else {})}
            return sure if fine else {**sure, **(bad if wrong is None else wrong)}

        return Case({"run": ends(arm, of_run)}, verdict, value, 0.95)

    n = len(RUNS)
    late = {"arrived": 0.0}
    more = [
        case(n - 1, "INCONCLUSIVE", (n - 1) / n),
        case(60, "FAILS", 60 / n),
        # What has not arrived may be either: too few that have and are good, but none that is bad.
        case(60, "INCONCLUSIVE", 60 / n, late),
        case(0, "INCONCLUSIVE", 0.0, late),
    ]
    more += [
        case(20, "FAILS", 20 / n, dict.fromkeys((name, possible.get(name, name)), 0.5)) for name in columns
    ]
    for name, other in possible.items():
        # Neither certified nor broken.
        more += [case(0, "INCONCLUSIVE", 0.0, {name: 0.0, other: 1.0})]
    return Table(
        holds=case(n, "HOLDS", 1.0),
        fails=case(0, "FAILS", 0.0),
        at_bound="the share of runs moves in steps of 1/99, and Wilson's interval never ends at .95",
        bad_seed="the rule is a share of the runs: a bad run is one of the 5 % until there are too many of them",
        nan=case(0, "FAILS", 0.0, {columns[-1]: NAN, **dict.fromkeys(possible.values(), NAN)}),
        more=tuple(more),
    )


@judged("AT-LD.12", *INSIDE)
def clean() -> Table:
    return share("standard", ("clean",))


@judged("AT-LD.13", *INSIDE)
def non_robust() -> Table:
    return share("standard", ("non_robust_only",))


@judged("AT-LD.14", *INSIDE)
def targeted() -> Table:
    return share("standard", ("targeted",))


@judged("AT-TD.1", *INSIDE)
def standard_theorem() -> Table:
    return share("standard", ("non_robust_only", "clean", "fooled"))


@judged("AT-LD.27", *INSIDE, GENTLE)
def robust_features() -> Table:
    return share("features-only", ("robust_only",))


@judged("AT-LD.28", *INSIDE, GENTLE)
def robust_on_features() -> Table:
    return share(
        "features-only", ("certified_robust_only",), {"certified_robust_only": "attacked_robust_only"}
    )


@judged("AT-TD.15", *(f"feature-span {name}" for name in (*INSIDE, GENTLE)))
def over_the_span() -> Table:
    return share("features-only", ("robust_only", "certified"), {"certified": "attacked"})


@judged("AT-TD.15", *(f"own-logit {name}" for name in (*INSIDE, GENTLE)))
def own_logit() -> Table:
    return share("features-only", ("robust_only", "lowered"))


@judged("AT-TD.15", *(f"training-attack {name}" for name in (*INSIDE, GENTLE)))
def own_attack() -> Table:
    return share("features-only", ("robust_only", "training_attack"))


def order(arm: str, first: int, then: int) -> Table:
    """In 95 % of the runs both events happen in both classes, the second not before the first."""

    def case(
        good: int,
        verdict: str,
        value: float | None = None,
        times: tuple[float | None, float | None] = (5.0, 4.0),
        arrived: float = 1.0,
    ) -> Case:
        """``good`` runs whose events are at 5 and 5; the others at ``times`` in one class, None for never."""
        events, last = [], []
        for number, (d, seed) in enumerate(RUNS):
            fine = (number * 37) % len(RUNS) < good
            place = {"arm": arm, "d": d, "seed": seed}
            last.append({**place, "arrived": 1.0 if fine else arrived})
            for label in (0, 1):
                spoiled = not fine and label == number % 2
                when = dict(zip((first, then), times if spoiled else (5.0, 5.0), strict=True))
                for event in range(3):
                    # Other events come in the wrong order.
                    at = when.get(event, 1.0 if event > first else 9.0)
                    shown = -1.0 if at is None else at
                    row = {"class": label, "event": event, "happened": at is not None, "time": shown}
                    events.append({**place, **row, "A": 0.0, "B": 0.0})
        parts = {"events": events, "ends": last}
        run = made("patch-scaling", parts, seeds=list(range(SEEDS)), dimensions=list(SIZES))
        return Case({"run": run}, verdict, value, 0.95)

    n = len(RUNS)
    return Table(
        holds=case(n, "HOLDS", 1.0),
        fails=case(0, "FAILS", 0.0),
        at_bound=case(0, "HOLDS", 1.0, (5.0, 5.0 + 1e-9)),
        bad_seed="the rule is a share of the runs: a bad run is one of the 5 % until there are too many of them",
        nan=case(0, "FAILS", 0.0, (5.0, NAN)),
        more=(
            case(n - 1, "INCONCLUSIVE", (n - 1) / n),
            case(60, "FAILS", 60 / n),
            case(60, "FAILS", 60 / n, (NAN, 5.0)),
            # The first never happens though the second does; the second never does until the horizon …
            case(60, "FAILS", 60 / n, (None, 5.0)),
            case(60, "FAILS", 60 / n, (None, 5.0), arrived=0.0),
            case(60, "FAILS", 60 / n, (5.0, None)),
            # … or the steps ran out before.
            case(60, "INCONCLUSIVE", 60 / n, (5.0, None), arrived=0.0),
            case(60, "INCONCLUSIVE", 60 / n, (None, None), arrived=0.0),
        ),
    )


@judged("AT-LD.10", "order", *(f"order {name}" for name in INSIDE))
def output_after() -> Table:
    return order("standard", 0, 1)


@judged("AT-LD.25", "order", *(f"order {name}" for name in INSIDE))
def attacked_after() -> Table:
    return order("features-only", 0, 2)


def curves(
    arm: str, late: Mapping[str, Any], first: Mapping[str, Any] | None = None, k: int = 3, **row: Any
) -> Run:
    """Two recorded steps of two seeds at d = 10⁶, log d = 13.8, with F_y = 2 in class 0 at the later one."""
    d = 10**6
    start = {"F": [0.0] * k, "residual": [2 / 3] * k, "other_low": [1 / 3] * k, "other_high": [1 / 3] * k}
    grown = {
        "F": [2.0] + [0.0] * (k - 1),
        "residual": [2 * math.exp(-2.0)] + [0.5] * (k - 1),
        "other_low": [0.0] * k,
        "other_high": [math.exp(-2.0)] + [0.3] * (k - 1),
    }
    calm = {"u": [0.01] * k, "v": [0.01] * k, "C_max": 0.001, "D_max": 0.001, **row}
    rows = []
    for seed in (0, 1):
        place = {"arm": arm, "d": d, "seed": seed}
        rows += [
            {**place, "step": 0, **calm, **start, **(first or {} if seed else {})},
            {**place, "step": 50, **calm, **grown, **(late if seed else {})},
            # The other arm is far beyond every bound.
            {**place, "arm": "other", "step": 0, **calm, **start, "residual": [0.0] * k},
        ]
    return made("patch-scaling", {"curves": rows}, seeds=[0, 1], law__k=k, dimensions=[100, 10**4, d])


#: 3 log d and 3 log d/√d at d = 10⁶
LEARNED, OFF = 3 * math.log(10**6), 3 * math.log(10**6) / 1000


def supposed(arm: str) -> list[dict[str, Any]]:
    """Rows that break what the logit lemmas suppose, each in one way."""
    first = "v" if arm == "standard" else "u"
    found = [{first: [LEARNED + 1e-6, 0.0, 0.0]}, {"C_max": OFF + 1e-9}, {"D_max": OFF + 1e-9}]
    return found if arm == "standard" else [*found, {"v": [0.0, 0.0, 0.0501]}]


def logits(arm: str, column: str, unit: float) -> Table:
    """``column`` times e^{F_y} is at most 3·unit at every step that meets what is supposed; at the start it is
    of order one."""
    residual = column == "residual"

    def case(
        top: float, verdict: str, value: float | None = None, bound: float | None = 3.0, **also: Any
    ) -> Case:
        late = {column: [unit * top * math.exp(-2.0)] + [0.1] * 2, **also}
        return Case({"run": curves(arm, late)}, verdict, value, bound)

    def begun(values: Mapping[str, Any], verdict: str, value: float | None, bound: float) -> Case:
        return Case({"run": curves(arm, {}, values)}, verdict, value, bound)

    at_start = (
        (
            begun({"residual": [0.3333, 0.5, 0.5]}, "FAILS", 0.3333, 1 / 3),
            begun({"residual": [NAN, 0.5, 0.5]}, "FAILS", None, 3.0),
        )
        if residual
        else (
            begun({"other_low": [0.111, 0.3, 0.3]}, "FAILS", 0.333, 1 / 3),
            begun({"other_high": [0.3, 0.3, 1.001]}, "FAILS", 3.003, 3.0),
        )
    )
    broken = tuple(case(50.0, "HOLDS", 1.0, **row) for row in supposed(arm))
    edge = {"C_max": OFF, "D_max": OFF, ("v" if arm == "standard" else "u"): [LEARNED, 0.0, 0.0]}
    never = Case({"run": curves(arm, {}, C_max=1.0)}, "VACUOUS")
    return Table(
        holds=case(1.0, "HOLDS", 1.0),
        fails=case(50.0, "FAILS", 50.0),
        at_bound=case(3.0 - 1e-9, "HOLDS", 3.0 - 1e-9),
        bad_seed=case(4.0, "FAILS", 4.0),
        nan=case(NAN, "FAILS"),
        more=(
            case(3.0 + 1e-6, "FAILS", 3.0 + 1e-6),
            *broken,
            case(50.0, "FAILS", 50.0, **edge),
            case(50.0, "FAILS", 50.0, C_max=NAN),
            never,
            # Both leave the numbers: e^800 · e^−800.
            case(1.0, "HOLDS", 1.0, F=[800.0, 0.0, 0.0], **{column: [0.0, 0.1, 0.1]}),
            *at_start,
        ),
    )


@judged("AT-LD.5", "figure-3", *INSIDE)
def diagonal() -> Table:
    return logits("standard", "residual", 2.0)


@judged("AT-LD.19", "figure-3", *INSIDE)
def attacked_diagonal() -> Table:
    return logits("features-only", "residual", 2.0)


@judged("AT-LD.6", "figure-3", *INSIDE)
def off_diagonal() -> Table:
    return logits("standard", "other_high", 1.0)


@judged("AT-LD.20", "figure-3", *INSIDE)
def attacked_off_diagonal() -> Table:
    return logits("features-only", "other_high", 1.0)


def speeds(most: float) -> Table:
    """Speeds in units of the formula are in [1/3, 3] where no neuron is linear and F_y is at most ``most``."""

    def case(
        low: float,
        high: float,
        verdict: str,
        value: float | None = None,
        bound: float | None = None,
        **also: Any,
    ) -> Case:
        late = {"rate_low": [low, 0.5, 0.5], "rate_high": [high, 0.5, 0.5], "F": [0.0, 0.05, 0.0], **also}
        calm = {"rate_low": [0.5] * 3, "rate_high": [0.5] * 3, "linear": [0.0] * 3}
        return Case({"run": curves("standard", late, **calm)}, verdict, value, bound)

    grown = {"F": [0.0501, 0.0, 0.0]}
    nothing = Case(
        {"run": curves("standard", {}, rate_low=[1.0] * 3, rate_high=[1.0] * 3, linear=[1.0] * 3)}, "VACUOUS"
    )
    beyond = (
        case(0.01, 0.5, "HOLDS", 0.5, 1 / 3, **grown)
        if most < 1
        else case(0.01, 0.5, "FAILS", 0.01, 1 / 3, **grown)
    )
    return Table(
        holds=case(0.4, 0.5, "HOLDS", 0.4, 1 / 3),
        fails=case(0.01, 0.5, "FAILS", 0.01, 1 / 3),
        at_bound=case(1 / 3, 3.0, "HOLDS", 1 / 3, 1 / 3),
        bad_seed=case(0.3, 0.5, "FAILS", 0.3, 1 / 3),
        nan=case(NAN, 0.5, "FAILS"),
        more=(
            case(0.4, 3.1, "FAILS", 3.1, 3.0),
            case(0.4, NAN, "FAILS"),
            case(0.01, 9.0, "HOLDS", 0.5, 1 / 3, linear=[1.0, 0.0, 0.0]),
            beyond,
            nothing,
        ),
    )


@judged("AT-LD.8", "small outputs (figure-3)", *(f"small outputs {name}" for name in INSIDE))
def early_speeds() -> Table:
    return speeds(0.05)


@judged("AT-LD.8", "polynomial stage (figure-3)", *(f"polynomial stage {name}" for name in INSIDE))
def polynomial_speeds() -> Table:
    return speeds(INF)


@judged("AT-LB.1", "above", "below")
def largest_gaussian(side: str) -> Table:
    """The exact probability is nowhere above the bound."""

    def case(over: float, verdict: str, value: float | None = None) -> Case:
        rows = [
            {"n": n, "side": s, "deviation": 1.0, "log_exact": -3.0 + extra, "log_bound": -3.0}
            for n in (1, 10, 100)
            for s in ("above", "below")
            # The other side is beyond the bound where this one is not, and the other way round.
            for extra in ((over if n == 10 else -1.0) if s == side else (-1.0 if over > 0 else 1.0),)
        ]
        return Case({"run": made("patch-scaling", {"maxima": rows})}, verdict, value, 0.0)

    return Table(
        holds=case(-0.5, "HOLDS", -0.5),
        fails=case(0.5, "FAILS", 0.5),
        at_bound=case(0.0, "HOLDS", 0.0),
        bad_seed="nothing is drawn, so there are no seeds",
        nan=case(NAN, "FAILS"),
        more=(case(1e-9, "FAILS"),),
    )


def figure_3(**final: Any) -> Run:
    """Three seeds of adversarial training that end with these values; lists are by seed."""
    rows = []
    for seed in (0, 1, 2):
        here = {name: value[seed] if isinstance(value, tuple) else value for name, value in final.items()}
        base = {
            "u": [2.3, 2.3],
            "v": [0.001, 0.001],
            "C": [0.01, 0.01],
            "D": [0.01, 0.01],
            "arm": "adversarial",
        }
        rows += [
            {"step": 0, "seed": seed, **base, "u": [50.0, 50.0], "v": [9.0, 9.0], "C": [9.0, 9.0]},
            {"step": 10, "seed": seed, **base, **here},
            {
                "step": 10,
                "seed": seed,
                **base,
                "arm": "standard",
                "u": [50.0, 50.0],
                "v": [9.0, 9.0],
                "D": [9.0, 9.0],
            },
        ]
    settings = {"law__alpha": 2.0, "adversarial__step_size": 1000.0}
    return made("patch-fig3", {"dynamics": rows}, seeds=[0, 1, 2], law__d=100, **settings)


LOG = math.log(100)


@judged("AT-LE.11", "A (figure-3)")
def winner_fig3() -> Table:
    """α max A is within a factor 3 of log d = 4.605, in every class and seed."""

    def case(u: Any, verdict: str, value: float | None = None) -> Case:
        return Case({"run": figure_3(u=u)}, verdict, value, 3.0)

    return Table(
        holds=case([LOG / 4, LOG / 2], "HOLDS", 2.0),
        fails=case([LOG / 8, LOG / 2], "FAILS", 4.0),
        at_bound=case([LOG / 6 * (1 + 1e-12), LOG / 2], "HOLDS", 3.0),
        bad_seed=case(([LOG, LOG], [LOG, LOG / 16], [LOG, LOG]), "INCONCLUSIVE", 8.0),
        nan=case(([LOG, LOG], [NAN, LOG], [LOG, LOG]), "INCONCLUSIVE"),
        more=(case([LOG * 2, LOG / 2], "FAILS", 4.0), case([LOG, -1.0], "FAILS")),
    )


@judged("AT-LE.11", "B (figure-3)", "losers (figure-3)")
def losers_fig3(name: str) -> Table:
    """max B is at most log d ÷ η̃ = .0046; C and D are at most log d/√d = .46."""
    bound = LOG / 1000 if name.startswith("B") else LOG / 10

    def case(worst: Any, verdict: str, value: float | None = None, columns: str = "D") -> Case:
        values = worst if isinstance(worst, tuple) else (worst,) * 3
        lists = tuple([0.0, value] for value in values)
        final = {"v": lists} if name.startswith("B") else {columns: lists}
        return Case({"run": figure_3(**final)}, verdict, value, bound)

    more = () if name.startswith("B") else (case(2 * bound, "FAILS", 2 * bound, "C"),)
    return Table(
        holds=case(bound / 2, "HOLDS"),
        fails=case(2 * bound, "FAILS", 2 * bound),
        at_bound=case(bound, "HOLDS", bound),
        bad_seed=case((bound / 2, 3 * bound, bound / 2), "INCONCLUSIVE", 3 * bound),
        nan=case((bound / 2, NAN, bound / 2), "INCONCLUSIVE"),
        more=more,
    )


@judged("AT-LE.11", "A inside (k = 2)", f"A {GENTLE}")
def winner_inside() -> Table:
    """α max A (α = 2 in the made-up run) is within a factor 3 of log d, in every class of every run that
    arrived."""

    def case(
        factor: Callable[[int], float], verdict: str, value: float | None = None, bound: float | None = 3.0
    ) -> Case:
        def of_run(number: int) -> dict[str, Any]:
            size = math.log(RUNS[number][0])
            scale = factor(number)
            late = math.isinf(scale)
            return {"u": [size / 2, 1.0 if late else size / 2 * scale], "arrived": 0.0 if late else 1.0}

        other = {"u": [1e-9, 1e-9]}
        return Case({"run": ends("features-only", of_run, other, law__alpha=2.0)}, verdict, value, bound)

    return Table(
        holds=case(lambda i: 0.5, "HOLDS", 2.0),
        fails=case(lambda i: 0.01, "FAILS", 100.0),
        at_bound=case(lambda i: 3.0 * (1 - 1e-12), "HOLDS", 3.0),
        bad_seed=case(lambda i: 0.1 if i == 40 else 1.0, "INCONCLUSIVE", 10.0),
        nan=case(lambda i: NAN if i == 40 else 1.0, "INCONCLUSIVE", None),
        more=(
            case(lambda i: 5.0, "FAILS", 5.0),
            case(lambda i: -1.0, "FAILS"),
            case(lambda i: INF if i % 2 else 0.5, "HOLDS", 2.0),
            case(lambda i: INF, "INCONCLUSIVE", None, None),
        ),
    )


@judged("AT-LE.11", *(f"{kind} {place}" for kind in ("B", "losers") for place in ("inside (k = 2)", GENTLE)))
def powers_inside(name: str) -> Table:
    """The exponent of the median over the runs that arrived is at most −c0 + .1 for B, −.4 for C and D."""
    column, predicted = ("v", -0.3) if name.startswith("B") else ("off", -0.5)
    bound = predicted + 0.1

    def case(
        power: float,
        verdict: str,
        value: float | None = None,
        limit: float | None = bound,
        factor: Callable[[int], float] = lambda i: 1.0,
    ) -> Case:
        def of_run(number: int) -> dict[str, Any]:
            scale, d = factor(number), RUNS[number][0]
            late = math.isinf(scale)
            top = 2 * d**power * (1.0 if late else scale)
            values = {"v": [top / 3, top], "off": top}
            wrong = {"v": [1.0, 1.0], "off": 1.0}
            return {**(wrong if late else {**wrong, column: values[column]}), "arrived": 0.0 if late else 1.0}

        other = {"v": [1.0, 1.0], "off": 1.0}
        return Case({"run": ends("features-only", of_run, other, c0=0.3)}, verdict, value, limit)

    def at_largest(extra: float, count: int) -> Callable[[int], float]:
        return lambda i: extra if RUNS[i][0] == SIZES[-1] and RUNS[i][1] < count else 1.0

    return Table(
        holds=case(predicted, "HOLDS", predicted),
        fails=case(predicted + 0.3, "FAILS", predicted + 0.3),
        at_bound=case(bound - 1e-6, "HOLDS", bound - 1e-6),
        bad_seed=case(predicted, "INCONCLUSIVE", factor=at_largest(1e9, SEEDS)),
        nan=case(predicted, "INCONCLUSIVE", factor=at_largest(NAN, 1)),
        more=(
            case(bound + 1e-6, "FAILS", bound + 1e-6),
            case(predicted, "HOLDS", predicted, factor=at_largest(100.0, 5)),
            case(predicted, "HOLDS", predicted, factor=lambda i: INF if i % 3 == 0 else 1.0),
            case(predicted, "INCONCLUSIVE", factor=at_largest(INF, SEEDS)),
        ),
    )
