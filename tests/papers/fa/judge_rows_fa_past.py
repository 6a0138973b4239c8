"""What the judges of questions one step past FA must say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from judge_runs_fa import NAN, with_fit
from judging import Case, Table, judged, made

from featscope.experiments.run import Run


def _case(
    run: Run, verdict: str, value: float | None = None, bound: float | None = None, **more: Any
) -> Case:
    return Case({"run": run}, verdict, value, bound, **more)


def _later(make: Callable[..., Table], *given: Any) -> Callable[[], Table]:
    """A table that is made when it is asked for."""
    return lambda: make(*given)


# --- granularity

GROUPS = {
    "2": "6 v 6",
    "3": "4 v 4+4",
    "4": "3+3 v 3+3",
    "6": "2+2+2 v 2+2+2",
    "12": "1+1+1+1+1+1 v 1+1+1+1+1+1",
}
#: a network that holds for nothing
FAR = {"found_ratio": 9.0, "widest": 9.0}


def grouped(place: Mapping[str, Any], found: Sequence[float], widest: Sequence[float] = ()) -> Run:
    """Seeds with these ratios at one place; every other grouping, dimension and kind of labels is far off."""
    usual = dict.fromkeys(("predicted", "found", "certified", "weights_ratio", "clean", "agreement"), 0.5)
    widths = widest or [1.01] * len(found)
    rows = [
        {**place, **usual, "seed": seed, "found_ratio": ratio, "widest": wide}
        for seed, (ratio, wide) in enumerate(zip(found, widths, strict=True))
    ]
    others = [
        {"groups": groups, "d": d, "labels": labels, "wrong": wrong}
        for groups in GROUPS.values()
        for d in (10_000, 10**9)
        for labels, wrong in (("groups", 0.0), ("noisy", 0.1), ("noisy", 0.3), ("k-means", 0.0))
    ]
    rows += [{**other, **usual, **FAR, "seed": 0} for other in others if other != {**other, **place}]
    return made("clusters-granularity", {"net": rows}, seeds=list(range(len(found))))


def grouping(place: Mapping[str, Any]) -> Table:
    """|ratio − 1| ≤ .03 and a bracket of at most 3 %, in every seed."""

    def run(*found: float, widest: Sequence[float] = ()) -> Run:
        return grouped(place, found, widest)

    return Table(
        holds=_case(run(0.98, 1.02, 0.99), "HOLDS", 0.05 / 3, 0.03),
        fails=_case(run(0.9, 1.1), "FAILS", 0.1, 0.03),
        at_bound=_case(run(1.0, 1.0, widest=[1.03 - 1e-12, 1.03 - 1e-12]), "HOLDS", 0.0, 0.03),
        bad_seed=_case(run(1.0, 1.0, 0.96), "INCONCLUSIVE", 0.04 / 3, 0.03),
        nan=_case(run(1.0, NAN), "INCONCLUSIVE", None, 0.03),
        more=(
            _case(run(1.0, 1.0, widest=[1.2, 1.3]), "FAILS", 0.25, 0.03),
            _case(run(1.0, 1.0, widest=[1.01, 1.04]), "INCONCLUSIVE", 0.025, 0.03),
            _case(run(1.0, 1.0, widest=[1.01, -1.0]), "INCONCLUSIVE", None, 0.03),
            _case(made("clusters-granularity", {}), "INCONCLUSIVE", None, 0.03),
        ),
    )


for count, groups in GROUPS.items():
    for d, told in ((10_000, "10⁴"), (10**9, "10⁹")):
        place = {"groups": groups, "d": d, "labels": "groups"}
        judged("FA-granularity", f"G = {count} (d = {told})")(_later(grouping, place))
for count in ("4", "12"):
    wrong = {"groups": GROUPS[count], "labels": "noisy", "wrong": 0.1}
    guessed = {"groups": GROUPS[count], "labels": "k-means"}
    judged("FA-granularity", f"wrong labels (G = {count})")(_later(grouping, wrong))
    judged("FA-granularity", f"k-means (G = {count})")(_later(grouping, guessed))


@judged("FA-granularity", "sizes (2+2+1 v 2+2+1)", "sizes (4 v 6)")
def sizes(name: str) -> Table:
    groups = name[7:-1]

    def run(by_own: Mapping[int, Sequence[float]]) -> Run:
        rows = [
            {"groups": place, "own": own, "seed": seed, "predicted": 2.0, "found": 2.0 * ratio * more}
            for place, more in ((groups, 1.0), ("other", 9.0))
            for own, ratios in by_own.items()
            for seed, median in enumerate(ratios)
            for ratio in (median / 2, median, 7.0)
        ]
        return made("clusters-granularity", {"points": rows})

    return Table(
        holds=_case(run({1: [0.99, 1.0], 2: [1.01, 1.0]}), "HOLDS", 0.005, 0.03),
        fails=_case(run({1: [1.0, 1.0], 2: [0.9, 0.9]}), "FAILS", 0.1, 0.03),
        at_bound=_case(run({2: [1.0 + 0.03 - 1e-12]}), "HOLDS", 0.03, 0.03),
        bad_seed=_case(run({1: [1.0, 1.0], 2: [1.0, 1.0, 0.96]}), "INCONCLUSIVE", 0.04 / 3, 0.03),
        nan=_case(run({1: [NAN, 1.0]}), "INCONCLUSIVE", None, 0.03),
        more=(_case(made("clusters-granularity", {}), "INCONCLUSIVE", None, 0.03),),
    )


# --- the paper's attack

GOOD_POINT = {"ratio": 1.0, "pgd_ratio": 1.0, "cosine": 1.0, "bend": 0.0, "bend_active": 0.0}
BAD_POINT = {"ratio": 9.0, "pgd_ratio": 9.0, "cosine": 0.0, "bend": 9.0, "bend_active": 9.0}


def attacked(key: str, medians: Sequence[float]) -> Run:
    """Three points a seed, the middle one with this value; what is not judged is bad."""
    spread = {"cosine": -0.01}.get(key, 0.01)
    rows = [
        {"seed": seed, "point": i, **BAD_POINT, key: value + place * spread}
        for seed, value in enumerate(medians)
        for i, place in enumerate((0, 1, -1))
    ]
    return made("clusters-attack", {"points": rows}, seeds=list(range(len(medians))))


@judged("FA-attack", "radius", "linear (gradient at x)", "linear (gradient at x + ρ)")
def attack_at_most(name: str) -> Table:
    key = {"radius": "ratio", "linear (gradient at x)": "bend"}.get(name, "bend_active")
    bound, low = (1.05, 1.0) if key == "ratio" else (0.05, 0.0)
    return Table(
        holds=_case(attacked(key, [low, low + 0.02]), "HOLDS", low + 0.01, bound),
        fails=_case(attacked(key, [low + 0.1, low + 0.2]), "FAILS", low + 0.15, bound),
        at_bound=_case(attacked(key, [bound, bound]), "HOLDS", bound, bound),
        bad_seed=_case(attacked(key, [low, low, bound + 0.01]), "INCONCLUSIVE", None, bound),
        nan=_case(attacked(key, [low, NAN]), "INCONCLUSIVE", None, bound),
    )


@judged("FA-attack", "cosine")
def attack_cosine() -> Table:
    return Table(
        holds=_case(attacked("cosine", [0.99, 0.985]), "HOLDS", 0.9875, 0.98),
        fails=_case(attacked("cosine", [0.9, 0.97]), "FAILS", 0.935, 0.98),
        at_bound=_case(attacked("cosine", [0.98, 0.98]), "HOLDS", 0.98, 0.98),
        bad_seed=_case(attacked("cosine", [0.99, 0.99, 0.97]), "INCONCLUSIVE", None, 0.98),
        nan=_case(attacked("cosine", [0.99, NAN]), "INCONCLUSIVE", None, 0.98),
    )


@judged("FA-attack", "linear (gradient at x + ρ, wide)")
def attack_wide() -> Table:
    def run(by_k: Mapping[int, Sequence[float]]) -> Run:
        rows = [
            {"k": k, "seed": seed, "bend": 9.0, "bend_active": value}
            for k, values in by_k.items()
            for seed, value in enumerate(values)
        ]
        return made("clusters-attack", {"gradient": rows})

    return Table(
        holds=_case(run({4: [0.01, 0.02], 8: [0.0, 0.01]}), "HOLDS", 0.015, 0.05),
        fails=_case(run({4: [0.01, 0.02], 8: [0.1, 0.2]}), "FAILS", 0.15, 0.05),
        at_bound=_case(run({4: [0.05], 8: [0.05]}), "HOLDS", 0.05, 0.05),
        bad_seed=_case(run({4: [0.01, 0.01], 8: [0.01, 0.06]}), "INCONCLUSIVE", 0.035, 0.05),
        nan=_case(run({4: [0.01], 8: [NAN]}), "INCONCLUSIVE", None, 0.05),
    )


@judged("FA-attack", "gradient", "gradient (moved)")
def attack_gradient(name: str) -> Table:
    key, other = ("gradient", "gradient_moved") if name == "gradient" else ("gradient_moved", "gradient")

    def run(fit: Sequence[float] | None) -> Run:
        values = with_fit(tuple(fit) if fit else None)  # type: ignore[arg-type]
        rows = [
            {"k": 10 ** (3 + i), "seed": 0, key: value, other: [1.0, 9.0, 0.1][i]}
            for i, value in enumerate(values)
        ]
        return made("clusters-attack", {"gradient": rows})

    return Table(
        holds=_case(run((0.45, 0.5, 0.55)), "HOLDS", 0.5, 0.4),
        fails=_case(run((0.1, 0.2, 0.3)), "FAILS", 0.2, 0.4),
        at_bound=_case(run((0.4 + 1e-9, 0.5, 0.6 - 1e-9)), "HOLDS", 0.5, 0.4),
        bad_seed=_case(run((0.3, 0.5, 0.7)), "INCONCLUSIVE", 0.5, 0.4),
        nan=_case(run(None), "INCONCLUSIVE", None, 0.4),
    )


# --- the KKT point


def flows(layers: str, by_seed: Sequence[Sequence[tuple[float, float, float, float]]]) -> Run:
    """(averaging, stationarity, slackness, averaging_min) at times 1, 10, 100, …; the other network is bad."""
    rows = []
    other = {"first": "both", "both": "first"}[layers]
    for seed, course in enumerate(by_seed):
        for i, (averaging, stationarity, slackness, least) in enumerate(course):
            place = {"seed": seed, "step": i, "time": 10.0**i, "normalised_margin": 0.1}
            kkt = {"stationarity": stationarity, "slackness": slackness}
            rows.append({"layers": layers, **place, **kkt, "averaging": averaging, "averaging_min": least})
            bad = {"stationarity": 0.0, "slackness": 0.0, "averaging": 0.0, "averaging_min": 0.0}
            rows.append({"layers": other, **place, **bad})
    return made("clusters-kkt", {"course": rows}, seeds=list(range(len(by_seed))))


#: averages from time 10 on; the KKT conditions hold from time 1000 on, the second one last
EARLY = [(0.2, 1.0, -1.0, 0.0), (0.95, 0.5, 0.5, 0.5), (0.99, 0.01, 0.5, 0.9), (0.99, 0.05, 0.05, 0.96)]
#: averages at time 1000 only, when the KKT conditions hold since 10
LATE = [(0.2, 1.0, -1.0, 0.0), (0.94, 0.01, 0.01, 0.5), (0.9, 0.01, 0.01, 0.9), (0.99, 0.05, 0.05, 0.9)]
#: the KKT conditions are met at 10 and lost again, so they hold from 1000 on
AGAIN = [(0.2, 1.0, -1.0, 0.0), (0.99, 0.01, 0.01, 0.5), (0.99, 0.01, 0.2, 0.9), (0.99, 0.01, 0.01, 0.96)]
#: the KKT point is not reached within the times
NEVER = [(0.2, 1.0, -1.0, 0.0), (0.99, 0.01, 0.5, 0.5), (0.99, 0.01, 0.2, 0.9), (0.99, 0.06, 0.01, 0.96)]
AT_BOUND = [(0.2, 1.0, -1.0, 0.0), (0.2, 1.0, 1.0, 0.0), (0.95, 0.5, 0.5, 0.5), (0.99, 0.0, 0.0, 0.95)]


@judged("FA-kkt", "before the KKT point (first)", "before the KKT point (both)")
def precedes(name: str) -> Table:
    layers = name.rsplit("(", 1)[1][:-1]
    spoilt = [*EARLY[:3], (NAN, NAN, NAN, NAN)]
    return Table(
        holds=_case(flows(layers, [EARLY, AGAIN, NEVER]), "HOLDS", 100.0, 10.0),
        fails=_case(flows(layers, [LATE, LATE]), "FAILS", 0.01, 10.0),
        at_bound=_case(flows(layers, [AT_BOUND]), "HOLDS", 10.0, 10.0),
        bad_seed=_case(flows(layers, [EARLY, EARLY, LATE]), "INCONCLUSIVE", 200.01 / 3, 10.0),
        nan=_case(flows(layers, [EARLY, spoilt]), "INCONCLUSIVE", 50.0, 10.0),
    )


@judged("FA-kkt", "averaging at the end (first)", "averaging at the end (both)")
def conjecture(name: str) -> Table:
    layers = name.rsplit("(", 1)[1][:-1]
    return Table(
        holds=_case(flows(layers, [EARLY, AGAIN]), "HOLDS", 0.96, 0.95),
        fails=_case(flows(layers, [LATE, LATE]), "FAILS", 0.9, 0.95),
        at_bound=_case(flows(layers, [AT_BOUND]), "HOLDS", 0.95, 0.95),
        bad_seed=_case(flows(layers, [EARLY, LATE]), "INCONCLUSIVE", 0.93, 0.95),
        nan=_case(flows(layers, [EARLY, [(0.9, 0.0, 0.0, NAN)]]), "INCONCLUSIVE", None, 0.95),
    )


# --- adversarial training


@judged("FA-adversarial", "proof", "one-step", "pgd", "ramp")
def adversarial(attack: str) -> Table:
    def run(*ends: tuple[float, float], clean: float = 1.0) -> Run:
        rows = []
        for seed, (decoupling, radius) in enumerate(ends):
            standard = {"decoupling": -0.3, "radius": 0.4, "clean": 1.0}
            rows += [{"attack": attack, "eps": 0.0, "seed": seed, **standard}]
            found = {"decoupling": decoupling, "radius": radius, "clean": clean}
            rows += [{"attack": attack, "eps": 0.3, "seed": seed, **found}]
            other = "pgd" if attack == "ramp" else "ramp"
            rows += [
                {"attack": other, "eps": 0.3, "seed": seed, "decoupling": NAN, "radius": 0.0, "clean": 0.0}
            ]
            rows += [
                {"attack": attack, "eps": 0.5, "seed": seed, "decoupling": NAN, "radius": 0.0, "clean": 0.0}
            ]
        return made("clusters-adversarial", {"end": rows}, seeds=list(range(len(ends))))

    return Table(
        holds=_case(run((0.3, 0.5), (0.2, 0.6)), "HOLDS", 0.25, 0.0),
        fails=_case(run((-0.3, 0.5), (-0.2, 0.6)), "FAILS", -0.25, 0.0),
        at_bound=_case(run((0.0, 0.5), (0.0, 0.5)), "FAILS", 0.0, 0.0),
        bad_seed=_case(run((0.3, 0.5), (-0.1, 0.5)), "INCONCLUSIVE", 0.1, 0.0),
        nan=_case(run((0.3, 0.5), (NAN, 0.5)), "INCONCLUSIVE", None, 0.0),
        more=(
            _case(run((0.3, 0.2), (0.2, 0.2)), "FAILS", 0.5, 1.0),
            _case(run((0.3, 0.4), (0.2, 0.4)), "FAILS", 1.0, 1.0),
            _case(run((0.3, 0.5), clean=0.5), "OUT_OF_SCOPE", 0.3, 0.0, would_be="HOLDS"),
        ),
    )


# --- width


def widths(k: int, positive: int, rows: Sequence[Mapping[str, float]], cosine: float = 0.0) -> Run:
    """Widths of one law; another law is robust with one neuron."""
    place = {"k": k, "positive": positive, "cosine": cosine, "seed": 0, "bound": math.sqrt(0.5)}
    usual = {
        "largest_class": positive,
        "searched": -1.0,
        "searched_class": -1,
        "built": 0.0,
        "built_class": 1,
    }
    listed = [{**place, "width": 2 + i, **usual, **row} for i, row in enumerate(rows)]
    return made("clusters-width", {"width": listed})


@judged("FA-width", "√d/3 (k = 10)")
def remark() -> Table:
    def run(*found: tuple[float, int]) -> Run:
        return widths(10, 5, [{"best": radius, "best_class": count} for radius, count in found])

    third = 1 / 3
    return Table(
        holds=_case(run((0.3, 1), (0.33, 4), (0.5, 5)), "HOLDS", 5.0, 5.0),
        fails=_case(run((0.3, 1), (0.4, 2), (0.7, 5)), "FAILS", 2.0, 5.0),
        at_bound=_case(run((third, 5)), "HOLDS", 5.0, 5.0),
        bad_seed="one seed: the numbers are exact radii of networks that were found",
        nan=_case(run((NAN, 3)), "FAILS", None, 5.0),
        more=(_case(run((third, 4), (0.7, 5)), "FAILS", 4.0, 5.0),),
    )


@judged("FA-width", "√(d/2) (k = 6)")
def optimum() -> Table:
    root = math.sqrt(0.5)

    def run(*found: tuple[float, int, float, int]) -> Run:
        return widths(
            6,
            3,
            [
                {"built": a * root, "built_class": b, "searched": c * root, "searched_class": d}
                for a, b, c, d in found
            ],
        )

    return Table(
        holds=_case(run((0.6, 1, 0.8, 2), (1.0, 3, 1.0, 3)), "HOLDS", 0.8, 0.97),
        fails=_case(run((0.6, 1, 0.99, 2), (1.0, 3, 1.0, 3)), "FAILS", 0.99, 0.97),
        at_bound=_case(run((0.97 - 1e-12, 2, 0.5, 1)), "HOLDS", 0.97, 0.97),
        bad_seed="one seed: the numbers are exact radii of networks that were found",
        nan=_case(run((NAN, 2, 0.5, 1)), "FAILS", None, 0.97),
        more=(
            _case(run((0.98, 2, 0.5, 1)), "FAILS", 0.98, 0.97),
            _case(widths(4, 2, [{"built": 0.1}]), "FAILS", None, 0.97),
        ),
    )


@judged("FA-width", "enough")
def enough() -> Table:
    def run(*shares: float) -> Run:
        rows = [
            {"k": 6 + i, "width": width, "bound": 0.5, "built": built}
            for i, share in enumerate(shares)
            for width, built in ((6 + i, 0.5 * share), (5 + i, 0.0))
        ]
        return made("clusters-width", {"width": rows})

    return Table(
        holds=_case(run(1.0, 0.98), "HOLDS", 0.98, 0.97),
        fails=_case(run(1.0, 0.5), "FAILS", 0.5, 0.97),
        at_bound=_case(run(0.97), "HOLDS", 0.97, 0.97),
        bad_seed="one seed: the numbers are exact radii of built networks",
        nan=_case(run(1.0, NAN), "FAILS", None, 0.97),
    )


# --- the joint limit

LIMITS = {
    "distance to averaging": "deviation",
    "gap of margins": "margin_gap",
    "gap on the sphere": "sphere_gap",
}
POWERS = {"n = k³, d = k¹⁰": (3.0, 10.0), "n = k³, d = k³": (3.0, 3.0), "n = k², d = k¹⁰": (2.0, 10.0)}


def limit(key: str, p: float, q: float) -> Table:
    def run(fit: Sequence[float] | None) -> Run:
        values = with_fit(tuple(fit) if fit else None)  # type: ignore[arg-type]
        usual = {name: [1.0, 9.0, 0.1] for name in LIMITS.values()}
        rows = []
        for power, other in (((p, q), False), ((q, p + 1), True), ((p, q + 1), True)):
            for i in range(3):
                spoiled = {name: listed[i] for name, listed in usual.items()}
                own = {} if other else {key: values[i]}
                rows.append({"p": power[0], "q": power[1], "k": 10 ** (3 + i), "seed": 0, **spoiled, **own})
        return made("clusters-limit", {"net": rows})

    return Table(
        holds=_case(run((-0.6, -0.5, -0.4)), "HOLDS", -0.5, -0.1),
        fails=_case(run((0.0, 0.1, 0.2)), "FAILS", 0.1, -0.1),
        at_bound=_case(run((-0.3 + 1e-9, -0.2, -0.1 - 1e-9)), "HOLDS", -0.2, -0.1),
        bad_seed=_case(run((-0.5, -0.2, 0.1)), "INCONCLUSIVE", -0.2, -0.1),
        nan=_case(run(None), "INCONCLUSIVE", None, -0.1),
    )


for told, key in LIMITS.items():
    for named, (p, q) in POWERS.items():
        judged("FA-limit", f"{told} ({named})")(_later(limit, key, p, q))
