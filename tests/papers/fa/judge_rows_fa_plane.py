"""What FA's judges of Figures 1 and 4, and of what gives Figure 3, must say."""

from __future__ import annotations

from typing import Any

from judging import Case, Entry, Table, judged, made

NAN = float("nan")
NO_SEEDS = "nothing is drawn: there are no seeds"


@judged("FA-F1", "plane")
def _plane() -> Entry:
    def case(verdict: str, value: float | None = None, **bad: float) -> Case:
        good = {"averaging": 0.3, "decoupled": 0.5, "bent": 0.0}
        rows = [good, good | bad, good | {"averaging": 1.0}]
        return Case({"run": made("clusters-plane", {"centres": rows})}, verdict, value)

    return Table(
        holds=case("HOLDS", 0.2),
        fails=case("FAILS", -0.1, decoupled=0.2),
        at_bound=case("FAILS", 0.0, decoupled=0.3),
        bad_seed=NO_SEEDS,
        nan=case("FAILS", None, decoupled=NAN),
        more=(
            case("FAILS", -0.1, averaging=-0.1),
            case("FAILS", 0.01, bent=0.01),
            case("FAILS", None, bent=NAN),
        ),
    )


def _simplex_case(verdict: str, *bad: dict[str, Any]) -> Case:
    good = {"same_min": 0.2, "other_max": -0.3, "exact_over_root_d": 0.3, "averaging_over_root_d": 0.3}
    rows = [{"seed": i, **good, **row} for i, row in enumerate(bad)]
    return Case({"run": made("clusters-plane", {"simplex": rows}, seeds=list(range(len(rows))))}, verdict)


@judged("FA-Q-simplex", "radius")
def _simplex() -> Entry:
    case = _simplex_case
    return Table(
        holds=case("HOLDS", {}, {"same_min": -9.0}),
        fails=case("FAILS", {"exact_over_root_d": 0.2}, {"exact_over_root_d": 0.2}),
        at_bound=case("HOLDS", {"exact_over_root_d": 1.1, "averaging_over_root_d": 1.0 + 1e-9}),
        bad_seed=case("INCONCLUSIVE", {}, {"exact_over_root_d": 0.2}, {}),
        nan=case("INCONCLUSIVE", {}, {"exact_over_root_d": NAN}),
        more=(case("FAILS", {"exact_over_root_d": 0.34}), case("FAILS", {"averaging_over_root_d": 0.0})),
    )


@judged("FA-Q-simplex", "weights")
def _weights() -> Entry:
    case = _simplex_case
    return Table(
        holds=case("HOLDS", {}, {"exact_over_root_d": 9.0}),
        fails=case("FAILS", {"same_min": 0.0}, {"same_min": -0.1}),
        at_bound=case("HOLDS", {"other_max": 0.0, "same_min": 1e-9}),
        bad_seed=case("INCONCLUSIVE", {}, {"other_max": 0.1}),
        nan=case("INCONCLUSIVE", {}, {"same_min": NAN}),
        more=(case("FAILS", {"other_max": 0.1}), case("INCONCLUSIVE", {"same_min": -0.1}, {})),
    )


@judged("FA-F4", "plane")
def _hyperplane() -> Entry:
    def case(verdict: str, value: float | None = None, **bad: float) -> Case:
        good = {"label": 1.0, "y": 0.55, "linear": 0.05, "robust": 0.1}
        low = {"label": -1.0, "y": 0.45, "linear": 0.05, "robust": 0.1}
        return Case({"run": made("clusters-plane", {"sites": [good, low | bad]})}, verdict, value)

    return Table(
        holds=case("HOLDS", 0.05),
        fails=case("FAILS", -0.01, robust=0.04),
        at_bound=case("FAILS", 0.0, robust=0.05),
        bad_seed=NO_SEEDS,
        nan=case("FAILS", None, robust=NAN),
        more=(case("FAILS", -0.05, y=0.55), case("FAILS", None, y=NAN)),
    )


@judged("FA-F3", "published setting")
def _settings() -> Entry:
    """Published: one half at 14 + .41/.6·2 = 15.37 and at 36 + .37/.52·2 = 37.42."""
    binary, fine = 14 + 0.41 / 0.6 * 2, 36 + 0.37 / 0.52 * 2

    def case(verdict: str, value: float | None, *gaps: tuple[float, float]) -> Case:
        rows = [
            {"changed": "n", "value": float(i), "seed": 0, "binary": binary + a, "fine": fine + b}
            for i, (a, b) in enumerate(gaps)
        ]
        return Case({"run": made("clusters-fig3-settings", {"tried": rows})}, verdict, value, 1.0)

    return Table(
        holds=case("HOLDS", 0.5, (3.0, 0.0), (0.2, -0.5)),
        fails=case("FAILS", 2.0, (2.0, 0.0), (0.0, 3.0)),
        at_bound=case("HOLDS", 1.0 - 1e-9, (1.0 - 1e-9, 0.0)),
        bad_seed="one setting that fits is enough",
        nan=case("FAILS", None, (NAN, 0.0)),
        more=(case("HOLDS", 0.1, (NAN, 0.0), (0.1, 0.1)), case("FAILS", 1.001, (0.0, -1.001))),
    )
