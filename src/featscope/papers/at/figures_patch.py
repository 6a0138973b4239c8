"""Figures of the patch model (AT)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featscope.experiments.run import Run
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


def _by_run(rows: pl.DataFrame, column: str) -> tuple[list[int], np.ndarray]:
    """Steps and values (runs, steps[, …]); runs that ended early are left out."""
    kept = rows.filter(pl.col(column).is_not_null())
    steps = sorted(kept["step"].unique().to_list())
    runs = [group.sort("step")[column].to_list() for _, group in kept.group_by("run", maintain_order=True) if group.height == len(steps)]
    return steps, np.array(runs, dtype=float)


def _dynamics(ax: Axes, rows: pl.DataFrame, title: str, switch: float | None) -> None:
    for column, color, name in (("u", ROBUST, "robust, u"), ("v", NON_ROBUST, "non-robust, v")):
        steps, values = _by_run(rows, column)
        for label in range(values.shape[-1]):
            curve_over_runs(ax, steps, values[..., label], color, f"{name}$_{label + 1}$", linestyle=SHADES[label % 4])
    if switch is not None:
        ax.axvline(switch, color=GREY, linewidth=0.9, linestyle=":")
        ax.text(switch, ax.get_ylim()[1] * 0.97, " switch", color=GREY, fontsize=8, va="top")
    finish(ax, title, "epoch", r"max$_r\,\langle w_{i,r}, f_i\rangle$")


def _curves(ax: Axes, rows: pl.DataFrame, title: str) -> None:
    lines = [
        ("clean_train", GREY, "train, clean"),
        ("clean_test", CLEAN, "test, clean"),
        ("robust_training-attack", ROBUST, "test, training attack"),
        ("robust_feature-span", ATTACKED, "test, feature span (PGD)"),
        ("robust_full-ball", NON_ROBUST, "test, full ball (PGD)"),
    ]
    for column, color, name in lines:
        if column in rows.columns:
            steps, values = _by_run(rows, column)
            curve_over_runs(ax, steps, values, color, name)
    ax.set_ylim(-0.03, 1.03)
    finish(ax, title, "epoch", "accuracy")


def figure_3(run: Run) -> Figure:
    """AT Figure 3: the two left panels are the correlations, the two right ones the learning curves."""
    arms = [arm for arm in ("standard", "adversarial") if arm in run.summary]
    figure, axes = panels(1, 2 * len(arms), 4.0, 3.4)
    for i, arm in enumerate(arms):
        rows = run.part(arm)
        _dynamics(axes[0, i], rows, f"{arm} training", run.summary[arm].get("phase_switch"))
        _curves(axes[0, len(arms) + i], rows, f"{arm} training")
    return figure


def radii(run: Run) -> Figure:
    """Robust accuracy against the radius as a bracket, for both threats."""
    arms = [arm for arm in ("standard", "adversarial") if arm in run.summary]
    figure, axes = panels(1, 2, 4.2, 3.4)
    for ax, threat in zip(axes[0], ("feature-span", "full-ball"), strict=True):
        for arm, color in zip(arms, (NON_ROBUST, ROBUST), strict=False):
            rows = run.part(f"{arm}-radii")
            if rows.is_empty():  # every run of the arm diverged
                continue
            rows = rows.filter((pl.col("threat") == threat) & (pl.col("points") == "test"))
            mean = rows.group_by("eps").agg(pl.col("upper").mean(), pl.col("lower").mean()).sort("eps")
            eps = mean["eps"].to_numpy()
            ax.plot(eps, mean["upper"].to_numpy(), color=color, marker="o", markersize=3, label=f"{arm}: attacked (upper)")
            ax.plot(eps, mean["lower"].to_numpy(), color=color, marker="s", markersize=3, linestyle="--", label=f"{arm}: certified (lower)")
            ax.fill_between(eps, mean["lower"].to_numpy(), mean["upper"].to_numpy(), color=color, alpha=0.15)
        ax.set_xscale("log")
        ax.set_ylim(-0.03, 1.03)
        finish(ax, threat, "radius ε", "robust test accuracy")
    return figure


def inside(run: Run) -> Figure:
    """What the correlations do not show: off-diagonal terms, the part orthogonal to all features, noise, feature learning accuracy."""
    arms = [arm for arm in ("standard", "adversarial") if arm in run.summary]
    figure, axes = panels(len(arms), 3, 4.0, 3.0)
    for line, arm in zip(axes, arms, strict=True):
        rows = run.part(arm)
        for column, color, name in (
            ("C", ROBUST, "largest C"),
            ("D", NON_ROBUST, "largest D"),
            ("noise_max", GREY, "largest |⟨w, ξ⟩|"),
        ):
            steps, values = _by_run(rows, column)
            curve_over_runs(line[0], steps, values if values.ndim == 2 else values.max(-1), color, name)
        finish(line[0], f"{arm}: off-diagonal and noise", "epoch", "correlation")
        for column, color, name in (("rest_l1", ATTACKED, "ℓ1"), ("rest_l2", CERTIFIED, "ℓ2")):
            curve_over_runs(line[1], *_by_run(rows, column), color, f"max {name} norm")
        finish(line[1], f"{arm}: part orthogonal to features", "epoch", "norm")
        for column, color, name in (("feature_robust", ROBUST, "on D_R"), ("feature_non_robust", NON_ROBUST, "on D_NR")):
            curve_over_runs(line[2], *_by_run(rows, column), color, name)
        line[2].set_ylim(-0.03, 1.03)
        finish(line[2], f"{arm}: feature learning accuracy", "epoch", "accuracy")
    return figure


def minima(run: Run) -> Figure:
    """Propositions 3.1 and 3.2: accuracy along γ, and along the noise at the largest γ."""
    figure, axes = panels(1, 3, 4.0, 3.2)
    lines = [("clean", CLEAN, "clean"), ("own-logit", ROBUST, "attack lowers F_y only"), ("full-ball", NON_ROBUST, "full ball, exact")]
    rows = run.part("gamma")
    for ax, feature, title in ((axes[0, 0], "non-robust", "Prop. 3.1: w = γv"), (axes[0, 1], "robust", "Prop. 3.2: w = γu")):
        _along(ax, rows.filter(pl.col("feature") == feature), "gamma", lines)
        finish(ax, title, "γ", "test accuracy")
    _along(axes[0, 2], run.part("noise").filter(pl.col("feature") == "robust"), "sigma_n", lines)
    gamma = float(np.max(np.asarray(rows["gamma"].to_list(), dtype=float)))
    finish(axes[0, 2], f"Prop. 3.2 at γ = {gamma:g}", "noise σ_n", "test accuracy")
    return figure


def _along(ax: Axes, rows: pl.DataFrame, x: str, lines: list[tuple[str, str, str]]) -> None:
    mean = rows.group_by(x).agg([pl.col(c).mean() for c, _, _ in lines]).sort(x)
    for column, color, name in lines:
        ax.plot(mean[x].to_numpy(), mean[column].to_numpy(), color=color, marker="o", markersize=3, label=name)
    ax.set_xscale("log")
    ax.set_ylim(-0.03, 1.03)


def scaling(run: Run) -> Figure:
    """The loser's correlation when the winner reaches its threshold, against d; where it does not, the winner's correlation at rest."""
    arms = [a for a in ("standard", "features-only", "two-sided", "as-printed") if f"{a}-events" in run.rows["part"].unique().to_list()]
    figure, axes = panels(1, len(arms), 3.9, 3.2)
    for ax, arm in zip(axes[0], arms, strict=True):
        events = run.part(f"{arm}-events")
        which, loser, winner = (0, "A", "B") if arm == "standard" else (1, "B", "A")
        events = events.filter(pl.col("event") == which)
        happened = events.filter(pl.col("happened"))
        share = happened.height / max(events.height, 1)
        if share >= 0.5:
            d = _band(ax, happened, loser, NON_ROBUST, f"max {loser} when {winner} arrives (median, 10–90 %)")
        else:
            last = run.part(arm).sort("step").group_by("run", maintain_order=True).last()
            d = _band(ax, last.with_columns(pl.col("u").list.max().alias("A")), "A", ROBUST, "max A at rest (median, 10–90 %)")
        _guides(ax, d, None if arm == "standard" or share < 0.5 else float(run.spec["spec"]["c0"]))
        ax.set_xscale("log")
        ax.set_yscale("log")
        finish(ax, f"{arm}: threshold reached in {share:.0%}", "d", "correlation")
    return figure


def _band(ax: Axes, rows: pl.DataFrame, column: str, color: str, label: str) -> np.ndarray:
    value = pl.col(column)
    grouped = (
        rows.group_by("d").agg(value.median().alias("mid"), value.quantile(0.1).alias("low"), value.quantile(0.9).alias("high")).sort("d")
    )
    d = grouped["d"].to_numpy()
    ax.fill_between(d, np.maximum(grouped["low"].to_numpy(), 1e-6), grouped["high"].to_numpy(), color=color, alpha=0.2)
    ax.plot(d, grouped["mid"].to_numpy(), color=color, marker="o", markersize=3, label=label)
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
    for arm, color in (("standard", NON_ROBUST), ("adversarial", ROBUST)):
        steps, gap = _by_run(run.part(arm), "gap")
        axes[0, 0].plot(steps, np.maximum(gap.max(0), 1e-18), color=color, label=arm)
    axes[0, 0].set_yscale("log")
    axes[0, 0].axhline(1e-9, color=GREY, linestyle=":")
    finish(axes[0, 0], "recursion against descent", "step", "largest |Δw|")
    rows = run.part("adversarial")
    for kind, color in (("A", ROBUST), ("B", NON_ROBUST)):
        steps, guess = _by_run(rows, f"approximation_{kind}")
        _, exact = _by_run(rows, f"exact_{kind}")
        ratio = np.divide(guess, exact, out=np.full_like(guess, np.nan), where=np.abs(exact) > 1e-15)
        axes[0, 1].plot(
            steps, np.nanmedian(ratio.reshape(-1, *ratio.shape[1:]), axis=(0, 2)), color=color, label=f"{kind}: Lemma 5.2 ÷ exact"
        )
    axes[0, 1].axhline(1, color=GREY, linestyle=":")
    axes[0, 1].set_yscale("symlog", linthresh=1)
    finish(axes[0, 1], "the approximation of Lemma 5.2", "step", "median ratio of steps")
    return figure


def noise(run: Run) -> Figure:
    """Noise correlation, winner and loser at the end of standard training against d."""
    figure, axes = panels(1, 1, 4.6, 3.4)
    ax = axes[0, 0]
    d = np.array([float(key.removeprefix("d=")) for key in run.summary])
    for column, color, name in (
        ("v", NON_ROBUST, "smallest max B"),
        ("u", ROBUST, "largest A"),
        ("noise_max", GREY, "largest |⟨w, ξ⟩| over training"),
    ):
        ax.plot(d, [run.summary[key][column] for key in run.summary], color=color, marker="o", markersize=3, label=name)
    ax.plot(d, 3 / np.sqrt(d), color=GREY, linestyle=":", label="slope −1/2")
    ax.set_xscale("log")
    ax.set_yscale("log")
    finish(ax, "standard training on a compact copy", "d", "correlation (mean over seeds)")
    return figure


FIGURES: dict[str, dict[str, Callable[[Run], Any]]] = {
    "patch-fig3": {"figure-3": figure_3, "inside": inside, "radii": radii},
    "patch-minima": {"minima": minima},
    "patch-scaling": {"scaling": scaling},
    "patch-recursion": {"recursion": recursion},
    "patch-noise": {"noise": noise},
}
