"""All that is known of one claim: statement in words and letters, hypotheses with their numbers, readings,
how each is judged, verdicts, what a failure means, figures, code and test. Nothing is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import featscope
from featscope.claims import book, ledger
from featscope.claims.claim import Claim, Reading
from featscope.claims.gloss import Gloss
from featscope.claims.ledger import Line
from featscope.claims.registry import rules_history
from featscope.claims.scope import assumed
from featscope.core.store import Store
from featscope.experiments.registry import rooms
from featscope.experiments.run import Run

NO_GLOSS = Gloss("", "")


@dataclass(frozen=True)
class Told:
    """A condition with its numbers here, whether the statement assumes it, and whether it is met."""

    text: str
    assumed: bool
    met: bool


@dataclass(frozen=True)
class ReadingTold:
    """One reading: what it reads, how it is judged and by which code, and its line if its runs are there;
    ``shipped`` is its line in the ledger that comes with the package."""

    name: str
    reads: str
    rule: str
    code: str
    runs: Mapping[str, str]
    line: Line | None
    nearest: str | None
    shipped: Line | None = None


@dataclass(frozen=True)
class Explanation:
    """What `featscope explain` shows."""

    claim: Claim
    letters: str
    failure: str
    conditions: list[Told]
    readings: list[ReadingTold]
    figures: Mapping[str, list[str]]
    test: str
    history: str | None
    data: list[str] = field(default_factory=list)

    @property
    def judged(self) -> bool:
        """Whether every reading has its runs."""
        return all(reading.line is not None for reading in self.readings)

    def as_json(self) -> dict[str, Any]:
        """The explanation as a JSON object."""
        c = self.claim
        stated = {"id": c.id, "paper": c.paper, "kind": c.kind.value, "reference": c.reference}
        return {
            **stated,
            "statement": c.statement,
            "letters": self.letters,
            "hypotheses": list(c.hypotheses),
            "conditions": [vars(told) for told in self.conditions],
            "failure": self.failure,
            "readings": [
                {**vars(r), "line": _json(r.line), "shipped": _json(r.shipped)} for r in self.readings
            ],
            "figures": dict(self.figures),
            "test": self.test,
            "rules_history": self.history,
        }


def explain(claim: Claim, profile: str, store: Store) -> Explanation:
    """Gather what is known of a claim, with numbers where its runs of this profile are in the store."""
    room = rooms()[claim.paper]
    gloss: Gloss = getattr(room, "GLOSSARY", {}).get(claim.id, NO_GLOSS)
    conditions: dict[str, Told] = {}
    readings = []
    shipped = {line.reading: line for line in book.read(book.SHIPPED) if line.id == claim.id}
    for reading in claim.readings:
        runs = ledger.found_runs(reading, profile, store)
        line = ledger.judge(claim, reading, runs, profile) if runs is not None else None
        conditions.update((told.text, told) for told in _conditions(claim, reading, runs or {}))
        readings.append(_told(claim, reading, line, shipped.get(reading.name)))
    return Explanation(
        claim,
        gloss.letters,
        gloss.failure,
        list(conditions.values()),
        readings,
        _figures(claim),
        _test(claim),
        rules_history(claim),
        ledger.lacks(claim, profile),
    )


def _conditions(claim: Claim, reading: Reading, runs: Mapping[str, Run]) -> Iterator[Told]:
    for found, asked in assumed(claim, reading, runs):
        yield Told(str(found), asked, found.met)


def _json(line: Line | None) -> dict[str, Any] | None:
    return None if line is None else line.as_json()


def _told(claim: Claim, reading: Reading, line: Line | None, shipped: Line | None) -> ReadingTold:
    needs = {
        need.experiment: ", ".join(f"{key} = {value}" for key, value in need.overrides.items())
        for need in reading.needs.values()
    }
    nearest = nearest_of(claim.paper, claim.id, reading.name)
    judged = (_rule(reading), _code(reading))
    return ReadingTold(reading.name, reading.text, *judged, needs, line, nearest, shipped)


def nearest_of(paper: str, claim: str, reading: str) -> str | None:
    """What was found of the nearest setting at which a reading holds, if it was looked for."""
    known: Mapping[tuple[str, str], str] = getattr(rooms()[paper], "NEAREST", {})
    return known.get((claim, reading))


def _makers(judge: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """A judge, what it was made by, and the judges that it was made of."""
    yield judge
    module = inspect.getmodule(judge)
    outer = getattr(module, judge.__qualname__.partition(".")[0], None)
    if outer is not None and outer is not judge:
        yield outer
    for cell in judge.__closure__ or ():
        inner = cell.cell_contents
        if inspect.isfunction(inner) and inner.__module__.startswith("featscope"):
            yield from _makers(inner)


def _rule(reading: Reading) -> str:
    """How a reading is judged, from what its judge's code says."""
    docs = [" ".join((maker.__doc__ or "").split()) for maker in _makers(reading.judge)]
    return " ".join(dict.fromkeys(doc for doc in docs if doc))


def _code(reading: Reading) -> str:
    """The module and the line of a judge."""
    judge = reading.judge
    return f"{judge.__module__}:{inspect.unwrap(judge).__code__.co_firstlineno}"


def _figures(claim: Claim) -> dict[str, list[str]]:
    """Experiment → the figures that are drawn of its runs."""
    names = dict.fromkeys(need.experiment for r in claim.readings for need in r.needs.values())
    drawn = {name: list(figures) for room in rooms().values() for name, figures in room.FIGURES.items()}
    return {name: drawn[name] for name in names if drawn.get(name)}


def _test(claim: Claim) -> str:
    """The file whose rows hold the claim's judges to account; in a checkout the very file."""
    root = Path(featscope.__file__).parents[2]
    for path in sorted(root.glob("tests/papers/*/judge_rows_*.py")):
        if f'"{claim.id}"' in path.read_text(encoding="utf-8"):
            return path.relative_to(root).as_posix()
    return f"tests/papers/{claim.paper}/judge_rows_*.py"
