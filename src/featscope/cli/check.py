"""`featscope check`: the ledger."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from featscope.cli.console import JsonOption, OutOption, ProfileOption, ShownProgress, print_json, say
from featscope.cli.run import overrides
from featscope.core.errors import known_as, require_at_least

if TYPE_CHECKING:
    from featscope.claims.claim import Claim
    from featscope.claims.ledger import Line
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
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="judge another setting: key=value; repeat for more")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="number of seeds, 0 … N−1")] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="VERDICT", help="print these lines alone, for example fails"),
    ] = None,
    folder: OutOption = Path("runs"),
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="runs made at a time; 0 means one for each core")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Judge the papers' statements and print the ledger; runs what is missing first."""
    from featscope.claims import book, ledger
    from featscope.cli.verdicts import print_headline, print_lines
    from featscope.core.store import Store

    require_at_least("--jobs", jobs, 0)
    wanted = None
    if only is not None:
        wanted = known_as("verdict", only.replace(" ", "_").replace("-", "_"), book.VERDICTS)
    settings = overrides(assignments or [], seeds)
    chosen = ledger.select(ids or [], paper, profile, images)
    if not ids:
        _say_left_out(images, profile, {claim.paper for claim in chosen})
    _say_not_concerned(chosen, settings)
    # A damaged ledger is told before the work, not after it.
    book.read(folder)
    told = _Told()
    with ShownProgress() as shown:
        made = ledger.check(
            chosen, profile, Store(folder), shown, told, jobs or os.cpu_count() or 1, settings
        )
        lines = list(made)
    book.merge(folder, lines, profile)
    printed = [line for line in lines if wanted in (None, line.verdict)]
    if as_json:
        print_json([line.as_json() for line in printed])
        return
    print_lines(printed)
    _say_nearest(printed)
    counts = book.headline(lines)
    if counts:
        print_headline(counts, [str(v) for v in book.VERDICTS])
    say(f"kept in {folder / book.NAME}; the page: featscope report {folder}; one claim: featscope explain ID")


def _say_nearest(lines: list[Line]) -> None:
    """Name what would make a failing reading hold, where it was looked for."""
    from featscope.claims.explain import nearest_of

    for line in lines:
        found = nearest_of(line.paper, line.id, line.reading)
        if found is not None and "FAILS" in (line.verdict, line.would_be):
            say(f"{line.id} {line.reading} would hold: {found}")


class _Told:
    """Draws the figures of a run that has none yet, and says which run is done after how long."""

    def __init__(self) -> None:
        self._clock = time.monotonic()

    def __call__(self, done: Run) -> None:
        from featscope.report.page import draw, is_drawn

        if not is_drawn(done):
            draw(done)
            say(f"[{time.monotonic() - self._clock:5.0f} s] {done.experiment} {done.path.name}")


def _say_not_concerned(chosen: list[Claim], settings: dict[str, Any]) -> None:
    """Name the readings that other settings leave out, and why; refused if none is left."""
    from featscope.claims import ledger

    _, left = ledger.concerned(chosen, settings)
    for reading, why in left.items():
        say(f"left out at these settings: {reading}: {why}")


def _say_left_out(images: bool, profile: str, papers: set[str]) -> None:
    """Name the claims of these papers on real images that are not judged, and what would change that."""
    from featscope.claims.ledger import data_of, lacks
    from featscope.claims.registry import claims

    behind = {c.id: lacks(c, profile) for c in claims().values() if c.paper in papers and data_of(c, profile)}
    if not images:
        say(f"left out, on real images: {' '.join(behind)}; name them or add --images")
        return
    for name, lacking in behind.items():
        if lacking:
            say(f"{name} left out, its data is not there: featscope data fetch {' '.join(lacking)}")
