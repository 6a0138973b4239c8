"""The separation of real data as a figure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from featscope.experiments.run import Run
from featscope.papers.ep.image_separation import PAIRS, Closest, ImageSeparation, Matching, Nearest
from featscope.plots.axes import Axis
from featscope.plots.grids import Categories, Group
from featscope.plots.palette import CATEGORIES, REFERENCE
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Curve
from featscope.plots.sheet import Shown, side_by_side

SHARE = Axis("share of test images", limits=(-0.03, 1.03), ticks=(0, 0.25, 0.5, 0.75, 1))


def separation(run: Run) -> Picture:
    """The table as bars, single distances as a distribution, and the bound on any classifier over ε."""
    looks = dict(zip(ImageSeparation.of(run).datasets, CATEGORIES, strict=False))
    distances, bounds = [], []
    for name, look in looks.items():
        values = np.sort(run.part("nearest", dataset=name)[Nearest.nearest].to_numpy())
        steps = np.repeat(np.arange(len(values) + 1) / len(values), 2)[1:-1]
        distances.append(Curve(name, look, np.repeat(values, 2), steps, points=False))
        rows = run.part("matching", dataset=name).sort(Matching.eps)
        bounds.append(Curve(name, look, rows[Matching.eps].to_numpy(), rows[Matching.bound].to_numpy()))
    limit = Axis("robust accuracy, at most", limits=(0.45, 1.03))
    nearest = Axis("ℓ∞ distance to another label", limits=(0, 1.03))
    panels: list[Shown] = [
        _bars(run),
        Panel("nearest training image", nearest, SHARE, distances),
        Panel("bound on any classifier", Axis("ε (ℓ∞)"), limit, bounds),
    ]
    return Picture(
        title="How far images of different labels are apart",
        caption=(
            "Left: the ℓ∞ distance of the closest pair of different labels, beside twice the perturbation "
            "that is usual; grey "
            "ticks are what the talk prints. Middle: how many test images have a training image of another "
            "label within a "
            "distance. Right: what any classifier can have at most, from matching test images whose balls "
            "meet."
        ),
        alt=(
            "Bars of closest distances by data set and pair of sets; a line chart of the distribution of "
            "distances to the nearest "
            "image of another label; a line chart of a bound on robust accuracy against ε."
        ),
        spec=side_by_side(panels),
        claims=("EP-sep",),
        reproduces="the talk's table of separations",
    )


def _bars(run: Run) -> Categories:
    places, found = [], []
    for name in ImageSeparation.of(run).datasets:
        for pair in PAIRS.values():
            places.append(f"{name}\n{pair}")
            found.append(run.part("closest", dataset=name, pair=pair).to_dicts()[0])
    distances = [[row[Closest.separation]] for row in found]
    usual = [[] if row.get(Closest.eps) is None else [2 * row[Closest.eps]] for row in found]
    groups = [
        Group(
            "closest pair", CATEGORIES[4].dashed(0), distances, [row.get(Closest.printed) for row in found]
        ),
        Group("2ε", REFERENCE, usual),
    ]
    whole = bool(run.part("closest")[Closest.whole].all())
    title = "closest pair of different labels" + ("" if whole else " (of a subset)")
    height = Axis("ℓ∞ distance", limits=(0, 1.03))
    return Categories(title, places, height, groups, width=max(260, 80 * len(places)))


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {"image-separation": {"separation": separation}}
