"""Figures of FA's cluster model, in the layout of the paper where it has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featscope.experiments.run import Run
from featscope.papers.fa.claims_figures import PUBLISHED
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
            ax.text(j, i, f"{value:.2f}".replace("0.", ".").replace("-.00", ".00"), ha="center", va="center", fontsize=4.6, color=color)
    return image


def _seeds(run: Run) -> list[int]:
    return list(run.spec["spec"]["seeds"])


def fig2(run: Run) -> Figure:
    """Figure 2 (a, b): the mean over seeds of both heat maps."""
    figure, axes = panels(1, 2, 4.3, 4.0)
    names = {"binary": "(a) trained with 2-class labels", "fine": "(b) trained with k-class labels"}
    for ax, (key, title) in zip(axes[0], names.items(), strict=True):
        table = np.mean([run.tensors[f"table-{seed}/{key}"].numpy() for seed in _seeds(run)], axis=0)
        image = heat_map(ax, table, title)
        ax.set_xlabel("weight $w_j$", fontsize=8)
        ax.set_ylabel("feature $\\mu_i$", fontsize=8)
        figure.colorbar(image, ax=ax, shrink=0.75)
    return figure


def fig3(run: Run) -> Figure:
    """Figure 3 (left): robust accuracy against the radius, with what is exact, attacked, certified and published."""
    figure, axes = panels(1, 1, 8.6, 3.9)
    ax, s = axes[0][0], run.summary
    lines = (
        ("binary", "exact", NON_ROBUST, "-", "2-class labels, exact"),
        ("binary", "own_loss", NON_ROBUST, ":", "2-class, PGD (own loss = margin)"),
        ("fine", "certified", CERTIFIED, "-", "k-class labels, certified"),
        ("fine", "readout", ROBUST, "-", "k-class, PGD on the read-out"),
        ("fine", "own_loss", ROBUST, "--", "k-class, PGD on the own loss"),
        ("fine", "own_loss_last", ROBUST, ":", "k-class, own loss, last iterate only"),
    )
    for net, key, color, style, label in lines:
        ax.plot(s["radii"], 100 * np.asarray(s[net][key]), color=color, linestyle=style, label=label)
    for (radii, values), color in zip(PUBLISHED.values(), (NON_ROBUST, ROBUST), strict=True):
        ax.plot(radii, 100 * np.asarray(values), "x", color=color, markersize=5)
    ax.plot([], [], "x", color=GREY, label="published, read off the plot")
    finish(ax, "Robust accuracy against the ℓ2 radius", "radius", "robust test accuracy (%)")
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def ablations(run: Run) -> Figure:
    """Figures 5 to 9, a row each, values in the paper's order."""
    sweeps = run.summary["sweeps"]
    figure, axes = panels(len(sweeps), 3, 2.9, 2.7)
    for row, (sweep, lines) in zip(axes, sweeps.items(), strict=True):
        for ax, line in zip(row, lines, strict=True):
            tables = [run.tensors[f"table-{line['setting']}-{seed}/table"].numpy() for seed in _seeds(run)]
            heat_map(ax, np.mean(tables, axis=0), f"{SWEEPS[sweep]} = {line['value']:g}")
    return figure


def _swept(ax: Axes, table: Any, keys: dict[str, tuple[str, str]], logy: bool) -> None:
    x = [row["value"] for row in table["rows"]]
    for key, (label, color) in keys.items():
        y = [row[key] for row in table["rows"]]
        fit = table["exponents"].get(key)
        shown = f"{label}, exponent {fit['exponent']:.2f}" if fit else label
        ax.plot(x, y, "o-", color=color, markersize=4, label=shown)
    ax.set_xscale("log")
    if max(x) / min(x) < 100:
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.minorticks_off()
    if logy:
        ax.set_yscale("log")


