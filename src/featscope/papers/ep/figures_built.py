"""Figures of the networks built by hand: memory, f*, lower bounds, manifolds."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from polars.selectors import numeric

from featscope.experiments.run import Run
from featscope.plots.style import ATTACKED, CERTIFIED, CLEAN, GREY, NON_ROBUST, ROBUST, finish, panels

KINDS = {"Linf": ("ℓ∞", ROBUST), "L2-shared": ("ℓ2, shared squares", CLEAN), "L2-each": ("ℓ2, squares for each point", NON_ROBUST)}


def memorise(run: Run) -> Figure:
    """Parameters of the memorising network against N·d with the talk's lower order."""
    rows = run.part("memorise").with_columns((pl.col("n") * pl.col("D")).alias("nd"))
    figure, axes = panels(1, 1, 5.0, 3.8)
    ax = axes[0, 0]
    for kind, (name, colour) in list(KINDS.items())[:2]:
        chosen = rows.filter(pl.col("kind") == kind)
        ax.scatter(chosen["nd"], chosen["parameters"], color=colour, s=14, label=name)
    grid = np.geomspace(min(rows["nd"].to_list()), max(rows["nd"].to_list()), 50)
    ax.plot(grid, 6 * grid, color=ROBUST, linestyle=":", linewidth=1, label="6·N·d")
    ax.plot(grid, np.sqrt(grid), color=GREY, linestyle="--", linewidth=1, label="√(N·d), lower order")
    ax.set_xscale("log")
    ax.set_yscale("log")
    finish(ax, "memorising network, certified on every ball", "N·d", "parameters")
    return figure


def fstar(run: Run) -> Figure:
    """The grid network's exponential count, and how sharp the Lipschitz bound is."""
    rows = run.part("fstar")
    figure, axes = panels(1, 2, 4.2, 3.4)
    ax = axes[0, 0]
    mean = rows.group_by("d").agg(numeric().mean()).sort("d")
    ax.plot(mean["d"], mean["parameters"], color=NON_ROBUST, marker="o", label="grid network")
    ax.plot(mean["d"], mean["hats"], color=GREY, linestyle=":", marker="s", markersize=3, label="(K+1)^d hats")
    ax.set_yscale("log")
    ax.set_xticks(mean["d"].to_list())
    finish(ax, "f* on a grid", "d", "parameters")
    ax = axes[0, 1]
    for key, bound, colour, name in (
        ("slope", "slope_bound", ROBUST, "largest slope ÷ ε⁻¹"),
        ("error", "error_bound", ATTACKED, "largest error ÷ bound"),
        ("slack", None, CERTIFIED, "certified margin of the network"),
        ("f_star_on_balls", None, CLEAN, "least y·f* on the balls"),
    ):
        values = rows[key] / rows[bound] if bound else rows[key]
        ax.scatter(rows["d"], values, color=colour, s=16, label=name)
    ax.set_ylim(0, 1.7)
    ax.set_xticks(mean["d"].to_list())
    finish(ax, "what the construction guarantees", "d", "")
    return figure


def packing(run: Run) -> Figure:
    """The VC count against D for several δ, beside f_S; and the trainability illustration."""
    rows = run.part("count")
    figure, axes = panels(1, 2, 4.8, 3.6)
    ax = axes[0, 0]
    mu = run.summary["mu"]
    for delta, colour in zip(run.spec["spec"]["deltas"], (NON_ROBUST, ATTACKED, ROBUST), strict=False):
        chosen = rows.filter((pl.col("delta") == delta) & (pl.col("mu") == mu)).sort("D")
        ax.plot(chosen["D"], chosen["needed"], color=colour, marker="o", markersize=3, label=f"needed, δ = {delta:g}")
    one = rows.filter((pl.col("delta") == run.summary["delta"]) & (pl.col("mu") == mu)).sort("D")
    ax.plot(one["D"], one["cgro"], color=CLEAN, linestyle="--", label=f"f_S, ℓ∞, N = {run.spec['spec']['n']}")
    ax.plot(one["D"], [d + 1 for d in one["D"]], color=GREY, linestyle=":", label="clean classifier, D + 1")
    ax.set_yscale("log")
    finish(ax, f"parameters for a robust error below μ = {mu:g}", "dimension D", "least parameters by VC counting")
    ax = axes[0, 1]
    shown = run.part("illustration")
    for hidden, style in ((1, "-"), (2, "--")):
        for dim, colour in zip(sorted(set(shown["D"])), (ROBUST, ATTACKED, NON_ROBUST), strict=False):
            chosen = shown.filter((pl.col("D") == dim) & (pl.col("hidden") == hidden)).sort("width")
            ax.plot(
                chosen["width"],
                chosen["robust_train"],
                color=colour,
                linestyle=style,
                marker="o",
                markersize=3,
                label=f"D = {dim}, {hidden} hidden",
            )
    ax.set_xscale("log", base=2)
    finish(ax, "illustration only: what Adam trains, not the bound", "width", "robust training accuracy")
    return figure


def manifold(run: Run) -> Figure:
    """Counts over d for each k, and the talk's table in numbers."""
    rows = run.part("manifold")
    figure, axes = panels(1, 2, 4.8, 3.6)
    ax = axes[0, 0]
    for k, colour in zip(sorted(set(rows["k"])), (ROBUST, ATTACKED, NON_ROBUST, CLEAN), strict=False):
        chosen = rows.filter(pl.col("k") == k).sort("d")
        ax.plot(chosen["d"], chosen["parameters"], color=colour, marker="o", markersize=3, label=f"k = {k}")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_ylim(top=10 * ax.get_ylim()[1])
    finish(ax, "robust on a k-dimensional manifold", "ambient dimension d", "parameters")
    ax = axes[0, 1]
    ax.axis("off")
    cells = [
        [
            f"{r['dimension']:g}",
            f"{r['train_lower']:.0f} … {r['train_upper']:.0f}",
            f"{r['general_lower']:.3g} … 1e{r['general_upper_log10']:.0f}",
        ]
        for r in run.part("table").to_dicts()
    ]
    names = ["d", "robust training", "robust generalisation"]
    table = ax.table(cellText=cells, colLabels=names, loc="center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    table.scale(1, 1.6)
    size = f"N = {run.spec['spec']['table_n']}, ε = .2, δ = .08, μ = {run.spec['spec']['mu']:g}"
    ax.set_title(f"parameters, lower … upper ({size})", fontsize=9)
    return figure


FIGURES = {
    "built-memorise": {"counts": memorise},
    "built-fstar": {"fstar": fstar},
    "packing": {"packing": packing},
    "manifold": {"manifold": manifold},
}
