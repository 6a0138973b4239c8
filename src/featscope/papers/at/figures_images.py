"""Figures of `image-features` (AT Figures 1, 4, 5 and Table 1) and of `image-inversion`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from featscope.experiments.run import Run
from featscope.plots.style import CLEAN, GREY, NON_ROBUST, ROBUST, curve_over_runs, finish, panels

METHODS = ("standard", "adversarial")
NAMES = {"NR": "non-robust", "R": "robust"}


def curves(run: Run) -> Figure:
    """Figures 4 and 5: accuracy on both reconstructed sets over epochs; standard training above, adversarial training below."""
    figure, axes = panels(2, 1, width=6.4)
    seeds = run.spec["spec"]["seeds"]
    for ax, method in zip(axes[:, 0], METHODS, strict=True):
        frames = [run.part(f"curve-{method}-{seed}").sort("step") for seed in seeds]
        steps = frames[0]["step"].to_list()
        for name, color in (("NR", NON_ROBUST), ("R", ROBUST)):
            curve_over_runs(ax, steps, [rows[f"feature_{name}"].to_list() for rows in frames], color, f"{NAMES[name]} features")
        curve_over_runs(ax, steps, [rows["clean_test"].to_list() for rows in frames], CLEAN, "test images", linestyle=":")
        ax.set_ylim(-0.03, 1.03)
        finish(ax, f"{method} training, {run.spec['spec']['network']['dataset']}", "epoch", "feature learning accuracy", legend=False)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    return figure


def table(run: Run) -> Figure:
    """Table 1 as bars: our cells with their intervals, the printed numbers as lines."""
    figure, axes = panels(1, 2, width=4.4)
    columns = {"clean_test": "clean", "robust_test": "robust", "feature_NR": "on D̂_NR", "feature_R": "on D̂_R"}
    for ax, method in zip(axes[0], METHODS, strict=True):
        cells, printed = run.summary["table"][method], run.summary["printed"]
        for place, (key, color) in enumerate(zip(columns, (CLEAN, GREY, NON_ROBUST, ROBUST), strict=True)):
            if key not in cells:
                continue
            mean, ends = cells[key]["mean"], cells[key]["interval"]
            ax.bar(place, mean, 0.7, color=color)
            if ends is not None:
                low, high = max(ends[0], 0.0), min(ends[1], 1.0)
                ax.plot([place, place], [low, high], color="black", linewidth=1.2)
            if printed is not None:
                ax.plot([place - 0.45, place + 0.45], [printed[method][key]] * 2, color="black", linewidth=1.4, linestyle=":")
        ax.plot([], [], color="black", linewidth=1.2, label="95 % over seeds")
        ax.plot([], [], color="black", linestyle=":", label="printed")
        labels = [f"{title}\n{cells[key]['mean']:.3f}" if key in cells else f"{title}\n–" for key, title in columns.items()]
        ax.set_xticks(range(len(columns)), labels, fontsize=8)
        ax.set_ylim(0, 1.12)
        finish(ax, f"{method} training", "", "accuracy")
    return figure


def _strip(images: Tensor) -> Any:
    return np.concatenate(list(images.permute(0, 2, 3, 1).numpy()), axis=1).squeeze()


def reconstructions(run: Run, count: int = 10) -> Figure:
    """Figure 1's rows of images: originals, images with their non-robust features, images with their robust features, one of each class where there are enough."""
    seed = run.spec["spec"]["seeds"][0]
    labels = run.tensors[f"originals-{seed}/y"].tolist()
    first = {label: labels.index(label) for label in sorted(set(labels))}
    chosen = list(first.values())[:count]
    keys = {"original": f"originals-{seed}/x", "non-robust\nfeatures": f"invert-NR-{seed}/x", "robust\nfeatures": f"invert-R-{seed}/x"}
    figure, axes = panels(3, 1, width=8.0, height=0.85)
    for ax, (title, key) in zip(axes[:, 0], keys.items(), strict=True):
        ax.imshow(_strip(run.tensors[key][chosen]), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        _bare(ax, title)
    return figure


def _bare(ax: Axes, label: str) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)


def _cells(run: Run, name: str, key: str, rows: Sequence[tuple[int, str]], starts: Sequence[str]) -> Any:
    found = {(c["width"], c["layer"], c["start"]): c[key]["mean"] for c in run.summary["cells"] if c["set"] == name}
    return np.array([[found[(width, layer, start)] for start in starts] for width, layer in rows])


def heat_maps(run: Run) -> Figure:
    """Every cell, means over the pairs of networks: above the non-robust, below the robust set; error reached, and who reads what."""
    spec = run.spec["spec"]
    rows = [(width, layer) for width in spec["widths"] for layer in spec["layers"]]
    titles = {
        "error": "relative feature error",
        "own": "own network",
        "fresh-standard": "fresh, standard",
        "fresh-adversarial": "fresh, adversarial",
    }
    figure, axes = panels(2, len(titles), width=3.3, height=0.9 + 0.38 * len(rows))
    for line, name in zip(axes, ("NR", "R"), strict=True):
        for ax, (key, title) in zip(line, titles.items(), strict=True):
            values = _cells(run, name, key, rows, spec["starts"])
            ax.imshow(values, vmin=0, vmax=1, cmap="Greys" if key == "error" else "viridis", aspect="auto")
            for (i, j), value in np.ndenumerate(values):
                dark = value > 0.5 if key == "error" else value < 0.6
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color="white" if dark else "black")
            ax.set_xticks(range(len(spec["starts"])), spec["starts"], fontsize=8)
            ax.set_yticks(range(len(rows)), [f"width {w}, {la}" for w, la in rows] if ax is line[0] else [""] * len(rows), fontsize=8)
            ax.set_title(f"{NAMES[name]} set: {title}", fontsize=9)
    return figure


def starts(run: Run) -> Figure:
    """Reconstructions from every start, from the layer that is named first, at the largest width."""
    spec = run.spec["spec"]
    width, layer, seed = max(spec["widths"]), spec["layers"][0], spec["seeds"][0]
    keys = [(start, name) for start in spec["starts"] for name in ("NR", "R")]
    figure, axes = panels(len(keys) + 1, 1, width=5.5, height=0.75)
    parts = [f"cell-{width}-{layer}-{start}-{seed}/{name}" for start, name in keys]
    parts.insert(0, f"cell-{width}-{layer}-{spec['starts'][0]}-{seed}/original")
    labels = ["original", *(f"{start},\n{NAMES[name]}" for start, name in keys)]
    for ax, part, label in zip(axes[:, 0], parts, labels, strict=True):
        ax.imshow(_strip(run.tensors[part]), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        _bare(ax, label)
    return figure


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {
    "image-features": {"features": curves, "table": table, "reconstructions": reconstructions},
    "image-inversion": {"cells": heat_maps, "starts": starts},
}
