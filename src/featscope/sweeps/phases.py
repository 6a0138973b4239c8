"""Phase diagrams: an order parameter over a box, refined where it changes sides, and how far its measured
edge is from the one that a theory draws.

An experiment gives a function from places to order parameters, one number for each seed; what is kept is a
row for each place and seed, the cells that the box was cut into, and the edge, column by column. The interval
is over seeds: they are drawn again with replacement, and every draw has its own edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from featscope.claims.claim import Finding, Judge, Runs
from featscope.claims.judging import at_most
from featscope.core.columns import Columns, column
from featscope.core.stats import NOTHING, Interval
from featscope.core.store import Folder, Json, Rows
from featscope.sweeps.axes import SweepAxis
from featscope.sweeps.refine import Boundary, Place, refine

PHASE_POINTS, PHASE_CELLS, PHASE_EDGES, PHASE_DISTANCES = "points", "cells", "edge", "distances"
#: draws of the seeds behind an interval
DRAWS = 200
#: the share of the draws between its ends
CONFIDENCE = 0.95


class PhasePoints(Columns):
    """One row for each panel, place and seed."""

    panel = column("the panel of the diagram")
    x = column("the place along the panel's first axis")
    y = column("the place along its second axis")
    seed = column("the seed")
    value = column("the order parameter; null where there is none")


class PhaseCells(Columns):
    """One row for each panel and cell of the box."""

    panel = column("the panel of the diagram")
    x_from = column("where the cell begins along the first axis")
    x_to = column("where it ends")
    y_from = column("where it begins along the second axis")
    y_to = column("where it ends")
    value = column("mean order parameter of its corners; null where none has one")


class PhaseEdges(Columns):
    """One row for each panel and each column of places that the edge crosses."""

    panel = column("the panel of the diagram")
    x = column("the place along the first axis")
    measured = column("where the mean over seeds last crosses the level, along the second axis")
    low = column("lower end of its interval over seeds")
    high = column("upper end of its interval over seeds")
    predicted = column("where the theory's line is there")


class PhaseDistances(Columns):
    """One row for each panel: mean over the edge of log(measured ÷ predicted)."""

    panel = column("the panel of the diagram")
    distance = column("mean of log(measured ÷ predicted) over the columns")
    low = column("lower end of its interval over seeds")
    high = column("upper end of its interval over seeds")
    columns = column("columns that the edge crosses")
    points = column("places that were looked at")
    grid = column("places of the full grid of the same width")


PHASE_COLUMNS: Mapping[str, type[Columns]] = {
    PHASE_POINTS: PhasePoints,
    PHASE_CELLS: PhaseCells,
    PHASE_EDGES: PhaseEdges,
    PHASE_DISTANCES: PhaseDistances,
}
#: an order parameter, alone or with what is kept beside it
SeedValue = float | Mapping[str, float | None] | None
SeedValues = Sequence[SeedValue]
#: order parameters of places (x, y), one for each seed
Measure = Callable[[Sequence[tuple[Any, Any]]], Sequence[SeedValues]]


@dataclass(frozen=True)
class Diagram:
    """One panel: its axes with the points of the first grid, the width that the edge is known to, the level
    that parts the phases, and the line of the theory, y as a function of x (none where it leaves the box)."""

    name: str
    x: SweepAxis
    y: SweepAxis
    width: float
    level: float
    line: Callable[[float], float | None]
    #: cut the box along y only: every column of the first grid by itself
    columns_only: bool = False


def run_diagram(diagram: Diagram, seeds: Sequence[int], measure: Measure, folder: Folder) -> Json:
    """Look at a panel, refine it, save its rows, and return what the edge says."""
    part = folder.once(PHASE_POINTS, partial(_look, diagram, seeds, measure), panel=diagram.name)
    seen = _table(part.rows)
    cells = part.tensors["cells"].tolist()
    folder.add(PHASE_CELLS, [_cell(diagram, seen, *cell) for cell in cells], panel=diagram.name)
    return _save_edge(diagram, len(seeds), seen, folder)


Seen = dict[tuple[Any, Any], list[float]]


def _table(rows: Rows) -> Seen:
    """Place → its values, seed by seed; NaN where there is none."""
    seen: Seen = {}
    for row in rows:
        value = row[PhasePoints.value]
        seen.setdefault((row[PhasePoints.x], row[PhasePoints.y]), []).append(
            math.nan if value is None else value
        )
    return seen


def _look(diagram: Diagram, seeds: Sequence[int], measure: Measure) -> tuple[Rows, dict[str, Any]]:
    """Places with their values, and the leaves of the box in shares of the axes."""
    rows: Rows = []
    known: dict[tuple[Any, Any], float | None] = {}

    def look(places: Sequence[Place]) -> list[bool | None]:
        at = [(diagram.x.at(float(p[0])), diagram.y.at(float(p[1]))) for p in places]
        new = list(dict.fromkeys(place for place in at if place not in known))
        for (x, y), values in zip(new, measure(new) if new else [], strict=True):
            told: list[dict[str, Any]] = [
                dict(v) if isinstance(v, Mapping) else {str(PhasePoints.value): v} for v in values
            ]
            rows.extend(
                {PhasePoints.x: x, PhasePoints.y: y, PhasePoints.seed: seed, **facts}
                for seed, facts in zip(seeds, told, strict=True)
            )
            there = [v for facts in told if (v := facts[PhasePoints.value]) is not None]
            known[x, y] = sum(there) / len(there) if there else None
        return [_side(known[place], diagram.level) for place in at]

    found = _refined(diagram, look)
    leaves = [[*map(float, cell.corner), *map(float, cell.sides)] for cell in found.leaves]
    return rows, {"cells": torch.tensor(leaves, dtype=torch.float64)}


def _side(value: float | None, level: float) -> bool | None:
    return None if value is None else value > level


def _refined(diagram: Diagram, look: Callable[[Sequence[Place]], list[bool | None]]) -> Boundary:
    counts = (max(diagram.x.count, 1), max(diagram.y.count, 2))
    return refine(counts, look, diagram.width, fixed=(diagram.columns_only, False))


def _cell(diagram: Diagram, seen: Seen, x: float, y: float, width: float, height: float) -> dict[str, Any]:
    xs = [diagram.x.at(x), diagram.x.at(x + width)]
    ys = [diagram.y.at(y), diagram.y.at(y + height)]
    corners = [np.nanmean(seen[a, b]) for a in set(xs) for b in set(ys) if np.isfinite(seen[a, b]).any()]
    return {
        PhaseCells.x_from: xs[0],
        PhaseCells.x_to: xs[1],
        PhaseCells.y_from: ys[0],
        PhaseCells.y_to: ys[1],
        PhaseCells.value: float(np.mean(corners)) if corners else None,
    }


def crossing(places: Sequence[float], values: Sequence[float], level: float, log: bool) -> float:
    """The largest place at which values over ascending places cross the level, by interpolation; NaN if they
    do not."""
    at = [(math.log(p) if log else p, v) for p, v in zip(places, values, strict=True) if math.isfinite(v)]
    for (a, before), (b, after) in reversed(list(pairwise(at))):
        if (before > level) != (after > level):
            found = a + (b - a) * (level - before) / (after - before)
            return math.exp(found) if log else found
    return math.nan


def _edge(diagram: Diagram, seen: Seen, chosen: Sequence[int]) -> dict[float, float]:
    """x → where the mean over the chosen seeds crosses the level."""
    found: dict[float, float] = {}
    for x in sorted({x for x, _ in seen}):
        ys = sorted(y for other, y in seen if other == x)
        with np.errstate(all="ignore"):
            means = [_mean([seen[x, y][index] for index in chosen]) for y in ys]
        at = crossing(ys, means, diagram.level, diagram.y.log)
        if math.isfinite(at):
            found[x] = at
    return found


def _mean(values: Sequence[float]) -> float:
    there = [value for value in values if math.isfinite(value)]
    return sum(there) / len(there) if there else math.nan


def _distance(diagram: Diagram, edge: Mapping[float, float]) -> float:
    logs = [
        math.log(y / line)
        for x, y in edge.items()
        if (line := diagram.line(x)) is not None and line > 0 and y > 0
    ]
    return _mean(logs)


def _save_edge(diagram: Diagram, seeds: int, seen: Seen, folder: Folder) -> Json:
    middle = _edge(diagram, seen, range(seeds))
    rng = np.random.default_rng(0)
    draws = [_edge(diagram, seen, rng.integers(0, seeds, seeds).tolist()) for _ in range(DRAWS)]
    rows: Rows = []
    for x, measured in middle.items():
        low, high = _ends([draw[x] for draw in draws if x in draw])
        rows.append(
            {
                PhaseEdges.x: x,
                PhaseEdges.measured: measured,
                PhaseEdges.low: low,
                PhaseEdges.high: high,
                PhaseEdges.predicted: diagram.line(x),
            }
        )
    folder.add(PHASE_EDGES, rows, panel=diagram.name)
    low, high = _ends([_distance(diagram, draw) for draw in draws])
    told: Json = {
        PhaseDistances.distance: _or_none(_distance(diagram, middle)),
        PhaseDistances.low: _or_none(low),
        PhaseDistances.high: _or_none(high),
        PhaseDistances.columns: len(middle),
        PhaseDistances.points: len(seen),
        PhaseDistances.grid: _full_grid(diagram),
    }
    folder.add(PHASE_DISTANCES, [told], panel=diagram.name)
    return told


def _full_grid(diagram: Diagram) -> int:
    """The points of the grid whose cells are all as small as the smallest."""
    sizes = []
    for axis, cut in ((diagram.x, not diagram.columns_only), (diagram.y, True)):
        pieces = max(axis.count - 1, 1)
        while cut and 1 / pieces > diagram.width:
            pieces *= 2
        sizes.append(pieces + 1 if axis.count > 1 else 1)
    return sizes[0] * sizes[1]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    there = [value for value in values if math.isfinite(value)]
    if not there:
        return math.nan, math.nan
    tail = (1 - CONFIDENCE) / 2
    return float(np.quantile(there, tail)), float(np.quantile(there, 1 - tail))


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def edge_within(panel: str, factor: float) -> Judge:
    """The measured edge and the theory's line differ by at most a factor, in the mean over the edge (of
    logarithms), with its interval over seeds."""

    def judge(runs: Runs) -> Finding:
        """The factor between measured and predicted edge, at most the allowed one."""
        (row,) = runs["run"].part(PHASE_DISTANCES, panel=panel).to_dicts() or [{}]
        numbers = [
            row.get(name) for name in (PhaseDistances.distance, PhaseDistances.low, PhaseDistances.high)
        ]
        estimate = NOTHING if None in numbers else factor_of(Interval(*map(float, numbers)))  # type: ignore[arg-type]
        counts = {name: row.get(name) for name in (PhaseDistances.columns, PhaseDistances.points)}
        return at_most(estimate, factor, log_distance=row.get(PhaseDistances.distance), **counts)

    return judge


def factor_of(distance: Interval) -> Interval:
    """A signed distance of logarithms as a factor ≥ 1; an interval over 0 begins at 1."""
    if any(math.isnan(number) for number in distance):
        return NOTHING
    ends = sorted(map(abs, (distance.low, distance.high)))
    low = 0.0 if distance.low <= 0 <= distance.high else ends[0]
    return Interval(*(math.exp(number) for number in (abs(distance.value), low, ends[1])))
