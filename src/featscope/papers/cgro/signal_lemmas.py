"""Experiment `signal-lemmas`: CGRO's tensor-power lemmas A.1–A.3 on the slowest sequences they allow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from featscope.core.columns import Columns, column
from featscope.core.settings import Positives, setting
from featscope.core.store import Folder, Json
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec

Row = dict[str, Any]
CAP = 2_000_000
LEMMAS = ("A.1", "A.2", "A.3")


class SignalLemmas(Spec):
    """Grids of the lemmas' constants."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {"quick": {"rates": [0.01, 0.1, 1.0]}}

    seeds: tuple[int, ...] = (0,)
    rates: Positives = setting((0.0003, 0.001, 0.01, 0.1, 1.0, 10.0), "m·z0 (A.1), A·z0 (A.2, A.3)")
    starts: Positives = setting((0.001, 0.1, 1.0), "z0, where the sequences start", letter="z_0")
    spreads: tuple[Annotated[float, Field(ge=1)], ...] = setting(
        (1.0, 2.0, 10.0), "M/m, the spread of the factors (A.1)"
    )
    goals: tuple[Annotated[float, Field(ge=1)], ...] = setting(
        (1.0, 2.0, 10.0, 1000.0), "v/z0, what the sequences must reach"
    )
    offsets: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = setting(
        (0.0, 0.25, 0.5), "C/z0, the offset (A.2)"
    )


class LemmaCase(Columns):
    """One choice of a lemma's constants."""

    lemma = column("which lemma")
    start = column("z0, where the sequence starts")
    rate = column("m·z0 (A.1) or A·z0 (A.2, A.3)")
    goal = column("v/z0; none in A.3")
    other = column("M/m (A.1) or C/z0 (A.2)")
    share = column("time of the slowest sequence as a share of the bound (A.3: largest z·A·t)")


def doublings(goal: float) -> int:
    """⌈log(v/z0)/log 2⌉."""
    return math.ceil(math.log2(goal))


def growth_time(start: float, rate: float, goal: float) -> int:
    """First t with z ≥ v on the slowest sequence of A.1, z⁺ = z + m z²."""
    z, t = start, 0
    while z < goal and t < CAP:
        z, t = z + rate * z * z, t + 1
    return t


def summed_time(start: float, rate: float, offset: float, goal: float) -> int:
    """First t ≥ 0 with z ≥ v on the slowest sequence of A.2, z(t) = z0 + A Σ_{s<t} z(s)² − C for t ≥ 1."""
    z, total, t = start, 0.0, 0
    while z < goal and t < CAP:
        total += rate * z * z
        z, t = start + total - offset, t + 1
    return t


def decay_share(start: float, rate: float, steps: int) -> float:
    """max_t z(t)·A·t on the slowest sequence of A.3, z⁺ = z − A z²; the lemma says at most 1."""
    z, worst = start, 0.0
    for t in range(1, steps + 1):
        z = z - rate * z * z
        worst = max(worst, z * rate * t)
    return worst


def _row(lemma: str, start: float, rate: float, goal: float | None, other: float | None, share: float) -> Row:
    c = LemmaCase
    return {c.lemma: lemma, c.start: start, c.rate: rate, c.goal: goal, c.other: other, c.share: share}


def run_lemmas(spec: SignalLemmas, folder: Folder) -> Json:
    """Iterate over the grids."""
    rows: list[Row] = []
    for z0, rate, goal in product(spec.starts, spec.rates, spec.goals):
        for spread in spec.spreads:
            bound = 3 / rate + 8 * spread * doublings(goal)
            hit = growth_time(z0, rate / z0, goal * z0)
            rows.append(_row("A.1", z0, rate, goal, spread, hit / bound))
        for offset in spec.offsets:
            bound = 8 * doublings(goal) + 21 / rate
            hit = summed_time(z0, rate / z0, offset * z0, goal * z0)
            rows.append(_row("A.2", z0, rate, goal, offset, hit / bound))
    for z0, rate in product(spec.starts, [r for r in spec.rates if r <= 1]):
        rows.append(_row("A.3", z0, rate, None, None, decay_share(z0, rate / z0, 20000)))
    folder.add("lemmas", rows)
    c = LemmaCase
    return {lemma: max(row[c.share] for row in rows if row[c.lemma] == lemma) for lemma in LEMMAS}


def size(spec: SignalLemmas) -> Size:
    """A sequence for each choice of constants; slow rates take long."""
    cases = len(spec.starts) * len(spec.goals) * (len(spec.spreads) + len(spec.offsets))
    return Size(cases * len(spec.rates), cases * sum(min(1 / rate, CAP) for rate in spec.rates), rate=1e6)


EXPERIMENTS = (
    Experiment(
        name="signal-lemmas",
        paper="cgro",
        shows="CGRO Lemmas A.1–A.3: the slowest allowed sequences against the stated times, as shares of the "
        "bound",
        spec=SignalLemmas,
        run=run_lemmas,
        columns={"lemmas": LemmaCase},
        takes={"quick": "1 s", "cpu": "3 s", "paper": "3 s"},
        highlights=(Highlight("*", "Lemma {}: the slowest sequence as a share of its bound"),),
        size=size,
    ),
)
