"""Figures of runs as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from featscope.core.errors import BadInput, FeatscopeError, require, unknown
from featscope.experiments.registry import experiments
from featscope.experiments.run import Run, find_runs
from featscope.report.figures import drawings
from featscope.report.settings import settings_told

FORMATS = ("pdf", "svg", "png", "json")


def _names(runs: Sequence[Run]) -> dict[Path, str]:
    """What the files of each run begin with: the experiment, and digits of the folder where there are
    variants."""
    usual: dict[str, Path] = {}
    for run in sorted(runs, key=lambda run: (len(settings_told(run).changes), run.path.name)):
        usual.setdefault(run.experiment, run.path)
    return {
        run.path: run.experiment
        if usual[run.experiment] == run.path
        else f"{run.experiment}-{run.path.name[:8]}"
        for run in runs
    }


def _readable(folders: Sequence[Path], tell: Callable[[str], None]) -> list[Run]:
    found = {run.path.resolve(): run for folder in folders for run in find_runs(folder)}
    kept = []
    for run in found.values():
        if (damage := run.damage()) is not None:
            tell(f"{run.path}: {damage}")
        elif run.experiment not in experiments():
            tell(f"{run.path}: no room of this installation knows {run.experiment}")
        elif run.outdated:
            tell(f"{run.path}: a run of an older form; make it again: {settings_told(run).command}")
        else:
            kept.append(run)
    if not kept:
        raise BadInput(
            "no run whose figures can be drawn",
            ", ".join(map(str, folders)),
            "run `featscope run NAME` first",
        )
    return kept


def export(
    folders: Sequence[Path],
    target: Path,
    form: str,
    word: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write every figure of every run below ``folders`` as a file of that format into ``target``."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    require(
        not target.exists() or target.is_dir(), "not a folder", str(target), "name a folder for the figures"
    )
    runs = _readable(folders, tell)
    begins = _names(runs)
    wanted = [
        (run, f"{begins[run.path]}-{name}.{form}", draw)
        for run in runs
        for name, draw in drawings(run.experiment).items()
        if word is None or word in f"{begins[run.path]}-{name}"
    ]
    require(bool(wanted), "no figure has this word in its name", f"--only {word}", "leave it out to see all")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for run, name, draw in wanted:
        try:
            draw(run).save(target / name)
        except FeatscopeError as error:
            tell(f"{run.path}: {error}")
        else:
            written.append(target / name)
    return written
