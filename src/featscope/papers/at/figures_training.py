"""AT Figure 3, and what it does not show: figures of `patch-fig3`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import polars as pl

from featscope.core.columns import Column
from featscope.core.stored import labelled
from featscope.experiments.run import Run
from featscope.papers.at import printed
from featscope.papers.at.fig3_columns import DYNAMICS, RADII, ROBUST_OVER, Dynamics, Radii
from featscope.papers.at.fig3_summary import mean_switch, phase_switch
from featscope.papers.at.patch_batches import SWITCHES, PatchBatches, Switches
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.palette import (
    ATTACKED,
    CATEGORIES,
    CERTIFIED,
    CLEAN,
    NON_ROBUST,
    REFERENCE,
    ROBUST,
    Look,
)
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Bracket, OverSeeds, Rule, by_seed, median_over_seeds
from featscope.plots.sheet import side_by_side

EPOCH = Axis("epoch")
RADIUS = Axis("radius ε (ℓ∞)", "log")
ROBUST_ACCURACY = replace(ACCURACY, title="robust test accuracy")


def _subscript(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def _dynamics(rows: pl.DataFrame, classes: int, title: str, switch: float | None) -> Panel:
    lines = [
        OverSeeds(
            f"{name}{_subscript(label + 1)}",
            look.variant(label),
            *by_seed(rows, pl.col(column).list.get(label), Dynamics.step),
        )
        for column, look, name in (
            (Dynamics.u, ROBUST, "robust, u"),
            (Dynamics.v, NON_ROBUST, "non-robust, v"),
        )
        for label in range(classes)
    ]
    rules = () if switch is None else (Rule(switch, "robust ahead"),)
    return Panel(title, EPOCH, Axis("largest ⟨w, u⟩ and ⟨w, v⟩"), lines, rules)


def _curves(rows: pl.DataFrame, title: str) -> Panel:
    lines = [
        (Dynamics.clean_train, CLEAN.variant(1), "train, clean"),
        (Dynamics.clean_test, CLEAN, "test, clean"),
        (Dynamics.robust_training_attack, ATTACKED, "test, training attack"),
        (Dynamics.robust_feature_span, ATTACKED.variant(1), "test, feature span (PGD)"),
        (Dynamics.robust_full_ball, ATTACKED.variant(2), "test, full ball (PGD)"),
    ]
    return Panel(title, EPOCH, ACCURACY, _lines(rows, lines))


def _healthy(run: Run, arm: str) -> pl.DataFrame:
    """The dynamics of an arm's seeds that did not diverge."""
    lost = run.diverged.get(labelled(DYNAMICS, {Dynamics.arm: arm}), [])
    return run.part(DYNAMICS, arm=arm).filter(~pl.col(Dynamics.seed).cast(pl.String).is_in(lost))


def figure_3(run: Run) -> Picture:
    """AT Figure 3: the two left panels are the correlations, the two right ones the learning curves."""
    spec = PatchFig3.of(run)
    left, right = [], []
    for arm in spec.arms:
        rows = run.part(DYNAMICS, arm=arm)
        switch = mean_switch(phase_switch(_healthy(run, arm))) if arm == "adversarial" else None
        left.append(_dynamics(rows, spec.law.k, f"{arm} training", switch))
        right.append(_curves(rows, f"{arm} training"))
    return Picture(
        title="What the network learns in standard and in adversarial training",
        caption=(
            "Left: each class's largest correlation of a neuron with the robust feature u and with the "
            "non-robust feature v. "
            "Right: accuracy without an attack, under the attack of training, and under attacks that search "
            "the span of "
            "the features or the whole ball. Thin lines are seeds, thick ones their median; the dotted line "
            "is where "
            "robust features overtake for good in every class, mean over seeds."
        ),
        alt=(
            "Line charts over epochs, for each training: correlations of neurons with robust and non-robust "
            "features, and "
            "accuracies on training and test points, clean and under three attacks."
        ),
        spec=side_by_side([*left, *right]),
        claims=("AT-F3", "AT-T4.3", "AT-T4.4"),
        reproduces="AT Figure 3",
    )


def dense(run: Run) -> Picture:
    """The same panels where Assumption 2.3 is met."""
    return replace(
        figure_3(run),
        title="Standard and adversarial training inside Assumption 2.3",
        claims=("AT-T4.3", "AT-T4.4"),
        reproduces="",
    )


def radii(run: Run) -> Picture:
    """Robust accuracy against the radius as a bracket, for both threats."""
    panels = [
        _bracket(run.part(RADII, arm=arm), threat, f"{arm} training, {threat.replace('-', ' ')}")
        for arm in PatchFig3.of(run).arms
        for threat in ROBUST_OVER
    ]
    return Picture(
        title="Robust accuracy of the final networks over the radius",
        caption=(
            "Exact robust accuracy lies within the shaded bracket: no attack of ours leaves more than the "
            "upper line, and "
            "what the lower line counts is certified. The features' span is what a perturbation may change "
            "in the left "
            "column, the whole ball in the right one. Thin lines are seeds, thick ones their median."
        ),
        alt=(
            "Line charts for each training and threat: robust test accuracy against the radius ε on a "
            "logarithmic axis, "
            "attacked from above and certified from below."
        ),
        spec=side_by_side(panels, columns=2),
        claims=("AT-T4.3", "AT-T4.4"),
    )


