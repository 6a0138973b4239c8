"""Figures of the questions on real images that go beyond CGRO's own: f_S beside trained networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from featscope.core.columns import Column
from featscope.experiments.run import Run
from featscope.papers.cgro.image_built import NETS, BuiltRadii, ImageBuilt
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.palette import ATTACKED, CLEAN, THEORY
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import OverSeeds, Rule, by_seed
from featscope.plots.sheet import side_by_side

WIDE, HIGH = 280, 150
LOOKS = {
    "clean": (CLEAN, "trained without attack"),
    "built": (THEORY, "f_S around it"),
    "adversarial": (ATTACKED, "adversarially trained"),
}
RADIUS = Axis("radius (ℓ∞)")


def built(run: Run) -> Picture:
    """Robust accuracy and loss change over radii, training and test images, for every size."""
    spec = ImageBuilt.of(run)
    heights = {
        BuiltRadii.robust: replace(ACCURACY, title="robust accuracy"),
        BuiltRadii.change: Axis("largest loss change, mean", zero=True),
    }
    panels = [
        _panel(run, size, which, column, axis, first=not (place or number or which == "test"))
        for place, size in enumerate(spec.sizes)
        for number, (column, axis) in enumerate(heights.items())
        for which in ("train", "test")
    ]
    return Picture(
        title=f"Does adversarial training look like f_S? {spec.dataset}, {spec.net.architecture}",
        caption=(
            "A network trained without attack, f_S built around it, and one trained adversarially on the "
            "same images: what withstands attacks within a radius, and the largest change of the loss found "
            "there, around training images (left) and test images (right). f_S is robust on the training "
            "balls by certificate, and its clean network everywhere else. Thin lines are seeds, thick ones "
            "their median."
        ),
        alt=(
            "Four line charts for each number of training images: robust accuracy and loss change against "
            "the radius, around training and around test images, for three networks."
        ),
        spec=side_by_side(panels, columns=2),
        claims=("CG-fS",),
    )


def _panel(run: Run, size: int, which: str, column: Column, axis: Axis, first: bool) -> Panel:
    rows = run.part("radii", size=size).filter(pl.col(BuiltRadii.set) == which)
    drawn = [
        OverSeeds(
            LOOKS[net][1],
            LOOKS[net][0],
            *by_seed(rows.filter(pl.col(BuiltRadii.net) == net), column, BuiltRadii.radius),
        )
        for net in NETS
    ]
    eps = Rule(ImageBuilt.of(run).training.attack.eps, "training radius")
    title = f"{which} images, N = {size}"
    return Panel(title, RADIUS, axis, drawn, [eps], legend=first, width=WIDE, height=HIGH)


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {"image-built": {"built": built}}
