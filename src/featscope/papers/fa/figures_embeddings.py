"""Figures of FA on embeddings: 2 (c, d) and 10 in the paper's layout, and what the paper does not show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from featscope.core.columns import Column
from featscope.experiments.run import Run
from featscope.images.catalogue import dataset
from featscope.papers.fa.embedding_columns import HeadPath
from featscope.papers.fa.embedding_radii import HeadRadii
from featscope.papers.fa.figures_clusters import COSINES, heat_map
from featscope.papers.fa.image_embeddings import ImageEmbeddings
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.grids import MOST_CELLS, HeatMap, HeatScale, coarsened
from featscope.plots.palette import NON_ROBUST, REFERENCE, ROBUST
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import OverSeeds, Rule, Values, by_seed
from featscope.plots.sheet import side_by_side

KINDS = {"raw": "embeddings as they are", "centred": "embeddings centred"}
NETS = {"binary": "2-class labels", "fine": "10-class labels"}
LOOKS = {"binary": NON_ROBUST, "fine": ROBUST}
#: cosines below this are seen as negative
NEGATIVE = -0.05


def _tables(run: Run, stage: str) -> list[tuple[str, Values]]:
    """The titles and the means over seeds of the heat maps, embeddings as they are above."""
    found = []
    for kind, what in KINDS.items():
        for letter, (net, labels) in zip("cd", NETS.items(), strict=True):
            tables = [
                run.tensor("table", "features", net=net, kind=kind, stage=stage, seed=seed).double().numpy()
                for seed in ImageEmbeddings.of(run).seeds
            ]
            title = f"({letter}) trained with {labels},\n{what}"
            found.append((title, np.asarray(np.mean(tables, axis=0))))
    return found


def _heat_maps(run: Run, stage: str) -> list[HeatMap]:
    tables = _tables(run, stage)
    least = min(float(table.min()) for _, table in tables)
    scale = replace(COSINES, low=-0.5) if least < NEGATIVE else COSINES
    return [heat_map(table, title, scale) for title, table in tables]


CELLS = (
    "Cells are cosines between a class's feature and a weight vector of a head trained on embeddings of "
    "images, mean over "
    "seeds. Above, embeddings as they are; below, after their mean was taken away."
)
MAPS = (
    "Four heat maps of cosines, features by weights: heads trained with 2-class labels on the left and with "
    "10-class labels "
    "on the right, on embeddings as they are above and centred below."
)


def fig2cd(run: Run) -> Picture:
    """Figure 2 (c, d): the mean over seeds of both heat maps, after §6.1's steps.

    Below, on centred embeddings.
    """
    return Picture(
        title="Features of image embeddings that heads learn from coarse and from fine labels",
        caption=f"After the steps of the paper. {CELLS}",
        alt=MAPS,
        spec=side_by_side(_heat_maps(run, "paper"), columns=2),
        claims=("FA-F2cd",),
        reproduces="FA Figure 2 (c, d)",
    )


def fig2cd_long(run: Run) -> Picture:
    """The same after the long training."""
    return Picture(
        title="The same heads after a longer training",
        caption=f"After the long training, which goes on where the paper's steps end. {CELLS}",
        alt=MAPS,
        spec=side_by_side(_heat_maps(run, "long"), columns=2),
        claims=("FA-F2cd",),
    )


def fig10(run: Run) -> Picture:
    """Figure 10: cosines of embeddings, images sorted by class; beside it, centred."""
    spec = ImageEmbeddings.of(run)
    classes = dataset(spec.dataset).classes
    maps = [
        _correlations(
            run.tensor("correlation", "matrix", kind=kind, seed=spec.seeds[0]).double().numpy(), what, classes
        )
        for kind, what in KINDS.items()
    ]
    return Picture(
        title="How alike embeddings of images are, within and across classes",
        caption=(
            "Cosines of the embeddings of training images, sorted by class; a cell is the mean over some "
            "images of the row's "
            "class and some of the column's. On the right the mean of all embeddings was taken away first. "
            f"Seed {spec.seeds[0]}."
        ),
        alt="Two heat maps of cosines between embeddings, images sorted by class on both axes: as they are, "
        "and centred.",
        spec=side_by_side(maps),
        claims=("FA-F10",),
        reproduces="FA Figure 10",
    )


def _correlations(matrix: Values, what: str, classes: Sequence[str]) -> HeatMap:
    """The matrix over equal numbers of images of each class, the classes named at their middle."""
    each = max(1, min(MOST_CELLS, len(matrix)) // len(classes))
    table = coarsened(matrix, each * len(classes))
    labels = [""] * len(table)
    for place, name in enumerate(classes):
        labels[place * each + each // 2] = name
    scale = HeatScale("cos(zᵢ, zⱼ)", 0, 1)
    side = max(8, 320 // len(table))
    return HeatMap(what, table, scale, None, None, labels, labels, cell=(side, side))


def along(run: Run) -> Picture:
    """Block means of the heat maps along training, dotted where §6.1's steps end."""
    panels = [
        _path(run, kind, net, f"{labels},\n{what}")
        for kind, what in KINDS.items()
        for net, labels in NETS.items()
    ]
    return Picture(
        title="The heads' cosines with features along training",
        caption=(
            "Mean cosines of weights with the feature of their own class, with the other classes of their "
            "half and with the "
            "other half. Dotted: where the paper's steps end. Thin lines are seeds, thick ones their median."
        ),
        alt=(
            "Four line charts over steps, for both heads and both kinds of embedding: mean cosine with the "
            "own class, with "
            "other classes of the half, and with the other half."
        ),
        spec=side_by_side(panels, columns=2),
        claims=("FA-F2cd",),
    )


