"""`featscope runs list|show|diff|export|clean`: the store."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from featscope.cli.console import JsonOption, OutOption, out, print_json, say, shortened, tell
from featscope.core.errors import BadInput, require

if TYPE_CHECKING:
    import polars as pl

    from featscope.experiments.run import Run

app = typer.Typer(help="Finished runs: list, show, compare, export, clean.", rich_markup_mode=None)
FolderArgument = Annotated[Path, typer.Argument(help="the folder that holds the runs")]
RunArgument = Annotated[
    str, typer.Argument(help="a run's folder, or the beginning of its digest below --out")
]


class Format(StrEnum):
    """What a table is written as."""

    CSV = "csv"
    LATEX = "latex"


def _all(folder: Path) -> list[Run]:
    from featscope.experiments.run import find_runs

    require(folder.is_dir(), "there is no such folder", str(folder), "give the folder that holds the runs")
    return find_runs(folder)


def _named(name: str, folder: Path) -> Run:
    """The run of a folder, or the one whose digest begins so."""
    from featscope.experiments.run import Run

    place = Path(name)
    if (place / "manifest.json").is_file():
        return Run(place)
    require(
        bool(name.strip()), "a run must be named", repr(name), f"`featscope runs list {folder}` shows them"
    )
    matches = [run for run in _all(folder) if run.path.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    remedy = f"`featscope runs list {folder}` shows them"
    raise BadInput("several runs begin so" if matches else "no such run", f"{name} in {folder}", remedy)


def _state(run: Run) -> str:
    """Whether a run can be read by this version."""
    from featscope.experiments.registry import experiments

    if run.damage() is not None:
        return "damaged"
    if run.experiment not in experiments():
        return "unknown experiment"
    return "older form" if run.outdated else "ok"


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@app.command("list")
def list_(folder: FolderArgument = Path("runs"), as_json: JsonOption = False) -> None:
    """List the finished runs below a folder: experiment, digest, what was changed, time, size, state."""
    from featscope.experiments.cost import in_bytes

    lines = [_line(run) for run in _all(folder)]
    if as_json:
        print_json(lines)
        return
    table = Table("experiment", "run", "state", "seconds", "size", "changed", box=None, pad_edge=False)
    for line in lines:
        sizes = (f"{line['seconds']:.0f}" if line["seconds"] is not None else "", in_bytes(line["bytes"]))
        changed = ", ".join(f"{key}={value}" for key, value in line["changed"].items())
        table.add_row(line["experiment"], line["run"], line["state"], *sizes, changed[:60])
    out.print(table, markup=False, highlight=False)
    say(f"{len(lines)} runs, {in_bytes(sum(line['bytes'] for line in lines))}")


def _line(run: Run) -> dict[str, Any]:
    state = _state(run)
    readable = state != "damaged"
    return {
        "experiment": run.experiment if readable else run.path.parent.name,
        "run": run.path.name,
        "path": str(run.path),
        "state": state,
        "seconds": run.manifest["wall_seconds"] if readable else None,
        "bytes": _bytes(run.path),
        "changed": _changed(run) if state == "ok" else {},
    }


def _changed(run: Run) -> dict[str, Any]:
    """The settings in which a run differs from the profile that is nearest to it."""
    from featscope.core.frozen import json_form
    from featscope.experiments.registry import experiment
    from featscope.experiments.spec import PROFILES, resolve

    plan, mine = experiment(run.experiment), _flat(run.identity["spec"])
    usual = [_flat(json_form(resolve(plan, profile))) for profile in PROFILES]
    differences = [{key: value for key, value in mine.items() if other.get(key) != value} for other in usual]
    return min(differences, key=len)


def _flat(body: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(body, dict):
        return {prefix.rstrip("."): body}
    return {
        key: value for name, inner in body.items() for key, value in _flat(inner, f"{prefix}{name}.").items()
    }


@app.command("show")
def show_(name: RunArgument, folder: OutOption = Path("runs"), as_json: JsonOption = False) -> None:
    """Show a run: its key numbers, the settings that differ, and how it was made."""
    from featscope.experiments.highlights import key_numbers
    from featscope.experiments.registry import experiment

    run = _sound(_named(name, folder))
    if as_json:
        print_json({"settings": run.identity, "summary": run.summary, "manifest": run.manifest})
        return
    plan = experiment(run.experiment)
    tell(f"{plan.name}: {plan.shows}")
    for key, value in ({} if run.outdated else _changed(run)).items():
        tell(f"  changed: {key} = {value}")
    for meaning, value in key_numbers(plan.highlights, run.summary):
        tell(f"  {meaning}: {value}")
    made = run.manifest
    torch = made.get("packages", {}).get("torch", "?")
    tell(f"  {made['wall_seconds']} s, Python {made.get('python', '?')}, torch {torch}")
    tell(f"  {run.rows.height} rows, {len(run.tensors)} tensors in {run.path}")


def _sound(run: Run) -> Run:
    damage = run.damage()
    remedy = "make it again with `featscope run`, or `featscope runs clean` takes it away"
    require(damage is None, "a damaged run", f"{run.path} ({damage})", remedy)
    return run


@app.command("diff")
def diff_(
    one: RunArgument, other: RunArgument, folder: OutOption = Path("runs"), as_json: JsonOption = False
) -> None:
    """Compare two runs: settings and numbers of their summaries that differ."""
    runs = [_sound(_named(name, folder)) for name in (one, other)]
    found = {}
    for what, bodies in (
        ("settings", [{"experiment": run.experiment, **run.identity["spec"]} for run in runs]),
        ("summary", [run.summary for run in runs]),
    ):
        flat = [_flat(body) for body in bodies]
        keys = dict.fromkeys([*flat[0], *flat[1]])
        found[what] = {
            key: [side.get(key) for side in flat] for key in keys if flat[0].get(key) != flat[1].get(key)
        }
    if as_json:
        print_json(found)
        return
    table = Table("what", "key", runs[0].path.name, runs[1].path.name, box=None, pad_edge=False)
    for what, changes in found.items():
        for key, values in changes.items():
            table.add_row(what, key, *(_brief(value) for value in values))
    out.print(table, markup=False, highlight=False)
    if not any(found.values()):
        say("the same settings and the same numbers")


def _brief(value: Any, most: int = 5) -> str:
    """A value for a cell: four digits of a number, the ends of a long list."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if not isinstance(value, list):
        return "–" if value is None else shortened(str(value), 40)
    if len(value) > most:
        return f"{_brief(value[0])}, {_brief(value[1])}, … {_brief(value[-1])} ({len(value)})"
    return ", ".join(_brief(each) for each in value)


