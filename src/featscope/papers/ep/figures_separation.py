"""The separation of real data as a figure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featscope.experiments.run import Run
from featscope.papers.ep.image_separation import PAIRS, Closest, ImageSeparation, Matching, Nearest
from featscope.plots.style import ATTACKED, CLEAN, GREY, NON_ROBUST, ROBUST, finish, panels

COLORS = (ROBUST, NON_ROBUST, CLEAN, ATTACKED)


def separation(run: Run) -> Figure:
    """The table as bars, single distances as a distribution, and the bound on any classifier over ε."""
    figure, axes = panels(1, 3, width=4.2)
    _bars(axes[0, 0], run)
    for color, name in zip(COLORS, ImageSeparation.of(run).datasets, strict=False):
        values = np.sort(run.part("nearest", dataset=name)[Nearest.nearest].to_numpy())
        axes[0, 1].step(
            values, np.arange(1, len(values) + 1) / len(values), where="post", color=color, label=name
        )
        rows = run.part("matching", dataset=name).sort(Matching.eps)
        axes[0, 2].plot(
            rows[Matching.eps], rows[Matching.bound], color=color, marker="o", markersize=3, label=name
        )
    axes[0, 1].set_xlim(0, 1.03)
    finish(axes[0, 1], "nearest training image of another label", "ℓ∞ distance", "share of test images")
    axes[0, 2].set_ylim(0.45, 1.03)
    finish(axes[0, 2], "bound on any classifier's robust accuracy", "ε (ℓ∞)", "at most, on the subset")
    return figure


def _bars(ax: Axes, run: Run) -> None:
    ticks, labels = [], []
    place = 0.0
    for color, name in zip(COLORS, ImageSeparation.of(run).datasets, strict=False):
        for pair in PAIRS.values():
            row = run.part("closest", dataset=name, pair=pair).to_dicts()[0]
            value, printed, eps = row[Closest.separation], row.get(Closest.printed), row.get(Closest.eps)
            ax.bar(place, value, 0.8, color=color, alpha=1.0 if pair == PAIRS["train"] else 0.55)
            ax.text(place, value + 0.012, f"{value:.3f}", ha="center", fontsize=8)
            if printed is not None:
                ax.plot(
                    [place - 0.5, place + 0.5],
                    [printed, printed],
                    color="black",
                    linewidth=1.2,
                    linestyle=":",
                )
            if eps is not None:
                ax.plot([place - 0.5, place + 0.5], [2 * eps] * 2, color=GREY, linewidth=1.5)
            ticks.append(place)
            labels.append(f"{name}\n{pair}")
            place += 1
        place += 0.5
    ax.plot([], [], color="black", linestyle=":", label="printed in the talk")
    ax.plot([], [], color=GREY, label="2ε")
    ax.set_xticks(ticks, labels, fontsize=7)
    ax.set_ylim(0, 1.1)
    whole = bool(run.part("closest")[Closest.whole].all())
    finish(ax, "closest pair of different labels" + ("" if whole else " (of a subset)"), "", "ℓ∞ distance")


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {"image-separation": {"separation": separation}}
