"""AT Table 2 as bars: attacks on the features of image networks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featscope.core.stored import Label
from featscope.experiments.run import Run
from featscope.images.catalogue import DATASETS
from featscope.papers.at.image_feature_attacks import RATE, ImageFeatureAttacks, Rates
from featscope.papers.at.image_features import METHODS
from featscope.papers.at.printed import TABLE_2, TABLE_2_PAIRS
from featscope.plots.style import GREY, NON_ROBUST, ROBUST, finish, panels

NAMES = {"cifar10": ("plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")}
BARS = (("NRF", NON_ROBUST, "NRF-PGD"), ("RF", ROBUST, "RF-PGD"), ("noise", GREY, "random ±ε"))


def feature_attacks(run: Run) -> Figure:
    """Table 2: for each data set the rates on networks of both trainings, and images to look at."""
    names = ImageFeatureAttacks.of(run).datasets
    figure, axes = panels(len(names), 3, 4.6, 3.8)
    for row, name in zip(axes, names, strict=True):
        for ax, method in zip(row, METHODS, strict=False):
            _bars(ax, run, name, method)
        _strip(row[2], run, name)
    return figure


def _bars(ax: Axes, run: Run, name: str, method: str) -> None:
    pairs, rows = ImageFeatureAttacks.of(run).pairs, run.part("rates", dataset=name)
    for offset, (attack, color, label) in zip((-0.27, 0.0, 0.27), BARS, strict=True):
        for place, (source, target) in enumerate(pairs):
            of_pair = (pl.col(Rates.source) == source) & (pl.col(Rates.target) == target)
            chosen = rows.filter((pl.col(Rates.attack) == attack) & of_pair)
            values = 100 * chosen[RATE[method][0]].to_numpy()
            ax.bar(
                place + offset,
                values.mean(),
                0.25,
                color=color,
                alpha=0.75,
                label=label if place == 0 else None,
            )
            ax.plot([place + offset] * len(values), values, ".", color="black", markersize=3)
            if name == "cifar10" and attack in TABLE_2[method] and (source, target) in TABLE_2_PAIRS:
                printed = 100 * TABLE_2[method][attack][TABLE_2_PAIRS.index((source, target))]
                ax.plot(
                    [place + offset - 0.13, place + offset + 0.13],
                    [printed] * 2,
                    color="black",
                    linewidth=1.4,
                )
    if name == "cifar10":
        ax.plot([], [], color="black", linewidth=1.4, label="printed")
    words = NAMES.get(name, tuple(str(i) for i in range(10)))
    ax.set_xticks(range(len(pairs)), [f"{words[a]} → {words[b]}" for a, b in pairs], fontsize=8)
    ax.set_ylim(0, 100)
    finish(ax, f"{DATASETS[name].title}, {method} training (dots: seeds)", "", "classified as target (%)")


def _strip(ax: Axes, run: Run, name: str) -> None:
    """Originals, targets, and the perturbed originals of both attacks, first pair of the first seed."""
    spec = ImageFeatureAttacks.of(run)
    source, target = spec.pairs[0]
    where: dict[str, Label] = {"dataset": name, "seed": spec.seeds[0], "source": source, "target": target}
    rows = [run.tensor("rates", key, **where) for key in ("original", "target", "NRF", "RF")]
    grid = np.concatenate(
        [np.concatenate(list(images.permute(0, 2, 3, 1).numpy()), axis=1) for images in rows]
    )
    ax.imshow(grid.squeeze(), cmap="gray", vmin=0, vmax=1)
    height = rows[0].shape[2]
    ax.set_yticks([height * (i + 0.5) for i in range(4)], ["X", "X′", "NRF-PGD", "RF-PGD"], fontsize=8)
    ax.set_xticks([])
    ax.set_title("images of the first pair", fontsize=10)


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {
    "image-feature-attacks": {"table2": feature_attacks},
}
