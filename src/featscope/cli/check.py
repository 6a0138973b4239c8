"""`featscope check`: the ledger."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from featscope.cli.console import JsonOption, OutOption, ProfileOption, Shown, out, print_json, say
from featscope.core.errors import require_at_least

if TYPE_CHECKING:
    from featscope.experiments.run import Run


def check(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CLAIMS]...", help="claim ids; all on synthetic data if none"),
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="also all claims on real images whose data has been fetched")
    ] = False,
    paper: Annotated[str | None, typer.Option(help="at, fa, cgro or ep")] = None,
    profile: ProfileOption = "cpu",
    folder: OutOption = Path("runs"),
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="runs made at a time; 0 means one for each core")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Judge the papers' statements and print the ledger; runs what is missing first."""
    from featscope.claims import ledger
    from featscope.core.files import write_json
    from featscope.core.locks import locked_file
    from featscope.core.store import Store
    from featscope.report.page import draw

    require_at_least("--jobs", jobs, 0)
    chosen = ledger.select(ids or [], paper, images)
    if not ids:
        _say_left_out(images)
    clock = time.monotonic()

    def drawn(done: Run) -> None:
        draw(done)
        say(f"[{time.monotonic() - clock:5.0f} s] {done.experiment} {done.path.name}")

    with Shown() as shown:
        lines = list(ledger.check(chosen, profile, Store(folder), shown, drawn, jobs or os.cpu_count() or 1))
    listed = [line.as_json() for line in lines]
    if not ids and paper is None:
        with locked_file(folder / "ledger.json"):
            write_json(folder / "ledger.json", listed)
    if as_json:
        print_json(listed)
        return
    table = Table("claim", "reading", "verdict", "value", "bound")
    for line in lines:
        numbers = [f"{number:.4g}" if number is not None else "" for number in (line.value, line.bound)]
        table.add_row(line.id, line.reading, line.verdict, *numbers)
    out.print(table)


def _say_left_out(images: bool) -> None:
    """Name the claims on real images that are not judged, and what would change that."""
    from featscope.claims.ledger import data_of, lacks
    from featscope.claims.registry import claims

    behind = {claim.id: lacks(claim) for claim in claims().values() if data_of(claim)}
    if not images:
        say(f"left out, on real images: {' '.join(behind)}; name them or add --images")
        return
    for name, lacking in behind.items():
        if lacking:
            say(f"{name} left out, its data is not there: featscope data fetch {' '.join(lacking)}")
