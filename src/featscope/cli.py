"""The command line. Results go to standard output, progress and messages to standard error; errors are one line and exit with 2."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from featscope import __version__
from featscope.bench import registry as benches
from featscope.core.errors import BadInput, FeatscopeError, require_at_least
from featscope.core.health import told
from featscope.core.store import Run, Store, find_runs, locked, write_json
from featscope.experiments import spec as specs
from featscope.experiments.registry import EXPERIMENTS, experiment
from featscope.images.command import app as data_app
from featscope.report import page
from featscope.theory import ledger

app = typer.Typer(
    name="featscope",
    help="Run the models of the papers, check their statements, and measure the same on your own networks.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")
out = Console()
err = Console(stderr=True)

ProfileOption = Annotated[str, typer.Option("--profile", "-p", help="quick, cpu or paper")]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="the folder that holds the runs")]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")]


class Shown:
    """Progress bars on standard error with the quantities that matter; silent when it is not a terminal."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Bars(*columns, TextColumn("{task.fields[facts]}"), console=err, transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._prefix = ""

    def begin(self, prefix: str) -> None:
        """Name what the next reports belong to."""
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

    def stop(self) -> None:
        """Take the bars away."""
        if self._bars.live.is_started:
            self._bars.stop()


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _overrides(assignments: Sequence[str], seeds: int | None) -> dict[str, Any]:
    changes = specs.parse_assignments(list(assignments))
    if seeds is not None:
        require_at_least("--seeds", seeds, 1)
        changes["seeds"] = list(range(seeds))
    return changes


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List experiments and claims: what each shows and how long it takes."""
    claims = [
        {"id": c.id, "paper": c.paper, "reference": c.reference, "readings": [r.name for r in c.readings]} for c in ledger.CLAIMS.values()
    ]
    plans = [
        {"name": e.name, "paper": e.paper, "shows": e.shows, "takes": dict(e.takes), "keys": specs.leaves(e.spec)}
        for e in EXPERIMENTS.values()
    ]
    if as_json:
        _print_json({"experiments": plans, "claims": claims})
        return
    shown = Table("experiment", "paper", "shows", "takes", title="Experiments (featscope run NAME)", title_justify="left")
    for e in EXPERIMENTS.values():
        shown.add_row(e.name, e.paper, e.shows, "\n".join(f"{p}: {t}" for p, t in e.takes.items()))
    out.print(shown)
    shown = Table("claim", "reference", "readings", title="Claims (featscope check ID)", title_justify="left")
    for c in ledger.CLAIMS.values():
        shown.add_row(c.id, c.reference, ", ".join(r.name for r in c.readings))
    out.print(shown)


@app.command()
def run(
    name: str,
    profile: ProfileOption = "cpu",
    assignments: Annotated[list[str] | None, typer.Option("--set", help="key=value; repeat for more")] = None,
    seeds: Annotated[int | None, typer.Option(help="number of seeds, 0 … N−1")] = None,
    folder: OutOption = Path("runs"),
    force: Annotated[bool, typer.Option(help="run again although the run exists")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run an experiment, draw its figures, and print its key numbers."""
    plan = experiment(name)
    spec = specs.resolve(plan, profile, _overrides(assignments or [], seeds))
    shown = Shown()
    shown.begin(name)
    try:
        done = specs.run(plan, spec, Store(folder), shown, force)
    finally:
        shown.stop()
    made = page.draw(done)
    for part, note in done.manifest.get("notes", {}).items():
        err.print(f"{part}: {told(note)}", markup=False, soft_wrap=True)
    _print_json(done.summary)
    if not as_json:
        err.print(f"run folder {done.path}; {len(made)} figure(s) and report.html in it", markup=False, soft_wrap=True)