def scaling(run: Run) -> Figure:
    """Distance to averaging and radii along n, d and k, and coefficients in the talk's setting along d."""
    figure, axes = panels(2, 2, 4.6, 3.3)
    s = run.summary
    weights = {"deviation": ("2-class", NON_ROBUST), "fine_deviation": ("k-class", ROBUST)}
    radii = {"exact_over_root_dk": ("2-class, exact ÷ √(d/k)", NON_ROBUST), "readout_over_root_d": ("k-class, attacked ÷ √d", ROBUST)}
    radii |= {"certified_over_root_d": ("k-class, certified ÷ √d", CERTIFIED)}
    _swept(axes[0][0], s["n"], weights, True)
    finish(axes[0][0], "√d · ‖w − λΣμ/‖μ‖²‖ along n", "n", "largest over neurons")
    _swept(axes[0][1], s["d"], weights, True)
    finish(axes[0][1], "√d · ‖w − λΣμ/‖μ‖²‖ along d", "d", "largest over neurons")
    axes[0][1].set_ylim(*axes[0][0].get_ylim())
    _swept(axes[1][0], s["k"], radii, False)
    axes[1][0].set_ylim(0, 1.4)
    finish(axes[1][0], "robust radii along k", "k", "median radius in its unit")
    talk = {"lambda_min": ("2-class, least λ", NON_ROBUST), "lambda_mean": ("2-class, mean λ", GREY)}
    talk |= {"fine_lambda_min": ("k-class, least own λ", ROBUST), "fine_lambda_other": ("k-class, largest other |λ|", ATTACKED)}
    _swept(axes[1][1], s["talk"], talk, False)
    axes[1][1].set_yscale("symlog", linthresh=0.1)
    finish(axes[1][1], "the talk's setting: σ_w² = 1/d, η = d^−½", "d", "coefficients")
    return figure


def assumption(run: Run) -> Figure:
    """The flow at Assumption 4.3's sizes: margins and coefficients, and who is active, along time."""
    figure, axes = panels(1, 3, 4.0, 3.2)
    for ax, name, title in zip(axes[0], ("binary", "fine"), ("2-class network", "k-class network"), strict=False):
        rows = run.part(f"{name}-{_seeds(run)[0]}")
        time = rows["time"].to_numpy()
        ax.fill_between(time, rows["margin_min"], rows["margin_max"], color=CLEAN, alpha=0.35, label="margins")
        ax.fill_between(time, rows["lambda_min"], rows["lambda_max"], color=NON_ROBUST, alpha=0.5, label="own λ")
        ax.plot(time, rows["lambda_other"], color=ATTACKED, label="largest other |λ|")
        ax.set_xscale("log")
        finish(ax, f"{title}, k = {run.summary['k']}", "time τ = ηt", "")
    for name, color, style in (("binary", NON_ROBUST, "-"), ("fine", ROBUST, "--")):
        parts = [run.part(f"{part}{name}-{_seeds(run)[0]}") for part in ("start-", "")]
        share = np.concatenate([part["own_active"].to_numpy() for part in parts])
        axes[0][2].plot(range(len(share)), share, style, color=color, label=f"{'2' if name == 'binary' else 'k'}-class")
    finish(axes[0][2], "own neurons active (rows: steps 0, 1, 2, then flow)", "recorded row", "share of points × neurons")
    axes[0][2].set_ylim(-0.03, 1.05)
    return figure


def built(run: Run) -> Figure:
    """Exact median radius of θ_avg over its biases, in units of √(d/k), where it classifies well."""
    figure, axes = panels(1, 1, 4.6, 3.8)
    rows = run.summary["biased"]
    values = sorted({row["plus"] for row in rows})
    table = np.full((len(values), len(values)), np.nan)
    for row in rows:
        if row["clean"] >= 0.95:
            table[values.index(row["plus"]), values.index(row["minus"])] = row["over_root_dk"]
    ax = axes[0][0]
    image = ax.imshow(table, cmap="viridis", vmin=0, vmax=2)
    for (i, j), value in np.ndenumerate(table):
        if np.isfinite(value):
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color="white" if value < 1.2 else "black")
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
