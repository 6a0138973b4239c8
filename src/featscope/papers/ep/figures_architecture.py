"""Accuracy over radii of a convolutional network and a transformer."""

from __future__ import annotations

from collections.abc import Callable

from featscope.experiments.run import Run
from featscope.papers.ep.image_architecture import (
    ARCHITECTURES,
    METHODS,
    ArchitectureCurve,
    ImageArchitecture,
)
from featscope.plots.axes import Axis
from featscope.plots.palette import CATEGORIES
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import OverSeeds, Rule, by_seed
from featscope.plots.sheet import side_by_side

NAMES = {"lenet5": "LeNet-5", "vit": "transformer"}
ACCURACY = Axis("accuracy under attack, at most", limits=(-0.03, 1.03), ticks=(0, 0.25, 0.5, 0.75, 1))


def architectures(run: Run) -> Picture:
    """One panel for each training, one line for each architecture."""
    spec = ImageArchitecture.of(run)
    panels = []
    for place, method in enumerate(METHODS):
        lines = [
            OverSeeds(
                NAMES[name],
                look,
                *by_seed(
                    run.part("curve", architecture=name, method=method),
                    ArchitectureCurve.accuracy,
                    ArchitectureCurve.radius,
                ),
            )
            for name, look in zip(ARCHITECTURES, CATEGORIES, strict=False)
        ]
        marks = [Rule(spec.adversarial.attack.eps, "training ε", "x")] if method == "adversarial" else []
        panels.append(Panel(f"{method} training", Axis("ε (ℓ∞)"), ACCURACY, lines, marks, legend=not place))
    return Picture(
        title=f"Convolutions or attention: accuracy over radii, {spec.network.dataset}",
        caption=(
            "LeNet-5 and a vision transformer of as many parameters, trained on the same images with the "
            "same epochs and attack. Thin lines are seeds, thick ones their median."
        ),
        alt="Two charts, standard and adversarial training: accuracy against the radius for two networks.",
        spec=side_by_side(panels),
        claims=("EP-architecture",),
    )


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {"image-architecture": {"curves": architectures}}
