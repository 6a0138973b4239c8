"""Figures of the signal/noise model: the three stages, robustness by reading, and the sweeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from polars.selectors import numeric

from featscope.experiments.run import Run
from featscope.plots.style import ATTACKED, CERTIFIED, CLEAN, GREY, NON_ROBUST, ROBUST, curve_over_runs, finish, named_ticks, panels


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _curves(run: Run, key: str) -> tuple[Any, Any]:
    rows = pl.concat([run.part(name).select("run", "step", key) for name in ("opening", "training")]).unique(["run", "step"])
    table = rows.pivot(on="run", index="step", values=key).sort("step").drop_nulls()
    return table["step"].to_numpy(), table.drop("step").to_numpy().T


def _stage_lines(ax: Axes, run: Run) -> None:
    marks = (
        ("T0", "T0", GREY),
        ("T1_first", "first T1", NON_ROBUST),
        ("T1_median", "median T1", NON_ROBUST),
        ("T1_last", "last T1", NON_ROBUST),
    )
    for key, name, colour in marks:
        times = [t for t in run.summary[key] if t is not None]
        if times:
            at = float(np.median(times))
            ax.axvline(max(at, 1), color=colour, linestyle=":", linewidth=1)
            ax.annotate(name, (max(at, 1), 0.02), xycoords=("data", "axes fraction"), rotation=90, fontsize=7, color=colour, ha="right")


def stages(run: Run) -> Figure:
    """α³U and V_i against the step, the stages marked, the predicted plateau beside; accuracies; loss."""
    figure, axes = panels(1, 3, 4.6, 3.6)
    _components(axes[0, 0], run)
    _accuracies(axes[0, 1], run)
    ax = axes[0, 2]
    steps, loss = _curves(run, "loss")
    curve_over_runs(ax, np.maximum(steps, 1), loss, GREY, "objective (O)")
    ax.set_xscale("log")
    ax.set_yscale("log")
    _stage_lines(ax, run)
    finish(ax, "loss", "step", "value of (O)")
    return figure


def _components(ax: Axes, run: Run) -> None:
    steps, signal = _curves(run, "signal")
    curve_over_runs(ax, np.maximum(steps, 1), signal, ROBUST, "α³U")
    for key, name, style in (("V_median", "V_i: median", "-"), ("V_min", "V_i: least", "--"), ("V_max", "V_i: largest", ":")):
        steps, values = _curves(run, key)
        ax.plot(np.maximum(steps, 1), values.mean(0), color=NON_ROBUST, linestyle=style, linewidth=1.4, label=name)
    steps, fresh = _curves(run, "V_fresh_rms")
    ax.plot(np.maximum(steps, 1), fresh.mean(0), color=GREY, linewidth=1.2, label="V of fresh points, rms")
    level = [value for value in run.summary["plateau_predicted"] if value is not None]
    if level:
        ax.axhline(float(np.mean(level)), color=ROBUST, linestyle=":", linewidth=1, label="plateau predicted")
    ax.set_xscale("log")
    ax.set_ylim(top=1.5 * ax.get_ylim()[1])
    _stage_lines(ax, run)
    finish(ax, "signal first, then memorised noise", "step", "components of y·f")
    ax.legend(fontsize=7, frameon=False, loc="upper left", ncol=2)


def _accuracies(ax: Axes, run: Run) -> None:
    for key, colour, name, style in (
        ("clean_test", CLEAN, "clean test", "-"),
        ("gta_train", ATTACKED, "at (A), train", "-"),
        ("gta_test", ATTACKED, "at (A), test", "--"),
    ):
        steps, values = _curves(run, key)
        ax.plot(np.maximum(steps, 1), values.mean(0), color=colour, linestyle=style, label=name)
    ax.set_xscale("log")
    ax.set_ylim(-0.02, 1.05)
    _stage_lines(ax, run)
    finish(ax, "accuracy", "step", "share of points")


def robustness(run: Run) -> Figure:
    """Attacked and certified accuracy over the ball's radius, train and test, and every reading at its radius."""
    rows = run.part("robustness")
    figure, axes = panels(1, 2, 4.8, 3.6)
    ax = axes[0, 0]
    ball = rows.filter(pl.col("reading") == "ball")
    for name, colour in (("train", ROBUST), ("test", NON_ROBUST)):
        mean = ball.filter(pl.col("set") == name).group_by("radius").agg(numeric().mean()).sort("radius")
        ax.plot(mean["radius"], mean["attacked"], color=colour, marker="o", markersize=3, label=f"{name}, attacked")
        ax.plot(mean["radius"], mean["certified"], color=colour, linestyle="--", marker="^", markersize=3, label=f"{name}, certified")
    ax.axvline(_number(ball["radius"].max()), color=GREY, linestyle=":", linewidth=1, label="δ")
    ax.set_xscale("log")
    ax.set_ylim(-0.02, 1.05)
    finish(ax, "over the ℓ2 ball", "radius", "robust accuracy")
    ax = axes[0, 1]
    s = run.summary
    names = ["clean", "at (A)", "(A) + noise ball", "ball δ"]
    train = [s["clean_train"], s["gta_train"], s["noise_ball_train"], s["ball_train"]]
    test = [s["clean_test"], s["gta_test"], s["noise_ball_test"], s["ball_test"]]
    sure = [None, None, s["noise_ball_train_certified"], s["ball_train_certified"]]
    place = np.arange(len(names))
    ax.bar(place - 0.2, train, 0.38, color=ROBUST, label="train")
    ax.bar(place + 0.2, test, 0.38, color=NON_ROBUST, label="test")
    shown = [(i, v) for i, v in enumerate(sure) if v is not None]
    ax.scatter([i - 0.2 for i, _ in shown], [v for _, v in shown], color=CERTIFIED, marker="^", zorder=3, label="train, certified")
    ax.axhline(s["any_classifier"], color=GREY, linestyle=":", linewidth=1, label="any classifier, ball δ")
    ax.set_xticks(place, names, fontsize=8)
    ax.set_ylim(0, 1.35)
    ax.set_yticks([0, 0.5, 1])
    finish(ax, "what robust means decides", "", "accuracy")
    ax.legend(fontsize=7, frameon=False, loc="upper right", ncol=2)
    return figure


