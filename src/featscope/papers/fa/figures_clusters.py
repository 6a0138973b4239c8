"""Figures of FA's cluster model, in the layout of the paper where it has one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featscope.claims.judging import fitted
from featscope.core.columns import Column
from featscope.core.rules import SMALL
from featscope.core.stored import Label
from featscope.experiments.run import Run
from featscope.papers.fa.claims_figures import mean_curves
from featscope.papers.fa.clusters import Course
from featscope.papers.fa.clusters_ablations import AblationSpec, sweeps
from featscope.papers.fa.clusters_built import BiasedRow, BuiltSpec
from featscope.papers.fa.clusters_figures import Fig3Curve
from featscope.papers.fa.clusters_regimes import BinaryFlow, RegimeSpec
from featscope.papers.fa.clusters_scaling import Swept
from featscope.papers.fa.printed import FIGURE_3_LEFT
from featscope.papers.fa.runs import along
from featscope.plots.style import ATTACKED, CERTIFIED, CLEAN, GREY, NON_ROBUST, ROBUST, finish, panels

SWEEPS = {"points": "n", "rate": "η", "init": "σ_w = σ_b", "snr": "α/σ", "cosine": "cos(μ_i, μ_j)"}


def heat_map(ax: Axes, table: Any, title: str, numbers: bool = True, low: float = 0.0) -> Any:
    """Cosine of feature i (row) with weight j (column); ``low`` is where the colours begin."""
    values = np.asarray(table, dtype=float)
    image = ax.imshow(values, cmap="viridis", vmin=low, vmax=1 if values.max() > 0.5 else 0.5)
    ax.set_title(title, fontsize=9)
    ax.set_xticks(range(values.shape[1]), [f"{j + 1}" for j in range(values.shape[1])], fontsize=6)
    ax.set_yticks(range(values.shape[0]), [f"{i + 1}" for i in range(values.shape[0])], fontsize=6)
    if numbers and values.shape[0] <= 12:
        middle = low + 0.6 * (image.get_clim()[1] - low)
        for (i, j), value in np.ndenumerate(values):
            color = "black" if value > middle else "white"
            ax.text(
                j,
                i,
                f"{value:.2f}".replace("0.", ".").replace("-.00", ".00"),
                ha="center",
                va="center",
                fontsize=4.6,
                color=color,
            )
    return image


def _seeds(run: Run, part: str, **labels: Label) -> list[int]:
    """The seeds that a part has rows of: those whose training stayed with the numbers."""
    found: list[int] = run.part(part, **labels)[Course.seed].unique().sort().to_list()
    return found


def _mean_table(run: Run, name: str, **labels: Label) -> Any:
    """The mean over seeds of a heat map."""
    tables = [
        run.tensor("table", name, **labels, seed=seed).numpy() for seed in _seeds(run, "table", **labels)
    ]
    return np.mean(tables, axis=0)


def fig2(run: Run) -> Figure:
    """Figure 2 (a, b): the mean over seeds of both heat maps."""
    figure, axes = panels(1, 2, 4.3, 4.0)
    names = {"binary": "(a) trained with 2-class labels", "fine": "(b) trained with k-class labels"}
    for ax, (key, title) in zip(axes[0], names.items(), strict=True):
        image = heat_map(ax, _mean_table(run, key), title)
        ax.set_xlabel("weight $w_j$", fontsize=8)
        ax.set_ylabel("feature $\\mu_i$", fontsize=8)
        figure.colorbar(image, ax=ax, shrink=0.75)
    return figure


def fig3(run: Run) -> Figure:
    """Figure 3 (left): robust accuracy against the radius: exact, attacked, certified and published."""
    figure, axes = panels(1, 1, 8.6, 3.9)
    ax, found = axes[0][0], mean_curves(run)
    lines = (
        (Fig3Curve.binary_exact, NON_ROBUST, "-", "2-class labels, exact"),
        (Fig3Curve.binary_own_loss, NON_ROBUST, ":", "2-class, PGD (own loss = margin)"),
        (Fig3Curve.fine_certified, CERTIFIED, "-", "k-class labels, certified"),
        (Fig3Curve.fine_readout, ROBUST, "-", "k-class, PGD on the read-out"),
        (Fig3Curve.fine_own_loss, ROBUST, "--", "k-class, PGD on the own loss"),
        (Fig3Curve.fine_own_loss_last, ROBUST, ":", "k-class, own loss, last iterate only"),
    )
    for key, color, style, label in lines:
        ax.plot(
            found[Fig3Curve.radius], 100 * found[key].to_numpy(), color=color, linestyle=style, label=label
        )
    for (radii, values), color in zip(FIGURE_3_LEFT.values(), (NON_ROBUST, ROBUST), strict=True):
        ax.plot(radii, 100 * np.asarray(values), "x", color=color, markersize=5)
    ax.plot([], [], "x", color=GREY, label="published, read off the plot")
    finish(ax, "Robust accuracy against the ℓ2 radius", "radius", "robust test accuracy (%)")
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def ablations(run: Run) -> Figure:
    """Figures 5 to 9, a row each, values in the paper's order."""
    found = sweeps(AblationSpec.of(run))
    figure, axes = panels(len(found), 3, 2.9, 2.7)
    for row, (sweep, settings) in zip(axes, found.items(), strict=True):
        for ax, (at, _, _) in zip(row, settings, strict=True):
            heat_map(ax, _mean_table(run, "table", sweep=sweep, at=at), f"{SWEEPS[sweep]} = {at:g}")
    return figure


