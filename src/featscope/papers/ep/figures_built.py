"""Figures of the networks built by hand: memory, f*, lower bounds, manifolds."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from polars.selectors import numeric

from featscope.experiments.packing import Illustration, Packing, PackingCount
from featscope.experiments.run import Run
from featscope.papers.ep.built import MEMORISING_KINDS, Memorising, RobustClassifier
from featscope.papers.ep.manifold import TABLE_DELTA, TABLE_EPS, BehindChart, Manifold, TalkTable
from featscope.plots.built import INDICATORS
from featscope.plots.style import ATTACKED, CERTIFIED, CLEAN, GREY, NON_ROBUST, ROBUST, finish, panels


def memorise(run: Run) -> Figure:
    """Parameters of the memorising network against N·d with the talk's lower order."""
    c, rows = Memorising, run.part("memorise")
    figure, axes = panels(1, 1, 5.0, 3.8)
    ax = axes[0, 0]
    for kind in MEMORISING_KINDS:
        name, colour = INDICATORS[kind]
        chosen = rows.filter(pl.col(c.kind) == kind)
        ax.scatter(chosen[c.n] * chosen[c.D], chosen[c.parameters], color=colour, s=14, label=name)
    sizes = (rows[c.n] * rows[c.D]).to_list()
    grid = np.geomspace(min(sizes), max(sizes), 50)
    ax.plot(grid, 6 * grid, color=ROBUST, linestyle=":", linewidth=1, label="6·N·d")
    ax.plot(grid, np.sqrt(grid), color=GREY, linestyle="--", linewidth=1, label="√(N·d), lower order")
    ax.set_xscale("log")
    ax.set_yscale("log")
    finish(ax, "memorising network, certified on every ball", "N·d", "parameters")
    return figure


def fstar(run: Run) -> Figure:
    """The grid network's exponential count, and how sharp the Lipschitz bound is."""
    c, rows = RobustClassifier, run.part("fstar")
    figure, axes = panels(1, 2, 4.2, 3.4)
    ax = axes[0, 0]
    mean = rows.group_by(c.d).agg(numeric().mean()).sort(c.d)
    ax.plot(mean[c.d], mean[c.parameters], color=NON_ROBUST, marker="o", label="grid network")
    ax.plot(
        mean[c.d], mean[c.hats], color=GREY, linestyle=":", marker="s", markersize=3, label="(K+1)^d hats"
    )
    ax.set_yscale("log")
    ax.set_xticks(mean[c.d].to_list())
    finish(ax, "f* on a grid", "d", "parameters")
    ax = axes[0, 1]
    for values, colour, name in (
        (rows[c.slope] / rows[c.slope_bound], ROBUST, "largest slope ÷ ε⁻¹"),
        (rows[c.error] / rows[c.error_bound], ATTACKED, "largest error ÷ bound"),
        (rows[c.slack], CERTIFIED, "certified margin of the network"),
        (rows[c.f_star_on_balls], CLEAN, "least y·f* on the balls"),
    ):
        ax.scatter(rows[c.d], values, color=colour, s=16, label=name)
    ax.set_ylim(0, 1.7)
    ax.set_xticks(mean[c.d].to_list())
    finish(ax, "what the construction guarantees", "d", "")
    return figure


def packing(run: Run) -> Figure:
    """The VC count against D for several δ, beside f_S; and the trainability illustration."""
    figure, axes = panels(1, 2, 4.8, 3.6)
    _counts(axes[0, 0], run)
    _illustration(axes[0, 1], run)
    return figure


def _counts(ax: Axes, run: Run) -> None:
    c, spec = PackingCount, Packing.of(run)
    rows = run.part("count").filter(pl.col(c.mu) == spec.shown_mu).sort(c.D)
    for delta, colour in zip(spec.deltas, (NON_ROBUST, ATTACKED, ROBUST), strict=False):
        chosen, name = rows.filter(pl.col(c.delta) == delta), f"needed, δ = {delta:g}"
        ax.plot(chosen[c.D], chosen[c.needed], color=colour, marker="o", markersize=3, label=name)
    one = rows.filter(pl.col(c.delta) == spec.shown_delta)
    ax.plot(one[c.D], one[c.cgro], color=CLEAN, linestyle="--", label=f"f_S, ℓ∞, N = {spec.n}")
    ax.plot(one[c.D], [d + 1 for d in one[c.D]], color=GREY, linestyle=":", label="clean classifier, D + 1")
    ax.set_yscale("log")
    title = f"parameters for a robust error below μ = {spec.shown_mu:g}"
    finish(ax, title, "dimension D", "least parameters by VC counting")


def _illustration(ax: Axes, run: Run) -> None:
    c, rows = Illustration, run.part("illustration")
    for hidden, style in ((1, "-"), (2, "--")):
        for dim, colour in zip(sorted(set(rows[c.D])), (ROBUST, ATTACKED, NON_ROBUST), strict=False):
            of_case = rows.filter((pl.col(c.D) == dim) & (pl.col(c.hidden) == hidden))
            chosen = of_case.group_by(c.width).agg(pl.col(c.robust_train).mean()).sort(c.width)
            x, y, name = chosen[c.width], chosen[c.robust_train], f"D = {dim}, {hidden} hidden"
            ax.plot(x, y, color=colour, linestyle=style, marker="o", markersize=3, label=name)
    ax.set_xscale("log", base=2)
    finish(ax, "illustration only: what Adam trains, not the bound", "width", "robust training accuracy")


def manifold(run: Run) -> Figure:
    """Counts over d for each k, and the talk's table in numbers."""
    c, rows = BehindChart, run.part("manifold")
    figure, axes = panels(1, 2, 4.8, 3.6)
    ax = axes[0, 0]
    for k, colour in zip(sorted(set(rows[c.k])), (ROBUST, ATTACKED, NON_ROBUST, CLEAN), strict=False):
        chosen = rows.filter(pl.col(c.k) == k).sort(c.d)
        ax.plot(chosen[c.d], chosen[c.parameters], color=colour, marker="o", markersize=3, label=f"k = {k}")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_ylim(top=10 * ax.get_ylim()[1])
    finish(ax, "robust on a k-dimensional manifold", "ambient dimension d", "parameters")
    _talk_table(axes[0, 1], run)
    return figure


def _talk_table(ax: Axes, run: Run) -> None:
    t, spec = TalkTable, Manifold.of(run)
    ax.axis("off")
    cells = [
        [
            f"{row[t.dimension]:g}",
            f"{row[t.train_lower]:.0f} … {row[t.train_upper]:.0f}",
            f"{row[t.general_lower]:.3g} … 1e{row[t.general_upper_log10]:.0f}",
        ]
        for row in run.part("table").to_dicts()
    ]
    names = ["d", "robust training", "robust generalisation"]
    table = ax.table(cellText=cells, colLabels=names, loc="center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    table.scale(1, 1.6)
    size = f"N = {spec.table_n}, ε = {TABLE_EPS:g}, δ = {TABLE_DELTA:g}, μ = {spec.mu:g}"
    ax.set_title(f"parameters, lower … upper ({size})", fontsize=9)


FIGURES = {
    "built-memorise": {"counts": memorise},
    "built-fstar": {"fstar": fstar},
    "packing": {"packing": packing},
    "manifold": {"manifold": manifold},
}
