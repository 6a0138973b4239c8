"""Judges read a second time: what a finding must say, computed in plain Python from a run's rows.

A second reading shares no helper with the judges: it filters rows by hand, takes quantiles from SciPy, and
knows the rules for verdicts only from docs/claims.md. It is held against the judge on the rows of the judge's
table and on the same rows made irregular, where no two seeds, classes or steps agree, so that a wrong row, a
wrong column or a mean for a maximum shows in a number.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import polars as pl
import pytest
from scipy import stats as sps

from featscope.claims.claim import Finding
from featscope.core.stored import labelled
from featscope.experiments.run import Run

NAN = math.nan
Ends = tuple[float, float, float]
Row = Mapping[str, Any]
ORDER = ("FAILS", "OUT_OF_SCOPE", "VACUOUS", "INCONCLUSIVE", "HOLDS")


@dataclass(frozen=True)
class Expected:
    """What a finding must say; texts in the evidence are compared where the second reading gives them."""

    verdict: str
    value: float | None
    bound: float | None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    direction: str = ""
    ends: tuple[float | None, float | None] = (None, None)
    unmet: int | tuple[str, ...] = 0


# --- verdicts


def interval(direction: str, ends: Ends, bound: float, **evidence: Any) -> Expected:
    """An estimate with its interval against a bound."""
    _, low, high = ends
    holds = {"at most": high <= bound, "at least": low >= bound, "above": low > bound, "below": high < bound}
    fails = {"at most": low > bound, "at least": high < bound, "above": high <= bound, "below": low >= bound}
    verdict = "HOLDS" if holds[direction] else "FAILS" if fails[direction] else "INCONCLUSIVE"
    if any(math.isnan(end) for end in ends):
        verdict = "INCONCLUSIVE"
    return Expected(verdict, ends[0], bound, {"interval": [low, high], **evidence}, direction, (low, high))


def exact(direction: str, value: float, bound: float, **evidence: Any) -> Expected:
    """A number without sampling error against a bound."""
    holds = {"at most": value <= bound, "at least": value >= bound, "above": value > bound}[direction]
    return Expected("HOLDS" if holds else "FAILS", value, bound, evidence, direction)


def all_of(parts: Mapping[str, Expected], **evidence: Any) -> Expected:
    """Several parts: the first of the weakest decides."""
    name = min(parts, key=lambda key: ORDER.index(parts[key].verdict))
    shown = {
        key: {"verdict": part.verdict, "value": part.value, "bound": part.bound, **part.evidence}
        for key, part in parts.items()
    }
    missed = tuple(dict.fromkeys(text for part in parts.values() for text in _texts(part.unmet)))
    told = {"decided_by": name, "parts": shown, **_last_opening(parts, name), **evidence}
    return replace(parts[name], evidence=told, unmet=missed or parts[name].unmet)


def _texts(unmet: int | tuple[str, ...]) -> tuple[str, ...]:
    return () if isinstance(unmet, int) else unmet


def _last_opening(parts: Mapping[str, Expected], name: str) -> dict[str, Any]:
    """An empty whole is open where the last of its parts is."""
    opens = [part.evidence["opens_at"] for part in parts.values() if "opens_at" in part.evidence]
    if parts[name].verdict != "VACUOUS" or not opens:
        return {}
    return {"opens_at": {key: max(found[key] for found in opens if key in found) for key in opens[0]}}


def empty(found: Expected, why: str | None = None, **opens_at: float) -> Expected:
    """The same where the statement's own constants make it empty, and from where on they do not."""
    told: dict[str, Any] = {} if why is None else {"vacuous": why}
    told |= {"opens_at": opens_at} if opens_at else {}
    return replace(found, verdict="VACUOUS", evidence={**found.evidence, **told, "would_be": found.verdict})


def outside(found: Expected, unmet: int | tuple[str, ...]) -> Expected:
    """The same with hypotheses that the rows show unmet: their texts, or only how many."""
    return replace(found, unmet=unmet)


# --- numbers


def num(value: Any) -> float:
    """A number of a row; NaN where there is none."""
    return NAN if value is None else float(value)


def top(values: Iterable[Any]) -> float:
    """The largest; NaN where one is none, or there is none."""
    found = [num(value) for value in values]
    return NAN if not found or any(map(math.isnan, found)) else max(found)


def least(values: Iterable[Any]) -> float:
    """The smallest likewise."""
    return -top(-num(value) for value in values)


def ratio(a: Any, b: Any) -> float:
    """a ÷ b as floats do it."""
    a, b = num(a), num(b)
    if b != 0 or math.isnan(a):
        return a / b if b != 0 else NAN
    return NAN if a == 0 else math.copysign(math.inf, a) * math.copysign(1.0, b)


def mean(values: Iterable[Any]) -> float:
    """The mean; NaN where one is none."""
    found = [num(value) for value in values]
    return NAN if not found or any(map(math.isnan, found)) else sum(found) / len(found)


def seeds(values: Iterable[Any]) -> Ends:
    """The mean over seeds with their range."""
    found = [num(value) for value in values]
    return mean(found), least(found), top(found)