def _swept(ax: Axes, run: Run, sweep: str, lines: dict[Column, tuple[str, str]], logy: bool) -> None:
    """Means over seeds along a sweep, with the exponent that all seeds together give."""
    rows, means = run.part("setting", sweep=sweep), along(run, sweep)
    x = means[Swept.at].to_list()
    for key, (label, color) in lines.items():
        fit = fitted(rows[Swept.at].to_list(), rows[key].to_list())
        shown = f"{label}, exponent {fit.value:.2f}" if math.isfinite(fit.value) else label
        ax.plot(x, means[key].to_list(), "o-", color=color, markersize=4, label=shown)
    ax.set_xscale("log")
    if max(x) / min(x) < 100:
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.minorticks_off()
    if logy:
        ax.set_yscale("log")


def scaling(run: Run) -> Figure:
    """Distance to averaging and radii along n, d and k, and coefficients in the talk's setting along d."""
    figure, axes = panels(2, 2, 4.6, 3.3)
    weights = {Swept.deviation: ("2-class", NON_ROBUST), Swept.fine_deviation: ("k-class", ROBUST)}
    radii = {
        Swept.exact_over_root_dk: ("2-class, exact ÷ √(d/k)", NON_ROBUST),
        Swept.readout_over_root_d: ("k-class, attacked ÷ √d", ROBUST),
        Swept.certified_over_root_d: ("k-class, certified ÷ √d", CERTIFIED),
    }
    talk = {
        Swept.lambda_min: ("2-class, least λ", NON_ROBUST),
        Swept.lambda_mean: ("2-class, mean λ", GREY),
        Swept.fine_lambda_min: ("k-class, least own λ", ROBUST),
        Swept.fine_lambda_other: ("k-class, largest other |λ|", ATTACKED),
    }
    _swept(axes[0][0], run, "n", weights, True)
    finish(axes[0][0], "√d · ‖w − λΣμ/‖μ‖²‖ along n", "n", "largest over neurons")
    _swept(axes[0][1], run, "d", weights, True)
    finish(axes[0][1], "√d · ‖w − λΣμ/‖μ‖²‖ along d", "d", "largest over neurons")
    axes[0][1].set_ylim(*axes[0][0].get_ylim())
    _swept(axes[1][0], run, "k", radii, False)
    axes[1][0].set_ylim(0, 1.4)
    finish(axes[1][0], "robust radii along k", "k", "median radius in its unit")
    _swept(axes[1][1], run, "talk", talk, False)
    axes[1][1].set_yscale("symlog", linthresh=0.1)
    finish(axes[1][1], "the talk's setting: σ_w² = 1/d, η = d^−½", "d", "coefficients")
    return figure


