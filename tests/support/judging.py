"""Made-up runs for judges, and the table of what each judge must say of them.

A reading is entered with rows that must HOLD, rows that must FAIL, rows exactly at the bound, one bad seed
among good ones, and rows with
NaN. Readings are found by claim and name, runs by the experiment that writes them, so the table does not know
where a judge lives.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from featscope.claims.claim import Finding
from featscope.claims.registry import claims
from featscope.claims.scope import settled
from featscope.core.store import table
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.spec import identity, resolve

Parts = Mapping[str, list[dict[str, Any]]]


def made(
    name: str,
    parts: Parts | None = None,
    summary: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Run:
    """A run of experiment ``name`` in its quick profile with some settings changed (dots as ``__``), made of
    these rows alone."""
    plan = experiment(name)
    spec = resolve(plan, "quick", {key.replace("__", "."): value for key, value in settings.items()})
    run = Run(Path("made-up") / name)
    frames = [table([{"part": part, **row} for row in rows]) for part, rows in (parts or {}).items() if rows]
    frame = (
        pl.concat(frames, how="diagonal_relaxed")
        if frames
        else pl.DataFrame({"part": []}, schema={"part": pl.String})
    )
    # What is read from a summary has been through JSON: keys are text, tuples are lists.
    read = json.loads(json.dumps(dict(summary or {})))
    run.__dict__.update(
        rows=frame,
        identity=identity(plan, spec),
        settings=spec,
        summary=read,
        tensors=dict(tensors or {}),
        manifest={"wall_seconds": 0.0},
    )
    return run


@dataclass(frozen=True)
class Case:
    """Runs by the labels of the reading's needs, the verdict they must get, and, where given, value, bound
    and would-be verdict."""

    runs: Mapping[str, Run]
    verdict: str
    value: float | None = None
    bound: float | None = None
    would_be: str | None = None


@dataclass(frozen=True)
class Table:
    """What one reading must say. A kind that makes no sense for it is a text that says why."""

    holds: Case
    fails: Case
    at_bound: Case | str
    bad_seed: Case | str
    nan: Case | str
    more: tuple[Case, ...] = ()


@dataclass(frozen=True)
class Cannot:
    """A reading that cannot say both, with the reason; what it can say is still held to account."""

    reason: str
    cases: tuple[Case, ...]


Entry = Table | Cannot
TABLES: dict[tuple[str, str], Callable[[], Entry]] = {}


def judged(claim: str, *readings: str) -> Callable[[Callable[..., Entry]], Callable[..., Entry]]:
    """Enter the decorated function for these readings of a claim; it is called without arguments, or with the
    reading's name if it takes one."""

    def enter(make: Callable[..., Entry]) -> Callable[..., Entry]:
        takes = inspect.signature(make).parameters
        for name in readings:
            assert (claim, name) not in TABLES, f"{claim} {name} is entered twice"
            TABLES[claim, name] = (lambda name=name: make(name)) if takes else make
        return make

    return enter


def finding(claim: str, name: str, runs: Mapping[str, Run]) -> Finding:
    """Judge runs by a reading, with the ledger's rule on hypotheses."""
    reading = next(r for r in claims()[claim].readings if r.name == name)
    made_of = {label: run.experiment for label, run in runs.items()}
    needed = {label: need.experiment for label, need in reading.needs.items()}
    assert made_of == needed, f"{claim} {name} needs {needed}"
    return settled(claims()[claim], reading, runs)


def expect(claim: str, name: str, case: Case) -> None:
    """The judge says of the case what the table says, and its finding is JSON without NaN."""
    found = finding(claim, name, case.runs)
    assert found.verdict == case.verdict, found
    if case.value is not None:
        assert found.value == pytest.approx(case.value, rel=1e-9, abs=1e-12), found
    if case.bound is not None:
        assert found.bound == pytest.approx(case.bound, rel=1e-9, abs=1e-12), found
    if case.would_be is not None:
        assert found.evidence["would_be"] == case.would_be, found
    json.dumps([found.value, found.bound, dict(found.evidence)], allow_nan=False)
