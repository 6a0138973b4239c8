"""`featscope figures`: figures of runs as files, for papers and slides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from featscope.cli.console import say


def figures(
    folders: Annotated[list[Path], typer.Argument(help="run folders, or folders that hold runs")],
    target: Annotated[Path, typer.Option("--out", "-o", help="the folder to write into")] = Path("figures"),
    form: Annotated[
        str, typer.Option("--format", "-f", help="pdf, svg, png, or json (the Vega-Lite spec)")
    ] = "pdf",
    word: Annotated[
        str | None, typer.Option("--only", help="only figures whose file name has this word in it")
    ] = None,
) -> None:
    """Write the figures of runs as PDF, SVG, PNG or Vega-Lite: one file each, named for experiment and
    figure."""
    from featscope.report.export import export

    written = export(folders, target, form, word, say)
    say(f"{target}: {len(written)} figure(s)")
