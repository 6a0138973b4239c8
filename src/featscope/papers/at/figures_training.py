"""AT Figure 3, and what it does not show: figures of `patch-fig3`."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from featscope.core.store import labelled
from featscope.experiments.run import Run
from featscope.papers.at.fig3_columns import DYNAMICS, Dynamics
from featscope.papers.at.fig3_summary import mean_switch, phase_switch
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.plots.palette import ATTACKED, CLEAN, NON_ROBUST, ROBUST
from featscope.plots.panels import ACCURACY, Axis, Panel, side_by_side
from featscope.plots.picture import Picture
from featscope.plots.series import OverSeeds, Rule, by_seed

EPOCH = Axis("epoch")


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
    shown = [
        OverSeeds(name, look, *by_seed(rows, column, Dynamics.step))
        for column, look, name in lines
        if column in rows.columns
    ]
    return Panel(title, EPOCH, ACCURACY, shown)


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
            "Left: each class's largest correlation of a neuron with the robust feature u and with the non-robust feature v. "
            "Right: accuracy without an attack, under the attack of training, and under attacks that search the span of "
            "the features or the whole ball. Thin lines are seeds, thick ones their median; the dotted line is where "
            "robust features overtake for good in every class, mean over seeds."
        ),
        alt=(
            "Line charts over epochs, for each training: correlations of neurons with robust and non-robust features, and "
            "accuracies on training and test points, clean and under three attacks."
        ),
        spec=side_by_side([*left, *right]),
        claims=("AT-F3", "AT-T4.3", "AT-T4.4"),
        reproduces="AT Figure 3",
    )


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {"patch-fig3": {"figure-3": figure_3}}
