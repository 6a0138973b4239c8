"""One point of a sweep: its request, its run, and its rows of the data set.

This is what a worker does, whatever engine started it: points of one batch are run at once, written as the
runs that `featscope run` would make, and read back as rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from featscope.claims import ledger
from featscope.claims.claim import Claim, Reading
from featscope.claims.registry import claims
from featscope.core.errors import FeatscopeError
from featscope.core.files import digest
from featscope.core.store import Folder, Json, Rows, Store
from featscope.experiments import runner
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.spec import Overrides, Request, request

#: columns that every row has, beside settings, order parameters and verdicts
POINT, SEED, SEEDS, DIGEST, ERROR = "point", "seed", "seeds", "digest", "error"


@dataclass(frozen=True)
class Job:
    """Points that one worker runs together: their numbers and their settings; ``jobs`` of one sweep are the
    same on every engine."""

    experiment: str
    profile: str
    root: Path
    points: tuple[tuple[int, Overrides], ...]
    judged: bool = True


def work(job: Job) -> list[Rows]:
    """Run the points of a job and return the rows of each; what fails is a row with its error."""
    torch.set_num_threads(1)
    store = Store(job.root)
    asked: dict[int, Request | str] = {number: _asked(job, changes) for number, changes in job.points}
    writers = _writers([found for found in asked.values() if isinstance(found, Request)], store)
    rows: list[Rows] = []
    for number, changes in job.points:
        wanted = asked[number]
        if isinstance(wanted, Request):
            rows.append(_rows(job, number, changes, wanted, store, writers))
        else:
            rows.append([_failed(number, changes, wanted)])
    return rows


def _asked(job: Job, changes: Overrides) -> Request | str:
    """The request of a point, or why there is none."""
    try:
        return request(experiment(job.experiment), job.profile, changes)
    except FeatscopeError as error:
        return _told(error)


def _told(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return said if isinstance(error, FeatscopeError) else f"{type(error).__name__}: {said}"


Writer = Callable[[Folder], Json]


def _writers(asked: Sequence[Request], store: Store) -> dict[str, Writer | str]:
    """Key → what writes the run, for requests that can be run at once and are not all in the store.

    A batch that was cut short is computed as a whole, so that its numbers are those of the first time to the
    last bit; runs that are there stay as they are.
    """
    made: dict[str, Writer | str] = {}
    batch = asked[0].experiment.batch if asked else None
    if batch is None or all(store.find(wanted.identity) for wanted in asked):
        return made
    try:
        found = batch.run([wanted.spec for wanted in asked])
    except Exception as error:  # a batch that fails as a whole is tried point by point
        if len(asked) == 1:
            return {asked[0].key: _told(error)}
        for wanted in asked:
            made |= _writers([wanted], store)
        return made
    return {wanted.key: writer for wanted, writer in zip(asked, found, strict=True)}


def _rows(
    job: Job,
    number: int,
    changes: Overrides,
    wanted: Request,
    store: Store,
    writers: Mapping[str, Writer | str],
) -> Rows:
    try:
        run = _run(wanted, store, writers)
        orders = order_of(run)
        verdicts = verdicts_of(job.profile, changes, wanted, run) if job.judged else {}
    except Exception as error:
        return [_failed(number, changes, _told(error), wanted)]
    place = {POINT: number, **_settings(changes), SEEDS: len(wanted.spec.seeds)}
    end = {**verdicts, DIGEST: digest(wanted.identity), ERROR: None}
    return [{**place, SEED: None, **order, **end} for order in orders]


def _run(wanted: Request, store: Store, writers: Mapping[str, Writer | str]) -> Run:
    writer = writers.get(wanted.key)
    if isinstance(writer, str):
        raise FeatscopeError(writer)
    if writer is not None:
        write = writer
        wanted = Request(replace(wanted.experiment, run=lambda spec, folder: write(folder)), wanted.spec)
    return runner.run(wanted, store)


def _failed(number: int, changes: Overrides, error: str, wanted: Request | None = None) -> dict[str, Any]:
    seeds = changes.get("seeds")
    count = len(wanted.spec.seeds) if wanted else len(seeds) if isinstance(seeds, list) else None
    found = digest(wanted.identity) if wanted else None
    return {POINT: number, **_settings(changes), SEEDS: count, SEED: None, DIGEST: found, ERROR: error}


def _settings(changes: Overrides) -> dict[str, Any]:
    """Settings as cells of a table: what is no plain value is its text."""
    plain = str | int | float | bool
    return {key: v if isinstance(v, plain) else repr(v) for key, v in changes.items() if key != "seeds"}


def order_of(run: Run) -> Rows:
    """The order parameters of a run: a row for each seed where the experiment says them, else the numbers of
    its summary."""
    plan = experiment(run.experiment)
    if plan.order is not None:
        return plan.order(run)
    return [dict(_numbers(run.summary))]


def _numbers(summary: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float | None]]:
    found: list[tuple[str, float | None]] = []
    for key, value in summary.items():
        if isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{key}/")
        elif value is None or isinstance(value, int | float):
            found.append((prefix + key, None if value is None else float(value)))
    return found


@cache
def _readings(name: str) -> list[tuple[Claim, Reading]]:
    """The readings that need runs of this experiment and of no other."""
    return [
        (claim, reading)
        for claim in claims().values()
        for reading in claim.readings
        if {need.experiment for need in reading.needs.values()} == {name}
    ]


def verdicts_of(profile: str, changes: Overrides, wanted: Request, run: Run) -> dict[str, str]:
    """The verdict of every reading that needs this run and no other, at these settings; OUT_OF_SCOPE says
    what it would be."""
    found: dict[str, str] = {}
    for claim, reading in _readings(wanted.experiment.name):
        if ledger.inapplicable(reading, changes) is not None:
            continue
        needs = ledger.requests(reading, profile, changes)
        if any(need.key != wanted.key for need in needs.values()):
            continue
        line = ledger.judge(claim, reading, dict.fromkeys(needs, run), profile)
        found[f"{claim.id} {reading.name}"] = line.verdict
        if line.would_be:
            found[f"{claim.id} {reading.name}{WOULD_BE}"] = line.would_be
    return found


#: the end of the column that says what an OUT_OF_SCOPE or VACUOUS would be
WOULD_BE = " (would be)"


def is_number(value: Any) -> bool:
    """Whether a cell holds a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