def _path(run: Run, kind: str, net: str, title: str) -> Panel:
    lines = (
        (HeadPath.own, ROBUST, "own class"),
        (HeadPath.half, NON_ROBUST, "other classes of the half"),
        (HeadPath.other, REFERENCE, "other half"),
    )
    # The long training begins where the other ends: its first row is there already.
    rows = run.part("head", net=net, kind=kind).unique([HeadPath.seed, HeadPath.time])
    drawn = [OverSeeds(name, look, *by_seed(rows, key, HeadPath.time)) for key, look, name in lines]
    end = Rule(ImageEmbeddings.of(run).heads.steps, "the paper's steps")
    return Panel(title, Axis("step"), Axis("mean cosine"), drawn, [end], width=320)


def radii(run: Run) -> Picture:
    """Robust accuracy of both heads over the ℓ2 radius, in units of the embeddings' norm."""
    return Picture(
        title="Robust accuracy of both heads over the radius",
        caption=(
            "Shares of test embeddings that no attack moved across the boundary within the radius (upper "
            "bounds), and for "
            "which none can (certified, lower bounds). Thin lines are seeds, thick ones their median."
        ),
        alt=(
            "Two line charts, on embeddings as they are and centred: robust test accuracy against the ℓ2 "
            "radius, attacked "
            "and certified, for both heads."
        ),
        spec=side_by_side([_radii(run, kind, what) for kind, what in KINDS.items()]),
        claims=("FA-F2cd",),
    )


def _radii(run: Run, kind: str, title: str) -> Panel:
    largest = max(float(run.part("radii", kind=kind)[HeadRadii.attacked].to_numpy().max()), 1e-12)
    at = np.linspace(0, largest, 201)
    keys = ((HeadRadii.attacked, 0), (HeadRadii.certified, 3))
    drawn = [
        OverSeeds(f"{NETS[net]}, {key}", look.dashed(dash), at, _withstand(run, kind, net, key, at))
        for net, look in LOOKS.items()
        for key, dash in keys
    ]
    width = Axis("ℓ2 radius ÷ root mean squared norm")
    return Panel(title, width, replace(ACCURACY, title="robust test accuracy"), drawn, width=340)


def _withstand(run: Run, kind: str, net: str, key: Column, at: Values) -> list[list[float]]:
    """For each seed the shares of points whose radius is larger than each of ``at``."""
    rows = run.part("radii", net=net, kind=kind)
    of_seeds = [
        rows.filter(pl.col(HeadRadii.seed) == seed)[key].to_numpy() for seed in ImageEmbeddings.of(run).seeds
    ]
    return [[float(np.mean(found > radius)) for radius in at] for found in of_seeds]


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "image-embeddings": {
        "fig2cd": fig2cd,
        "fig2cd-long": fig2cd_long,
        "fig10": fig10,
        "along": along,
        "radii": radii,
    },
}
