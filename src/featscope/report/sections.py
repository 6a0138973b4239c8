"""Runs and papers as the page shows them: figures with the statements they support, commands, settings, and
printed numbers beside ours."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from featscope.claims.comparison import Comparison
from featscope.core.health import told as told_note
from featscope.experiments.registry import experiments, rooms
from featscope.experiments.run import Run
from featscope.report.drawing import SCALE, Drawn, drawn
from featscope.report.entries import Entry, slug
from featscope.report.overview import Statement, statements
from featscope.report.settings import Told, meanings, settings_of, settings_told


@dataclass(frozen=True)
class Figure:
    """A figure on the page: the picture, its static image, and the ledger's lines that it supports."""

    anchor: str
    drawn: Drawn
    entries: tuple[Entry, ...] = ()

    @cached_property
    def lines(self) -> frozenset[str]:
        """The anchors of those lines."""
        return frozenset(entry.anchor for entry in self.entries)

    @property
    def weight(self) -> int:
        """Bytes that it takes on the page, about."""
        return len(self.drawn.image) * 4 // 3 + len(str(self.drawn.picture.spec))

    @property
    def source(self) -> str:
        """The static image as a data URI."""
        return "data:image/png;base64," + base64.b64encode(self.drawn.image).decode("ascii")

    @cached_property
    def size(self) -> tuple[int, int]:
        """Width and height on the page."""
        width, height = Image.open(BytesIO(self.drawn.image)).size
        return round(width / SCALE), round(height / SCALE)


@dataclass(frozen=True)
class Section:
    """A run on the page."""

    run: Run
    told: Told
    entries: tuple[Entry, ...] = ()
    figures: tuple[Figure, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    #: what is wrong with the run or its figures
    remark: str = ""
    #: whether it has a section of its own, or only a line in the list of runs
    detailed: bool = True

    @property
    def anchor(self) -> str:
        """Where the page has it."""
        return run_anchor(self.run)

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.run.experiment

    @property
    def shows(self) -> str:
        """What the experiment is about."""
        plan = experiments().get(self.name)
        return plan.shows if plan else ""

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, flat."""
        return settings_of(self.run)

    @property
    def meanings(self) -> dict[str, str]:
        """What each setting means, where the experiment says it."""
        plan = experiments().get(self.name)
        return meanings(plan.spec) if plan else {}

    @property
    def notes(self) -> dict[str, str]:
        """What a reader should know of how the run went."""
        return {part: told_note(note) for part, note in self.run.manifest.get("notes", {}).items()}

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The claims that read this run."""
        return statements(self.entries)


@dataclass(frozen=True)
class Paper:
    """A paper on the page: what it is, its statements, its runs."""

    key: str
    name: str
    title: str
    source: str
    entries: tuple[Entry, ...] = ()
    sections: tuple[Section, ...] = ()

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """Its claims with their readings."""
        return statements(self.entries)

    @property
    def compared(self) -> tuple[tuple[Section, Comparison], ...]:
        """All printed numbers, each with the run that ours comes from."""
        return tuple((section, one) for section in self.sections for one in section.comparisons)


@dataclass(frozen=True)
class Trouble:
    """A run that cannot be shown, or only in part: where, why, and what to do."""

    place: Path
    reason: str


@dataclass
class Links:
    """What belongs together: a run's folder name → the ledger's lines that read it."""

    entries: Sequence[Entry]
    by_run: dict[str, list[Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry in self.entries:
            for name in dict.fromkeys(entry.runs.values()):
                self.by_run.setdefault(name, []).append(entry)

    def of_run(self, run: Run) -> tuple[Entry, ...]:
        """The lines that read a run."""
        return tuple(self.by_run.get(run.path.name, ()))


def run_anchor(run: Run) -> str:
    """The anchor of a run: its experiment and the first digits of its folder's name."""
    return slug(f"run-{run.experiment}-{run.path.name[:8]}")


def _supported(picture_claims: Sequence[str], entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The lines of a run that a figure supports: those of its claims; all, if it names none."""
    return tuple(e for e in entries if not picture_claims or e.id in picture_claims)


def _figures(run: Run, entries: tuple[Entry, ...]) -> tuple[Figure, ...]:
    return tuple(
        Figure(slug(f"fig-{one.name}-{run.path.name[:8]}"), one, _supported(one.picture.claims, entries))
        for one in drawn(run)
    )


def _compared(run: Run) -> tuple[Comparison, ...]:
    found: list[Comparison] = []
    for room in rooms().values():
        compare = getattr(room, "COMPARISONS", {}).get(run.experiment)
        found += compare(run) if compare else []
    return tuple(found)


def section(run: Run, links: Links, remark: str = "") -> Section:
    """A run with all that belongs to it."""
    entries = links.of_run(run)
    compared = () if remark or run.experiment not in experiments() else _compared(run)
    return Section(run, settings_told(run), entries, _figures(run, entries), compared, remark)


def listed(run: Run, links: Links) -> Section:
    """A run that only has a line in the list of runs."""
    return Section(run, settings_told(run), links.of_run(run), detailed=False)


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Runs in the order of the papers and experiments; of one experiment, the usual settings first."""
    place = {name: i for i, name in enumerate(experiments())}
    changes = {run.path: len(settings_told(run).changes) for run in runs}
    return sorted(runs, key=lambda r: (place.get(r.experiment, len(place)), changes[r.path], r.path.name))


def paper_of(experiment: str) -> str:
    """The paper that an experiment belongs to."""
    plan = experiments().get(experiment)
    return plan.paper if plan else "other"


def papers(entries: Sequence[Entry], sections: Sequence[Section]) -> tuple[Paper, ...]:
    """The papers that have lines or runs, in their usual order, then what belongs to none."""
    named = dict.fromkeys([*rooms(), *(e.paper for e in entries), *(paper_of(s.name) for s in sections)])
    found = (_paper(key, entries, sections) for key in named)
    return tuple(paper for paper in found if paper.entries or paper.sections)


def _paper(key: str, entries: Sequence[Entry], sections: Sequence[Section]) -> Paper:
    room: Any = rooms().get(key)
    return Paper(
        key=key,
        name=getattr(room, "NAME", key.upper() if room else "Other"),
        title=getattr(room, "TITLE", "" if room else "Runs that belong to no paper here"),
        source=getattr(room, "SOURCE", ""),
        entries=tuple(e for e in entries if e.paper == key),
        sections=tuple(s for s in sections if paper_of(s.name) == key),
    )


def machines(runs: Iterable[Run]) -> Mapping[str, tuple[str, ...]]:
    """Where and with what the runs were made, each once."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        made = run.manifest
        packages = made.get("packages", {})
        for key, value in {
            "machine": made.get("platform"),
            "device": made.get("device"),
            "Python": made.get("python"),
            **{name: packages.get(name) for name in ("featscope", "torch")},
        }.items():
            if value:
                found.setdefault(key, {})[str(value)] = None
    return {key: tuple(values) for key, values in found.items()}
