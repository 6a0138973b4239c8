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

from jinja2 import Environment
from markupsafe import Markup

from featscope import __version__
from featscope.core.locks import locked_file
from featscope.experiments.run import Run
from featscope.plots.palette import DARK, LIGHT
from featscope.report import overview, values
from featscope.report.bundle import bundle
from featscope.report.drawing import draw_figures, figures_mark, has_figures, page_mark
from featscope.report.entries import Ledger
from featscope.report.sections import Links, Section, Trouble, machines, papers, section
from featscope.report.templating import page_templates

#: runs that the list of runs has room for
MOST_LISTED = 400
#: a run's own page, in its folder
PAGE = "report.html"


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
    made = page_templates()
    made.filters |= {
        "number": values.printed_number,
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
    runs = overview.numbered(len(content.sections), "run")
    if not content.ledger:
        return runs
    stated = overview.statements(content.ledger.entries)
    usual = [entry for entry in content.ledger.entries if not entry.settings] or content.ledger.entries
    told = overview.numbered(len(stated), "statement"), overview.numbered(len(usual), "reading")
    profile = f", profile {' and '.join(content.ledger.profiles)}" if content.ledger.profiles else ""
    made = f", {content.ledger.made[-1][:10]}" if content.ledger.made else ""
    return f"{' in '.join(told)}, judged from {runs}{profile}{made}"


def render(content: Content, mark: str = "") -> str:
    """The page as text."""
    sections = list(content.sections)
    detailed, listed = [one for one in sections if one.detailed], sections[:MOST_LISTED]
    has_figures = any(one.figures for one in detailed)
    template = _environment().get_template("page.html.j2")
    return template.render(
        title=content.title,
        subtitle=_subtitle(content),
        mark=mark,
        meanings=overview.MEANINGS,
        troubles=content.troubles,
        sections=detailed,
        listed=listed,
        unlisted=len(sections) - len(listed),
        without_figures=len(sections) - len(detailed),
        of_run={one.run.path.name: one for one in (*listed, *detailed)},
        provenance=_provenance(content, [one.run for one in sections]),
        has_figures=has_figures,
        themes={"light": LIGHT, "dark": DARK},
        bundle=Markup(bundle()) if has_figures else "",
        **_counts(content),
    )


def _counts(content: Content) -> dict[str, Any]:
    """What the page says of the ledger as a whole; lines at other settings than a profile's do not count."""
    entries = content.ledger.entries
    shown = papers(entries, content.sections)
    usual = [entry for entry in entries if not entry.settings]
    counted = {paper.key: [entry for entry in usual if entry.paper == paper.key] for paper in shown}
    return {
        "ledger": entries,
        "papers": shown,
        "names": {paper.key: paper.name for paper in shown},
        "kinds": overview.kinds(entries),
        "by_paper": overview.by_paper(usual),
        "by_kind": overview.by_kind(usual),
        "elsewhere": len(entries) - len(usual),
        "headlines": overview.headlines(usual),
        "counted": {key: overview.count_sentence(found) for key, found in counted.items()},
    }


def write_page(content: Content, out: Path, mark: str = "") -> None:
    """Write the page; a reader sees the old one or the new one, never half."""
    text = render(content, mark)
    with locked_file(out):
        spare = out.with_name(out.name + ".new")
        spare.write_text(text, encoding="utf-8")
        os.replace(spare, out)


def draw(run: Run) -> list[Path]:
    """Draw the run's figures and write its own `report.html`; what is there and up to date is left alone."""
    made = draw_figures(run)
    if not _is_marked(run):
        title = f"featscope run: {run.experiment}"
        write_page(Content([section(run, Links(()))], title=title), run.path / PAGE, _mark(run))
    return made


def is_drawn(run: Run) -> bool:
    """Whether the run's figures and its page are there and up to date."""
    return has_figures(run) and _is_marked(run)


def _mark(run: Run) -> str:
    return f"{page_mark()} {figures_mark(run)}"


def _is_marked(run: Run) -> bool:
    """Whether the run's page is whole and was made by this code from these figures."""
    page = run.path / PAGE
    if not page.is_file():
        return False
    text = page.read_text(encoding="utf-8", errors="replace")
    whole = text.rstrip().endswith("</html>")
    return whole and f'name="featscope-page" content="{_mark(run)}"' in text[:2000]