def _bracket(rows: pl.DataFrame, threat: str, title: str) -> Panel:
    if not rows.is_empty():  # else every seed of the arm diverged
        rows = rows.filter((pl.col(Radii.threat) == threat) & (pl.col(Radii.points) == "test"))
    if rows.is_empty():
        return Panel(f"{title}: every seed diverged", RADIUS, ROBUST_ACCURACY, [])
    eps, upper = by_seed(rows, Radii.upper, Radii.eps)
    _, lower = by_seed(rows, Radii.lower, Radii.eps)
    between = Bracket("undecided", REFERENCE, eps, median_over_seeds(lower), median_over_seeds(upper))
    lines = [
        OverSeeds("attacked, at most", ATTACKED, eps, upper),
        OverSeeds("certified, at least", CERTIFIED, eps, lower),
    ]
    return Panel(title, RADIUS, ROBUST_ACCURACY, [*lines, between])


def inside(run: Run) -> Picture:
    """What the correlations do not show: off-diagonal terms, the part orthogonal to all features, noise,
    feature learning accuracy."""
    panels = [panel for arm in PatchFig3.of(run).arms for panel in _inside(run.part(DYNAMICS, arm=arm), arm)]
    return Picture(
        title="What else the network learns",
        caption=(
            "Off-diagonal correlations are those of a class's neurons with other classes' features, robust "
            "(C) and "
            "non-robust (D). The middle panel is the part of a neuron that no feature spans. Feature "
            "learning accuracy is "
            "measured on data in which only robust (D_R) or only non-robust (D_NR) features are left."
        ),
        alt=(
            "Line charts over epochs, for each training: off-diagonal and noise correlations; ℓ1 and ℓ2 "
            "norms orthogonal to "
            "the features; accuracy on robust and on non-robust features alone."
        ),
        spec=side_by_side(panels, columns=3),
        claims=("AT-T4.3", "AT-T4.4", "AT-LE.3"),
    )


def _inside(rows: pl.DataFrame, arm: str) -> list[Panel]:
    off = (
        (Dynamics.C, ROBUST, "largest C"),
        (Dynamics.D, NON_ROBUST, "largest D"),
        (Dynamics.noise_max, REFERENCE, "largest |⟨w, ξ⟩|"),
    )
    norms = ((Dynamics.rest_l1, CATEGORIES[0], "ℓ1 norm"), (Dynamics.rest_l2, CATEGORIES[1], "ℓ2 norm"))
    features = (
        (Dynamics.feature_robust, ROBUST, "on D_R"),
        (Dynamics.feature_non_robust, NON_ROBUST, "on D_NR"),
    )
    return [
        Panel(f"{arm}: off-diagonal and noise", EPOCH, Axis("correlation"), _lines(rows, off)),
        Panel(
            f"{arm}: orthogonal to features", EPOCH, Axis("largest norm over neurons"), _lines(rows, norms)
        ),
        Panel(f"{arm}: feature learning", EPOCH, ACCURACY, _lines(rows, features)),
    ]


def _lines(rows: pl.DataFrame, columns: Iterable[tuple[Column, Look, str]]) -> list[OverSeeds]:
    """A line for each column that is there; of a list its largest entry."""
    shown = [(column, look, name) for column, look, name in columns if column in rows.columns]
    return [
        OverSeeds(name, look, *by_seed(rows, _largest(rows, column), Dynamics.step))
        for column, look, name in shown
    ]


def _largest(rows: pl.DataFrame, column: Column) -> pl.Expr:
    return pl.col(column).list.max() if isinstance(rows.schema[column], pl.List) else pl.col(column)


def batches(run: Run) -> Picture:
    """The epoch of the switch against the size of a batch."""
    rows = run.part(SWITCHES)
    none = rows.filter(pl.col(Switches.switch).is_null())[Switches.batch_size].unique().sort().to_list()
    # A seed and a class are one line: each has its own start.
    each = pl.col(Switches.seed) * PatchBatches.of(run).law.k + pl.col(Switches.label)
    line = rows.with_columns(each.alias(Dynamics.seed), pl.col(Switches.switch).cast(pl.Float64))
    switch = OverSeeds("switch of phase", ROBUST, *by_seed(line, Switches.switch, Switches.batch_size))
    epochs = PatchBatches.of(run).training.epochs
    missing = "" if not none else f" (none in {epochs} epochs at {', '.join(map(str, none))})"
    printed_epoch = Rule(printed.FIGURE_3_SWITCH_EPOCH, "printed: 150", "y")
    size, epoch = Axis("points of a batch", "log"), Axis("epoch of the switch", "log")
    panel = Panel(
        f"adversarial training{missing}", size, epoch, [switch], [printed_epoch], width=360, height=260
    )
    return Picture(
        title="When adversarial training changes its phase, by the size of a batch",
        caption=(
            "The epoch from which on the robust feature is ahead for good, where an epoch is a pass over the "
            "data in batches of the given size and all else is as printed. The paper prints no size, and "
            "names the epoch of the dotted line. Thin lines are seeds and classes, the thick one is their "
            "median."
        ),
        alt="Line chart, both axes logarithmic: epoch of the switch of phase against the points of a batch.",
        spec=side_by_side([panel]),
        claims=("AT-F3",),
    )


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "patch-fig3": {"figure-3": figure_3, "inside": inside, "radii": radii},
    "patch-batches": {"batches": batches},
    "patch-dense": {"dense": dense},
}
