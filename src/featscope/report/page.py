"""The HTML page: overview, papers with their figures, and the ledger, in one file that needs nothing else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from featscope import __version__
from featscope.core.locks import locked
from featscope.experiments.run import Run
from featscope.plots.palette import DARK, LIGHT
from featscope.report import overview, values
from featscope.report.bundle import bundle
from featscope.report.drawing import draw_figures, figures_mark, page_mark
from featscope.report.entries import Ledger
from featscope.report.sections import Links, Section, Trouble, machines, papers, section

#: runs that the list of runs has room for
MOST_LISTED = 400


@dataclass(frozen=True)
class Content:
    """What a page shows: runs in full or only listed, the ledger, and what went wrong."""

    sections: Sequence[Section]
    ledger: Ledger = field(default_factory=Ledger)
    troubles: Sequence[Trouble] = ()
    title: str = "featscope report"


def in_script(value: Any) -> Markup:
    """JSON that may stand in a script element: no `<` can end it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _date(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds)) if seconds else "–"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("featscope.report"),
        autoescape=select_autoescape(["j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": values.number,
        "cell": values.cell,
        "table": values.table,
        "statements": overview.statements,
        "in_script": in_script,
        "date": _date,
    }
    return made


def _provenance(content: Content, runs: Iterable[Run]) -> dict[str, Sequence[str]]:
    made = machines(runs)
    ledger = content.ledger
    return {
        "page made": (f"{_date(time.time())} UTC by featscope {__version__}",),
        "ledger made": ledger.made,
        "ledger’s version": ledger.versions,
        "profile": ledger.profiles or tuple(dict.fromkeys(s.told.profile for s in content.sections)),
        **{f"runs’ {key}" if key == "featscope" else key: value for key, value in made.items()},
    }


def _subtitle(content: Content) -> str:
    runs = f"{len(content.sections)} run{'' if len(content.sections) == 1 else 's'}"
    if not content.ledger:
        return runs
    stated = overview.statements(content.ledger.entries)
    lines = len(content.ledger.entries)
    profile = f", profile {' and '.join(content.ledger.profiles)}" if content.ledger.profiles else ""
    made = f", {content.ledger.made[-1][:10]}" if content.ledger.made else ""
    return f"{len(stated)} statements in {lines} readings, judged from {runs}{profile}{made}"


def render(content: Content, mark: str = "") -> str:
    """The page as text."""
    entries, sections = content.ledger.entries, list(content.sections)
    shown = papers(entries, sections)
    detailed = [one for one in sections if one.detailed]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=content.title,
            subtitle=_subtitle(content),
            mark=mark,
            meanings=overview.MEANINGS,
            ledger=entries,
            papers=shown,
            names={paper.key: paper.name for paper in shown},
            sections=detailed,
            of_run={one.run.path.name: one for one in sections},
            listed=sections[:MOST_LISTED],
            unlisted=max(len(sections) - MOST_LISTED, 0),
            without_figures=len(sections) - len(detailed),
            troubles=content.troubles,
            by_paper=overview.by_paper(entries),
            by_kind=overview.by_kind(entries),
            headlines=overview.headlines(entries),
            counted=_counted(shown),
            provenance=_provenance(content, [one.run for one in sections]),
            has_figures=any(one.figures for one in detailed),
            themes={"light": LIGHT, "dark": DARK},
            bundle=Markup(bundle()) if any(one.figures for one in detailed) else "",
        )
    )


def _counted(shown: Iterable[Any]) -> dict[str, str]:
    return {
        paper.key: overview.count_sentence(overview.by_paper(paper.entries)[0], len(paper.statements))
        for paper in shown
        if paper.entries
    }


def write_page(content: Content, out: Path, mark: str = "") -> None:
    """Write the page; a reader sees the old one or the new one, never half."""
    text = render(content, mark)
    with locked(out):
        spare = out.with_name(out.name + ".new")
        spare.write_text(text, encoding="utf-8")
        os.replace(spare, out)


def draw(run: Run) -> list[Path]:
    """Draw the run's figures and write its own `report.html`; what is there and up to date is left alone."""
    made = draw_figures(run)
    page, mark = run.path / "report.html", f"{page_mark()} {figures_mark(run)}"
    if not _is_marked(page, mark):
        write_page(Content([section(run, Links(()))], title=f"featscope run: {run.experiment}"), page, mark)
    return made


def _is_marked(page: Path, mark: str) -> bool:
    """Whether a page is whole and was made by this code from these figures."""
    if not page.is_file():
        return False
    text = page.read_text(encoding="utf-8", errors="replace")
    return f'name="featscope-page" content="{mark}"' in text[:2000] and text.rstrip().endswith("</html>")
