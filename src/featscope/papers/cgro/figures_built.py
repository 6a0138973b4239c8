"""Figures of f_S as a network, and of the tensor-power lemmas."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from featscope.experiments.run import Run
from featscope.papers.cgro.built import AccuracyPrice, Classifier
from featscope.papers.cgro.signal_lemmas import LEMMAS, LemmaCase
from featscope.plots.axes import Axis
from featscope.plots.built import INDICATORS
from featscope.plots.grids import Categories, Group
from featscope.plots.palette import ATTACKED, CATEGORIES, CERTIFIED, CLEAN
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, OverSeeds, Rule, by_seed, points
from featscope.plots.sheet import Shown, side_by_side

PARAMETERS = Axis("parameters", "log")


def cgro_counts(run: Run) -> Picture:
    """Parameters of f_S against N and D, and what it gives on the training balls and elsewhere."""
    c, rows = Classifier, run.part("cgro")
    panels: list[Shown] = [
        _counts(rows, c.n, c.D, f"f_S, D = {max(rows[c.D].to_list())}", "training points N"),
        _counts(rows, c.D, c.n, f"f_S, N = {max(rows[c.n].to_list())}", "dimension D"),
        _worst_cases(rows),
        _accuracy(run.part("accuracy")),
    ]
    return Picture(
        title="The size of a clean-generalising, robustly overfitting network, and what it does",
        caption=(
            "Stored weights and biases of f_S along the training points and the dimension; the worst over "
            "all sizes and norms "
            "of its clean accuracy, its certified margin on training balls and its robust error on unseen "
            "points; and "
            "what it costs to memorise balls that nearly touch (δ near R/2)."
        ),
        alt=(
            "Charts of parameters against N, against D and against R/(R − 2δ), all logarithmic, for three "
            "kinds of network; and "
            "bars of clean accuracy, certified margin and robust error by dimension."
        ),
        spec=side_by_side(panels, columns=2),
        claims=("CG-C", "CG-T5.2"),
    )


def _counts(rows: pl.DataFrame, x: str, fixed: str, title: str, label: str) -> Panel:
    c, drawn = Classifier, []
    for kind, (name, look) in INDICATORS.items():
        chosen = rows.filter((pl.col(c.kind) == kind) & (pl.col(fixed) == pl.col(fixed).max()))
        if chosen.height:
            drawn.append(OverSeeds(name, look, *by_seed(chosen, c.parameters, x)))
    sizes = Axis(label, "log", ticks=rows[x].unique().sort().to_list())
    return Panel(title, sizes, PARAMETERS, drawn, width=300)


def _worst_cases(rows: pl.DataFrame) -> Categories:
    c = Classifier
    shown = (
        (c.clean_test, CLEAN, "clean test accuracy"),
        (c.slack, CERTIFIED, "certified margin on training balls"),
        (c.fooled_unseen, ATTACKED, "robust error on unseen points"),
    )
    worst = rows.group_by(c.D).agg(pl.col(key).min() for key, _, _ in shown).sort(c.D)
    groups = [Group(name, look, [[value] for value in worst[key]]) for key, look, name in shown]
    names = [f"D = {d}" for d in worst[c.D]]
    top = 1.05 * max(float(worst[key].to_numpy().max()) for key, _, _ in shown)
    height = Axis("share of points, or margin", limits=(0, max(top, 1.05)))
    return Categories("the worst over N and norms", names, height, groups, width=300)


def _accuracy(rows: pl.DataFrame) -> Panel:
    """Parameters as δ approaches R/2."""
    c, drawn = AccuracyPrice, []
    for kind, (name, look) in INDICATORS.items():
        chosen = rows.filter(pl.col(c.kind) == kind).sort(c.share)
        closeness = (1 / (1 - chosen[c.share])).to_numpy()
        drawn.append(Curve(name, look, closeness, chosen[c.parameters].to_numpy()))
    title = f"price of accuracy, D = {max(rows[c.D].to_list())}, N = {max(rows[c.n].to_list())}"
    return Panel(title, Axis("R/(R − 2δ)", "log"), PARAMETERS, drawn, width=300)


def lemmas(run: Run) -> Picture:
    """Hitting times as shares of the lemmas' bounds."""
    c, rows = LemmaCase, run.part("lemmas")
    drawn = []
    for lemma, look in zip(LEMMAS, CATEGORIES, strict=False):
        chosen = rows.filter(pl.col(c.lemma) == lemma)
        drawn.append(points(f"Lemma {lemma}", look, chosen[c.rate].to_numpy(), chosen[c.share].to_numpy()))
    share = Axis("share of the bound", limits=(0, 1.15), ticks=(0, 0.25, 0.5, 0.75, 1))
    limit = Rule(1, "the bound", "y")
    panel = Panel("slowest sequences", Axis("rate · z₀", "log"), share, drawn, [limit], width=360, height=240)
    return Picture(
        title="The slowest sequences that the tensor power lemmas allow",
        caption=(
            "Each point is one choice of a lemma's constants: the time that the slowest sequence takes, as a "
            "share of the lemma's "
            "bound. For Lemma A.3 it is the largest z·A·t. At most 1 is what the lemmas say."
        ),
        alt="Scatter chart: share of the bound against the rate times the start, on a logarithmic axis, for "
        "three lemmas.",
        spec=side_by_side([panel]),
        claims=("CG-LA.1", "CG-LA.2", "CG-LA.3"),
    )


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "built-cgro": {"counts": cgro_counts},
    "signal-lemmas": {"lemmas": lemmas},
}
