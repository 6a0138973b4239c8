"""Figures of the patch model (AT)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featscope.core.rules import SAME, STILL, USUAL
from featscope.core.store import labelled
from featscope.experiments.run import Run
from featscope.papers.at.fig3_columns import DYNAMICS, RADII, ROBUST_OVER, Dynamics, Radii
from featscope.papers.at.fig3_summary import mean_switch, phase_switch
from featscope.papers.at.patch_columns import Trained
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.papers.at.patch_minima import ALONG_GAMMA, ALONG_NOISE, Minima
from featscope.papers.at.patch_noise import DYNAMICS as NOISY_DESCENT
from featscope.papers.at.patch_noise import NoisyDescent
from featscope.papers.at.patch_recursion import APPROXIMATIONS, BothRoutes
from featscope.papers.at.patch_recursion import ARMS as BOTH_ARMS
from featscope.papers.at.patch_recursion import DYNAMICS as BOTH_ROUTES
from featscope.papers.at.patch_scaling import (
    CURVES,
    EVENTS,
    AttackedEvent,
    Curves,
    Events,
    PatchScaling,
    StandardEvent,
)
from featscope.plots.style import (
    ATTACKED,
    CERTIFIED,
    CLEAN,
    GREY,
    NON_ROBUST,
    ROBUST,
    curve_over_runs,
    finish,
    panels,
)

SHADES = ("-", "--", ":", "-.")


def _by_seed(rows: pl.DataFrame, column: str) -> tuple[list[int], np.ndarray]:
    """Steps and values (seeds, steps[, …]); seeds that ended early are left out."""
    kept = rows.filter(pl.col(column).is_not_null()).sort(Trained.step)
    steps = kept[Trained.step].unique().sort().to_list()
    seeds = [group[column].to_list() for _, group in kept.group_by(Trained.seed, maintain_order=True)]
    return steps, np.array([seed for seed in seeds if len(seed) == len(steps)], dtype=float)


def _dynamics(ax: Axes, rows: pl.DataFrame, title: str, switch: float | None) -> None:
    for column, color, name in ((Dynamics.u, ROBUST, "robust, u"), (Dynamics.v, NON_ROBUST, "non-robust, v")):
        steps, values = _by_seed(rows, column)
        for label in range(values.shape[-1]):
            shown = f"{name}$_{label + 1}$"
            curve_over_runs(ax, steps, values[..., label], color, shown, linestyle=SHADES[label % 4])
    if switch is not None:
        ax.axvline(switch, color=GREY, linewidth=0.9, linestyle=":")
        ax.text(switch, ax.get_ylim()[1] * 0.97, " switch", color=GREY, fontsize=8, va="top")
    finish(ax, title, "epoch", r"max$_r\,\langle w_{i,r}, f_i\rangle$")


def _curves(ax: Axes, rows: pl.DataFrame, title: str) -> None:
    lines = [
        (Dynamics.clean_train, GREY, "train, clean"),
        (Dynamics.clean_test, CLEAN, "test, clean"),
        (Dynamics.robust_training_attack, ROBUST, "test, training attack"),
        (Dynamics.robust_feature_span, ATTACKED, "test, feature span (PGD)"),
        (Dynamics.robust_full_ball, NON_ROBUST, "test, full ball (PGD)"),
    ]
    for column, color, name in lines:
        if column in rows.columns:
            steps, values = _by_seed(rows, column)
            curve_over_runs(ax, steps, values, color, name)
    ax.set_ylim(-0.03, 1.03)
    finish(ax, title, "epoch", "accuracy")


def _healthy(run: Run, arm: str) -> pl.DataFrame:
    """The dynamics of an arm's seeds that did not diverge."""
    lost = run.diverged.get(labelled(DYNAMICS, {Dynamics.arm: arm}), [])
    return run.part(DYNAMICS, arm=arm).filter(~pl.col(Dynamics.seed).cast(pl.String).is_in(lost))


