"""Figures of `image-features` (AT Figures 1, 4, 5 and Table 1) and of `image-inversion`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from featscope.experiments.run import Run
from featscope.papers.at.image_feature_columns import CELLS, FEATURE, FeatureCurve, Tested
from featscope.papers.at.image_features import METHODS, ImageFeatures
from featscope.papers.at.image_inversion import CellRead, ImageInversion
from featscope.papers.at.image_relations import OTHER_START, READER_IS_REFERENCE, RELATIONS, SAME_START
from featscope.papers.at.printed import TABLE_1, Accuracies
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.grids import Categories, Group, HeatMap, HeatScale, ImageRows
from featscope.plots.palette import CLEAN, NON_ROBUST, ROBUST, Look
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import OverSeeds, by_seed
from featscope.plots.sheet import side_by_side

NAMES = {"NR": "non-robust", "R": "robust"}
LOOKS = {"NR": NON_ROBUST, "R": ROBUST}
METHOD_LOOKS = {"standard": NON_ROBUST, "adversarial": ROBUST}
#: who reads, as a panel's title says it
WHO = {READER_IS_REFERENCE: "the reference reads", SAME_START: "same start", OTHER_START: "other start"}
CELL_NAMES = dict(zip(CELLS, ("clean", "robust", "on D̂_NR", "on D̂_R"), strict=True))


def _relations(run: Run) -> list[str]:
    """The relations between maker and reader that a run has."""
    spec = ImageFeatures.of(run)
    return [relation for relation in RELATIONS if relation in spec.readers[spec.seeds[0]]]


def curves(run: Run) -> Picture:
    """Figures 4 and 5: accuracy on both sets over epochs.

    Standard training above, adversarial training below.
    """
    data = ImageFeatures.of(run).network.dataset
    return Picture(
        title=f"Feature learning accuracy during training, {data}",
        caption=(
            "Accuracy on images rebuilt from what a standard network represents (non-robust features) and "
            "from what an "
            "adversarially trained one does (robust features), while a network is trained. Above standard, "
            "below adversarial training, as in the paper; from left to right the network that reads has less "
            "in common with the one that the images were rebuilt from. Thin lines are seeds, thick ones "
            "their median."
        ),
        alt=(
            "Line charts over epochs, one for each training and each relation of reader and reference: "
            "accuracy on non-robust features, on robust features and on test images."
        ),
        spec=side_by_side(
            [_curve(run, method, relation) for method in METHODS for relation in _relations(run)],
            columns=len(_relations(run)),
        ),
        claims=("AT-F4", "AT-T1"),
        reproduces="AT Figures 4 and 5",
    )


def _curve(run: Run, method: str, relation: str) -> Panel:
    shown: list[tuple[str, Look, str]] = [
        (FEATURE[key], LOOKS[key], f"{NAMES[key]} features") for key in FEATURE
    ]
    shown.append((FeatureCurve.clean_test, CLEAN, "test images"))
    rows = run.part("curve", method=method, relation=relation)
    series = [OverSeeds(name, look, *by_seed(rows, key, FeatureCurve.step)) for key, look, name in shown]
    height = replace(ACCURACY, title="feature learning accuracy")
    return Panel(f"{method} training, {WHO[relation]}", Axis("epoch"), height, series, width=260)


def _cells(run: Run, method: str, relation: str) -> dict[str, list[float]]:
    """Table 1's cells that were measured, a value for each seed."""
    tested = run.part("tested", method=method)
    found = {key: tested[key].to_list() for key in (Tested.clean_test, Tested.robust_test) if key in tested}
    curve = run.part("curve", method=method, relation=relation).sort(FeatureCurve.step)
    last = curve.group_by(FeatureCurve.seed, maintain_order=True).last()
    return found | {key: last[key].to_list() for key in FEATURE.values()}


def table(run: Run) -> Picture:
    """Table 1: our cells by training, the printed numbers as ticks."""
    data = ImageFeatures.of(run).network.dataset
    printed = TABLE_1.get(data)
    panels = [_table(run, relation, printed) for relation in _relations(run)]
    return Picture(
        title=f"Accuracy by training and by what is read, {data}",
        caption=(
            "Accuracy on test images without and under attack, and on the images rebuilt from non-robust "
            "(D̂_NR) and robust (D̂_R) features; panels differ in who reads them. Shapes and bars are "
            "medians over seeds, dots the seeds"
            + (", grey ticks what the paper prints." if printed is not None else ".")
        ),
        alt="Grouped bars of accuracy for standard and adversarial training: clean, robust, on D̂_NR and on "
        "D̂_R.",
        spec=side_by_side(panels),
        claims=("AT-T1",),
        reproduces="AT Table 1",
    )


def _table(run: Run, relation: str, printed: Mapping[str, Accuracies] | None) -> Categories:
    groups = []
    for method in METHODS:
        cells = _cells(run, method, relation)
        values = [cells.get(key, []) for key in CELLS]
        ticks = [getattr(printed[method], key) for key in CELLS] if printed is not None else []
        groups.append(Group(f"{method} training", METHOD_LOOKS[method], values, ticks))
    height = replace(ACCURACY, limits=(0, 1.03))
    return Categories(WHO[relation], list(CELL_NAMES.values()), height, groups, width=300)


