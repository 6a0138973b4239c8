"""Lines of the ledger for a terminal of any width: the statement, then a line for each reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from featscope.cli.console import out

if TYPE_CHECKING:
    from featscope.claims.ledger import Line

STYLES = {"HOLDS": "green", "FAILS": "bold red", "INCONCLUSIVE": "yellow", "OUT_OF_SCOPE": "cyan"}


def shown(value: float | None) -> str:
    """A number as a table holds it."""
    return "–" if value is None else f"{value:.4g}"


def rule(line: Line) -> str:
    """The value and what it was held to: `0.02 at most 0.05`."""
    return f"{shown(line.value)} {line.direction or 'against'} {shown(line.bound)}"


def interval(line: Line) -> str:
    """The interval over seeds, where there is one."""
    if line.low is None and line.high is None:
        return ""
    return f"[{shown(line.low)}, {shown(line.high)}]"


def verdict(line: Line) -> Text:
    """The verdict in its colour, and what it would be outside its scope."""
    text = Text(line.verdict, STYLES.get(line.verdict, ""))
    return text.append(f"\nwould be {line.would_be}", "dim") if line.would_be else text


def print_lines(lines: Sequence[Line]) -> None:
    """Claim by claim: id, kind, reference, profile and statement; below them the readings."""
    for id_ in dict.fromkeys(line.id for line in lines):
        _print_claim([line for line in lines if line.id == id_])


def _print_claim(lines: Sequence[Line]) -> None:
    first = lines[0]
    head = Text.assemble((first.id, "bold"), f"  {first.kind}, {first.reference}, profile {first.profile}")
    changed = ", ".join(f"{key} = {value}" for key, value in first.settings.items())
    out.print(head.append(f", {changed}" if changed else ""), soft_wrap=False)
    out.print(Padding(Text(first.statement), (0, 0, 0, 2)))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=14, overflow="fold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        numbers = "  ".join(part for part in (rule(line), interval(line)) if part)
        table.add_row(Text(line.reading), verdict(line), Text(numbers))
    out.print(Padding(table, (0, 0, 0, 2)))
    missed = list(dict.fromkeys(text for line in lines for text in line.unmet))
    if missed:
        out.print(Padding(Text("not met: " + "; ".join(missed), "dim"), (0, 0, 0, 2)))
    out.print()


def print_headline(counts: Mapping[str, Mapping[str, int]], verdicts: Sequence[str]) -> None:
    """How many readings of each kind of statement got which verdict."""
    table = Table("readings of", *(name.replace("_", " ").lower() for name in verdicts), box=None)
    for kind, found in counts.items():
        table.add_row(kind, *(str(found.get(name, 0) or "") for name in verdicts))
    if len(counts) > 1:
        totals = [sum(found.get(name, 0) for found in counts.values()) for name in verdicts]
        table.add_row("all", *map(str, totals))
    out.print(table)