def figure_3(run: Run) -> Figure:
    """AT Figure 3: the two left panels are the correlations, the two right ones the learning curves."""
    arms = PatchFig3.of(run).arms
    figure, axes = panels(1, 2 * len(arms), 4.0, 3.4)
    for i, arm in enumerate(arms):
        rows = run.part(DYNAMICS, arm=arm)
        switch = mean_switch(phase_switch(_healthy(run, arm))) if arm == "adversarial" else None
        _dynamics(axes[0, i], rows, f"{arm} training", switch)
        _curves(axes[0, len(arms) + i], rows, f"{arm} training")
    return figure


def radii(run: Run) -> Figure:
    """Robust accuracy against the radius as a bracket, for both threats."""
    figure, axes = panels(1, 2, 4.2, 3.4)
    for ax, threat in zip(axes[0], ROBUST_OVER, strict=True):
        for arm, color in zip(PatchFig3.of(run).arms, (NON_ROBUST, ROBUST), strict=False):
            rows = run.part(RADII, arm=arm)
            if rows.is_empty():  # every seed of the arm diverged
                continue
            rows = rows.filter((pl.col(Radii.threat) == threat) & (pl.col(Radii.points) == "test"))
            _bracket(ax, rows, color, arm)
        ax.set_xscale("log")
        ax.set_ylim(-0.03, 1.03)
        finish(ax, threat, "radius ε", "robust test accuracy")
    return figure


def _bracket(ax: Axes, rows: pl.DataFrame, color: str, arm: str) -> None:
    mean = (
        rows.group_by(Radii.eps).agg(pl.col(Radii.upper).mean(), pl.col(Radii.lower).mean()).sort(Radii.eps)
    )
    eps, upper, lower = (mean[name].to_numpy() for name in (Radii.eps, Radii.upper, Radii.lower))
    ax.plot(eps, upper, color=color, marker="o", markersize=3, label=f"{arm}: attacked (upper)")
    ax.plot(
        eps, lower, color=color, marker="s", markersize=3, linestyle="--", label=f"{arm}: certified (lower)"
    )
    ax.fill_between(eps, lower, upper, color=color, alpha=0.15)


def inside(run: Run) -> Figure:
    """What the correlations do not show: off-diagonal terms, the part orthogonal to all features, noise,
    feature learning accuracy."""
    arms = PatchFig3.of(run).arms
    figure, axes = panels(len(arms), 3, 4.0, 3.0)
    for line, arm in zip(axes, arms, strict=True):
        rows = run.part(DYNAMICS, arm=arm)
        for column, color, name in (
            (Dynamics.C, ROBUST, "largest C"),
            (Dynamics.D, NON_ROBUST, "largest D"),
            (Dynamics.noise_max, GREY, "largest |⟨w, ξ⟩|"),
        ):
            steps, values = _by_seed(rows, column)
            curve_over_runs(line[0], steps, values if values.ndim == 2 else values.max(-1), color, name)
        finish(line[0], f"{arm}: off-diagonal and noise", "epoch", "correlation")
        for column, color, name in ((Dynamics.rest_l1, ATTACKED, "ℓ1"), (Dynamics.rest_l2, CERTIFIED, "ℓ2")):
            curve_over_runs(line[1], *_by_seed(rows, column), color, f"max {name} norm")
        finish(line[1], f"{arm}: part orthogonal to features", "epoch", "norm")
        for column, color, name in (
            (Dynamics.feature_robust, ROBUST, "on D_R"),
            (Dynamics.feature_non_robust, NON_ROBUST, "on D_NR"),
        ):
            curve_over_runs(line[2], *_by_seed(rows, column), color, name)
        line[2].set_ylim(-0.03, 1.03)
        finish(line[2], f"{arm}: feature learning accuracy", "epoch", "accuracy")
    return figure


