"""An experiment, a figure and a claim of one's own, seen by `featscope run`, `check` and the report.

`pip install -e examples/own_claim` announces this module as a room (entry point `featscope.papers` in its pyproject.toml). The claim: the largest of m
standard normals is at most √(2 ln m) on average.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import polars as pl
import torch
from matplotlib.figure import Figure

from featscope.claims.claim import Claim, Finding, Need, Reading, Runs
from featscope.claims.judging import at_most
from featscope.core.columns import Columns, column
from featscope.core.stats import mean_interval
from featscope.core.store import Folder
from featscope.core.streams import stream
from featscope.experiments.run import Run
from featscope.experiments.spec import Experiment, Spec
from featscope.plots.style import GREY, ROBUST, finish, panels


class Maxima(Spec):
    """m Gaussians for each seed."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {"quick": {"seeds": list(range(20))}}
    seeds: tuple[int, ...] = tuple(range(200))
    counts: tuple[int, ...] = (10, 100, 1000)


class Drawn(Columns):
    """One row for each seed and m."""

    seed = column("seed of the draw")
    m = column("how many Gaussians")
    largest = column("the largest of them")


def run(spec: Maxima, folder: Folder) -> dict[str, Any]:
    rows = [
        {Drawn.seed: seed, Drawn.m: m, Drawn.largest: float(torch.randn(m, generator=stream(seed, "own", m)).max())}
        for seed in spec.seeds
        for m in spec.counts
    ]
    folder.add("drawn", rows)
    return {"largest": max(row[Drawn.largest] for row in rows)}


def judge(runs: Runs) -> Finding:
    rows = runs["run"].part("drawn")
    shares = [
        float((group[Drawn.largest] / math.sqrt(2 * math.log(m))).mean()) for (m,), group in rows.group_by(Drawn.m, maintain_order=True)
    ]
    worst = max(Maxima.of(runs["run"]).counts, key=lambda m: rows.filter(pl.col(Drawn.m) == m)[Drawn.largest].mean())
    values = (rows.filter(pl.col(Drawn.m) == worst)[Drawn.largest] / math.sqrt(2 * math.log(worst))).to_list()
    return at_most(mean_interval(values), 1.0, share_by_m=shares)


def draw(run: Run) -> Figure:
    figure, axes = panels(1, 1)
    rows = run.part("drawn")
    axes[0, 0].plot(rows[Drawn.m], rows[Drawn.largest], ".", color=ROBUST, label="draws")
    counts = sorted(set(rows[Drawn.m]))
    axes[0, 0].plot(counts, [math.sqrt(2 * math.log(m)) for m in counts], color=GREY, label="√(2 ln m)")
    axes[0, 0].set_xscale("log")
    finish(axes[0, 0], "largest of m Gaussians", "m", "value")
    return figure


EXPERIMENTS = (
    Experiment(
        name="own-maxima",
        paper="own",
        shows="the largest of m Gaussians",
        spec=Maxima,
        run=run,
        takes={"cpu": "1 s"},
        columns={"drawn": Drawn},
    ),
)
CLAIMS = (
    Claim(
        "OWN-max",
        "own",
        "a textbook",
        "The largest of m standard normals is at most √(2 ln m) on average.",
        (),
        (Reading("mean", "mean over seeds ÷ √(2 ln m)", {"run": Need("own-maxima")}, judge),),
    ),
)
FIGURES = {"own-maxima": {"maxima": draw}}
