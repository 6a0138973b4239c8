"""`featscope sweep`: an experiment over many settings, here or on many machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from featscope.cli.catalogue import experiment_names
from featscope.cli.console import (
    JsonOption,
    ProfileOption,
    SeedsOption,
    SetOption,
    ShownProgress,
    announce,
    print_json,
    say,
    tell,
)
from featscope.cli.run import known_line
from featscope.core.errors import require, require_at_least

if TYPE_CHECKING:
    from featscope.sweeps.sweep import FinishedSweep, Sweep

EngineOptions = Annotated[
    list[str] | None,
    typer.Option("--engine-set", metavar="KEY=VALUE", help="an option of Ray or submitit; repeat for more"),
]


def sweep(
    name: Annotated[
        str, typer.Argument(help="the experiment, or a TOML file", autocompletion=experiment_names)
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="KEY=LOW:HIGH:N[:log]", help="an axis, or KEY=a,b,c; repeat for more"),
    ] = None,
    profile: ProfileOption = "cpu",
    assignments: SetOption = None,
    seeds: SeedsOption = None,
    design: Annotated[str, typer.Option("--design", help="grid, random or lhs (Latin hypercube)")] = "grid",
    points: Annotated[int, typer.Option("--points", help="number of points of random and lhs")] = 0,
    design_seed: Annotated[int, typer.Option("--design-seed", help="draws the points of random and lhs")] = 0,
    refine: Annotated[
        str | None,
        typer.Option("--refine", metavar="COLUMN", help="cut cells in which this column or verdict changes"),
    ] = None,
    width: Annotated[float, typer.Option("--width", help="cut cells down to this share of a range")] = 0.04,
    level: Annotated[
        float | None,
        typer.Option("--level", help="where a number changes sides; else the middle of its range"),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local, ray or slurm")] = "local",
    workers: Annotated[int, typer.Option("--workers", "-j", help="0 means one for each core")] = 0,
    address: Annotated[str | None, typer.Option("--address", help="a Ray cluster that is running")] = None,
    engine_set: EngineOptions = None,
    shard: Annotated[str, typer.Option("--shard", metavar="I/N", help="do this part of the points")] = "1/1",
    folder: Annotated[
        Path, typer.Option("--out", "-o", help="the folder that holds the runs and the table")
    ] = Path("sweeps"),
    as_json: JsonOption = False,
) -> None:
    """Run an experiment over many settings and gather one table; what is finished is not repeated."""
    require_at_least("--workers", workers, 0)
    from_file = name.endswith(".toml")
    if not from_file:
        announce(f"{known_line(name)['name']}: starting")
    from featscope.experiments.keys import parse_assignments
    from featscope.experiments.registry import experiment
    from featscope.sweeps.asked import from_file as read
    from featscope.sweeps.axes import parse_axis
    from featscope.sweeps.engines import engine as engine_of
    from featscope.sweeps.sweep import Sweep, run_sweep, share_of

    if from_file:
        given = [*(vary or []), *(assignments or []), *([refine] if refine else [])]
        require(not given and seeds is None, "a file says what is swept", name, "put it into the file")
        asked = read(Path(name))
    else:
        plan = experiment(name)
        asked = Sweep(
            plan.name,
            tuple(parse_axis(plan, text) for text in vary or []),
            profile,
            parse_assignments(assignments or []),
            seeds,
            refined=refine,
            width=width,
            level=level,
            design=design,
            points=points,
            design_seed=design_seed,
        )
    options = parse_assignments(engine_set or [])
    chosen = engine_of(engine, asked.place(folder), workers, address, options)
    with ShownProgress() as shown:
        done = run_sweep(asked, folder, chosen, shown, share_of(shard))
    _print(asked, done, as_json)


def _print(asked: Sweep, done: FinishedSweep, as_json: bool) -> None:
    from featscope.sweeps.points import ERROR

    points = done.rows["point"].n_unique()
    first = done.failed[ERROR][0] if done.failed.height else None
    cells = None if done.boundary is None else done.boundary.height
    verdicts = {
        name: dict(done.rows.unique("point")[name].drop_nulls().value_counts(sort=True).iter_rows())
        for name in done.rows.columns
        if " " in name
    }
    if as_json:
        facts: dict[str, Any] = {"table": str(done.path), "points": points, "failed": done.failed.height}
        print_json({**facts, "first_error": first, "boundary_cells": cells, "verdicts": verdicts})
        return
    tell(f"{asked.plan.name}: {points} points over {', '.join(axis.told for axis in asked.axes)}")
    for name, counts in verdicts.items():
        tell(f"  {name}: " + ", ".join(f"{verdict} {count}" for verdict, count in counts.items()))
    if first is not None:
        tell(f"  failed: {done.failed.height}, the first: {first}")
    if cells is not None:
        tell(f"  boundary: {cells} cells in {done.path.with_name('boundary.parquet')}")
    tell(f"table: {done.path}")
    say("read it with polars.read_parquet, or pandas.read_parquet")