def worst(values: Iterable[Any]) -> Ends:
    """The largest over seeds with their range."""
    found = list(values)
    return top(found), least(found), top(found)


def student(values: Iterable[Any]) -> Ends:
    """The mean with Student's interval."""
    found = [num(value) for value in values]
    if not found or not all(map(math.isfinite, found)):
        return NAN, NAN, NAN
    if len(found) == 1:
        return found[0], -math.inf, math.inf
    half = sps.t.isf(0.025, len(found) - 1) * stdev(found) / math.sqrt(len(found))
    return fmean(found), fmean(found) - half, fmean(found) + half


def hits(count: int, points: int) -> Ends:
    """A share of points with Wilson's interval."""
    ends = sps.binomtest(count, points).proportion_ci(0.95, "wilson")
    return count / points, float(ends.low), float(ends.high)


def shares(values: Sequence[Any], points: int | Sequence[int]) -> Ends:
    """Shares of points in each seed: pooled, with an interval that reaches over all seeds."""
    sizes = [points] * len(values) if isinstance(points, int) else list(points)
    found = [num(value) for value in values]
    if not found or not all(map(math.isfinite, found)):
        return NAN, NAN, NAN
    counts = [round(share * size) for share, size in zip(found, sizes, strict=True)]
    value, low, high = hits(sum(counts), sum(sizes))
    each = [count / size for count, size in zip(counts, sizes, strict=True)]
    return value, min(low, *each), max(high, *each)


def errors(accuracies: Sequence[Any], points: int | Sequence[int]) -> Ends:
    """1 − accuracy likewise."""
    return shares([1 - num(value) for value in accuracies], points)


def power(x: Sequence[Any], y: Sequence[Any]) -> Ends:
    """The exponent of y in x with its interval, by the normal equations; NaN where a logarithm is missing or
    there are fewer than three sizes."""
    pairs = [(num(a), num(b)) for a, b in zip(x, y, strict=True)]
    if not all(0 < n < math.inf for pair in pairs for n in pair) or len({a for a, _ in pairs}) < 3:
        return NAN, NAN, NAN
    a, b = [math.log(p) for p, _ in pairs], [math.log(q) for _, q in pairs]
    ma, mb, n = fmean(a), fmean(b), len(pairs)
    spread = sum((p - ma) ** 2 for p in a)
    slope = sum((p - ma) * (q - mb) for p, q in zip(a, b, strict=True)) / spread
    rest = sum((q - mb - slope * (p - ma)) ** 2 for p, q in zip(a, b, strict=True))
    half = sps.t.isf(0.025, n - 2) * math.sqrt(max(rest, 0.0) / (n - 2) / spread)
    return slope, slope - half, slope + half


def steepest(x: Sequence[Any], y: Sequence[Any]) -> float:
    """The largest slope of log y in log x between neighbouring sizes, the largest y at each."""
    pairs = [(num(a), num(b)) for a, b in zip(x, y, strict=True)]
    if len({a for a, _ in pairs}) < 2 or not all(0 < n < math.inf for pair in pairs for n in pair):
        return NAN
    most: dict[float, float] = {}
    for a, b in pairs:
        most[a] = max(b, most.get(a, 0.0))
    line = sorted(most.items())
    return max(math.log(b / q) / math.log(a / p) for (p, q), (a, b) in itertools.pairwise(line))


# --- rows


def rows(run: Run, part: str, **labels: Any) -> list[dict[str, Any]]:
    """The rows of a part with these labels, as dictionaries."""
    listed = run.__dict__.setdefault("listed", {})
    if part not in listed:
        listed[part] = run.rows.filter(pl.col("part") == part).to_dicts()
    return [row for row in listed[part] if all(row.get(key) == value for key, value in labels.items())]


def by(found: Iterable[Row], key: str) -> dict[Any, list[Row]]:
    """Rows by a column's values, in the order in which they come."""
    groups: dict[Any, list[Row]] = {}
    for row in found:
        groups.setdefault(row[key], []).append(row)
    return groups


def ordered(found: Iterable[Row], *keys: str) -> list[Row]:
    """Rows in the order of columns."""
    return sorted(found, key=lambda row: tuple(row[key] for key in keys))


def last(found: Iterable[Row], column: str) -> dict[Any, Any]:
    """Seed → the last value of a column that is recorded, seeds by their first step."""
    ends: dict[Any, Any] = {}
    for row in ordered(found, "step"):
        ends.setdefault(row["seed"], None)
        if row.get(column) is not None:
            ends[row["seed"]] = row[column]
    return ends


def lost(run: Run, part: str, **labels: Any) -> list[str]:
    """The seeds of a part that diverged."""
    return list(run.diverged.get(labelled(part, labels), []))


# --- rows that agree in nothing

#: columns that say where a row belongs, not what was measured there
PLACES = frozenset(
    {
        "d",
        "n",
        "N",
        "D",
        "at",
        "gamma",
        "sigma_n",
        "eps",
        "radius",
        "delta",
        "mu",
        "phase",
        "bandwidth",
        "bound",
    }
    | {"polynomial", "y0", "x0", "S", "logarithm", "time", "printed"}
)


