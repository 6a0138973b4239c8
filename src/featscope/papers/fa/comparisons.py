"""FA's published numbers beside a run's own: robust accuracies read off Figure 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from featscope.claims.comparison import Comparison
from featscope.experiments.run import Run
from featscope.papers.fa import clusters_figures
from featscope.papers.fa.claims_figures import mean_curves
from featscope.papers.fa.printed import FIGURE_3, FIGURE_3_LEFT


def _at(radii: Sequence[float], ours: Sequence[float], radius: float) -> float | None:
    """Our curve at a published radius, interpolated; nothing outside of what was measured."""
    inside = min(radii) <= radius <= max(radii)
    return float(np.interp(radius, radii, ours)) if inside else None


def figure_3_left(run: Run) -> list[Comparison]:
    """The left panel: exact accuracy of the 2-class network, certified accuracy of the k-class one."""
    found = mean_curves(run).sort(clusters_figures.Fig3Curve.radius)
    radii = found[clusters_figures.Fig3Curve.radius].to_list()
    ours = {
        "binary": ("2-class labels", clusters_figures.Fig3Curve.binary_exact, "ours is exact"),
        "fine": ("k-class labels", clusters_figures.Fig3Curve.fine_certified, "ours is certified"),
    }
    return [
        Comparison(
            "Figure 3 (left), read off",
            f"{ours[net][0]}: robust accuracy at ℓ2 radius {radius:g}",
            accuracy,
            _at(radii, found[ours[net][1]].to_list(), radius),
            ours[net][2],
        )
        for net, curve in FIGURE_3_LEFT.items()
        for radius, accuracy in zip(*curve, strict=True)
    ]


def figure_3(run: Run) -> list[Comparison]:
    """The middle and the right panel: our accuracy is against the worst of the attacks."""
    found = []
    for dataset, summary in run.summary["datasets"].items():
        curve = FIGURE_3[dataset]
        for name, published, ours in (
            ("2-class labels", curve.binary, summary["curves"]["binary"]),
            ("10-class labels", curve.fine, summary["curves"]["fine_worst"]),
        ):
            found += [
                Comparison(
                    "Figure 3 (middle, right), read off",
                    f"{dataset}, {name}: robust accuracy at ℓ2 radius {radius:g}",
                    accuracy,
                    _at(summary["radii"], ours, radius),
                )
                for radius, accuracy in zip(curve.radii, published, strict=True)
            ]
    return found


COMPARISONS: dict[str, Callable[[Run], list[Comparison]]] = {
    "clusters-fig3": figure_3_left,
    "image-fine-labels": figure_3,
}
