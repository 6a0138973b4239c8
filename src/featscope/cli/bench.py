"""`featscope bench`: speed as ratios within one run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from featscope.cli.console import JsonOption, out, print_json


def bench(
    name: Annotated[str | None, typer.Argument(help="which benchmark; all if none")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure speed as ratios within one run."""
    from featscope.bench.registry import measure

    lines = [line.as_json() for line in measure(name)]
    if as_json:
        print_json(lines)
        return
    table = Table("ours", "against", "their time ÷ ours", "interval", "what both gave")
    for line in lines:
        table.add_row(
            line["name"],
            line["against"],
            f"{line['ratio']:.2f}",
            f"{line['low']:.2f} – {line['high']:.2f}",
            line["note"],
        )
    out.print(table)
