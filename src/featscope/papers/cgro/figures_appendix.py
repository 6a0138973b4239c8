"""Figures of appendix E where the density is known, and of the count behind Theorem 5.3."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from featscope.experiments.run import Run
from featscope.papers.cgro.known_density import Gap, LowerConstant
from featscope.papers.cgro.lower_bound import Growth
from featscope.plots.axes import Axis
from featscope.plots.palette import CATEGORIES
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, OverSeeds, Rule, by_seed
from featscope.plots.sheet import side_by_side


def density(run: Run) -> Picture:
    """The gap over N for two networks, and Proposition E.2's constant over the phase."""
    g, c = Gap, LowerConstant
    gaps, constants = run.part("gaps"), run.part("constants")
    first = gaps.filter(pl.col(g.D) == gaps[g.D].min())
    fallen = [
        OverSeeds(name, look, *by_seed(first.filter(pl.col(g.network) == name), g.gap, g.n))
        for name, look in zip(("linear", "constant"), CATEGORIES, strict=False)
    ]
    lower = []
    for name, look in (("linear", CATEGORIES[0]), ("wave", CATEGORIES[2])):
        one = constants.filter(pl.col(c.network) == name).sort(c.phase)
        lower.append(Curve(name, look, one[c.phase].to_numpy(), one[c.constant].to_numpy()))
    panels = [
        Panel("gap", Axis("sample size N", "log"), Axis("L_adv − L̂_adv", "log"), fallen, width=300),
        Panel(
            "constant of Proposition E.2",
            Axis("a·δ or ω·δ", "log"),
            Axis("(L_adv − L_clean) ÷ (δ·E‖∇L‖)", "log"),
            lower,
            [Rule(1 / 3, "one third", "y")],
            width=300,
        ),
    ]
    return Picture(
        title="Robust generalisation where the density is known",
        caption="Left: the 95 % quantile of the gap for networks that do not depend on the sample; the "
        "constant one has no flatness at all. Right: the loss gained in the ball in units of δ times the "
        "mean gradient.",
        alt="Two charts with logarithmic axes: the gap against the sample size for a linear and a constant "
        "network, and a constant against the phase for a linear network and a wave.",
        spec=side_by_side(panels),
        claims=("CG-E.1-density", "CG-E.2-density"),
    )


def growth(run: Run) -> Picture:
    """Parameters that the count needs, over D, for each radius."""
    c, rows, drawn = Growth, run.part("growth"), []
    for delta, look in zip(rows[c.radius].unique().sort(descending=True), CATEGORIES, strict=False):
        one = rows.filter(pl.col(c.radius) == delta).sort(c.D)
        drawn.append(Curve(f"δ = {delta:g}", look, one[c.D].to_numpy(), one[c.needed].to_numpy()))
    needed = Axis("parameters needed", "log")
    panel = Panel("by VC counting", Axis("dimension D"), needed, drawn, width=360, height=240)
    return Picture(
        title="What robustness costs at least on a packing",
        caption="The least number of parameters that leaves a robust error below the allowed one, by VC "
        "counting. Straight lines are exponential growth; smaller radii make them steeper.",
        alt="Chart of parameters, logarithmic, against the dimension, one line for each radius.",
        spec=side_by_side([panel]),
        claims=("CG-T5.3",),
    )


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "known-density": {"density": density},
    "lower-bound": {"growth": growth},
}
