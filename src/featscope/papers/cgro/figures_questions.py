"""Figures of questions that CGRO leaves open: f_S beside trained networks, λ on images, deeper networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from featscope.core.columns import Column
from featscope.experiments.run import Run
from featscope.papers.cgro.image_built import NETS, BuiltRadii, ImageBuilt
from featscope.papers.cgro.image_lambda import ImageLambda, LambdaEnd
from featscope.papers.cgro.signal_depth import DYNAMICS, DepthDynamics, SignalDepth
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.grids import Categories, Group
from featscope.plots.palette import ATTACKED, CLEAN, THEORY, Look
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


SHOWN: tuple[tuple[str, Look, str], ...] = (
    (LambdaEnd.robust_test, ATTACKED, "under attack, test"),
    (LambdaEnd.robust_train, ATTACKED.variant(1), "under attack, train"),
    (LambdaEnd.clean_test, CLEAN, "clean, test"),
)


def weights(run: Run) -> Picture:
    """Accuracies for every λ, drawn as those of the signal law are in the sweeps."""
    spec, rows = ImageLambda.of(run), run.part("ended")
    groups = [
        Group(name, look, [rows.filter(pl.col(LambdaEnd.lam) == lam)[key].to_list() for lam in spec.lams])
        for key, look, name in SHOWN
    ]
    names = [f"{lam:g}" for lam in spec.lams]
    eps = spec.training.attack.eps
    title = f"{spec.dataset}, {spec.train} images, ε = {eps:g}"
    return Picture(
        title="The weight λ of attacked images",
        caption=(
            "Accuracy after training on (1 − λ)·clean + λ·attacked loss, on the same images and first "
            "weights for every λ. Dots are seeds, bars their median. The same sweep on the signal law is in "
            "the figure of `signal-scaling`."
        ),
        alt="Grouped bars of accuracies by λ: attacked test and training images, clean test images.",
        spec=side_by_side([Categories(title, names, ACCURACY, groups, "λ", width=420)]),
        claims=("CG-lambda-images",),
    )


def depth(run: Run) -> Picture:
    """Clean and attacked accuracies of every network along the training on (O)."""
    panels = [_learned(run, kind, first=not place) for place, kind in enumerate(SignalDepth.of(run).nets)]
    return Picture(
        title="Deeper networks on CGRO's law",
        caption=(
            "Networks of one to four convolutional layers and a residual one, trained on (O): accuracy of "
            "fresh points, of training points at their points of (A), and of fresh points there. Thin lines "
            "are seeds, thick ones their median."
        ),
        alt="One line chart for each network: three accuracies against the step of descent.",
        spec=side_by_side(panels, columns=2),
        claims=("CG-depth",),
    )


def _learned(run: Run, kind: str, first: bool) -> Panel:
    rows = run.part(DYNAMICS, net=kind, arm="attacked")
    lines = [
        OverSeeds(name, look, *by_seed(rows, column, DepthDynamics.step))
        for column, look, name in (
            (DepthDynamics.clean_test, CLEAN, "clean, test"),
            (DepthDynamics.gta_train, ATTACKED.variant(1), "at (A), train"),
            (DepthDynamics.gta_test, ATTACKED, "at (A), test"),
        )
    ]
    chance = [Rule(0.5, "chance", "y")]
    return Panel(
        kind, Axis("step of descent"), ACCURACY, lines, chance, legend=first, width=WIDE, height=HIGH
    )


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "image-built": {"built": built},
    "image-lambda": {"weights": weights},
    "signal-depth": {"depth": depth},
}