@app.command("export")
def export_(
    name: RunArgument,
    part: Annotated[str | None, typer.Option(help="rows of this part; the key numbers if not given")] = None,
    form: Annotated[Format, typer.Option("--format", "-f", help="csv or latex")] = Format.CSV,
    target: Annotated[
        Path | None, typer.Option("--to", help="the file to write; standard output if not given")
    ] = None,
    folder: OutOption = Path("runs"),
) -> None:
    """Export a run's key numbers, or the rows of a part, as CSV or as a LaTeX table."""
    run = _sound(_named(name, folder))
    head, rows = _key_table(run) if part is None else _part_table(run, part)
    text = as_csv(head, rows) if form is Format.CSV else as_latex(head, rows)
    if target is None:
        sys.stdout.write(text)
        return
    require(not target.is_dir(), "the target is a folder", str(target), "give the name of a file")
    target.write_text(text, encoding="utf-8")
    say(f"{target}: {len(rows)} rows")


def _key_table(run: Run) -> tuple[list[str], list[list[Any]]]:
    from featscope.experiments.highlights import key_numbers
    from featscope.experiments.registry import experiment

    pairs = key_numbers(experiment(run.experiment).highlights, run.summary)
    return ["quantity", "value"], [list(pair) for pair in pairs]


def _part_table(run: Run, part: str) -> tuple[list[str], list[list[Any]]]:
    from featscope.core.errors import known_as

    parts = run.rows["part"].unique().to_list() if run.rows.width else []
    rows: pl.DataFrame = run.part(known_as("part", part, parts)).drop("part")
    return rows.columns, [list(row) for row in rows.iter_rows()]


def as_csv(head: list[str], rows: list[list[Any]]) -> str:
    """A table as CSV."""
    made = io.StringIO()
    writer = csv.writer(made)
    writer.writerow(head)
    writer.writerows(rows)
    return made.getvalue()


#: what LaTeX reads as a command
_SPECIAL = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def as_latex(head: list[str], rows: list[list[Any]]) -> str:
    """A table as LaTeX, with the rules of booktabs."""
    lines = [" & ".join(_escaped(cell) for cell in row) + r" \\" for row in (head, *rows)]
    form = "l" * len(head)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{form}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _escaped(cell: Any) -> str:
    text = f"{cell:.4g}" if isinstance(cell, float) else "" if cell is None else str(cell)
    return "".join(_SPECIAL.get(sign, sign) for sign in text)


@app.command("clean")
def clean_(
    folder: FolderArgument = Path("runs"),
    yes: Annotated[
        bool, typer.Option("--yes", help="take them away; without it they are only named")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take away unfinished, damaged and outdated runs; finished runs of this version stay."""
    doomed = dict(_doomed(folder))
    if yes:
        for path in list(doomed):
            if not _take_away(path):
                doomed[path] += ", kept: another process is at it"
    if as_json:
        print_json({str(path): why for path, why in doomed.items()})
        return
    for path, why in doomed.items():
        tell(f"{path}: {why}")
    told = "nothing to take away" if not doomed else "taken away" if yes else "add --yes to take them away"
    say(f"{len(doomed)} folders; {told}")


def _doomed(folder: Path) -> list[tuple[Path, str]]:
    found = [(run.path, state) for run in _all(folder) if (state := _state(run)) in ("damaged", "older form")]
    left = [path for path in folder.glob("*/*.partial") if path.is_dir()]
    return found + [(path, "unfinished") for path in left]


def _take_away(path: Path) -> bool:
    """Delete a run's folder unless a process is writing it."""
    from featscope.core.locks import Busy, locked

    try:
        with locked(path.with_name(path.name.removesuffix(".partial")), wait=False):
            shutil.rmtree(path, ignore_errors=True)
    except Busy:
        return False
    return True
