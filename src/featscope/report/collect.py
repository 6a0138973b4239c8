"""What a report of folders shows: every run that can be read, drawn where it is not, within a budget; what
cannot be read is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from featscope.core.errors import BadInput, FeatscopeError, require
from featscope.experiments.registry import experiments
from featscope.experiments.run import Run, find_runs
from featscope.report.entries import Ledger, read_ledger
from featscope.report.page import Content, draw
from featscope.report.sections import Links, Section, Trouble, in_order, listed, section
from featscope.report.settings import distinguished, settings_told

#: bytes of pictures that a page may hold; runs that do not fit are listed without figures
PICTURES = 4_700_000
#: runs that a page shows in full
MOST_IN_FULL = 80


def require_page(target: Path) -> None:
    """Refuse to write a page onto a folder, a device, or into a folder that is not there."""
    remedy = "name a file, for example --out page.html"
    require(target.suffix.lower() in (".html", ".htm"), "a page's name ends in .html", str(target), remedy)
    require(not target.is_dir(), "a page is a file, this is a folder", str(target), remedy)
    require(not target.exists() or target.is_file(), "a page is a file, this is none", str(target), remedy)
    require(target.parent.is_dir(), "no such folder", str(target.parent), "make it first, or name another")


def _sorted_out(folders: Sequence[Path]) -> tuple[list[Run], list[Trouble]]:
    """The runs that can be read, each once, and those that cannot."""
    found = {run.path.resolve(): run for folder in folders for run in find_runs(folder)}
    whole, troubles = [], []
    for run in found.values():
        if (damage := run.damage()) is None:
            whole.append(run)
        else:
            troubles.append(_damaged(run, damage))
    return whole, troubles


def _damaged(run: Run, damage: str) -> Trouble:
    """What is wrong with a run that cannot be read; the advice names its own folder, in full."""
    remedy = f"delete the folder {run.path} and make the run again with the command that made it"
    return Trouble(run.path, f"{damage.partition('; delete')[0]}; {remedy}")


def _remark(run: Run) -> str:
    """Why a run's figures are left as they are, or nothing."""
    if run.experiment not in experiments():
        return "No room of this installation knows this experiment: its figures are shown as they are."
    if run.outdated:
        again = settings_told(run).command
        return f"A run of an older form, which this version does not read; make it again: {again}"
    return ""


def _in_full(run: Run, links: Links) -> tuple[Section, list[Trouble]]:
    """A run's section, its figures drawn if they are not; what goes wrong in that is told, not raised."""
    remark = _remark(run)
    if remark:
        return section(run, links, remark), [Trouble(run.path, remark)]
    try:
        draw(run)
        return section(run, links), []
    except Exception as error:
        # One run, or a figure of somebody else's room, must not take the report of all others with it.
        reason = " ".join(str(error).split()) if isinstance(error, FeatscopeError) else repr(error)
        return listed(run, links), [Trouble(run.path, f"its figures cannot be drawn: {reason[:300]}")]


def collect(folders: Sequence[Path], tell: Callable[[str], None] = lambda _: None) -> Content:
    """Read runs and ledgers below folders, and draw what is not drawn; ``tell`` is told of each trouble."""
    ledger = read_ledger(folders)
    runs, troubles = _sorted_out(folders)
    if not runs and not ledger:
        if troubles:
            raise FeatscopeError(troubles[0].reason)
        raise BadInput(
            "no finished run",
            ", ".join(map(str, folders)),
            "run `featscope run NAME` or `featscope check` first",
        )
    sections, more = _within_budget(runs, ledger)
    for trouble in (*troubles, *more):
        tell(f"{trouble.place}: {trouble.reason}")
    return Content(sections, ledger, (*troubles, *more))


def _within_budget(runs: Sequence[Run], ledger: Ledger) -> tuple[list[Section], list[Trouble]]:
    """Runs in full as long as there is room: those that the ledger reads before others, and of these each
    experiment's usual settings before variants; what does not fit is listed."""
    links, ordered = Links(ledger.entries), in_order(runs)
    wanted = sorted(ordered, key=lambda run: (not links.of_run(run), bool(settings_told(run).changes)))
    made: dict[Path, Section] = {}
    troubles: list[Trouble] = []
    room = PICTURES
    for run in wanted:
        if room <= 0 or len(made) >= MOST_IN_FULL:
            made[run.path] = listed(run, links)
            continue
        made[run.path], wrong = _in_full(run, links)
        troubles += wrong
        room -= sum(figure.weight for figure in made[run.path].figures)
    sections = [made[run.path] for run in ordered]
    # Every run is compared with every other: only as many as have a section of their own.
    full = [one for one in sections if one.detailed]
    titles = dict(zip(map(id, full), distinguished([one.told for one in full]), strict=True))
    return [replace(one, told=titles.get(id(one), one.told)) for one in sections], troubles