def assumption(run: Run) -> Figure:
    """The flow at Assumption 4.3's sizes: margins and coefficients, and who is active, along time."""
    figure, axes = panels(1, 3, 4.0, 3.2)
    spec = RegimeSpec.of(run)
    seed = spec.seeds[0]
    for ax, net, title in zip(
        axes[0], ("binary", "fine"), ("2-class network", "k-class network"), strict=False
    ):
        rows = run.part(net, seed=seed)
        time = rows[BinaryFlow.time].to_numpy()
        margins, own = (
            (rows[Course.margin_min], rows[Course.margin_max]),
            (rows[Course.lambda_min], rows[Course.lambda_max]),
        )
        ax.fill_between(time, *margins, color=CLEAN, alpha=0.35, label="margins")
        ax.fill_between(time, *own, color=NON_ROBUST, alpha=0.5, label="own λ")
        ax.plot(time, rows[Course.lambda_other], color=ATTACKED, label="largest other |λ|")
        ax.set_xscale("log")
        finish(ax, f"{title}, k = {spec.k}", "time τ = ηt", "")
    for net, color, style in (("binary", NON_ROBUST, "-"), ("fine", ROBUST, "--")):
        parts = [run.part("start", net=net, seed=seed), run.part(net, seed=seed)]
        share = np.concatenate([part[Course.own_active].to_numpy() for part in parts])
        axes[0][2].plot(
            range(len(share)), share, style, color=color, label=f"{'2' if net == 'binary' else 'k'}-class"
        )
    finish(
        axes[0][2],
        "own neurons active (rows: steps 0, 1, 2, then flow)",
        "recorded row",
        "share of points × neurons",
    )
    axes[0][2].set_ylim(-0.03, 1.05)
    return figure


def built(run: Run) -> Figure:
    """Exact median radius of θ_avg over its biases, in units of √(d/k), where it classifies well."""
    figure, axes = panels(1, 1, 4.6, 3.8)
    good = run.part("biased").filter(pl.col(BiasedRow.clean) >= 1 - SMALL)
    values = sorted(BuiltSpec.of(run).biases)
    table = np.full((len(values), len(values)), np.nan)
    for plus, minus, radius in good.select(
        BiasedRow.plus, BiasedRow.minus, BiasedRow.over_root_dk
    ).iter_rows():
        table[values.index(plus), values.index(minus)] = radius
    ax = axes[0][0]
    image = ax.imshow(table, cmap="viridis", vmin=0, vmax=2)
    for (i, j), value in np.ndenumerate(table):
        if np.isfinite(value):
            ax.text(
                j,
                i,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if value < 1.2 else "black",
            )
    ax.set_xticks(range(len(values)), [f"{v:g}" for v in values], fontsize=7)
    ax.set_yticks(range(len(values)), [f"{v:g}" for v in values], fontsize=7)
    ax.set_xlabel("$b_-/d$")
    ax.set_ylabel("$b_+/d$")
    ax.set_title("θ_avg: exact median radius ÷ √(d/k); blank: clean accuracy below 95 %", fontsize=8)
    figure.colorbar(image, ax=ax, shrink=0.8)
    return figure


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {
    "clusters-fig2": {"fig2": fig2},
    "clusters-fig3": {"fig3": fig3},
    "clusters-ablations": {"ablations": ablations},
    "clusters-scaling": {"scaling": scaling},
    "clusters-assumption": {"flow": assumption},
    "clusters-built": {"biases": built},
}
