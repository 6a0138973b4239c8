"""The separation of real data as a figure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featscope.experiments.run import Run
from featscope.plots.style import ATTACKED, CLEAN, GREY, NON_ROBUST, ROBUST, finish, panels

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


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {"image-separation": {"separation": separation}}
