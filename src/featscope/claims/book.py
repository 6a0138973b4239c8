"""The ledger as a file: `ledger.json` in a folder of runs. Every check puts its lines into it."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from featscope import __version__
from featscope.claims.claim import Kind, Verdict
from featscope.claims.ledger import Line
from featscope.claims.registry import claims
from featscope.core.errors import BadInput
from featscope.core.files import read_json, write_json
from featscope.core.locks import locked_file

#: the form of the file; a plain list of lines was the first
FORMAT = 2
NAME = "ledger.json"
#: the folder of the dated ledger that comes with the package, written by tools/publish_ledger.py
SHIPPED = Path(__file__).parent
_KEYS = {field.name for field in fields(Line)}
_ASKED = {"id", "reading", "verdict"}
Document = dict[str, Any]


def document(lines: Sequence[Line], profile: str) -> Document:
    """Lines with what made them."""
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    head = {"format": FORMAT, "profile": profile, "made": made, "version": __version__}
    return {**head, "lines": [line.as_json() for line in lines]}


def contents(folder: Path) -> Document:
    """What checks wrote into a folder, in the form of `document`; no lines where there is no ledger."""
    path = folder / NAME
    remedy = f"delete this file; `featscope check --out {folder}` writes it again from the runs"
    if not path.exists():
        return {"lines": []}
    found = read_json(path, remedy)
    if lines_of(found) is None:
        raise BadInput("not a ledger", str(path), remedy)
    return found if isinstance(found, dict) else {"lines": found}


def read(folder: Path) -> list[Line]:
    """The lines that checks wrote into a folder."""
    return lines_of(contents(folder)) or []


def lines_of(found: Any) -> list[Line] | None:
    """The lines of a document of either form; None if it is none."""
    listed = found.get("lines") if isinstance(found, dict) else found
    if not isinstance(listed, list) or not all(_is_line(line) for line in listed):
        return None
    return [_line(line) for line in listed]


def _is_line(line: Any) -> bool:
    return (
        isinstance(line, dict)
        and all(isinstance(line.get(key), str) for key in _ASKED)
        and line["verdict"] in Verdict.__members__
    )


def _line(body: Mapping[str, Any]) -> Line:
    """A line of any form; what an older one lacks is empty."""
    empty = {"paper": "", "reference": "", "statement": "", "reads": "", "value": None, "bound": None}
    return Line(**{**empty, "evidence": {}, **{key: v for key, v in body.items() if key in _KEYS}})


def merge(folder: Path, lines: Sequence[Line], profile: str) -> None:
    """Put lines into the folder's ledger: they replace those of the same reading at the same settings, and
    lines of readings that are no more go."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked_file(folder / NAME):
        new = {_place(line): line for line in lines}
        kept = {_place(line): line for line in read(folder)} | new
        order = {(id_, r.name): i for i, (id_, r) in enumerate(_readings())}
        known = [line for line in kept.values() if (line.id, line.reading) in order]
        known.sort(key=lambda line: (order[line.id, line.reading], bool(line.settings), str(line.settings)))
        profiles = {line.profile for line in known}
        write_json(folder / NAME, document(known, profile if profiles == {profile} else "mixed"))


def _readings() -> Iterable[tuple[str, Any]]:
    return ((claim.id, reading) for claim in claims().values() for reading in claim.readings)


def _place(line: Line) -> tuple[str, str, str]:
    return line.id, line.reading, str(sorted(line.settings.items()))


def headline(lines: Iterable[Line]) -> dict[str, Counter[str]]:
    """Kind → how many of its lines have each verdict, kinds in their order; lines at other settings do not
    count."""
    counted: dict[str, Counter[str]] = {kind.value: Counter() for kind in Kind}
    for line in lines:
        if not line.settings:
            counted.setdefault(line.kind, Counter())[line.verdict] += 1
    return {kind: found for kind, found in counted.items() if found}


#: verdicts in the order in which they are counted
VERDICTS = (Verdict.HOLDS, Verdict.FAILS, Verdict.INCONCLUSIVE, Verdict.OUT_OF_SCOPE, Verdict.VACUOUS)
