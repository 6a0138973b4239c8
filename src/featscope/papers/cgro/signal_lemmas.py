"""Experiment `signal-lemmas`: CGRO's tensor-power lemmas A.1–A.3 by direct iteration of the slowest sequences that their hypotheses allow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar, Literal

from pydantic import Field

from featscope.core.store import Folder, Json
from featscope.experiments.spec import Experiment, Overrides, Spec

Row = dict[str, Any]
CAP = 2_000_000


class SignalLemmas(Spec):
    """Grids of the lemmas' constants."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {"quick": {"rates": [0.01, 0.1, 1.0]}}

    seeds: tuple[int, ...] = (0,)
    rates: tuple[float, ...] = Field(default=(0.0003, 0.001, 0.01, 0.1, 1.0, 10.0), description="m·z0 (A.1), A·z0 (A.2, A.3)")
    starts: tuple[float, ...] = Field(default=(0.001, 0.1, 1.0), description="z0")
    spreads: tuple[float, ...] = Field(default=(1.0, 2.0, 10.0), description="M/m (A.1)")
    goals: tuple[float, ...] = Field(default=(1.0, 2.0, 10.0, 1000.0), description="v/z0")
    offsets: tuple[float, ...] = Field(default=(0.0, 0.25, 0.5), description="C/z0 (A.2)")


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


def run_lemmas(spec: SignalLemmas, folder: Folder) -> Json:
    """Iterate over the grids."""
    rows: list[Row] = []
    for z0, rate, goal in product(spec.starts, spec.rates, spec.goals):
        for spread in spec.spreads:
            bound = 3 / rate + 8 * spread * doublings(goal)
            hit = growth_time(z0, rate / z0, goal * z0)
            rows.append({"lemma": "A.1", "start": z0, "rate": rate, "goal": goal, "other": spread, "share": hit / bound})
        for offset in spec.offsets:
            bound = 8 * doublings(goal) + 21 / rate
            hit = summed_time(z0, rate / z0, offset * z0, goal * z0)
            rows.append({"lemma": "A.2", "start": z0, "rate": rate, "goal": goal, "other": offset, "share": hit / bound})
    for z0, rate in product(spec.starts, [r for r in spec.rates if r <= 1]):
        share = decay_share(z0, rate / z0, 20000)
        rows.append({"lemma": "A.3", "start": z0, "rate": rate, "goal": None, "other": None, "share": share})
    folder.add("lemmas", rows)
    return {lemma: max(row["share"] for row in rows if row["lemma"] == lemma) for lemma in ("A.1", "A.2", "A.3")}


EXPERIMENTS = (
    Experiment(
        name="signal-lemmas",
        paper="cgro",
        shows="CGRO Lemmas A.1–A.3: the slowest allowed sequences against the stated times, as shares of the bound",
        spec=SignalLemmas,
        run=run_lemmas,
        takes={"quick": "1 s", "cpu": "3 s", "paper": "3 s"},
    ),
)
