"""Figures of `image-features` (AT Figures 1, 4, 5 and Table 1) and of `image-inversion`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from featscope.core.stats import Interval, mean_interval
from featscope.experiments.run import Run
from featscope.papers.at.image_features import CELLS, FEATURE, METHODS, FeatureCurve, ImageFeatures, Tested
from featscope.papers.at.image_inversion import CellRead, ImageInversion
from featscope.papers.at.printed import TABLE_1
from featscope.plots.style import CLEAN, GREY, NON_ROBUST, ROBUST, curve_over_runs, finish, panels

NAMES = {"NR": "non-robust", "R": "robust"}
COLORS = {"NR": NON_ROBUST, "R": ROBUST}


def _curves(run: Run, method: str) -> list[pl.DataFrame]:
    seeds = ImageFeatures.of(run).seeds
    return [run.part("curve", method=method, seed=seed).sort(FeatureCurve.step) for seed in seeds]


def curves(run: Run) -> Figure:
    """Figures 4 and 5: accuracy on both sets over epochs.

    Standard training above, adversarial training below.
    """
    figure, axes = panels(2, 1, width=6.4)
    for ax, method in zip(axes[:, 0], METHODS, strict=True):
        frames = _curves(run, method)
        steps = frames[0][FeatureCurve.step].to_list()
        for name, key in FEATURE.items():
            over = [rows[key].to_list() for rows in frames]
            curve_over_runs(ax, steps, over, COLORS[name], f"{NAMES[name]} features")
        clean = [rows[FeatureCurve.clean_test].to_list() for rows in frames]
        curve_over_runs(ax, steps, clean, CLEAN, "test images", linestyle=":")
        ax.set_ylim(-0.03, 1.03)
        title = f"{method} training, {ImageFeatures.of(run).network.dataset}"
        finish(ax, title, "epoch", "feature learning accuracy", legend=False)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    return figure


def _cells(run: Run, method: str) -> dict[str, Interval]:
    """Table 1's cells that were measured, with their intervals over seeds."""
    tested = run.part("tested", method=method)
    found = {key: tested[key].to_list() for key in (Tested.clean_test, Tested.robust_test) if key in tested}
    found |= {key: [rows[key].to_list()[-1] for rows in _curves(run, method)] for key in FEATURE.values()}
    return {key: mean_interval(values) for key, values in found.items()}


def table(run: Run) -> Figure:
    """Table 1 as bars: our cells with their intervals, the printed numbers as lines."""
    figure, axes = panels(1, 2, width=4.4)
    titles = dict(zip(CELLS, ("clean", "robust", "on D̂_NR", "on D̂_R"), strict=True))
    printed = TABLE_1.get(ImageFeatures.of(run).network.dataset)
    for ax, method in zip(axes[0], METHODS, strict=True):
        cells = _cells(run, method)
        for place, (key, color) in enumerate(zip(titles, (CLEAN, GREY, NON_ROBUST, ROBUST), strict=True)):
            if key not in cells:
                continue
            ax.bar(place, cells[key].value, 0.7, color=color)
            if np.isfinite(cells[key]).all():
                ends = [max(cells[key].low, 0.0), min(cells[key].high, 1.0)]
                ax.plot([place, place], ends, color="black", linewidth=1.2)
            if printed is not None:
                level = [getattr(printed[method], key)] * 2
                ax.plot([place - 0.45, place + 0.45], level, color="black", linewidth=1.4, linestyle=":")
        ax.plot([], [], color="black", linewidth=1.2, label="95 % over seeds")
        ax.plot([], [], color="black", linestyle=":", label="printed")
        found = {key: f"{cells[key].value:.3f}" if key in cells else "–" for key in titles}
        ax.set_xticks(
            range(len(titles)), [f"{title}\n{found[key]}" for key, title in titles.items()], fontsize=8
        )
        ax.set_ylim(0, 1.12)
        finish(ax, f"{method} training", "", "accuracy")
    return figure


