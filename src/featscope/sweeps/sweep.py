"""An experiment over many settings: designed, run by an engine, refined, gathered in one table."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from featscope.core.errors import BadInput, FeatscopeError, known_as, require, require_number, require_whole
from featscope.core.files import digest, write_json
from featscope.core.progress import Progress, Silent
from featscope.core.store import Rows
from featscope.experiments.keys import full_key
from featscope.experiments.registry import experiment
from featscope.experiments.spec import Experiment, first_seeds, request, resolve
from featscope.sweeps.axes import SweepAxis
from featscope.sweeps.dataset import DataSet, write_table
from featscope.sweeps.designs import SweepPoint, design
from featscope.sweeps.engines import Engine, Local
from featscope.sweeps.points import ERROR, Job, is_number
from featscope.sweeps.refine import Boundary, Place, refine

#: points that are run along one leading axis; fixed, so that every engine gives the same numbers
TOGETHER = 50
#: the width that a refined boundary is known to: ±2 % of the range
EDGE_WIDTH = 0.04
#: an INCONCLUSIVE point gets twice as many seeds so often
MORE_SEEDS = 2
INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Sweep:
    """What is swept: an experiment in a profile with fixed settings, axes, a design, and what is refined."""

    experiment: str
    axes: tuple[SweepAxis, ...]
    profile: str = "cpu"
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: int | None = None
    design: str = "grid"
    points: int = 0
    design_seed: int = 0
    refined: str | None = None
    width: float = EDGE_WIDTH
    level: float | None = None

    def __post_init__(self) -> None:
        # What is wrong with all points is said before the work; what is wrong with one is its row.
        resolve(self.plan, self.profile, self._fixed())
        keys = {full_key(self.plan.spec, key) for key in self.settings}
        clash = sorted(keys & {axis.key for axis in self.axes})
        require(not clash, "a setting is varied and fixed", ", ".join(clash), "give it once")
        require_whole("points", self.points, 0)
        require_whole("design_seed", self.design_seed, 0)
        share = 0 < require_number("width", self.width) < 1
        require(share, "--width is a share of the range", f"{self.width}", "use 0.04")
        if self.level is not None:
            require_number("level", self.level)
        if self.refined is not None:
            grid = self.design == "grid" and any(axis.is_range for axis in self.axes)
            require(grid, "--refine cuts the cells of a grid over ranges", self.design, "use --design grid")
            named = bool(self.refined.strip())
            require(named, "--refine names a column or a verdict", repr(self.refined), "name one")

    @property
    def plan(self) -> Experiment[Any]:
        """The experiment."""
        return experiment(self.experiment)

    def _fixed(self) -> dict[str, Any]:
        seeds = {} if self.seeds is None else {"seeds": first_seeds(self.seeds)}
        return {**self.settings, **seeds}

    def changes(self, point: SweepPoint, doubled: int = 0) -> dict[str, Any]:
        """The overrides of a point; with twice as many seeds as often as said."""
        fixed = self._fixed()
        if doubled:
            usual = fixed.get("seeds") or list(resolve(self.plan, self.profile).seeds)
            fixed["seeds"] = list(range(len(usual) << doubled))
        return {**fixed, **point}

    def identity(self) -> dict[str, Any]:
        """What tells one sweep from another."""
        return {
            "experiment": self.plan.name,
            "revision": self.plan.revision,
            "profile": self.profile,
            "settings": dict(self.settings),
            "seeds": self.seeds,
            "axes": [axis.as_json() for axis in self.axes],
            "design": {"name": self.design, "points": self.points, "seed": self.design_seed},
            "refine": None if self.refined is None else [self.refined, self.width, self.level],
        }

    def place(self, root: Path) -> Path:
        """The sweep's folder below the store."""
        return root / "sweeps" / f"{self.plan.name}-{digest(self.identity())}"


