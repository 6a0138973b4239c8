"""Ledger lines as the page shows them: read from `ledger.json` of any form, with what an older form lacks
filled in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from featscope.claims import book
from featscope.claims.claim import Kind, kind_of
from featscope.claims.ledger import Line
from featscope.core.errors import BadInput

#: kinds of statements, in the order in which they are counted
KIND_NAMES = tuple(kind.value for kind in Kind)


@dataclass(frozen=True)
class Entry(Line):
    """A line with the anchor at which the page has it, and the runs that it was judged from."""

    anchor: str = ""
    #: label of the need → the run's folder name
    runs: Mapping[str, str] = field(default_factory=dict)

    @property
    def short_reference(self) -> str:
        """The reference without the paper's name: `Theorem 4.4`."""
        return re.sub(r"^(AT|FA|CGRO|EP)[ ,:]+", "", self.reference) or self.reference


@dataclass(frozen=True)
class Ledger:
    """The lines of one or more folders, with what is known of how they were made."""

    entries: tuple[Entry, ...] = ()
    profiles: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)


def slug(text: str) -> str:
    """A text as part of an anchor: letters, digits, dots and dashes."""
    return re.sub(r"[^\w.]+", "-", text).strip("-")


def kind_or_statement(reference: str) -> str:
    """The kind of a line that does not say it, by its reference."""
    try:
        return kind_of(reference).value
    except BadInput:
        return "statement"


def _numbers(line: Mapping[str, Any], evidence: Mapping[str, Any]) -> dict[str, float | None]:
    interval = evidence.get("interval")
    ends = interval if isinstance(interval, list) and len(interval) == 2 else (None, None)
    found = {"value": None, "bound": None, "low": ends[0], "high": ends[1]} | {
        key: line[key] for key in ("value", "bound", "low", "high") if line.get(key) is not None
    }
    return {key: _number(value) for key, value in found.items()}


def _number(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if usable else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


#: what a line says in words
SAID = ("id", "paper", "reference", "statement", "reading", "reads", "verdict", "kind", "direction")
#: evidence that the page shows elsewhere than among the evidence
SHOWN_ELSEWHERE = ("runs", "unmet", "interval", "would_be")


def entry(line: Mapping[str, Any], anchor: str) -> Entry:
    """A ledger line of any form as the page needs it."""
    evidence = _mapping(line.get("evidence"))
    said = {key: str(line.get(key) or "") for key in SAID}
    numbers = _numbers(line, evidence)
    return Entry(
        anchor=anchor,
        id=said["id"],
        paper=said["paper"],
        reference=said["reference"],
        statement=said["statement"],
        reading=said["reading"],
        reads=said["reads"],
        verdict=said["verdict"],
        kind=said["kind"] or kind_or_statement(said["reference"]),
        value=numbers["value"],
        bound=numbers["bound"],
        low=numbers["low"],
        high=numbers["high"],
        direction=said["direction"],
        would_be=line.get("would_be") or evidence.get("would_be"),
        hypotheses=_texts(line.get("hypotheses")),
        unmet=_texts(line.get("unmet")) or _texts(evidence.get("unmet")),
        settings=_mapping(line.get("settings")),
        evidence={key: value for key, value in evidence.items() if key not in SHOWN_ELSEWHERE},
        runs={str(label): str(name) for label, name in _mapping(evidence.get("runs")).items()},
        rules_history=line.get("rules_history"),
    )


def entries(lines: Iterable[Mapping[str, Any]]) -> tuple[Entry, ...]:
    """Lines with an anchor each, `AT-P3.2-model-free`; a second line of one name gets a number."""
    found: list[Entry] = []
    taken: dict[str, int] = {}
    for line in lines:
        wanted = slug(f"{line['id']}-{line.get('reading', '')}")
        taken[wanted] = taken.get(wanted, 0) + 1
        found.append(entry(line, wanted if taken[wanted] == 1 else f"{wanted}-{taken[wanted]}"))
    return tuple(found)


def read_ledger(folders: Sequence[Path]) -> Ledger:
    """The ledgers that `featscope check` wrote into folders, as one; a folder without one has no lines."""
    lines: list[dict[str, Any]] = []
    told: dict[str, list[str]] = {"profile": [], "made": [], "version": []}
    for folder in folders:
        body = book.contents(folder)
        inner = body["lines"]
        lines += inner
        for key, found in told.items():
            found += [str(body[key])] if body.get(key) else [str(x[key]) for x in inner if x.get(key)]
    once = {key: tuple(dict.fromkeys(values)) for key, values in told.items()}
    return Ledger(entries(lines), once["profile"], once["made"], once["version"])
