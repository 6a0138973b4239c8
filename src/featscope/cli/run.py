"""`featscope run`: one experiment, its figures and its key numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from featscope.cli.console import JsonOption, OutOption, ProfileOption, Shown, print_json, say
from featscope.core.errors import require_at_least


def overrides(assignments: Sequence[str], seeds: int | None) -> dict[str, Any]:
    """What `--set` and `--seeds` change."""
    from featscope.experiments.spec import parse_assignments

    changes = parse_assignments(list(assignments))
    if seeds is not None:
        require_at_least("--seeds", seeds, 1)
        changes["seeds"] = list(range(seeds))
    return changes


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
    from featscope.core.health import told
    from featscope.core.store import Store
    from featscope.experiments import runner
    from featscope.experiments.registry import experiment
    from featscope.experiments.spec import request
    from featscope.report.page import draw

    wanted = request(experiment(name), profile, overrides(assignments or [], seeds))
    with Shown(name) as shown:
        done = runner.run(wanted, Store(folder), shown, force)
    made = draw(done)
    for part, note in done.manifest.get("notes", {}).items():
        say(f"{part}: {told(note)}")
    print_json(done.summary)
    if not as_json:
        say(f"run folder {done.path}; {len(made)} figure(s) and report.html in it")
