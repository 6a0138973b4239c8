"""Figures of FA on embeddings: 2 (c, d) and 10 in the paper's layout, and what the paper does not show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featscope.experiments.run import Run
from featscope.images.catalogue import dataset
from featscope.papers.fa.embedding_columns import HeadPath
from featscope.papers.fa.embedding_radii import HeadRadii
from featscope.papers.fa.figures_clusters import heat_map
from featscope.papers.fa.image_embeddings import STAGES, ImageEmbeddings
from featscope.plots.style import GREY, NON_ROBUST, ROBUST, curve_over_runs, finish, panels

KINDS = {"raw": "embeddings as they are", "centred": "embeddings centred"}
NETS = {"binary": "2-class labels", "fine": "10-class labels"}


def _heat_maps(run: Run, stage: str) -> Figure:
    figure, axes = panels(2, 2, 4.3, 4.0)
    for row, (kind, what) in zip(axes, KINDS.items(), strict=True):
        for ax, letter, (net, labels) in zip(row, "cd", NETS.items(), strict=True):
            seeds = ImageEmbeddings.of(run).seeds
            tables = [
                run.tensor("table", "features", net=net, kind=kind, stage=stage, seed=seed) for seed in seeds
            ]
            table = np.mean([values.numpy() for values in tables], axis=0)
            image = heat_map(
                ax,
                table,
                f"({letter}) trained with {labels}, {what}",
                low=-0.5 if table.min() < -0.05 else 0.0,
            )
            ax.set_xlabel("weight $w_j$", fontsize=8)
            ax.set_ylabel("feature $\\mu_i$", fontsize=8)
            figure.colorbar(image, ax=ax, shrink=0.75)
    return figure


def fig2cd(run: Run) -> Figure:
    """Figure 2 (c, d): the mean over seeds of both heat maps, after §6.1's steps.

    Below, on centred embeddings.
    """
    return _heat_maps(run, "paper")


def fig2cd_long(run: Run) -> Figure:
    """The same after the long training."""
    return _heat_maps(run, "long")


def fig10(run: Run) -> Figure:
    """Figure 10: cosines of embeddings, images sorted by class; beside it, centred."""
    figure, axes = panels(1, 2, 4.9, 4.4)
    spec = ImageEmbeddings.of(run)
    classes = dataset(spec.dataset).classes
    for ax, (kind, what) in zip(axes[0], KINDS.items(), strict=True):
        matrix = run.tensor("correlation", "matrix", kind=kind, seed=spec.seeds[0]).float().numpy()
        image = ax.imshow(matrix, cmap="viridis", vmin=0, vmax=1)
        each = len(matrix) / len(classes)
        places = [each * (i + 0.5) for i in range(len(classes))]
        ax.set_xticks(places, classes, fontsize=6, rotation=60)
        ax.set_yticks(places, classes, fontsize=6)
        ax.set_title(f"$\\cos(z_i, z_j)$, {what}", fontsize=9)
        figure.colorbar(image, ax=ax, shrink=0.75)
    return figure


def along(run: Run) -> Figure:
    """Block means of the heat maps along training, dotted where §6.1's steps end."""
    figure, axes = panels(2, 2, 4.4)
    blocks = (
        (HeadPath.own, ROBUST, "-", "own class"),
        (HeadPath.half, NON_ROBUST, "--", "other classes of the half"),
        (HeadPath.other, GREY, "-", "other half"),
    )
    spec = ImageEmbeddings.of(run)
    for row, (kind, what) in zip(axes, KINDS.items(), strict=True):
        for ax, (net, labels) in zip(row, NETS.items(), strict=True):
            frames = [
                [run.part("head", net=net, kind=kind, stage=stage, seed=seed) for stage in STAGES]
                for seed in spec.seeds
            ]
            # The long training begins where the other ends: its first row is there already.
            times = [*frames[0][0][HeadPath.time].to_list(), *frames[0][1][HeadPath.time].to_list()[1:]]
            for key, color, style, label in blocks:
                values = [[*first[key].to_list(), *second[key].to_list()[1:]] for first, second in frames]
                curve_over_runs(ax, times, values, color, label, linestyle=style)
            ax.axvline(spec.heads.steps, color="black", linestyle=":", linewidth=0.8)
            finish(ax, f"{labels}, {what}", "step", "mean cosine")
    return figure


def _radii(ax: Axes, run: Run, kind: str) -> None:
    parts = {
        net: [run.part("radii", net=net, kind=kind, seed=seed) for seed in ImageEmbeddings.of(run).seeds]
        for net in NETS
    }
    largest = max(
        float(np.max(part[HeadRadii.attacked].to_numpy())) for of_net in parts.values() for part in of_net
    )
    at = np.linspace(0, largest, 201)
    for net, color in (("binary", NON_ROBUST), ("fine", ROBUST)):
        for key, style in ((HeadRadii.attacked, "-"), (HeadRadii.certified, ":")):
            curves = [[float(np.mean(part[key].to_numpy() > r)) for r in at] for part in parts[net]]
            curve_over_runs(ax, list(at), curves, color, f"{NETS[net]}, {key}", linestyle=style)


def radii(run: Run) -> Figure:
    """Robust accuracy of both heads over the ℓ2 radius, in units of the embeddings' norm."""
    figure, axes = panels(1, 2, 4.6, 3.4)
    for ax, (kind, what) in zip(axes[0], KINDS.items(), strict=True):
        _radii(ax, run, kind)
        ax.set_ylim(-0.03, 1.03)
        finish(ax, what, "radius ÷ root mean squared norm of embeddings", "robust test accuracy")
    return figure


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {
    "image-embeddings": {
        "fig2cd": fig2cd,
        "fig2cd-long": fig2cd_long,
        "fig10": fig10,
        "along": along,
        "radii": radii,
    },
}
