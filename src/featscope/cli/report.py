"""`featscope report`: one page with the figures of runs and the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from featscope.cli.console import say


def report(
    folders: Annotated[list[Path], typer.Argument(help="run folders, or folders that hold runs")],
    target: Annotated[Path, typer.Option("--out", "-o", help="the page to write")] = Path("report.html"),
) -> None:
    """Write one HTML page, which works offline, with the figures of runs and the ledger beside them."""
    from featscope.report.collect import collect, require_page
    from featscope.report.page import write_page

    require_page(target)
    content = collect(folders, say)
    write_page(content, target)
    size = target.stat().st_size / 1e6
    runs, lines = len(content.sections), len(content.ledger.entries)
    say(f"{target}: {runs} run(s), {lines} ledger line(s), {size:.1f} MB")