def _strip(images: Tensor) -> Any:
    return np.concatenate(list(images.permute(0, 2, 3, 1).numpy()), axis=1).squeeze()


def reconstructions(run: Run, count: int = 10) -> Figure:
    """Figure 1's rows: originals, their non-robust and their robust features, one of each class."""
    seed = ImageFeatures.of(run).seeds[0]
    labels = run.tensor("originals", "y", seed=seed).tolist()
    first = {label: labels.index(label) for label in sorted(set(labels))}
    chosen = list(first.values())[:count]
    shown = {"original": run.tensor("originals", "x", seed=seed)}
    shown |= {f"{NAMES[name]}\nfeatures": run.tensor("invert", "x", set=name, seed=seed) for name in NAMES}
    figure, axes = panels(3, 1, width=8.0, height=0.85)
    for ax, (title, images) in zip(axes[:, 0], shown.items(), strict=True):
        ax.imshow(_strip(images[chosen]), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        _bare(ax, title)
    return figure


def _bare(ax: Axes, label: str) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)


def _grid(run: Run, name: str, reader: str, rows: Sequence[tuple[int, str]]) -> Any:
    """Means over the pairs of networks for each start: what ``reader`` reads of a set, or its error."""
    own = run.part("cell").filter(pl.col(CellRead.set) == name)
    key = CellRead.error_mean if reader == "error" else CellRead.accuracy
    chosen = own.filter(pl.col(CellRead.reader) == ("own" if reader == "error" else reader))
    place = [CellRead.width, CellRead.layer, CellRead.start]
    found = {
        tuple(row[c] for c in place): row[key]
        for row in chosen.group_by(place).agg(pl.col(key).mean()).to_dicts()
    }
    return np.array([[found[(*row, start)] for start in ImageInversion.of(run).starts] for row in rows])


def heat_maps(run: Run) -> Figure:
    """Every cell: above the non-robust, below the robust set; error reached, and who reads what."""
    spec = ImageInversion.of(run)
    rows = [(width, layer) for width in spec.widths for layer in spec.layers]
    titles = {
        "error": "relative feature error",
        "own": "own network",
        "fresh-standard": "fresh, standard",
        "fresh-adversarial": "fresh, adversarial",
    }
    figure, axes = panels(2, len(titles), width=3.3, height=0.9 + 0.38 * len(rows))
    for line, name in zip(axes, NAMES, strict=True):
        for ax, (reader, title) in zip(line, titles.items(), strict=True):
            values = _grid(run, name, reader, rows)
            ax.imshow(values, vmin=0, vmax=1, cmap="Greys" if reader == "error" else "viridis", aspect="auto")
            for (i, j), value in np.ndenumerate(values):
                dark = value > 0.5 if reader == "error" else value < 0.6
                color = "white" if dark else "black"
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color=color)
            ax.set_xticks(range(len(spec.starts)), spec.starts, fontsize=8)
            labels = [f"width {w}, {la}" for w, la in rows] if ax is line[0] else [""] * len(rows)
            ax.set_yticks(range(len(rows)), labels, fontsize=8)
            ax.set_title(f"{NAMES[name]} set: {title}", fontsize=9)
    return figure


def starts(run: Run) -> Figure:
    """Reconstructions from every start, from the layer that is named first, at the largest width."""
    spec = ImageInversion.of(run)
    width, layer, seed = max(spec.widths), spec.layers[0], spec.seeds[0]
    shown = [(start, name, f"{start},\n{NAMES[name]}") for start in spec.starts for name in NAMES]
    shown.insert(0, (spec.starts[0], "original", "original"))
    figure, axes = panels(len(shown), 1, width=5.5, height=0.75)
    for ax, (start, name, label) in zip(axes[:, 0], shown, strict=True):
        images = run.tensor("cell", name, width=width, layer=layer, start=start, seed=seed)
        ax.imshow(_strip(images), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        _bare(ax, label)
    return figure


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {
    "image-features": {"features": curves, "table": table, "reconstructions": reconstructions},
    "image-inversion": {"cells": heat_maps, "starts": starts},
}
