"""Rows of phase diagrams for judges: a panel's distance with its interval, among another panel that says the
opposite."""

from __future__ import annotations

import math

from judging import Case, Table, made


def distances(experiment: str, panel: str, distance: tuple[float | None, float | None, float | None]) -> Case:
    """A case whose verdict, value and bound are to be filled in."""
    names = ("distance", "low", "high")
    mine = {"panel": panel, **dict(zip(names, distance, strict=True)), "columns": 9, "points": 50}
    far = {"panel": "another", "distance": 5.0, "low": 4.0, "high": 6.0, "columns": 9, "points": 50}
    return Case({"run": made(experiment, {"distances": [far, mine]})}, "")


def edge_table(experiment: str, panel: str, factor: float) -> Table:
    """What every judge of an edge must say: signed distances of logarithms against a factor."""
    log = math.log(factor)

    def case(verdict: str, value: float | None, *distance: float | None) -> Case:
        found = distances(experiment, panel, distance)  # type: ignore[arg-type]
        return Case(found.runs, verdict, value, factor)

    return Table(
        holds=case("HOLDS", math.exp(0.1), -0.1, -0.9 * log, 0.2 * log),
        fails=case("FAILS", math.exp(2 * log), -2 * log, -3 * log, -1.1 * log),
        at_bound=case("HOLDS", 1.0, 0.0, -log * (1 - 1e-12), log * (1 - 1e-12)),
        bad_seed=case("INCONCLUSIVE", math.exp(0.1), 0.1, 0.0, 1.2 * log),
        nan=case("INCONCLUSIVE", None, None, None, None),
        more=(
            case("FAILS", math.exp(2 * log), 2 * log, 1.1 * log, 3 * log),
            case("INCONCLUSIVE", math.exp(2 * log), 2 * log, -0.1, 3 * log),
        ),
    )