def irregular(run: Run, places: Iterable[str] = ()) -> Run:
    """The run with every measured number made a little smaller, each by a factor of its own."""
    kept = PLACES | set(places)
    columns = []
    for name, kind in run.rows.schema.items():
        draw = random.Random(name)
        if name in kept or not str(kind).removeprefix("List(").startswith("Float"):
            continue
        shrunk = [_shrunk(value, draw) for value in run.rows[name].to_list()]
        columns.append(pl.Series(name, shrunk, dtype=kind))
    conditions = pl.col("part") == "conditions"
    whole = run.rows.with_columns(columns)
    frame = pl.concat([run.rows.filter(conditions), whole.filter(~conditions)]) if columns else run.rows
    changed = Run(Path(run.path))
    changed.__dict__.update({**run.__dict__, "rows": frame, "listed": {}})
    return changed


def _shrunk(value: Any, draw: random.Random) -> Any:
    if isinstance(value, list):
        return [_shrunk(inner, draw) for inner in value]
    factor = draw.uniform(0.7, 1.0)
    return None if value is None else value * factor


# --- the table of second readings

Second = Callable[[Mapping[str, Run], re.Match[str]], Expected]


@dataclass(frozen=True)
class Entry:
    """A second reading, and which columns its rows keep when they are made irregular."""

    pattern: re.Pattern[str]
    second: Second
    places: tuple[str, ...]


SECOND: dict[str, list[Entry]] = {}


def second(claims: str, pattern: str = ".*", places: Sequence[str] = ()) -> Callable[[Second], Second]:
    """Enter the decorated function for the readings of these claims whose names match."""

    def enter(read: Second) -> Second:
        for claim in claims.split():
            SECOND.setdefault(claim, []).append(Entry(re.compile(pattern), read, tuple(places)))
        return read

    return enter


def entry_of(claim: str, name: str) -> Entry | None:
    """The second reading of a reading, if it has one."""
    found = [entry for entry in SECOND.get(claim, []) if entry.pattern.fullmatch(name)]
    assert len(found) < 2, f"{claim} {name} has two second readings"
    return found[0] if found else None


def same(found: Any, expected: Any, where: str = "") -> None:
    """Equal, number by number; what is no finite number is null in a finding."""
    if isinstance(expected, Mapping):
        assert isinstance(found, Mapping), where
        expected = {str(key): value for key, value in expected.items()}
        told = {str(key): v for key, v in found.items() if not isinstance(v, str) or str(key) in expected}
        assert set(told) == set(expected), f"{where}: {sorted(told)} against {sorted(expected)}"
        for key, value in expected.items():
            same(told[key], value, f"{where}/{key}")
    elif isinstance(expected, list | tuple):
        assert isinstance(found, list | tuple), f"{where}: {found}"
        assert len(found) == len(expected), f"{where}: {found} for {expected}"
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            same(a, b, f"{where}[{i}]")
    elif isinstance(expected, float) and not math.isfinite(expected):
        assert found is None, f"{where}: {found} for {expected}"
    elif isinstance(expected, bool | str) or expected is None:
        assert found == expected, f"{where}: {found!r} for {expected!r}"
    else:
        # an exact line has no residual but rounding, whose root is in the ends of its interval
        rounding = 1e-6 if "interval" in where else 1e-12
        assert found == pytest.approx(expected, rel=1e-9, abs=rounding), f"{where}: {found} for {expected}"


def agree(found: Finding, expected: Expected, where: str) -> None:
    """The finding says what the second reading says."""
    same(found.value, expected.value, f"{where} value")
    same(found.bound, expected.bound, f"{where} bound")
    assert found.verdict == expected.verdict, f"{where}: {found.verdict} for {expected.verdict}"
    assert found.direction == expected.direction, f"{where}: {found.direction}"
    same([found.low, found.high], list(expected.ends), f"{where} interval")
    same(dict(found.evidence), dict(expected.evidence), where)
    if isinstance(expected.unmet, int):
        assert len(found.unmet) == expected.unmet, f"{where}: {found.unmet}"
    else:
        assert found.unmet == expected.unmet, f"{where}: {found.unmet} for {expected.unmet}"


def edited(run: Run, part: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Run:
    """The run with the rows of a part changed, or left out where the change is None; a change of a copy is
    enough."""
    kept = []
    for row in run.rows.to_dicts():
        found = change(dict(row)) if row["part"] == part else row
        kept += [] if found is None else [{**row, **found}]
    changed = Run(Path(run.path))
    frame = pl.DataFrame(kept, schema=run.rows.schema)
    changed.__dict__.update({**run.__dict__, "rows": frame, "listed": {}})
    return changed


def at_settings(run: Run, **changes: Any) -> Run:
    """The run with settings changed, rows as they are."""
    changed = Run(Path(run.path))
    settings = run.settings.replace(**changes)
    changed.__dict__.update({**run.__dict__, "settings": settings, "listed": {}})
    return changed
