"""More seeds until verdicts are settled, at looks that were fixed beforehand (core/looks.py), or until the
time is over.

A reading is settled when its interval at the look's confidence lies on one side of its bound. Readings that
take no interval of a mean over seeds (a range over seeds, an exact number) are no test of this kind: they are
told, and nobody waits for them. Nor for those that are out of scope or vacuous, which seeds do not change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from featscope.claims import ledger
from featscope.claims.claim import Claim, Reading, Verdict
from featscope.claims.ledger import Line
from featscope.claims.registry import claims
from featscope.core.errors import require
from featscope.core.looks import LOOKS, Looks
from featscope.core.progress import Progress, Silent
from featscope.core.stats import at_confidence
from featscope.core.store import Store
from featscope.experiments import runner
from featscope.experiments.keys import full_key
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.spec import Request, request

Why = Literal["settled", "time", "last look", "no test"]
#: more hours are a slip of the finger
MOST_HOURS = 24 * 365


class OutOfTime(Exception):
    """The hours are over; what was begun can be resumed."""


@dataclass(frozen=True)
class Deadline:
    """Progress that ends the work when its time is over."""

    inner: Progress
    end: float
    now: Callable[[], float] = time.monotonic

    def report(self, label: str, step: int, steps: int, facts: Mapping[str, float]) -> None:
        """Pass on, or end."""
        self.inner.report(label, step, steps, facts)
        if self.now() >= self.end:
            raise OutOfTime


@dataclass(frozen=True)
class Judged:
    """One reading at one look; ``test``: whether its interval is one over seeds at the look's confidence."""

    line: Line
    test: bool

    @property
    def is_open(self) -> bool:
        """Whether more seeds may settle it."""
        return self.test and self.line.verdict == Verdict.INCONCLUSIVE

    def as_json(self) -> dict[str, Any]:
        """What a look says of it."""
        line = self.line
        numbers = {"value": line.value, "low": line.low, "high": line.high, "bound": line.bound}
        named = {"id": line.id, "reading": line.reading, "verdict": line.verdict, "would_be": line.would_be}
        return {**named, **numbers, "direction": line.direction, "test": self.test}


@dataclass(frozen=True)
class Looked:
    """What a number of seeds says."""

    seeds: int
    confidence: float
    judged: tuple[Judged, ...]
    run: Run


@dataclass(frozen=True)
class LooksTaken:
    """All looks that were taken, and why no further one was."""

    plan: Looks
    looks: tuple[Looked, ...] = ()
    why: Why = "last look"

    @property
    def verdicts(self) -> list[tuple[Judged, int]]:
        """Each reading as the first look that settled it says, or the last look, and that look's seeds: all
        intervals hold together, so what one of them has excluded stays excluded."""
        found: dict[tuple[str, str], tuple[Judged, int]] = {}
        for look in self.looks:
            for judged in look.judged:
                key = (judged.line.id, judged.line.reading)
                if key not in found or found[key][0].is_open or not judged.test:
                    found[key] = judged, look.seeds
        return list(found.values())

    @property
    def is_open(self) -> bool:
        """Whether a reading is left that more seeds may settle."""
        return any(judged.is_open for judged, _ in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """For `--json` and for the run's folder."""
        looks = [
            {
                "seeds": look.seeds,
                "confidence": look.confidence,
                "run": look.run.path.name,
                "readings": [judged.as_json() for judged in look.judged],
            }
            for look in self.looks
        ]
        rule = {"sizes": list(self.plan.sizes), "alpha": self.plan.alpha, "confidence": self.plan.confidence}
        verdicts = [{**judged.as_json(), "seeds": seeds} for judged, seeds in self.verdicts]
        return {"rule": rule, "looks": looks, "stopped": self.why, "verdicts": verdicts}


@dataclass(frozen=True)
class Wanted:
    """An experiment in a profile with changes, for any number of seeds."""

    name: str
    profile: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model = experiment(self.name).spec
        fixed = {full_key(model, key) for key in self.changes}
        remedy = "leave --seeds and --set seeds out"
        require("seeds" not in fixed, "with --until the looks decide the seeds", str(self.changes), remedy)

    def of(self, seeds: tuple[int, ...]) -> Request:
        """The run of these seeds."""
        return request(experiment(self.name), self.profile, {**self.changes, "seeds": list(seeds)})

    def readings(self, wanted: Request) -> Iterator[tuple[Claim, Reading]]:
        """The readings that read this run and no other."""
        for claim in claims().values():
            for reading in claim.readings:
                if {need.experiment for need in reading.needs.values()} != {self.name}:
                    continue
                if self._reads(reading, wanted):
                    yield claim, reading

    def _reads(self, reading: Reading, wanted: Request) -> bool:
        """A reading may fix the changed settings itself, or leave them to the user."""
        seeds = {"seeds": list(wanted.spec.seeds)}
        for changes in (seeds, {**self.changes, **seeds}):
            if ledger.inapplicable(reading, changes) is None:
                needs = ledger.requests(reading, self.profile, changes).values()
                if all(need.key == wanted.key for need in needs):
                    return True
        return False


def hours(text: str) -> float | None:
    """What `--until` says: None for `settled`, else hours."""
    if text.strip().lower() == "settled":
        return None
    try:
        found = float(text.strip().removesuffix("h"))
    except ValueError:
        found = -1.0
    rule = f"--until is `settled` or hours, more than 0 and at most {MOST_HOURS}"
    require(0 < found <= MOST_HOURS, rule, f"--until {text}", "give for example --until 2.5")
    return found


def look(wanted: Wanted, asked: Request, run: Run, confidence: float) -> Looked:
    """Judge every reading of a run at a confidence."""
    judged = []
    for claim, reading in wanted.readings(asked):
        with at_confidence(confidence) as level:
            line = ledger.judge(claim, reading, dict.fromkeys(reading.needs, run), wanted.profile)
        judged.append(Judged(line, level.over_seeds))
    return Looked(len(asked.spec.seeds), confidence, tuple(judged), run)


def until(
    wanted: Wanted,
    store: Store,
    limit: float | None = None,
    progress: Progress | None = None,
    plan: Looks = LOOKS,
    on_look: Callable[[Looked], None] | None = None,
) -> LooksTaken:
    """Look after look, until every reading is settled, ``limit`` hours are over, or no look is left."""
    end = time.monotonic() + limit * 3600 if limit is not None else float("inf")
    shown, taken = Deadline(progress or Silent(), end), LooksTaken(plan)
    for size in plan.sizes:
        asked = wanted.of(plan.seeds(size))
        try:
            run = runner.run(asked, store, shown)
        except OutOfTime:
            return replace(taken, why="time")
        found = look(wanted, asked, run, plan.confidence)
        taken = replace(taken, looks=(*taken.looks, found))
        if on_look is not None:
            on_look(found)
        if not any(judged.test for judged in found.judged):
            return replace(taken, why="no test")
        if not taken.is_open:
            return replace(taken, why="settled")
        if time.monotonic() >= end:
            return replace(taken, why="time")
    return taken
