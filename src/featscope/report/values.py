"""Numbers and evidence as a person reads them: digits that matter, and tables instead of JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: of a longer list the first so many are shown
LONGEST = 24
#: of a longer table the first so many rows are shown
MOST_ROWS = 60
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def printed_number(value: float | None, digits: int = 4) -> str:
    """A number with so many digits that count: 0.1429, 1.2×10⁻⁵, 33595."""
    if value is None or not math.isfinite(value):
        return "–"
    if float(value).is_integer() and abs(value) < 1e7:
        return str(int(value))
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}×10{str(int(exponent)).translate(SUPERSCRIPT)}" if exponent else mantissa


def text(value: Any) -> str:
    """A value that is no table, in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "–"
    return printed_number(value) if isinstance(value, int | float) else str(value)


def words(key: str) -> str:
    """A key as words: `accuracy_by_seed` is "accuracy by seed"."""
    return key.replace("_", " ")


@dataclass(frozen=True)
class Grid:
    """A table: heads of the columns (none for pairs of name and value), rows of texts or further grids."""

    head: tuple[str, ...]
    rows: tuple[tuple[str | Grid, ...], ...]
    left_out: int = 0


def _is_flat(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple)


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(map(text, values[:LONGEST]))
    return f"{shown}, … ({len(values)} in all)" if len(values) > LONGEST else shown or "none"


def _columns(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for record in records for key in record))


def _grid(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> Grid:
    columns = _columns(records)
    rows = [
        (*([words(name)] if name else []), *(cell(record.get(key)) for key in columns))
        for name, record in zip(names[:MOST_ROWS], records, strict=False)
    ]
    head = (*([""] if any(names) else []), *map(words, columns))
    return Grid(head, tuple(rows), max(len(records) - MOST_ROWS, 0))


def _side_by_side(records: Sequence[Any]) -> bool:
    """Whether records make one table: all are mappings and share most of their keys."""
    if len(records) < 2 or not all(isinstance(r, Mapping) and r for r in records):
        return False
    columns = _columns(records)
    return len(columns) <= 12 and sum(map(len, records)) >= 0.5 * len(columns) * len(records)


def cell(value: Any) -> str | Grid:
    """JSON data as what stands in a table's cell: a text or a further table."""
    if isinstance(value, Mapping):
        return table(value) if value else "none"
    if isinstance(value, list | tuple):
        if all(map(_is_flat, value)):
            return _listed(value)
        if _side_by_side(value):
            return _grid([""] * len(value), value)
        kept = tuple((cell(item),) for item in value[:MOST_ROWS])
        return Grid((), kept, max(len(value) - MOST_ROWS, 0))
    return text(value)


def table(body: Mapping[str, Any]) -> Grid:
    """A mapping as a table: a row for each key; records of one shape are one table with their names in
    front."""
    if _side_by_side(list(body.values())):
        return _grid(list(map(str, body)), list(body.values()))
    return Grid((), tuple((words(str(key)), cell(value)) for key, value in body.items()))
