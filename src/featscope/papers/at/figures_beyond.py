"""Figures beyond AT's own setting: the inner maximum (`patch-inner`), deeper networks (`patch-depth`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from featscope.experiments.run import Run
from featscope.papers.at.inner_columns import INNER_DYNAMICS, INNER_RADII, InnerDynamics, InnerRadii
from featscope.papers.at.patch_columns import ARMS
from featscope.papers.at.patch_depth import DEPTH_DYNAMICS, DepthDynamics, PatchDepth
from featscope.papers.at.patch_inner import PatchInner
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.palette import ATTACKED, CERTIFIED, CLEAN, NON_ROBUST, ROBUST
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import OverSeeds, Rule, by_seed
from featscope.plots.sheet import side_by_side

STEP = Axis("step of descent")
#: panels in a row, and the height of each
IN_A_ROW = 3
WIDE, HIGH = 200, 140
#: what stands above the panel of an arm; PGD says its steps
SHORT = {
    "patch": "one step, patch clip",
    "coordinate": "one step, coordinate clip",
    "features-only": "one step, features only",
    "exact": "true maximiser",
    "exact-features": "true, features only",
}
#: one scale in all panels, so that they can be compared
CORRELATION = Axis(
    "correlation, mean over classes",
    "symlog",
    limits=(-0.1, 20),
    ticks=(-0.1, 0, 0.01, 0.1, 1, 10),
    constant=0.01,
)
LEFT = Axis("left ÷ F_y(X)", "log", limits=(1e-9, 1e3), ticks=(1e-9, 1e-6, 1e-3, 1, 1e3), floor=1e-9)


def trainings(run: Run) -> Picture:
    """Correlations with both features along every training."""
    panels = [_correlations(run, arm, first=not place) for place, arm in enumerate(PatchInner.of(run).arms)]
    return Picture(
        title="Adversarial training by what finds the inner maximum",
        caption=(
            "Each class's largest correlation of a neuron with its robust feature u and its "
            "non-robust feature v, the "
            "same points and initial weights in every panel: one step under three clips, the true "
            "maximiser over the ball "
            "and over its part in the features' span, and PGD. Thin lines are seeds, thick ones "
            "their median, over the "
            "mean of the classes."
        ),
        alt=(
            "One line chart for each way to find the perturbation: correlations with robust and "
            "non-robust features "
            "against the step of descent, vertical axis logarithmic near 0."
        ),
        spec=side_by_side(panels, columns=IN_A_ROW),
        claims=("AT-R2.5",),
    )


def _correlations(run: Run, arm: str, first: bool) -> Panel:
    rows = run.part(INNER_DYNAMICS, arm=arm)
    lines = [
        OverSeeds(name, look, *by_seed(rows, pl.col(column).list.mean(), InnerDynamics.step))
        for column, look, name in (
            (InnerDynamics.u, ROBUST, "robust, u"),
            (InnerDynamics.v, NON_ROBUST, "non-robust, v"),
        )
    ]
    return Panel(_title(arm), STEP, CORRELATION, lines, legend=first, width=WIDE, height=HIGH)


def _title(arm: str) -> str:
    return SHORT.get(arm, f"PGD, steps: {arm.removeprefix('pgd-')}")


def optimum(run: Run) -> Picture:
    """What each training's perturbation leaves to the true maximum, and what the final "
    "networks withstand."""
    spec = PatchInner.of(run)
    panels = []
    for place, arm in enumerate(spec.arms):
        rows = run.part(INNER_DYNAMICS, arm=arm)
        line = OverSeeds(
            "left to the optimum", ATTACKED, *by_seed(rows, InnerDynamics.left, InnerDynamics.step)
        )
        rules = [Rule(1, "as at X", "y")] if place == 0 else []
        panels.append(
            Panel(_title(arm), STEP, LEFT, [line], rules, legend=not place, width=WIDE, height=HIGH)
        )
    return Picture(
        title="How far the perturbations of training are from the true maximum",
        caption=(
            "At checkpoints: by how much the own output at the perturbation that is trained on "
            "exceeds its least value "
            "over the same threat, in units of its value at the point itself, mean over the "
            "training points. The least value is "
            "certified by a duality gap. Above 1 the perturbation is worse than none. What is not "
            "above 0 is drawn at the floor."
        ),
        alt=(
            "One chart for each way to find the perturbation: distance from the optimum on a "
            "logarithmic axis against the "
            "step of descent."
        ),
        spec=side_by_side(panels, columns=IN_A_ROW),
        claims=("AT-R2.5",),
    )