def reconstructions(run: Run, count: int = 10) -> Picture:
    """Figure 1's rows: originals, their non-robust and their robust features, one of each class."""
    seed = ImageFeatures.of(run).seeds[0]
    labels = run.tensor("originals", "y", seed=seed).tolist()
    first = {label: labels.index(label) for label in sorted(set(labels))}
    chosen = list(first.values())[:count]
    shown = [("original", run.tensor("originals", "x", seed=seed)[chosen])]
    shown += [
        (f"{NAMES[name]}\nfeatures", run.tensor("invert", "x", set=name, seed=seed)[chosen]) for name in NAMES
    ]
    return Picture(
        title="Images, and what networks of both trainings keep of them",
        caption=(
            "One image of each class above; below, images that a standard network (non-robust features) and "
            "an adversarially "
            "trained one (robust features) represent in the same way, found from a start that knows nothing "
            "of the image "
            f"unless the settings say so. Seed {seed}."
        ),
        alt="Three rows of images: originals, their non-robust features, their robust features.",
        spec=side_by_side([ImageRows("", [(label, images.numpy()) for label, images in shown])]),
        claims=("AT-F4",),
    )


def _grid(run: Run, name: str, reader: str, rows: Sequence[tuple[int, str]]) -> Any:
    """Medians over the pairs of networks for each start: what ``reader`` reads of a set, or its error."""
    own = run.part("cell").filter(pl.col(CellRead.set) == name)
    key = CellRead.error_mean if reader == "error" else CellRead.accuracy
    chosen = own.filter(pl.col(CellRead.reader) == ("own" if reader == "error" else reader))
    place = [CellRead.width, CellRead.layer, CellRead.start]
    found = {
        tuple(row[c] for c in place): row[key]
        for row in chosen.group_by(place).agg(pl.col(key).median()).to_dicts()
    }
    return np.array([[found[(*row, start)] for start in ImageInversion.of(run).starts] for row in rows])


def heat_maps(run: Run) -> Picture:
    """Every cell: above the non-robust, below the robust set; error reached, and who reads what."""
    spec = ImageInversion.of(run)
    rows = [(width, layer) for width in spec.widths for layer in spec.layers]
    titles = {
        "error": "relative feature error",
        "own": "read by its own network",
        "fresh-standard": "read by a fresh standard one",
        "fresh-adversarial": "by a fresh adversarial one",
    }
    scale = HeatScale("accuracy, or error", 0, 1)
    maps = [
        HeatMap(
            f"{NAMES[name]} set:\n{title}",
            _grid(run, name, reader, rows),
            scale,
            "start of the inversion",
            "width, layer",
            rows=[f"{width}, {layer}" for width, layer in rows],
            columns=list(spec.starts),
            cell=(max(48, 200 // len(spec.starts)), 26),
        )
        for name in NAMES
        for reader, title in titles.items()
    ]
    return Picture(
        title="What is read of images that were rebuilt in different ways",
        caption=(
            "Each cell is one way of rebuilding images: from which start, from which layer, of a network of "
            "which width. The "
            "first column shows how well the layer was matched (relative error), the others how much of the "
            "labels three "
            "readers find in the images. Medians over pairs of networks; the colours end at 1."
        ),
        alt=(
            "Heat maps for the non-robust and the robust set: relative feature error, and accuracy of the "
            "own network and of "
            "fresh networks of both trainings, over start, width and layer."
        ),
        spec=side_by_side(maps, columns=len(titles)),
    )


def starts(run: Run) -> Picture:
    """Reconstructions from every start, from the layer that is named first, at the largest width."""
    spec = ImageInversion.of(run)
    width, layer, seed = max(spec.widths), spec.layers[0], spec.seeds[0]
    shown = [(start, name, f"{start},\n{NAMES[name]}") for start in spec.starts for name in NAMES]
    shown.insert(0, (spec.starts[0], "original", "original"))
    rows = [
        (label, run.tensor("cell", name, width=width, layer=layer, start=start, seed=seed).numpy())
        for start, name, label in shown
    ]
    return Picture(
        title="The same images rebuilt from every start",
        caption=(
            f"Originals above; below, images rebuilt from the layer {layer} of networks of width {width}, "
            f"seed {seed}: for "
            "each start from a standard (non-robust) and an adversarially trained network (robust)."
        ),
        alt="Rows of images: originals, then for each start of the inversion the non-robust and the robust "
        "features.",
        spec=side_by_side([ImageRows("", rows)]),
    )


_FEATURES: dict[str, Callable[[Run], Picture]] = {
    "features": curves,
    "table": table,
    "reconstructions": reconstructions,
}
FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "image-features": _FEATURES,
    **{f"image-features-{variant}": _FEATURES for variant in ("widths", "cifar10", "svhn")},
    "image-inversion": {"cells": heat_maps, "starts": starts},
}
