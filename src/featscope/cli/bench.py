"""`featscope bench`: speed as ratios within one run."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from featscope.cli.console import JsonOption, out, print_json


def bench(
    name: Annotated[str | None, typer.Argument(help="which benchmark; all if none")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure speed as ratios within one run."""
    from featscope.bench.registry import measure
    from featscope.bench.timing import machine

    lines = [line.as_json() for line in measure(name)]
    where = machine()
    if as_json:
        print_json({"machine": where, "lines": lines})
        return
    ratios = [line for line in lines if "ratio" in line]
    if ratios:
        _print(
            ratios, ("ours", "against", "their time ÷ ours", "interval", "what both gave"), "against", "ratio"
        )
    grown = [line for line in lines if "exponent" in line]
    if grown:
        _print(grown, ("cost of", "grows with", "exponent", "interval", "times"), "grows_with", "exponent")
    out.print(", ".join(f"{key} {value}" for key, value in where.items()))


def _print(lines: list[dict[str, Any]], heads: tuple[str, ...], against: str, value: str) -> None:
    table = Table(*heads)
    for line in lines:
        interval = f"{line['low']:.2f} – {line['high']:.2f}"
        table.add_row(line["name"], line[against], f"{line[value]:.2f}", interval, line["note"])
    out.print(table)