def withstood(run: Run) -> Picture:
    """Attacked and certified robust accuracy of the final networks against the radius."""
    panels = []
    for place, arm in enumerate(PatchInner.of(run).arms):
        rows = run.part(INNER_RADII, arm=arm)
        lines = [
            OverSeeds(name, look, *by_seed(rows, column, InnerRadii.eps))
            for column, look, name in (
                (InnerRadii.upper, ATTACKED, "no attack fools"),
                (InnerRadii.lower, CERTIFIED, "certified"),
            )
            if column in rows.columns
        ]
        height = replace(ACCURACY, title="robust test accuracy")
        radius = Axis("radius ε (ℓ∞)", "log")
        panels.append(Panel(_title(arm), radius, height, lines, legend=not place, width=WIDE, height=HIGH))
    return Picture(
        title="What the final networks withstand",
        caption=(
            "Robust test accuracy over the full ball lies between the share that is certified and "
            "the share that no attack "
            "fools, for the final networks of every training. Thin lines are seeds, thick ones "
            "their median."
        ),
        alt=(
            "One chart for each training: attacked and certified robust accuracy against the "
            "radius, which is logarithmic."
        ),
        spec=side_by_side(panels, columns=IN_A_ROW),
        claims=("AT-R2.5",),
    )


def depth(run: Run) -> Picture:
    """Feature learning accuracy of every network under both trainings."""
    spec = PatchDepth.of(run)
    panels = [
        _learned(run, kind, arm, first=not place and arm == ARMS[0])
        for place, kind in enumerate(spec.nets)
        for arm in ARMS
    ]
    return Picture(
        title=f"Which features deeper networks learn, {spec.law.k} classes",
        caption=(
            "Test accuracy on points that keep only their robust or only their non-robust features "
            "(Definition 4.1), on "
            "whole points, and under Theorem 4.3's perturbation, which looks at no model; standard "
            "training on the left, §2.5's "
            "adversarial training on the right, one row for each network. Thin lines are seeds, "
            "thick ones their median."
        ),
        alt=(
            "Two charts for each network, standard and adversarial training: four accuracies "
            "against the step of descent."
        ),
        spec=side_by_side(panels, columns=len(ARMS)),
        claims=("AT-depth",),
    )


def _learned(run: Run, kind: str, arm: str, first: bool) -> Panel:
    rows = run.part(DEPTH_DYNAMICS, net=kind, arm=arm)
    lines = [
        OverSeeds(name, look, *by_seed(rows, column, DepthDynamics.step))
        for column, look, name in (
            (DepthDynamics.feature_robust, ROBUST, "robust features alone"),
            (DepthDynamics.feature_non_robust, NON_ROBUST, "non-robust features alone"),
            (DepthDynamics.clean_test, CLEAN, "whole points"),
            (DepthDynamics.robust_model_free, ATTACKED, "model-free Δ"),
        )
    ]
    chance = [Rule(1 / PatchDepth.of(run).law.k, "chance", "y")]
    return Panel(f"{kind}, {arm}", STEP, ACCURACY, lines, chance, legend=first, width=300, height=130)


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "patch-inner": {"trainings": trainings, "optimum": optimum, "radii": withstood},
    "patch-depth": {"depth": depth},
}