@dataclass(frozen=True)
class FinishedSweep:
    """A finished sweep: its table, where it is, and the cells of the boundary where one was asked for."""

    path: Path
    rows: pl.DataFrame
    boundary: pl.DataFrame | None = None

    @property
    def failed(self) -> pl.DataFrame:
        """The points that have an error instead of numbers."""
        return self.rows.filter(pl.col(ERROR).is_not_null())

    def __repr__(self) -> str:
        points, failed = self.rows["point"].n_unique(), self.failed.height
        edge = "" if self.boundary is None else f", {self.boundary.height} cells of the boundary"
        return f"sweep of {points} points, {failed} failed{edge}: {self.path}"


def jobs_of(sweep: Sweep, points: Sequence[tuple[int, Mapping[str, Any]]], root: Path) -> list[Job]:
    """The points as jobs: those of one shape in batches, the others one by one; the same for every engine."""
    plan = sweep.plan
    groups: dict[Any, list[tuple[int, Mapping[str, Any]]]] = {}
    for number, changes in points:
        groups.setdefault(_shape(plan, sweep.profile, number, changes), []).append((number, changes))
    return [
        Job(plan.name, sweep.profile, root, tuple(group[start : start + TOGETHER]))
        for group in groups.values()
        for start in range(0, len(group), TOGETHER)
    ]


def _shape(plan: Experiment[Any], profile: str, number: int, changes: Mapping[str, Any]) -> Any:
    if plan.batch is None:
        return number
    try:
        return plan.batch.shape(request(plan, profile, changes).spec)
    except FeatscopeError:
        return number


@dataclass
class _Round:
    """Runs points and counts them."""

    sweep: Sweep
    root: Path
    engine: Engine
    data: DataSet
    progress: Progress
    started: float = field(default_factory=time.monotonic)
    wanted: int = 0
    done: int = 0

    def run(self, points: Sequence[tuple[int, Mapping[str, Any]]], shard: tuple[int, int] = (0, 1)) -> None:
        """Run points, or this shard's jobs of them."""
        jobs = jobs_of(self.sweep, points, self.root)[shard[0] :: shard[1]]
        self.wanted += sum(len(job.points) for job in jobs)
        self._report()
        for job, rows in self.engine.map(jobs):
            self.data.add(rows)
            self.done += len(job.points)
            self._report()

    def _report(self) -> None:
        pace = self.done / max(time.monotonic() - self.started, 1e-9)
        failed = sum(rows[0][ERROR] is not None for rows in self.data.by_point.values())
        facts = {"points/s": pace, **({"failed": float(failed)} if failed else {})}
        self.progress.report("points", self.done, self.wanted, facts)


def run_sweep(
    sweep: Sweep,
    root: Path,
    engine: Engine | None = None,
    progress: Progress | None = None,
    shard: tuple[int, int] = (0, 1),
) -> FinishedSweep:
    """Run a sweep into the store ``root``: what is finished there is not repeated. A ``shard`` (i, of) runs
    every so-manieth job and writes a table of its own."""
    number, of = shard
    require(0 <= number < of, "a shard is one of 1/n … n/n", f"{number + 1}/{of}", "number them from 1")
    require(
        of == 1 or sweep.refined is None,
        "a refinement needs all points at once",
        f"shard {number + 1}/{of}",
        "sweep the grid in shards, or refine in one piece",
    )
    place = sweep.place(root)
    name = "points.parquet" if of == 1 else f"points-{number + 1}-of-{of}.parquet"
    data = DataSet(place, _columns(sweep), name)
    place.mkdir(parents=True, exist_ok=True)
    write_json(place / "sweep.json", sweep.identity())
    data.begin()
    workers = engine or Local()
    work = _Round(sweep, root.absolute(), workers, data, progress or Silent())
    try:
        if sweep.refined is None:
            points = design(sweep.design, sweep.axes, sweep.points, sweep.design_seed)
            work.run(list(enumerate(map(sweep.changes, points))), shard)
            return FinishedSweep(data.path, data.finish())
        boundary = _Refinement(sweep, work, level=sweep.level).run()
    finally:
        workers.close()
    write_table(place / "boundary.parquet", boundary)
    return FinishedSweep(data.path, data.finish(), boundary)


def _columns(sweep: Sweep) -> list[str]:
    return [*sweep.settings, *(axis.key for axis in sweep.axes)]