def minima(run: Run) -> Figure:
    """Propositions 3.1 and 3.2: accuracy along γ, and along the noise at the largest γ."""
    figure, axes = panels(1, 3, 4.0, 3.2)
    rows, feature = run.part(ALONG_GAMMA), pl.col(Minima.feature)
    _along(axes[0, 0], rows.filter(feature == "non-robust"), Minima.gamma)
    finish(axes[0, 0], "Prop. 3.1: w = γv", "γ", "test accuracy")
    _along(axes[0, 1], rows.filter(feature == "robust"), Minima.gamma)
    finish(axes[0, 1], "Prop. 3.2: w = γu", "γ", "test accuracy")
    _along(axes[0, 2], run.part(ALONG_NOISE).filter(feature == "robust"), Minima.sigma_n)
    gamma = rows[Minima.gamma].to_numpy().max()
    finish(axes[0, 2], f"Prop. 3.2 at γ = {gamma:g}", "noise σ_n", "test accuracy")
    return figure


def _along(ax: Axes, rows: pl.DataFrame, x: str) -> None:
    lines = [
        (Minima.clean, CLEAN, "clean"),
        (Minima.own_logit, ROBUST, "attack lowers F_y only"),
        (Minima.full_ball, NON_ROBUST, "full ball, exact"),
    ]
    mean = rows.group_by(x).agg([pl.col(column).mean() for column, _, _ in lines]).sort(x)
    for column, color, name in lines:
        ax.plot(
            mean[x].to_numpy(), mean[column].to_numpy(), color=color, marker="o", markersize=3, label=name
        )
    ax.set_xscale("log")
    ax.set_ylim(-0.03, 1.03)


def scaling(run: Run) -> Figure:
    """The loser's correlation when the winner reaches its threshold, against d; where it does not, the
    winner's correlation at rest."""
    spec = PatchScaling.of(run)
    figure, axes = panels(1, len(spec.arms), 3.9, 3.2)
    for ax, arm in zip(axes[0], spec.arms, strict=True):
        if arm == "standard":
            which, loser, winner = int(StandardEvent.NON_ROBUST_ARRIVES), Events.A, "B"
        else:
            which, loser, winner = int(AttackedEvent.ROBUST_ARRIVES), Events.B, "A"
        events = run.part(EVENTS, arm=arm, event=which)
        happened = events.filter(pl.col(Events.happened))
        share = happened.height / max(events.height, 1)
        if share >= USUAL:
            shown = f"max {loser} when {winner} arrives (median, 10–90 %)"
            d = _band(ax, happened, pl.col(loser), NON_ROBUST, shown)
        else:
            rows = run.part(CURVES, arm=arm).sort(Curves.step)
            last = rows.group_by(Curves.d, Curves.seed, maintain_order=True).last()
            d = _band(ax, last, pl.col(Curves.u).list.max(), ROBUST, "max A at rest (median, 10–90 %)")
        _guides(ax, d, None if arm == "standard" or share < USUAL else spec.c0)
        ax.set_xscale("log")
        ax.set_yscale("log")
        finish(ax, f"{arm}: threshold reached in {share:.0%}", "d", "correlation")
    return figure


def _band(ax: Axes, rows: pl.DataFrame, value: pl.Expr, color: str, label: str) -> np.ndarray:
    """Median with the 10 % and 90 % quantiles at each d."""
    parts = (value.quantile(0.1).alias("low"), value.median().alias("mid"), value.quantile(0.9).alias("high"))
    grouped = rows.group_by(Curves.d).agg(*parts).sort(Curves.d)
    d = grouped[Curves.d].to_numpy().astype(float)
    low, mid, high = (grouped[name].to_numpy() for name in ("low", "mid", "high"))
    ax.fill_between(d, np.maximum(low, 1e-6), high, color=color, alpha=0.2)
    ax.plot(d, mid, color=color, marker="o", markersize=3, label=label)
    return np.asarray(d)


