"""FA Figure 3, middle and right: robust accuracy of image networks of two and of ten labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from featscope.experiments.run import Run
from featscope.images.catalogue import DATASETS
from featscope.papers.fa.claims_fine_labels import curves_by_seed
from featscope.papers.fa.fine_labels_columns import Curve
from featscope.papers.fa.image_fine_labels import ImageFineLabels
from featscope.papers.fa.printed import FIGURE_3
from featscope.plots.style import GREY, NON_ROBUST, ROBUST, curve_over_runs, finish, panels


def fine_labels(run: Run) -> Figure:
    """Figure 3: robust accuracy over the ℓ2 radius, 2-class labels red, 10-class labels blue.

    Crosses: the published figure.
    """
    names = ImageFineLabels.of(run).datasets
    # The legend stands beside the last panel and takes its room.
    figure, axes = panels(1, len(names), 4.2 + 3.2 / len(names), 3.8)
    lines = (
        (Curve.binary, NON_ROBUST, "-", "2-class labels"),
        (Curve.binary_last, NON_ROBUST, ":", "2-class, last iterate of PGD only"),
        (Curve.fine_worst, ROBUST, "-", "10-class labels, worst of both attacks"),
        (Curve.fine_readout, ROBUST, "-.", "10-class, PGD on the read-out"),
        (Curve.fine_own_loss, ROBUST, "--", "10-class, PGD on the own loss"),
        (Curve.fine_last, ROBUST, ":", "10-class, own loss, last iterate only"),
    )
    for ax, name in zip(axes[0], names, strict=True):
        frames = curves_by_seed(run, name)
        radii = frames[0][Curve.radius].to_list()
        for column, color, style, label in lines:
            curve_over_runs(
                ax, radii, [100 * f[column].to_numpy() for f in frames], color, label, linestyle=style
            )
        printed = FIGURE_3[name]
        for heights, color in ((printed.binary, NON_ROBUST), (printed.fine, ROBUST)):
            ax.plot(printed.radii, 100 * np.asarray(heights), "x", color=color, markersize=6)
        ax.plot([], [], "x", color=GREY, label="published, read off the plot")
        ax.set_ylim(-3, 103)
        finish(ax, DATASETS[name].title, "ℓ2 radius", "robust test accuracy (%)", legend=ax is axes[0, -1])
    axes[0, -1].legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {"image-fine-labels": {"fig3": fine_labels}}
