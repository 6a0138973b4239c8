"""Colours and helpers that all figures share. No global state: every figure is its own object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

ROBUST = "#1f6f8b"
NON_ROBUST = "#c8553d"
CLEAN = "#3c6e3c"
ATTACKED = "#7a3e9d"
CERTIFIED = "#b8860b"
GREY = "#6b7280"


def panels(rows: int, columns: int, width: float = 3.6, height: float = 3.0) -> tuple[Figure, Any]:
    """Return a figure with a grid of axes, always a 2-D array."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def curve_over_runs(ax: Axes, x: Sequence[float], runs: Any, color: str, label: str, **style: Any) -> None:
    """Draw every run as a thin line and their mean as a thick one; ``runs`` is (runs, points)."""
    values = np.asarray(runs, dtype=float)
    for line in values if len(values) > 1 else []:
        ax.plot(x, line, color=color, alpha=0.3, linewidth=0.8, **style)
    ax.plot(x, values.mean(0), color=color, linewidth=1.8, label=label, **style)


def finish(ax: Axes, title: str, xlabel: str, ylabel: str, legend: bool = True) -> None:
    """Title, axis labels, light grid, legend."""
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.grid(alpha=0.25)
    if legend and ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=8, frameon=False)


def named_ticks(ax: Axes, values: list[Any]) -> None:
    """A logarithmic axis with a label at each swept value and nowhere else."""
    ax.set_xscale("log")
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.minorticks_off()