def _guides(ax: Axes, d: np.ndarray, c0: float | None) -> None:
    if c0 is None:
        ax.plot(d, 2 / np.sqrt(d), color=GREY, linestyle=":", label="slope −1/2")
        return
    ax.plot(d, d ** (-c0 / 3), color=GREY, linestyle=":", label="slope −c0/3")
    ax.plot(d, d**-c0, color=GREY, linestyle="--", label="slope −c0 (Lemma D.24)")


def recursion(run: Run) -> Figure:
    """Distance between descent and recursion, and Lemma 5.2's step over the exact one."""
    figure, axes = panels(1, 2, 4.2, 3.2)
    for arm, color in zip(BOTH_ARMS, (NON_ROBUST, ROBUST), strict=True):
        steps, gap = _by_seed(run.part(BOTH_ROUTES, arm=arm), BothRoutes.gap)
        axes[0, 0].plot(steps, np.maximum(gap.max(0), 1e-18), color=color, label=arm)
    axes[0, 0].set_yscale("log")
    axes[0, 0].axhline(SAME, color=GREY, linestyle=":")
    finish(axes[0, 0], "recursion against descent", "step", "largest |Δw|")
    rows = run.part(BOTH_ROUTES, arm="adversarial")
    for (kind, columns), color in zip(APPROXIMATIONS.items(), (ROBUST, NON_ROBUST), strict=True):
        (steps, guess), (_, exact) = (_by_seed(rows, column) for column in columns)
        ratio = np.divide(guess, exact, out=np.full_like(guess, np.nan), where=np.abs(exact) > STILL)
        axes[0, 1].plot(
            steps, np.nanmedian(ratio, axis=(0, 2)), color=color, label=f"{kind}: Lemma 5.2 ÷ exact"
        )
    axes[0, 1].axhline(1, color=GREY, linestyle=":")
    axes[0, 1].set_yscale("symlog", linthresh=1)
    finish(axes[0, 1], "the approximation of Lemma 5.2", "step", "median ratio of steps")
    return figure


def noise(run: Run) -> Figure:
    """Noise correlation, winner and loser at the end of standard training against d, means over seeds."""
    figure, axes = panels(1, 1, 4.6, 3.4)
    ax = axes[0, 0]
    rows, step = run.part(NOISY_DESCENT).sort(NoisyDescent.step), pl.col(NoisyDescent.step)
    # A seed that diverged stopped recording before the others, and is in no mean.
    ended = step.max().over(NoisyDescent.d, NoisyDescent.seed) == step.max().over(NoisyDescent.d)
    rows = rows.filter(ended)
    of_seed = rows.group_by(NoisyDescent.d, NoisyDescent.seed).agg(
        pl.col(NoisyDescent.v).last().list.min(),
        pl.col(NoisyDescent.u).last().list.max(),
        pl.col(NoisyDescent.noise_max).max(),
    )
    mean = of_seed.group_by(NoisyDescent.d).mean().sort(NoisyDescent.d)
    d = mean[NoisyDescent.d].to_numpy().astype(float)
    for column, color, name in (
        (NoisyDescent.v, NON_ROBUST, "smallest max B"),
        (NoisyDescent.u, ROBUST, "largest A"),
        (NoisyDescent.noise_max, GREY, "largest |⟨w, ξ⟩| over training"),
    ):
        ax.plot(d, mean[column].to_numpy(), color=color, marker="o", markersize=3, label=name)
    ax.plot(d, 3 / np.sqrt(d), color=GREY, linestyle=":", label="slope −1/2")
    ax.set_xscale("log")
    ax.set_yscale("log")
    finish(ax, "standard training on a compact copy", "d", "correlation (mean over seeds)")
    return figure


FIGURES: dict[str, dict[str, Callable[[Run], Any]]] = {
    "patch-minima": {"minima": minima},
    "patch-scaling": {"scaling": scaling},
    "patch-recursion": {"recursion": recursion},
    "patch-noise": {"noise": noise},
}
