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
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
)
from rich.text import Text

out = Console()
err = Console(stderr=True)

ProfileOption = Annotated[str, typer.Option("--profile", "-p", help="quick, cpu, long or paper")]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="the folder that holds the runs")]
PaperOption = Annotated[str | None, typer.Option(help="at, fa, cgro or ep")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="change a setting (featscope show EXPERIMENT); repeat for more"
    ),
]
SeedsOption = Annotated[int | None, typer.Option("--seeds", help="number of seeds, 0 … N−1")]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")]


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def tell(text: str) -> None:
    """A line of the result on standard output."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """A message on standard error."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


#: the label of the progress of all runs together (experiments/runner.py)
WHOLE = "runs"
#: what fits into a line of 80 columns beside the bar, the count and the time left
LABEL, FACTS = 30, 22


def shortened(text: str, most: int) -> str:
    """The text, cut where it is too long for its place."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _fitting(facts: list[str]) -> str:
    """As many facts as fit, whole."""
    shown = ""
    for fact in facts:
        if len(f"{shown}  {fact}".strip()) > FACTS:
            break
        shown = f"{shown}  {fact}".strip()
    return shown


class _TimeLeft(ProgressColumn):
    """What is left at the pace since the bar appeared."""

    def render(self, task: Task) -> Text:
        """Minutes and seconds, or hours; nothing before the first step."""
        made = task.completed - task.fields["begun_at"]
        if task.finished or made <= 0 or not task.elapsed:
            return Text("  -:--")
        left = int(task.elapsed * (task.remaining or 0) / made)
        hours, rest = divmod(left, 3600)
        return Text(f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60:3}:{rest % 60:02}")


class ShownProgress:
    """Progress on standard error: a bar for all runs together, and one for each part that is being made with
    the quantities that matter. Where it is no terminal, only what was found is said."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=14),
            TaskProgressColumn(),
            _TimeLeft(),
        )
        self._bars = Progress(*columns, TextColumn("{task.fields[facts]}"), console=err, transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._told = False

    def report(self, label: str, step: int, steps: int, facts: Mapping[str, float]) -> None:
        """Move the bar of ``label``."""
        if label == WHOLE:
            self._tell(int(facts["done"]), int(facts["all"]))
            text = f"{facts['done']:.0f} of {facts['all']:.0f} runs"
        else:
            text = _fitting([f"{key} {value:.3g}" for key, value in facts.items()])
        if err.is_terminal:
            self._move(label, step, steps, text)

    def _move(self, label: str, step: int, steps: int, text: str) -> None:
        if not self._bars.live.is_started:
            self._bars.start()
        if label not in self._tasks:
            shown = shortened("all" if label == WHOLE else label, LABEL)
            self._tasks[label] = self._bars.add_task(
                shown, total=steps, completed=step, facts=text, begun_at=step
            )
        self._bars.update(self._tasks[label], completed=step, total=steps, facts=text)
        if step >= steps:
            self._bars.remove_task(self._tasks.pop(label))

    def _tell(self, done: int, everything: int) -> None:
        """Say once what was there before the work began."""
        if not self._told:
            self._told = True
            left = f", {everything - done} to make" if done < everything else ", nothing to make"
            say(f"{done} of {everything} runs found{left}")

    def __enter__(self) -> ShownProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars.live.is_started:
            self._bars.stop()


def announce(text: str) -> None:
    """Show at once that something happens, before anything heavy is imported; silent when it is no
    terminal."""
    if err.is_terminal:
        say(text)