@dataclass
class _Refinement:
    """Splits cells of the ranges for every choice of the lists."""

    sweep: Sweep
    work: _Round
    numbers: dict[str, int] = field(default_factory=dict)
    level: float | None = None

    def run(self) -> pl.DataFrame:
        """The cells of the boundary: for each axis where it begins and where it ends."""
        ranges = [axis for axis in self.sweep.axes if axis.is_range]
        lists = [axis for axis in self.sweep.axes if not axis.is_range]
        counts = [max(axis.count, 2) for axis in ranges]
        rows: Rows = []
        for chosen in product(*(axis.values for axis in lists)):
            fixed = dict(zip([axis.key for axis in lists], chosen, strict=True))

            def look(places: Sequence[Place], fixed: SweepPoint = fixed) -> list[Any]:
                return self._look([{**fixed, **self._point(ranges, place)} for place in places])

            found = refine(counts, look, self.sweep.width)
            rows += [{**fixed, **ends} for ends in self._cells(ranges, found)]
        return pl.DataFrame(rows)

    @staticmethod
    def _point(ranges: Sequence[SweepAxis], place: Place) -> SweepPoint:
        return {axis.key: axis.at(float(share)) for axis, share in zip(ranges, place, strict=True)}

    @staticmethod
    def _cells(ranges: Sequence[SweepAxis], found: Boundary) -> Rows:
        rows: Rows = []
        for cell in found.cells:
            row: dict[str, Any] = {}
            for axis, start, side in zip(ranges, cell.corner, cell.sides, strict=True):
                row[f"{axis.key} from"] = axis.at(float(start))
                row[f"{axis.key} to"] = axis.at(float(start + side))
            rows.append(row)
        return rows

    def _look(self, points: Sequence[SweepPoint]) -> list[Any]:
        """Labels of points, each run once; an INCONCLUSIVE one gets more seeds."""
        keys = [repr(point) for point in points]
        new = {key: point for key, point in zip(keys, points, strict=True) if key not in self.numbers}
        for key in new:
            self.numbers[key] = len(self.numbers)
        self.work.run([(self.numbers[key], self.sweep.changes(point)) for key, point in new.items()])
        for doubled in range(1, MORE_SEEDS + 1):
            open_ = {k: p for k, p in new.items() if self._value(k) == INCONCLUSIVE}
            self.work.run([(self.numbers[k], self.sweep.changes(p, doubled)) for k, p in open_.items()])
        return self._labels([self._value(key) for key in keys])

    def _labels(self, values: Sequence[str | float | None]) -> list[str | bool | None]:
        """Words as they are, numbers by the side of the level on which they are: the one that was given, else
        the middle of what the first grid shows."""
        numbers = [value for value in values if isinstance(value, float)]
        if self.level is None and numbers:
            self.level = (min(numbers) + max(numbers)) / 2
        level = self.level if self.level is not None else math.nan
        return [value > level if isinstance(value, float) else value for value in values]

    def _value(self, key: str) -> str | float | None:
        """What a point says in the column that is refined: a word, or the mean of its numbers."""
        rows = self.work.data.by_point[self.numbers[key]]
        if rows[0][ERROR] is not None:
            return None
        column = self._column(rows[0])
        values = [row[column] for row in rows if row.get(column) is not None]
        if not values:
            return None
        if all(is_number(value) for value in values):
            return math.fsum(values) / len(values)
        return str(values[0])

    def _column(self, row: Mapping[str, Any]) -> str:
        wanted = str(self.sweep.refined)
        return known_as("column to refine", wanted, row)


def share_of(text: str) -> tuple[int, int]:
    """A shard as it is typed, 1/4 … 4/4, as number from 0 and count."""
    number, sep, of = text.partition("/")
    digits = (number + of).isascii() and number.isdigit() and of.isdigit() and len(text) < 40
    if not (sep and digits and 1 <= int(number) <= int(of)):
        raise BadInput("a shard is i/n with 1 ≤ i ≤ n", text, "write --shard 1/4")
    return int(number) - 1, int(of)