def sweeps(run: Run) -> Figure:
    """Accuracy against N with the predicted N*, against λ, and T1 and the plateau against d."""
    figure, axes = panels(1, 3, 4.2, 3.5)
    _samples(axes[0, 0], run)
    _tradeoffs(axes[0, 1], run)
    _dimensions(axes[0, 2], run)
    return figure


LINES = (("gta_test", ATTACKED, "at (A), test"), ("gta_train", ROBUST, "at (A), train"), ("clean_test", CLEAN, "clean test"))


def _samples(ax: Axes, run: Run) -> None:
    rows = run.part("samples")
    mean = rows.group_by("n").agg(numeric().mean()).sort("n")
    for key, colour, name in LINES:
        ax.plot(mean["n"], mean[key], color=colour, marker="o", markersize=3, label=name)
    ax.scatter(rows["n"], rows["gta_test"], color=ATTACKED, s=10, alpha=0.4)
    ax.axvline(run.summary["critical_samples"], color=GREY, linestyle=":", label="N* predicted")
    named_ticks(ax, sorted(set(rows["n"])))
    ax.set_ylim(0.35, 1.05)
    finish(ax, f"N across N*, d = {run.spec['spec']['samples_d']}, 1−γ = 1/√d", "training points N", "accuracy")


def _tradeoffs(ax: Axes, run: Run) -> None:
    rows = run.part("tradeoffs").group_by("tradeoff").agg(numeric().mean()).sort("tradeoff")
    place = np.arange(rows.height)
    for shift, (key, colour, name) in enumerate(LINES):
        ax.bar(place + 0.27 * (1 - shift), rows[key], 0.26, color=colour, label=name)
    ax.set_xticks(place, [f"{v:g}" for v in rows["tradeoff"]])
    ax.set_ylim(0, 1.3)
    finish(ax, "the trade-off λ", "λ", "accuracy")


def _dimensions(ax: Axes, run: Run) -> None:
    rows = run.part("dimensions").group_by("d").agg(numeric().mean()).sort("d")
    ax.plot(rows["d"], rows["median_memorised"], color=NON_ROBUST, marker="o", markersize=3, label="median T1")
    ratio = _number((rows["median_memorised"] / rows["T1_order"]).mean())
    ax.plot(rows["d"], ratio * rows["T1_order"], color=GREY, linestyle=":", label=f"{ratio:.2f}·N/(ησ0σ³d^1.5)")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    other = ax.twinx()
    other.plot(rows["d"], rows["signal"], color=ROBUST, marker="s", markersize=3)
    other.set_ylabel("α³U at the end", color=ROBUST)
    other.set_ylim(0, 1.3 * _number(rows["signal"].max()))
    finish(ax, "growing d, η ∝ α⁻²", "d", "steps")


def _attack_name(rows: pl.DataFrame, attack: str, share: float) -> str:
    if attack == "gta":
        return "(A)"
    ran_away = rows.filter((pl.col("attack") == attack) & (pl.col("share") == share))["blown_up"].all()
    return f"{attack}, {share:g}·δ" + ("\nweights blow up" if ran_away else "")


def training_attacks(run: Run) -> Figure:
    """Other attacks in training: final accuracies by reading."""
    rows = run.part("attacks")
    names = rows.select("attack", "share").unique(maintain_order=True).rows()
    keys = [key for key in rows.columns if key.startswith(("clean_", "gta_", "ball"))]
    figure, axes = panels(1, 1, 8.0, 3.6)
    ax = axes[0, 0]
    table = [[_number(rows.filter((pl.col("attack") == a) & (pl.col("share") == s))[key].mean()) for key in keys] for a, s in names]
    image = ax.imshow(np.asarray(table), vmin=0, vmax=1, cmap="viridis", aspect="auto")
    ax.set_yticks(range(len(names)), [_attack_name(rows, a, s) for a, s in names])
    ax.set_xticks(range(len(keys)), [key.replace("_", "\n") for key in keys], fontsize=7)
    for i, line in enumerate(table):
        for j, value in enumerate(line):
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color="white" if value < 0.6 else "black")
    figure.colorbar(image, ax=ax, label="accuracy")
    ax.set_title("objective (O) with the attack of training (rows), accuracy by reading (columns)", fontsize=10)
    return figure


FIGURES = {
    "signal-stages": {"stages": stages, "robustness": robustness},
    "signal-scaling": {"sweeps": sweeps, "training-attacks": training_attacks},
}
