"""FA Figure 3, middle and right: robust accuracy of image networks of two and of ten labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from featscope.experiments.run import Run
from featscope.images.catalogue import DATASETS
from featscope.papers.fa.figures_clusters import PERCENT, PUBLISHED, percent
from featscope.papers.fa.fine_labels_columns import FineLabelCurve
from featscope.papers.fa.image_fine_labels import ImageFineLabels
from featscope.papers.fa.printed import FIGURE_3
from featscope.plots.axes import Axis
from featscope.plots.palette import NON_ROBUST, REFERENCE, ROBUST
from featscope.plots.panels import Panel, Series
from featscope.plots.picture import Picture
from featscope.plots.series import OverSeeds, by_seed, points
from featscope.plots.sheet import side_by_side

LINES = (
    (FineLabelCurve.binary, NON_ROBUST.dashed(0), "2-class labels"),
    (FineLabelCurve.binary_last, NON_ROBUST.dashed(2), "2-class, last iterate of PGD"),
    (FineLabelCurve.fine_worst, ROBUST.dashed(0), "10-class labels, worst of both attacks"),
    (FineLabelCurve.fine_readout, ROBUST.dashed(3), "10-class, PGD on the read-out"),
    (FineLabelCurve.fine_own_loss, ROBUST.dashed(1), "10-class, PGD on the own loss"),
    (FineLabelCurve.fine_last, ROBUST.dashed(6), "10-class, own loss, last iterate"),
)


def fine_labels(run: Run) -> Picture:
    """Figure 3: robust accuracy over the ℓ2 radius, 2-class labels red, 10-class labels blue.

    Crosses: the published figure.
    """
    names = ImageFineLabels.of(run).datasets
    return Picture(
        title="Robust accuracy of image networks trained with coarse and with fine labels",
        caption=(
            "Red: networks trained with 2-class labels; blue: networks trained with 10-class labels and read "
            "as 2-class "
            "classifiers, under several attacks; each curve is an upper bound. Thin lines are seeds, thick "
            "ones their median; "
            "grey crosses are read off the paper's plot."
        ),
        alt=(
            "One line chart for each data set: robust test accuracy in percent against the ℓ2 radius, two "
            "networks under "
            "several attacks, with points of the published curves."
        ),
        spec=side_by_side([_curves(run, name) for name in names]),
        claims=("FA-F3mc",),
        reproduces="FA Figure 3 (middle, right)",
    )


def _curves(run: Run, name: str) -> Panel:
    rows = run.part("curve", dataset=name)
    drawn: list[Series] = [
        OverSeeds(label, look, *percent(by_seed(rows, column, FineLabelCurve.radius)))
        for column, look, label in LINES
    ]
    printed = FIGURE_3[name]
    for heights in (printed.binary, printed.fine):
        drawn.append(points(PUBLISHED, REFERENCE, printed.radii, 100 * np.asarray(heights)))
    return Panel(DATASETS[name].title, Axis("ℓ2 radius"), PERCENT, drawn, width=340, height=240)


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    name: {"fig3": fine_labels} for name in ("image-fine-labels", "image-fine-labels-cifar10")
}
