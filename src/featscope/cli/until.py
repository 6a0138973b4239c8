"""`featscope run … --until`: what each look says, and why the seeds end where they do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from featscope.cli.console import ShownProgress, out, print_json, shortened, tell
from featscope.core.errors import require

if TYPE_CHECKING:
    from featscope.claims.until import Judged, Looked, LooksTaken
    from featscope.core.store import Store

#: the file beside a run's rows that says at which looks it was judged
FILE = "until.json"
REASONS = {
    "settled": "settled: no reading is left that more seeds could settle",
    "time": "the time is over; the same command goes on from here",
    "last look": "the last look was taken: what is INCONCLUSIVE stays so by this rule",
    "no test": "no reading of this run is an interval of a mean over seeds: more of them settle nothing",
}


def run_until(
    name: str, profile: str, changes: dict[str, Any], store: Store, text: str, as_json: bool
) -> None:
    """Look after look; then the verdicts, the last run's page and the record of the looks."""
    from featscope.claims.until import Wanted, hours, until
    from featscope.core.looks import LOOKS

    limit, wanted = hours(text), Wanted(name, profile, changes)
    sizes = ", ".join(map(str, LOOKS.sizes))
    tell_unless(as_json, f"looks at {sizes} seeds, each at confidence {LOOKS.confidence:.2f}")
    with ShownProgress() as shown:
        taken = until(wanted, store, limit, shown, on_look=None if as_json else _tell_look)
    _keep(taken)
    if as_json:
        print_json(taken.as_json())
        return
    for judged, seeds in taken.verdicts:
        tell(shortened(f"{_told(judged)} ({seeds} seeds)", out.width))
    tell(REASONS[taken.why])
    if taken.looks:
        tell(f"page with figures: {taken.looks[-1].run.path / 'report.html'}")


def refuse_with_until(given: Sequence[tuple[str, bool]]) -> None:
    """Options that say something else about seeds, or run nothing."""
    for option, there in given:
        require(not there, f"{option} does not go with --until", option, "give one of them")


def tell_unless(as_json: bool, text: str) -> None:
    """A line for a person."""
    if not as_json:
        tell(text)


def _keep(taken: LooksTaken) -> None:
    """Draw the last run and write the looks beside it."""
    from featscope.core.files import write_json
    from featscope.report.page import draw, is_drawn

    if not taken.looks:
        return
    last = taken.looks[-1].run
    if not (is_drawn(last) and (Path(last.path) / "report.html").exists()):
        draw(last)
    write_json(last.path / FILE, taken.as_json())


def _tell_look(look: Looked) -> None:
    tell(f"{look.seeds} seeds:")
    for judged in look.judged:
        tell(shortened(f"  {_told(judged)}", out.width))


def _told(judged: Judged) -> str:
    line = judged.line
    numbers = [f"{x:.4g}" if x is not None else "?" for x in (line.value, line.low, line.high, line.bound)]
    value, low, high, bound = numbers
    shown = f"{value} ({low} to {high}), {line.direction} {bound}" if judged.test else "not over seeds"
    return f"{line.verdict:<13} {line.id} {line.reading}: {shown}"
