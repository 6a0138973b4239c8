"""`featscope run`: one experiment, its figures and its key numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from featscope.cli.catalogue import catalogue, experiment_names
from featscope.cli.console import (
    JsonOption,
    OutOption,
    ProfileOption,
    SeedsOption,
    SetOption,
    ShownProgress,
    announce,
    out,
    print_json,
    say,
    shortened,
    tell,
)
from featscope.cli.until import refuse_with_until, run_until
from featscope.core.errors import known_as, require

if TYPE_CHECKING:
    from featscope.experiments.run import Run
    from featscope.experiments.spec import Request


def overrides(assignments: Sequence[str], seeds: int | None) -> dict[str, Any]:
    """What `--set` and `--seeds` change."""
    from featscope.experiments.keys import parse_assignments
    from featscope.experiments.spec import first_seeds

    changes = parse_assignments(list(assignments))
    if seeds is not None:
        require("seeds" not in changes, "a setting is given twice", "--seeds and --set seeds", "give it once")
        changes["seeds"] = first_seeds(seeds)
    return changes


def run(
    name: Annotated[str, typer.Argument(help="the experiment", autocompletion=experiment_names)],
    profile: ProfileOption = "cpu",
    assignments: SetOption = None,
    seeds: SeedsOption = None,
    folder: OutOption = Path("runs"),
    force: Annotated[bool, typer.Option("--force", help="run again although the run exists")] = False,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="build its networks, say what it would cost, run nothing")
    ] = False,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="settled|HOURS",
            help="add seeds until its claims' intervals clear their bounds, or so many hours are over",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run an experiment, draw its figures, and print its key numbers."""
    line = known_line(name)
    announce(f"{line['name']}, profile {profile} (about {line['takes'].get(profile, '?')}): starting")
    from featscope.core.store import Store
    from featscope.experiments.registry import experiment
    from featscope.experiments.spec import request

    changes, store = overrides(assignments or [], seeds), Store(folder)
    if until is not None:
        refuse_with_until([("--seeds", seeds is not None), ("--force", force), ("--dry-run", dry)])
        run_until(line["name"], profile, changes, store, until, as_json)
        return
    wanted = request(experiment(name), profile, changes)
    if dry:
        _say_cost(wanted, profile, store, as_json)
        return
    done, made = _done(wanted, store, force)
    if as_json:
        print_json(done.summary)
        return
    _print_numbers(done)
    _print_verdicts(wanted, profile, done)
    tell(f"{'made' if made else 'found, made before'}: {done.path}")
    tell(f"page with figures: {done.path / 'report.html'}")


def known_line(name: str) -> dict[str, Any]:
    """The catalogue's line of an experiment: a typo is refused before anything heavy is imported."""
    lines = {line["name"]: line for line in catalogue()["experiments"]}
    found: dict[str, Any] = lines[known_as("experiment", name, lines)]
    return found


def _done(wanted: Request, store: Any, force: bool) -> tuple[Run, bool]:
    """The finished run with its figures, and whether it was made now."""
    from featscope.core.health import told
    from featscope.experiments import runner
    from featscope.report.page import draw, is_drawn

    found = not force and store.find(wanted.identity) is not None
    with ShownProgress() as shown:
        done = runner.run(wanted, store, shown, force)
    if not (found and is_drawn(done) and (done.path / "report.html").exists()):
        draw(done)
    for part, note in done.manifest.get("notes", {}).items():
        say(f"{part}: {told(note)}")
    return done, not found


def _say_cost(wanted: Request, profile: str, store: Any, as_json: bool) -> None:
    from featscope.experiments.rehearsal import ASSUMES, rehearsed
    from featscope.experiments.rehearsal import as_json as trainings_as_json
    from featscope.experiments.spec import cost as cost_of

    cost = cost_of(wanted.experiment, profile, wanted.spec)
    there = store.find(wanted.identity) is not None
    trained = rehearsed(wanted)
    if as_json:
        shown = {"seconds": cost.seconds, "bytes": cost.memory, "there": there}
        print_json({**shown, "trainings": trainings_as_json(trained), "spec": wanted.identity["spec"]})
        return
    tell(f"{wanted.experiment.name}: {cost}" + ("; the run is there already" if there else ""))
    needs = [child.experiment.name for child in wanted.needs().values()]
    if needs and not there:
        tell(f"it needs runs of {', '.join(sorted(set(needs)))} first ({len(needs)})")
    for one in trained:
        tell(f"trains {one}")
    if trained:
        tell(ASSUMES)


def _print_numbers(done: Run) -> None:
    from featscope.experiments.highlights import key_numbers
    from featscope.experiments.registry import experiment

    plan = experiment(done.experiment)
    table = Table(box=None, show_header=False, title=f"{plan.name}: {plan.shows}", title_justify="left")
    table.add_column(ratio=2)
    table.add_column(overflow="fold")
    if done.diverged:
        tell(f"left the numbers, in none of these: {', '.join(done.diverged)}; lower the learning rate")
    for meaning, value in key_numbers(plan.highlights, done.summary):
        table.add_row(meaning, value)
    out.print(table, markup=False, highlight=False)


def _print_verdicts(wanted: Request, profile: str, done: Run) -> None:
    """The verdicts of the claims that need this run and no other."""
    from featscope.claims import ledger
    from featscope.claims.registry import claims

    for claim in claims().values():
        for reading in claim.readings:
            if {need.experiment for need in reading.needs.values()} != {wanted.experiment.name}:
                continue
            needs = ledger.requests(reading, profile)
            if all(need.key == wanted.key for need in needs.values()):
                line = ledger.judge(claim, reading, dict.fromkeys(needs, done))
                would = f", would be {line.would_be}" if line.would_be else ""
                told = f"{line.verdict:<13} {line.id} {line.reading}{would} ({line.reference})"
                tell(shortened(told, out.width))
