"""FA-granularity: does the radius follow the sizes of the groups that labels tell apart?"""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Kind, Need, Reading, Runs
from featscope.claims.judging import at_most, every, numbers, one_run, over_seeds
from featscope.core.rules import PREDICTED
from featscope.core.stored import Label
from featscope.laws.cluster_groups import parse_groups
from featscope.papers.fa.clusters_granularity import EQUAL, UNEQUAL, GroupedNet, GroupedPoint

GRANULARITY = Need("clusters-granularity")
POWERS = {10_000: "10⁴", 10**9: "10⁹"}
#: groupings of twelve clusters whose labels are spoilt
SPOILT = (EQUAL[2], EQUAL[4])


def departures(rows: pl.DataFrame) -> list[float]:
    """|median of radius found ÷ prediction − 1| of each seed."""
    return [abs(value - 1) for value in numbers(rows[GroupedNet.found_ratio]).tolist()]


def brackets(rows: pl.DataFrame) -> list[float]:
    """Largest radius found ÷ certified radius − 1 of each seed; NaN where nothing is certified."""
    return [value - 1 if value >= 1 else math.nan for value in numbers(rows[GroupedNet.widest]).tolist()]


def _net(**place: Label) -> Judge:
    """Every seed's median radius is within PREDICTED of the formula, and its bracket is that narrow."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("net", **place)
        if not rows.height:
            return at_most(over_seeds([]), PREDICTED, reason="this grouping was not run")
        rows = rows.sort(GroupedNet.seed)
        shown = (
            GroupedNet.predicted,
            GroupedNet.found,
            GroupedNet.certified,
            GroupedNet.weights_ratio,
            GroupedNet.clean,
            GroupedNet.agreement,
        )
        parts = {
            "prediction": at_most(over_seeds(departures(rows)), PREDICTED),
            "bracket": at_most(over_seeds(brackets(rows)), PREDICTED),
        }
        return every(parts, by_seed={str(key): rows[key].to_list() for key in shown})

    return judge


def _sizes(groups: str) -> Judge:
    """The same for the points of each size of group apart."""

    def judge(runs: Runs) -> Finding:
        points = runs["run"].part("points", groups=groups)
        if not points.height:
            return at_most(over_seeds([]), PREDICTED, reason="this grouping was not run")
        c = GroupedPoint
        ratio = (pl.col(c.found) / pl.col(c.predicted)).alias("ratio")
        medians = points.group_by(c.own, c.seed).agg(ratio.median()).sort(c.own, c.seed)
        parts = {}
        for (own,), rows in medians.group_by(c.own, maintain_order=True):
            found = [abs(value - 1) for value in numbers(rows["ratio"]).tolist()]
            parts[f"groups of {own}"] = at_most(over_seeds(found), PREDICTED, ratios=rows["ratio"].to_list())
        return every(parts)

    return judge


def _equal(text: str, d: int) -> Reading:
    groups = parse_groups(text)
    told = f"{text}, d = {POWERS[d]}: √(dG/(2k)) within {PREDICTED:.0%}, bracketed as closely"
    place: dict[str, Label] = {"groups": text, "d": d, "labels": "groups"}
    return one_run(f"G = {groups.count} (d = {POWERS[d]})", told, GRANULARITY, _net(**place))


def _spoilt(text: str) -> tuple[Reading, ...]:
    count = parse_groups(text).count
    wrong: dict[str, Label] = {"groups": text, "labels": "noisy", "wrong": 0.1}
    guessed: dict[str, Label] = {"groups": text, "labels": "k-means"}
    return (
        one_run(
            f"wrong labels (G = {count})",
            f"{text} with every tenth label wrong: the same radius",
            GRANULARITY,
            _net(**wrong),
        ),
        one_run(
            f"k-means (G = {count})",
            f"{count} labels by k-means inside the classes: the radius of the groups that it finds",
            GRANULARITY,
            _net(**guessed),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="FA-granularity",
        paper="fa",
        named_kind=Kind.QUESTION,
        reference="between Theorems 4.5 and 4.7: labels in G groups of clusters",
        statement="Training on labels in groups of clusters averages inside the groups: read as two classes, "
        "a point's radius is √(d/(s_own + s_rival)), with the sizes of its group and of the largest rival.",
        hypotheses=("groups lie inside one class",),
        readings=(
            *(_equal(text, d) for d in POWERS for text in EQUAL),
            *(
                one_run(
                    f"sizes ({text})",
                    f"{text}: the formula for each size of group",
                    GRANULARITY,
                    _sizes(text),
                )
                for text in UNEQUAL
            ),
            *(reading for text in SPOILT for reading in _spoilt(text)),
        ),
    ),
)
