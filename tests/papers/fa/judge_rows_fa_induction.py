"""What FA's judges of the inductions' steps (Lemmas B.7 to B.26, C.10 to C.26) must say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from judge_runs_fa import GOOD, NAN, UNMET, Row, assumption
from judging import Case, Table, judged

from featscope.experiments.run import Run

ETA = 2.0**-10
#: every quantity of the inductions is 0, but the ratios, which are 1
QUIET: Row = GOOD | {
    "margin_min": 1.0,
    "margin_max": 1.0,
    "slope_ratio": 1.0,
    "slope_ratio_cluster": 1.0,
    "sigma_min": 0.05,
    "sigma_max": 0.05,
    **dict.fromkeys(
        (
            "bias",
            "feature_gap",
            "noise_gap",
            "point_gap",
            "hat_error",
            "hat_gap_error",
            "hat_gap",
            "hat_gap_cluster",
            "margin_above",
            "margin_below",
            "slope_above",
            "slope_below",
            "other_output",
        ),
        0.0,
    ),
}
BAD: Row = dict.fromkeys(QUIET, 99.0) | {"time": ETA}


def run(net: str, place: str, *rows: Row, quiet: bool = True, time: float = 3 * ETA, **proof: Any) -> Run:
    """A run whose rows of one place (first steps or flow) are given; the other place says the opposite of
    everything, and so does step 0."""
    given = [QUIET | {"time": time} | row for row in rows]
    more = [QUIET | {"time": time}] if quiet else []
    # k = 3, n = 300, ε = 10⁻⁴: multiples of ε up to 67·9 are small; T₀ = 4 steps
    usual = {"k": 3, "n": 300, "d": 1024, "epsilon": 1e-4, "learning_rate": ETA, "most_steps": 4.0} | proof
    if place == "first steps":
        return assumption(net, [[BAD, BAD]], [[BAD, *given, *more]], **usual)
    return assumption(net, [[BAD, *given, *more]], [[BAD, BAD]], **usual)


def bounded(net: str, place: str, make: Callable[[float], Row], constant: float, power: int = 0) -> Table:
    """A quantity is at most constant · k^power · ε; met within a bound above .1 it says nothing unless it is
    met with ε = 0; beyond T₀ = 4 steps it is out of scope."""
    factor = constant * 3.0**power

    def case(verdict: str, share: float, eps: float = 0.05 / factor, **more: Any) -> Case:
        bound, would_be = factor * eps, more.pop("would_be", None)
        value = None if math.isnan(share) else share * bound
        found = run(net, place, make(share * bound), epsilon=eps, **more)
        return Case({"run": found}, verdict, value, bound, would_be)

    loose = 0.2 / factor
    return Table(
        holds=case("HOLDS", 0.5),
        fails=case("FAILS", 2.0),
        # 1 + x − 1 loses digits
        at_bound=case("HOLDS", 1 - 1e-9),
        bad_seed=case("FAILS", 1.5),
        nan=case("FAILS", NAN),
        more=(
            case("FAILS", 1.0001),
            case("VACUOUS", 0.5, loose, would_be="HOLDS"),
            case("FAILS", 2.0, loose),
            case("HOLDS", 0.5, 0.099 / factor),
            case("VACUOUS", 0.5, 0.101 / factor, would_be="HOLDS"),
            case("OUT_OF_SCOPE", 0.5, time=5 * ETA, would_be="HOLDS"),
            case("OUT_OF_SCOPE", 2.0, time=5 * ETA, would_be="FAILS"),
            case("OUT_OF_SCOPE", 0.5, unmet=UNMET, would_be="HOLDS"),
        ),
    )


def later(make: Callable[..., Table], *args: Any) -> Callable[[], Table]:
    """A table that is made when it is asked for."""
    return lambda: make(*args)


NETS = {"2-class": "binary", "k-class": "fine"}
PLACES = ("first steps", "whole flow")


def enter(claim: str, key: str, constant: float, labels: tuple[str, ...] = tuple(NETS)) -> None:
    for label in labels:
        for place in PLACES:
            judged(claim, f"{label}/{place}")(
                later(bounded, NETS[label], place, lambda x: {key: x}, constant)
            )


enter("FA-LB.10", "bias", 1 / 6, ("2-class",))
enter("FA-LB.11", "feature_gap", 1 / 6)
enter("FA-LB.12", "noise_gap", 1 / 6)
enter("FA-LB.13", "point_gap", 1 / 3)
enter("FA-LB.14", "hat_error", 1.0)
enter("FA-CB.15", "hat_gap_error", 2.0)
enter("FA-LC.17", "other_output", 1.0, ("k-class",))

LEMMAS = {"FA-LB.7": "binary", "FA-LC.10": "fine"}
GROUP_PLACES = {"first steps": "first steps", "whole flow": "whole flow", "whole flow, large": "whole flow"}
#: item → constants and powers of k for both networks, and the row that has it
ITEMS: dict[str, tuple[tuple[float, int], tuple[float, int], Callable[[float], Row]]] = {
    "2": ((5, 0), (5, 1), lambda x: {"hat_gap_cluster": x}),
    "3": ((63, 0), (32, 2), lambda x: {"hat_gap": x}),
    "4": ((65, 0), (33, 2), lambda x: {"margin_max": 1.0 + x}),
    "5": ((14, 0), (14, 1), lambda x: {"slope_ratio_cluster": 1.0 + x}),
    "6": ((130, 0), (67, 2), lambda x: {"slope_ratio": 1.0 + x}),
}


def balance(net: str, place: str) -> Table:
    """Each of items 2 to 6 alone decides."""
    at = 0 if net == "binary" else 1

    def case(item: str, verdict: str, share: float, eps: float = 1e-4, **more: Any) -> Case:
        constant, power = ITEMS[item][at]
        bound, would_be = constant * 3.0**power * eps, more.pop("would_be", None)
        decides = verdict == "FAILS" and not math.isnan(share)
        value, shown = (share * bound, bound) if decides else (None, None)
        row = ITEMS[item][2](share * bound)
        return Case({"run": run(net, place, row, epsilon=eps, **more)}, verdict, value, shown, would_be)

    return Table(
        holds=case("4", "HOLDS", 0.5),
        fails=case("3", "FAILS", 2.0),
        at_bound=case("2", "HOLDS", 1 - 1e-9),
        bad_seed=case("6", "FAILS", 1.5),
        nan=case("5", "FAILS", NAN),
        more=(
            *(case(item, "FAILS", 1.001) for item in ITEMS),
            *(case(item, "HOLDS", 0.999) for item in ITEMS),
            *(case(item, "FAILS", NAN) for item in ITEMS),
            case("6", "VACUOUS", 0.5, 1e-3 if net == "binary" else 2e-4, would_be="HOLDS"),
            case("3", "OUT_OF_SCOPE", 2.0, time=5 * ETA, would_be="FAILS"),
        ),
    )


def others(net: str, place: str) -> Table:
    """|λ| of other clusters ≤ ε and |σ| of other points ≤ 2ε."""

    def case(verdict: str, lam: float, sigma: float, eps: float = 1e-4, **more: Any) -> Case:
        row, would_be = {"lambda_other": lam * eps, "sigma_other": sigma * eps}, more.pop("would_be", None)
        return Case({"run": run(net, place, row, epsilon=eps, **more)}, verdict, None, None, would_be)

    return Table(
        holds=case("HOLDS", 0.5, 1.5),
        fails=case("FAILS", 1.5, 0.0),
        at_bound=case("HOLDS", 1.0, 2.0),
        bad_seed=case("FAILS", 0.0, 2.5),
        nan=case("FAILS", NAN, 0.0),
        more=(
            case("FAILS", 0.0, NAN),
            case("FAILS", 1.001, 0.0),
            case("FAILS", 0.0, 2.001),
            case("VACUOUS", 0.5, 0.5, 0.2, would_be="HOLDS"),
            case("VACUOUS", 0.5, 0.0, 0.2, would_be="HOLDS"),
            case("HOLDS", 0.0, 0.0, 0.2),
            case("OUT_OF_SCOPE", 0.5, 0.5, time=5 * ETA, would_be="HOLDS"),
        ),
    )


def above(net: str, place: str) -> Table:
    """(n/k) σ ≤ 2 ln(t + 1): n/k = 100 and t = 3."""

    def case(verdict: str, value: float | None, sigma: float, steps: float = 3.0, **more: Any) -> Case:
        found = run(net, place, {"sigma_max": sigma}, quiet=False, time=steps * ETA, **more)
        would_be = "HOLDS" if verdict == "OUT_OF_SCOPE" else None
        return Case({"run": found}, verdict, value, 2.0, would_be)

    unit = math.log(4) / 100
    return Table(
        holds=case("HOLDS", 1.0, unit),
        fails=case("FAILS", 3.0, 3 * unit),
        at_bound=case("HOLDS", 2.0 - 1e-9, (2 - 1e-9) * unit),
        bad_seed=case("FAILS", 2.1, 2.1 * unit),
        nan=case("FAILS", None, NAN),
        more=(
            # less than a step counts as one
            case("HOLDS", 1.9, 1.9 * math.log(2) / 100, steps=0.1),
            case("FAILS", 2.1, 2.1 * math.log(2) / 100, steps=0.1),
            case("OUT_OF_SCOPE", 1.0, math.log(6) / 100, steps=5.0),
        ),
    )


def below(net: str, place: str) -> Table:
    """(n/k) σ ≥ ½ ln(tη): n/k = 100; at tη = e² the bound is 1, at tη ≤ 1 it asks for nothing."""
    late = {"time": math.exp(2), "most_steps": 1e6}

    def case(
        verdict: str, value: float | None, sigma: float, would_be: str | None = None, **more: Any
    ) -> Case:
        found = run(net, place, {"sigma_min": sigma}, quiet=False, **{**late, **more})
        return Case({"run": found}, verdict, value, 0.0, would_be)

    return Table(
        holds=case("HOLDS", -1.0, 0.02),
        fails=case("FAILS", 0.5, 0.005),
        at_bound=case("HOLDS", -1e-9, 0.01 + 1e-11),
        bad_seed=case("FAILS", 1.5, -0.005),
        nan=case("FAILS", None, NAN),
        more=(
            case("VACUOUS", -2.0, 0.02, "HOLDS", time=1.0),
            case("VACUOUS", None, 0.02, "HOLDS", time=0.5),
            case("FAILS", 1.0, -0.01, time=1.0),
            case("OUT_OF_SCOPE", -1.0, 0.02, "HOLDS", most_steps=4.0),
        ),
    )


def enter_groups() -> None:
    groups = {"balance": balance, "other classes": others, "σ from above": above, "σ from below": below}
    for claim, net in LEMMAS.items():
        for group, make in groups.items():
            for name, place in GROUP_PLACES.items():
                judged(claim, f"{group}/{name}")(later(make, net, place))


enter_groups()


def sigma_ratio(net: str, place: str) -> Table:
    """(σ_max − 1/(nd))/σ_min ≤ 1 + 200ε (k-class: 200k²ε)."""
    tiny = 1 / (300 * 1024)
    table = bounded(
        net,
        place,
        lambda x: {"sigma_min": 0.05, "sigma_max": 0.05 * (1 + x) + tiny},
        200.0,
        0 if net == "binary" else 2,
    )
    least = {"sigma_min": 0.0, "sigma_max": 1.0}
    nothing = {"sigma_min": 0.0, "sigma_max": tiny}
    more = (
        Case({"run": run(net, place, least)}, "FAILS", None),
        Case({"run": run(net, place, nothing, quiet=False)}, "HOLDS", 0.0),
    )
    return Table(table.holds, table.fails, table.at_bound, table.bad_seed, table.nan, (*table.more, *more))


def margins(net: str, place: str) -> Table:
    """q − (2n/k)σ and (n/2k)σ − q are at most 2ε; below 0 they need no ε."""

    def case(verdict: str, top: float, low: float, eps: float = 1e-4, **more: Any) -> Case:
        row, would_be = {"margin_above": top, "margin_below": low}, more.pop("would_be", None)
        found = run(net, place, row, quiet=False, epsilon=eps, **more)
        return Case({"run": found}, verdict, None, None, would_be)

    return Table(
        holds=case("HOLDS", -1.0, -2.0),
        fails=case("FAILS", 1.0, -2.0),
        at_bound=case("HOLDS", 2e-4, 2e-4),
        bad_seed=case("FAILS", -1.0, 3e-4),
        nan=case("FAILS", NAN, -1.0),
        more=(
            case("FAILS", -1.0, NAN),
            case("HOLDS", -1.0, -2.0, eps=1.0),
            case("VACUOUS", 0.5, -2.0, eps=1.0, would_be="HOLDS"),
            case("FAILS", 2.5, -2.0, eps=1.0),
            case("OUT_OF_SCOPE", -1.0, -1.0, time=5 * ETA, would_be="HOLDS"),
        ),
    )


def slopes(net: str, place: str) -> Table:
    """ln|ℓ'| + (n/2k)σ ≤ ln 2 (k-class: ln 2k) and −ln|ℓ'| − (2n/k)σ ≤ ln 3 (k-class: ln 2)."""
    top, low = (math.log(2), math.log(3)) if net == "binary" else (math.log(6), math.log(2))

    def case(verdict: str, over: float, under: float, **more: Any) -> Case:
        row, would_be = {"slope_above": over, "slope_below": under}, more.pop("would_be", None)
        return Case({"run": run(net, place, row, **more)}, verdict, None, None, would_be)

    return Table(
        holds=case("HOLDS", 0.5, 0.5),
        fails=case("FAILS", top + 0.1, 0.5),
        at_bound=case("HOLDS", top, low),
        bad_seed=case("FAILS", 0.5, low + 0.1),
        nan=case("FAILS", NAN, 0.5),
        more=(
            case("FAILS", 0.5, NAN),
            case("FAILS", top + 1e-6, 0.0),
            case("FAILS", 0.0, low + 1e-6),
            case("OUT_OF_SCOPE", 0.5, 0.5, time=5 * ETA, would_be="HOLDS"),
        ),
    )


for lemma, make in (("FA-LB.19", sigma_ratio), ("FA-LB.20", margins), ("FA-LB.21", slopes)):
    for label, net in NETS.items():
        for place in PLACES:
            judged(lemma, f"{label}/{place}")(later(make, net, place))


@judged("FA-LB.26", "2-class", "k-class")
def _fresh(name: str) -> Table:
    """|⟨w, ξ⟩| ≤ ε/6 in every seed, at the end of a flow that does not go beyond T₀."""
    mine, other = "fresh_noise_binary", "fresh_noise_fine"
    if name == "k-class":
        mine, other = other, mine

    def case(verdict: str, value: float | None, *values: float, eps: float = 6e-2, **more: Any) -> Case:
        time, would_be = more.pop("time", ETA), more.pop("would_be", None)
        rows = [{mine: v, other: 99.0} for v in values]
        flows = [[QUIET | {"time": time}] * 2 for _ in values]
        found = assumption("binary", flows, by_seed=rows, epsilon=eps, learning_rate=ETA, **more)
        return Case({"run": found}, verdict, value, eps / 6, would_be)

    return Table(
        holds=case("HOLDS", 0.009, 0.005, 0.009),
        fails=case("FAILS", 0.03, 0.02, 0.03),
        at_bound=case("HOLDS", 0.01 - 1e-12, 0.01 - 1e-12),
        bad_seed=case("FAILS", 0.011, 0.001, 0.011),
        nan=case("FAILS", None, 0.001, NAN),
        more=(
            case("VACUOUS", 0.1, 0.1, eps=1.2, would_be="HOLDS"),
            case("FAILS", 0.3, 0.3, eps=1.2),
            case("OUT_OF_SCOPE", 0.005, 0.005, time=1.0, would_be="HOLDS"),
        ),
    )