@app.command()
def check(
    claims: Annotated[list[str] | None, typer.Argument(help="claim ids; all on synthetic data if none")] = None,
    images: Annotated[bool, typer.Option("--images", help="also all claims on real images whose data has been fetched")] = False,
    paper: Annotated[str | None, typer.Option(help="at, fa, cgro or ep")] = None,
    profile: ProfileOption = "cpu",
    folder: OutOption = Path("runs"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="runs made at a time; 0 means one for each core")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Judge the papers' statements and print the ledger; runs what is missing first."""
    require_at_least("--jobs", jobs, 0)
    chosen = ledger.select(claims or [], paper, images)
    if not claims:
        _say_left_out(images)
    shown = Shown()
    clock = time.monotonic()

    def drawn(done: Run) -> None:
        page.draw(done)
        seconds = time.monotonic() - clock
        err.print(f"[{seconds:5.0f} s] {done.experiment} {done.path.name}", markup=False, highlight=False)

    try:
        lines = list(ledger.check(chosen, profile, Store(folder), shown, drawn, jobs or os.cpu_count() or 1))
    finally:
        shown.stop()
    if not claims and paper is None:
        with locked(folder / "ledger.json"):
            write_json(folder / "ledger.json", lines)
    if as_json:
        _print_json(lines)
        return
    table = Table("claim", "reading", "verdict", "value", "bound")
    for line in lines:
        numbers = [f"{line[key]:.4g}" if line[key] is not None else "" for key in ("value", "bound")]
        table.add_row(line["id"], line["reading"], line["verdict"], *numbers)
    out.print(table)


def _say_left_out(images: bool) -> None:
    """Name the claims on real images that are not judged, and what would change that."""
    behind = {claim.id: ledger.lacks(claim) for claim in ledger.CLAIMS.values() if ledger.data_of(claim)}
    if not images:
        err.print(f"left out, on real images: {' '.join(behind)}; name them or add --images", markup=False, soft_wrap=True)
        return
    for name, lacking in behind.items():
        if lacking:
            err.print(f"{name} left out, its data is not there: featscope data fetch {' '.join(lacking)}", markup=False)


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="run folders, or folders that hold runs")],
    target: Annotated[Path, typer.Option("--out", "-o", help="the page to write")] = Path("report.html"),
) -> None:
    """Write one HTML page with the figures of runs and the ledger beside them."""
    runs = [done for folder in folders for done in find_runs(folder)]
    if not runs:
        raise BadInput("no finished run", ", ".join(map(str, folders)), "run `featscope run NAME` or `featscope check` first")
    for done in runs:
        if not page.is_drawn(done):
            page.draw(done)
    lines = [line for folder in folders for line in page.read_ledger(folder)]
    page.write_page(runs, target, lines)
    err.print(f"{target}: {len(runs)} run(s), {len(lines)} ledger line(s)", markup=False)


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="which benchmark; all if none")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure speed as ratios within one run."""
    lines = [line.as_json() for line in benches.measure(name)]
    if as_json:
        _print_json(lines)
        return
    table = Table("ours", "against", "their time ÷ ours", "interval", "what both gave")
    for line in lines:
        table.add_row(line["name"], line["against"], f"{line['ratio']:.2f}", f"{line['low']:.2f} – {line['high']:.2f}", line["note"])
    out.print(table)


def _version(show: bool) -> None:
    if show:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")] = False,
) -> None: ...


def _complain(text: str) -> int:
    sys.stderr.write("error: " + " ".join(text.split()) + "\n")
    return 2


#: what shells and typer take for "stopped by Ctrl-C"
INTERRUPTED = 130
# Typer carries its own copy of click or uses the installed one, by version: either way this is its ClickException.
UsageProblem: type[Exception] = typer.BadParameter.__bases__[0].__bases__[0]


def invoke(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    try:
        code = app(args=list(arguments) or ["--help"], standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except UsageProblem as error:
        return _complain(f"{getattr(error, 'format_message', error.__str__)()}; see `featscope --help`")
    except (typer.Abort, KeyboardInterrupt):
        _complain("interrupted; what was finished is kept, and the same command goes on from there")
        return INTERRUPTED
    except FeatscopeError as error:
        return _complain(str(error))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return _complain("no space left on the disk; nothing finished is lost; free space and repeat the command")
        return _complain(f"{error.strerror or error}: {error.filename or ''}; check the path and its permissions")
    except (MemoryError, RuntimeError) as error:
        # torch reports a failed allocation as a RuntimeError
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        return _complain("out of memory; lower the sizes with --set or use --profile quick")


def main() -> None:
    """Entry point of the `featscope` command."""
    sys.exit(invoke(sys.argv[1:]))
