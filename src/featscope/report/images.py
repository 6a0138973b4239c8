"""Figures of the experiments on real images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featscope.core.store import Run
from featscope.report.style import ATTACKED, CLEAN, GREY, NON_ROBUST, ROBUST, curve_over_runs, finish, panels

COLORS = (ROBUST, NON_ROBUST, CLEAN, ATTACKED)


def _names(run: Run) -> list[str]:
    return [str(line["dataset"]) for line in run.summary["table"]]


def separation(run: Run) -> Figure:
    """The table as bars, single distances as a distribution, and the bound on any classifier over ε."""
    figure, axes = panels(1, 3, width=4.2)
    _bars(axes[0, 0], run)
    for color, name in zip(COLORS, _names(run), strict=False):
        values = np.sort(run.part(f"nearest-{name}")["nearest"].to_numpy())
        axes[0, 1].step(values, np.arange(1, len(values) + 1) / len(values), where="post", color=color, label=name)
        rows = run.part(f"matching-{name}").sort("eps")
        axes[0, 2].plot(rows["eps"], rows["bound"], color=color, marker="o", markersize=3, label=name)
    axes[0, 1].set_xlim(0, 1.03)
    finish(axes[0, 1], "nearest training image of another label", "ℓ∞ distance", "share of test images")
    axes[0, 2].set_ylim(0.45, 1.03)
    finish(axes[0, 2], "bound on any classifier's robust accuracy", "ε (ℓ∞)", "at most, on the subset")
    return figure


def _bars(ax: Axes, run: Run) -> None:
    ticks, labels = [], []
    place = 0.0
    for color, line in zip(COLORS, run.summary["table"], strict=False):
        for other in ("train", "test"):
            value, printed = line[f"{other}_train"], line[f"{other}_train_printed"]
            ax.bar(place, value, 0.8, color=color, alpha=1.0 if other == "train" else 0.55)
            ax.text(place, value + 0.012, f"{value:.3f}", ha="center", fontsize=8)
            if printed is not None:
                ax.plot([place - 0.5, place + 0.5], [printed, printed], color="black", linewidth=1.2, linestyle=":")
            ticks.append(place)
            labels.append(f"{line['dataset']}\n{other}-train")
            place += 1
        if line["eps"] is not None:
            ax.plot([place - 2.5, place - 0.5], [2 * line["eps"]] * 2, color=GREY, linewidth=1.5)
        place += 0.5
    ax.plot([], [], color="black", linestyle=":", label="printed in the talk")
    ax.plot([], [], color=GREY, label="2ε")
    ax.set_xticks(ticks, labels, fontsize=7)
    ax.set_ylim(0, 1.1)
    whole = all(line["whole"] for line in run.summary["table"])
    finish(ax, "closest pair of different labels" + ("" if whole else " (of a subset)"), "", "ℓ∞ distance")


def _seeds(run: Run) -> list[pl.DataFrame]:
    """The rows of each seed, by epoch."""
    return [run.part(f"seed-{seed}").sort("step") for seed in run.spec["spec"]["seeds"]]


def landscape(run: Run) -> Figure:
    """CGRO Figure 2: over radii after the last epoch (above) and over epochs inside and outside the training radius (below)."""
    figure, axes = panels(2, 2, width=4.4)
    radii, eps = list(run.summary["radii"]), run.spec["spec"]["training"]["attack"]["eps"]
    seeds = _seeds(run)
    for column, (what, title) in enumerate((("change", "largest loss change"), ("gradient", "largest gradient norm (ℓ1)"))):
        above, below = axes[0, column], axes[1, column]
        for name, color in (("train", ROBUST), ("test", NON_ROBUST)):
            last = [rows[f"{what}_{name}"].to_list()[-1] for rows in seeds]
            curve_over_runs(above, radii, last, color, name)
            for factor, style in ((1.0, "-"), (2.0, "--")):
                place = int(np.argmin(np.abs(np.asarray(radii) - factor * eps)))
                over = [[values[place] for values in rows[f"{what}_{name}"].to_list()] for rows in seeds]
                curve_over_runs(below, seeds[0]["step"].to_list(), over, color, f"{name}, radius {radii[place]:g}", linestyle=style)
        for ax in (above, below):
            # A network that answers the same everywhere has zeros, which a logarithm cannot show.
            positive = all(np.min(np.asarray(line.get_ydata(), dtype=float)) > 0 for line in ax.get_lines())
            ax.set_yscale("log" if positive else "linear")
        above.axvline(eps, color=GREY, linestyle=":", linewidth=1.0)
        finish(above, f"{title}, last epoch", "radius (dotted: training radius)", "mean over images")
        finish(below, f"{title} over epochs", "epoch", "mean over images")
    return figure


def overfitting(run: Run) -> Figure:
    """CGRO Figure 1: clean and robust accuracy over epochs, training and test."""
    figure, axes = panels(1, 1, width=5.5, height=3.6)
    seeds = _seeds(run)
    lines = [("clean_train", GREY, "train, clean"), ("clean_test", CLEAN, "test, clean")]
    lines += [("robust_train", ROBUST, "train, robust"), ("robust_test", NON_ROBUST, "test, robust")]
    for column, color, label in lines:
        curve_over_runs(axes[0, 0], seeds[0]["step"].to_list(), [rows[column].to_list() for rows in seeds], color, label)
    axes[0, 0].set_ylim(-0.03, 1.03)
    finish(axes[0, 0], "adversarial training", "epoch", "accuracy (PGD where robust)")
    return figure


def features(run: Run) -> Figure:
    """AT Figure 4: accuracy on both reconstructed sets over epochs, and below a row of originals and of reconstructions."""
    figure, axes = panels(2, 2, width=4.4)
    seeds = run.spec["spec"]["seeds"]
    for ax, method in zip(axes[0], ("standard", "adversarial"), strict=True):
        frames = [run.part(f"fresh-{method}-{seed}").sort("step") for seed in seeds]
        steps = frames[0]["step"].to_list()
        for column, color, label in (("feature_NR", NON_ROBUST, "non-robust set"), ("feature_R", ROBUST, "robust set")):
            curve_over_runs(ax, steps, [rows[column].to_list() for rows in frames], color, label)
        curve_over_runs(ax, steps, [rows["clean_test"].to_list() for rows in frames], CLEAN, "test images")
        ax.set_ylim(-0.03, 1.03)
        finish(ax, f"{method} training", "epoch", "accuracy of the fresh network")
    for ax, name in zip(axes[1], ("NR", "R"), strict=True):
        rows = [run.tensors[f"images-{seeds[0]}/{key}"] for key in ("original", name)]
        grid = np.concatenate([np.concatenate(list(images.permute(0, 2, 3, 1).numpy()), axis=1) for images in rows])
        ax.imshow(grid.squeeze(), cmap="gray", vmin=0, vmax=1)
        ax.set_axis_off()
        ax.set_title("originals, and " + ("non-robust" if name == "NR" else "robust") + " reconstructions", fontsize=10)
    return figure


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {
    "image-separation": {"separation": separation},
    "image-landscape": {"landscape": landscape},
    "image-overfitting": {"overfitting": overfitting},
    "image-features": {"features": features},
}
