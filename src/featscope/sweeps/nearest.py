"""What would make it true: the setting nearest to the usual one at which a reading holds, from a sweep over a
box, or that there is none in the box.

A room names its searches; what they found comes with the package (`shipped/nearest.json`) and is what
`featscope explain` and `featscope check` say. `python -m featscope.sweeps.nearest OUT` makes it again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from featscope.core.files import read_json, write_json
from featscope.experiments.keys import value_at
from featscope.experiments.registry import rooms
from featscope.experiments.shipped import HOME
from featscope.experiments.spec import resolve
from featscope.sweeps.asked import of
from featscope.sweeps.engines import Local
from featscope.sweeps.points import WOULD_BE
from featscope.sweeps.sweep import INCONCLUSIVE, Sweep, run_sweep

FOUND = HOME / "nearest.json"
HOLDS = "HOLDS"


@dataclass(frozen=True)
class BoxSearch:
    """A box around the usual setting of an experiment, and the readings (claim, name) that are looked for in
    it."""

    experiment: str
    box: Mapping[str, Any]
    readings: tuple[tuple[str, str], ...]
    profile: str = "quick"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def sweep(self) -> Sweep:
        """The sweep over the box."""
        return of(self.experiment, self.box, profile=self.profile, settings=self.settings)


def distance(usual: Any, value: Any) -> float:
    """How far a value is from the usual one: |log| of the ratio of positive numbers, else 0 or 1."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in (usual, value))
    return abs(math.log(value / usual)) if numbers else float(value != usual)


def nearest(search: BoxSearch, rows: pl.DataFrame, claim: str, reading: str) -> str:
    """In words: the nearest point at which the reading holds, in or out of its scope; or that there is
    none."""
    column = f"{claim} {reading}"
    asked = search.sweep()
    usual = resolve(asked.plan, asked.profile, search.settings)
    keys = [axis.key for axis in asked.axes]
    points = rows.unique("point", maintain_order=True).to_dicts()
    box = " and ".join(axis.told for axis in asked.axes)
    looked = f"{len(points)} points of {search.experiment} over {box} (profile {search.profile})"
    holding = [row for row in points if _holds(row, column)]
    if not holding:
        undecided = sum(INCONCLUSIVE in (row.get(column), row.get(column + WOULD_BE)) for row in points)
        return f"in none of the {looked}" + (f"; {undecided} undecided" if undecided else "")

    def far(row: Mapping[str, Any]) -> float:
        return sum(distance(value_at(usual, key), row[key]) for key in keys)

    found = min(holding, key=far)
    place = ", ".join(f"{key} = {_told(found[key])}" for key in keys)
    scope = "" if found[column] == HOLDS else ", outside the statement's scope"
    return f"{place}{scope}; the nearest of {len(holding)} at which it holds among {looked}"


def _holds(row: Mapping[str, Any], column: str) -> bool:
    return HOLDS in (row.get(column), row.get(column + WOULD_BE))


def _told(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def searched(searches: Iterable[BoxSearch], root: Path) -> dict[str, str]:
    """Run searches, and say what each found, by `claim reading`."""
    found: dict[str, str] = {}
    for search in searches:
        rows = run_sweep(search.sweep(), root, Local()).rows
        for claim, reading in search.readings:
            found[f"{claim} {reading}"] = nearest(search, rows, claim, reading)
    return found


def known(searches: Iterable[BoxSearch]) -> dict[tuple[str, str], str]:
    """What the package knows of the readings of these searches."""
    told = read_json(FOUND) if FOUND.exists() else {}
    pairs = [pair for search in searches for pair in search.readings]
    return {pair: told[" ".join(pair)] for pair in pairs if " ".join(pair) in told}


def main() -> None:
    """Make all searches of all rooms again."""
    searches = [search for room in rooms().values() for search in getattr(room, "SEARCHES", ())]
    write_json(FOUND, searched(searches, Path(sys.argv[1])))


if __name__ == "__main__":
    main()
