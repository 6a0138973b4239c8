"""`featscope report`: one page with the figures of runs and the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from featscope.cli.console import say
from featscope.core.errors import BadInput


def report(
    folders: Annotated[list[Path], typer.Argument(help="run folders, or folders that hold runs")],
    target: Annotated[Path, typer.Option("--out", "-o", help="the page to write")] = Path("report.html"),
) -> None:
    """Write one HTML page with the figures of runs and the ledger beside them."""
    from featscope.experiments.registry import experiments
    from featscope.experiments.run import find_runs
    from featscope.report.page import draw, is_drawn, read_ledger, write_page

    runs = [done for folder in folders for done in find_runs(folder)]
    if not runs:
        raise BadInput(
            "no finished run",
            ", ".join(map(str, folders)),
            "run `featscope run NAME` or `featscope check` first",
        )
    for done in runs:
        if done.experiment in experiments() and done.outdated:
            say(
                f"{done.path}: a run of an older form, its figures are left as they are; "
                "delete it or run it again"
            )
        elif not is_drawn(done):
            draw(done)
    lines = [line for folder in folders for line in read_ledger(folder)]
    write_page(runs, target, lines)
    say(f"{target}: {len(runs)} run(s), {len(lines)} ledger line(s)")
