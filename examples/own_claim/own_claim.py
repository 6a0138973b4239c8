"""An experiment, a figure and a claim of one's own, seen by `featscope list`, `run`, `check` and the report.

`pip install examples/own_claim` announces this module as a room: its pyproject.toml has the entry point
`featscope.papers`. The claim, of every textbook: the mean of the largest of m normals is at most √(2 ln m).
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import polars as pl
import torch

from featscope.claims.claim import Claim, Finding, Need, Reading, Runs
from featscope.claims.judging import at_most, every
from featscope.core.columns import Columns, column
from featscope.core.stats import mean_interval
from featscope.core.store import Folder, Rows
from featscope.core.streams import stream
from featscope.experiments.run import Run
from featscope.experiments.spec import Experiment, Spec
from featscope.plots.axes import Axis
from featscope.plots.palette import CATEGORIES, THEORY
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, points
from featscope.plots.sheet import side_by_side


class Maxima(Spec):
    """For each seed, m normals; the defaults are the profile `cpu`."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {"quick": {"seeds": list(range(20))}}
    seeds: tuple[int, ...] = tuple(range(200))
    counts: tuple[int, ...] = (10, 100, 1000)


class Drawn(Columns):
    """One row for each seed and m."""

    seed = column("seed of the draw")
    m = column("how many normals")
    largest = column("the largest of them")


def run(spec: Maxima, folder: Folder) -> dict[str, Any]:
    """Draw, write the rows, and return the summary."""
    draws = ((seed, m, stream(seed, "own", m)) for seed in spec.seeds for m in spec.counts)
    rows: Rows = [
        {Drawn.seed: seed, Drawn.m: m, Drawn.largest: float(torch.randn(m, generator=rng).max())}
        for seed, m, rng in draws
    ]
    folder.add("drawn", rows)
    return {"largest": max(row[Drawn.largest] for row in rows)}


def expected(m: int) -> float:
    """The bound √(2 ln m)."""
    return math.sqrt(2 * math.log(m))


def judge(runs: Runs) -> Finding:
    """For every m: the mean's interval over seeds, as a share of the bound, against 1."""
    rows, counts = runs["run"].part("drawn"), Maxima.of(runs["run"]).counts
    shares = {m: (rows.filter(pl.col(Drawn.m) == m)[Drawn.largest] / expected(m)).to_list() for m in counts}
    return every({f"m={m}": at_most(mean_interval(values), 1.0) for m, values in shares.items()})


def draw(run: Run) -> Picture:
    """Every draw, and the bound."""
    rows, counts = run.part("drawn"), Maxima.of(run).counts
    draws = points("draws", CATEGORIES[0], rows[Drawn.m].to_list(), rows[Drawn.largest].to_list())
    bound = Curve("√(2 ln m)", THEORY, counts, [expected(m) for m in counts])
    panel = Panel("the largest of m normals", Axis("m", "log"), Axis("value"), [draws, bound])
    return Picture(
        title="The largest of m normals",
        caption="Every draw of every seed, and the bound on their mean.",
        alt="Points over m on a logarithmic axis, one for each seed, and the bound as a line.",
        spec=side_by_side([panel]),
        claims=("OWN-max",),
    )


EXPERIMENTS = (
    Experiment(
        "own-maxima", "own", "the largest of m normals", Maxima, run, {"cpu": "1 s"}, columns={"drawn": Drawn}
    ),
)
MEAN = Reading("mean", "the mean over seeds ÷ √(2 ln m), for every m", {"run": Need("own-maxima")}, judge)
STATEMENT = "The mean of the largest of m standard normals is at most √(2 ln m)."
CLAIMS = (Claim("OWN-max", "own", "a textbook", STATEMENT, (), (MEAN,)),)
FIGURES = {"own-maxima": {"maxima": draw}}
