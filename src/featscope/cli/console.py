"""What every verb shares: options, where results and messages go, and progress bars. Nothing here imports
torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

out = Console()
err = Console(stderr=True)

ProfileOption = Annotated[str, typer.Option("--profile", "-p", help="quick, cpu or paper")]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="the folder that holds the runs")]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")]


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def say(text: str) -> None:
    """A message on standard error."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


class Shown:
    """Progress bars on standard error with the quantities that matter; silent when it is not a terminal."""

    def __init__(self, prefix: str = "") -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, TextColumn("{task.fields[facts]}"), console=err, transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._prefix = prefix

    def report(self, label: str, step: int, steps: int, facts: Mapping[str, float]) -> None:
        """Move the bar of ``label``."""
        if not err.is_terminal:
            return
        if not self._bars.live.is_started:
            self._bars.start()
        name = f"{self._prefix} {label}"
        text = "  ".join(f"{key} {value:.3g}" for key, value in list(facts.items())[:4])
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=steps, facts=text)
        self._bars.update(self._tasks[name], completed=step, total=steps, facts=text)
        if step >= steps:
            self._bars.remove_task(self._tasks.pop(name))

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars.live.is_started:
            self._bars.stop()
