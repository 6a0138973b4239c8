"""Figures of the signal/noise model: the three stages, robustness by reading, and the sweeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from polars.selectors import numeric

from featscope.core.rows import last_rows
from featscope.experiments.run import Run
from featscope.papers.cgro.signal_robustness import BALL, NOISE_BALL, Conflict, RobustBracket
from featscope.papers.cgro.signal_scaling import (
    AttackSweep,
    DimensionSweep,
    Ended,
    SampleSweep,
    SignalScaling,
    TradeoffSweep,
)
from featscope.papers.cgro.signal_stages import SignalStages, Stages, Training
from featscope.plots.style import (
    ATTACKED,
    CERTIFIED,
    CLEAN,
    GREY,
    NON_ROBUST,
    ROBUST,
    curve_over_runs,
    finish,
    named_ticks,
    panels,
)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _curves(run: Run, key: str) -> tuple[Any, Any]:
    c = Training
    parts = [run.part(name).select(c.seed, c.step, key) for name in ("opening", "training")]
    rows = pl.concat(parts).unique([c.seed, c.step])
    table = rows.pivot(on=c.seed, index=c.step, values=key).sort(c.step).drop_nulls()
    return table[c.step].to_numpy(), table.drop(c.step).to_numpy().T


def _known(run: Run, key: str) -> list[float]:
    """A column of the stages without gaps; a column that is empty in all rows is not there."""
    rows = run.part("stages")
    return [float(value) for value in rows[key].drop_nulls()] if key in rows.columns else []


def _stage_lines(ax: Axes, run: Run) -> None:
    marks = (
        (Stages.T0, "T0", GREY),
        (Stages.T1_first, "first T1", NON_ROBUST),
        (Stages.T1_median, "median T1", NON_ROBUST),
        (Stages.T1_last, "last T1", NON_ROBUST),
    )
    for key, name, colour in marks:
        if times := _known(run, key):
            at = max(float(np.median(times)), 1)
            ax.axvline(at, color=colour, linestyle=":", linewidth=1)
            place = ("data", "axes fraction")
            ax.annotate(name, (at, 0.02), xycoords=place, rotation=90, fontsize=7, color=colour, ha="right")


def stages(run: Run) -> Figure:
    """α³U and V_i against the step, the stages marked, the predicted plateau beside; accuracies; loss."""
    figure, axes = panels(1, 3, 4.6, 3.6)
    _components(axes[0, 0], run)
    _accuracies(axes[0, 1], run)
    ax = axes[0, 2]
    steps, loss = _curves(run, Training.loss)
    curve_over_runs(ax, np.maximum(steps, 1), loss, GREY, "objective (O)")
    ax.set_xscale("log")
    ax.set_yscale("log")
    _stage_lines(ax, run)
    finish(ax, "loss", "step", "value of (O)")
    return figure


def _components(ax: Axes, run: Run) -> None:
    c = Training
    steps, signal = _curves(run, c.signal)
    curve_over_runs(ax, np.maximum(steps, 1), signal, ROBUST, "α³U")
    for key, name, style in (
        (c.V_median, "V_i: median", "-"),
        (c.V_min, "V_i: least", "--"),
        (c.V_max, "V_i: largest", ":"),
    ):
        steps, values = _curves(run, key)
        ax.plot(
            np.maximum(steps, 1), values.mean(0), color=NON_ROBUST, linestyle=style, linewidth=1.4, label=name
        )
    steps, fresh = _curves(run, c.V_fresh_rms)
    ax.plot(np.maximum(steps, 1), fresh.mean(0), color=GREY, linewidth=1.2, label="V of fresh points, rms")
    if level := _known(run, Stages.plateau_predicted):
        ax.axhline(float(np.mean(level)), color=ROBUST, linestyle=":", linewidth=1, label="plateau predicted")
    ax.set_xscale("log")
    ax.set_ylim(top=1.5 * ax.get_ylim()[1])
    _stage_lines(ax, run)
    finish(ax, "signal first, then memorised noise", "step", "components of y·f")
    ax.legend(fontsize=7, frameon=False, loc="upper left", ncol=2)


def _accuracies(ax: Axes, run: Run) -> None:
    for key, colour, name, style in (
        (Training.clean_test, CLEAN, "clean test", "-"),
        (Training.gta_train, ATTACKED, "at (A), train", "-"),
        (Training.gta_test, ATTACKED, "at (A), test", "--"),
    ):
        steps, values = _curves(run, key)
        ax.plot(np.maximum(steps, 1), values.mean(0), color=colour, linestyle=style, label=name)
    ax.set_xscale("log")
    ax.set_ylim(-0.02, 1.05)
    _stage_lines(ax, run)
    finish(ax, "accuracy", "step", "share of points")


def robustness(run: Run) -> Figure:
    """Attacked and certified accuracy over the ball's radius, and every reading at its radius."""
    figure, axes = panels(1, 2, 4.8, 3.6)
    _over_ball(axes[0, 0], run)
    _by_reading(axes[0, 1], run)
    return figure


def _over_ball(ax: Axes, run: Run) -> None:
    c = RobustBracket
    ball = run.part("robustness").filter(pl.col(c.reading) == BALL)
    for name, colour in (("train", ROBUST), ("test", NON_ROBUST)):
        mean = ball.filter(pl.col(c.sample) == name).group_by(c.radius).agg(numeric().mean()).sort(c.radius)
        x, upper, lower = mean[c.radius], mean[c.attacked], mean[c.certified]
        ax.plot(x, upper, color=colour, marker="o", markersize=3, label=f"{name}, attacked")
        ax.plot(x, lower, color=colour, linestyle="--", marker="^", markersize=3, label=f"{name}, certified")
    ax.axvline(_number(ball[c.radius].max()), color=GREY, linestyle=":", linewidth=1, label="δ")
    ax.set_xscale("log")
    ax.set_ylim(-0.02, 1.05)
    finish(ax, "over the ℓ2 ball", "radius", "robust accuracy")


def _mean_of(run: Run, sample: str, reading: str, key: str) -> float:
    """The mean over seeds of a reading's bound; the ball is that of the largest radius."""
    c = RobustBracket
    rows = run.part("robustness").filter((pl.col(c.sample) == sample) & (pl.col(c.reading) == reading))
    if reading == BALL:
        rows = rows.filter(pl.col(c.share) == max(SignalStages.of(run).radii))
    return _number(rows[key].mean())


def _by_reading(ax: Axes, run: Run) -> None:
    c, last = RobustBracket, last_rows(run.part("training"))
    names = ["clean", "at (A)", "(A) + noise ball", "ball δ"]
    place = np.arange(len(names))
    for sample, shift, colour, keys in (
        ("train", -0.2, ROBUST, (Training.clean_train, Training.gta_train)),
        ("test", 0.2, NON_ROBUST, (Training.clean_test, Training.gta_test)),
    ):
        searched = [_mean_of(run, sample, reading, c.attacked) for reading in (NOISE_BALL, BALL)]
        ax.bar(
            place + shift,
            [*(_number(last[key].mean()) for key in keys), *searched],
            0.38,
            color=colour,
            label=sample,
        )
    sure = [_mean_of(run, "train", reading, c.certified) for reading in (NOISE_BALL, BALL)]
    ax.scatter(place[2:] - 0.2, sure, color=CERTIFIED, marker="^", zorder=3, label="train, certified")
    bound = _number(run.part("conflict")[Conflict.any_classifier][0])
    ax.axhline(bound, color=GREY, linestyle=":", linewidth=1, label="any classifier, ball δ")
    ax.set_xticks(place, names, fontsize=8)
    ax.set_ylim(0, 1.35)
    ax.set_yticks([0, 0.5, 1])
    finish(ax, "what robust means decides", "", "accuracy")
    ax.legend(fontsize=7, frameon=False, loc="upper right", ncol=2)


def sweeps(run: Run) -> Figure:
    """Accuracy against N with the predicted N*, against λ, and T1 and the plateau against d."""
    figure, axes = panels(1, 3, 4.2, 3.5)
    _samples(axes[0, 0], run)
    _tradeoffs(axes[0, 1], run)
    _dimensions(axes[0, 2], run)
    return figure


LINES = (
    (Ended.gta_test, ATTACKED, "at (A), test"),
    (Ended.gta_train, ROBUST, "at (A), train"),
    (Ended.clean_test, CLEAN, "clean test"),
)


def _samples(ax: Axes, run: Run) -> None:
    c, rows = SampleSweep, run.part("samples")
    mean = rows.group_by(c.n).agg(numeric().mean()).sort(c.n)
    for key, colour, name in LINES:
        ax.plot(mean[c.n], mean[key], color=colour, marker="o", markersize=3, label=name)
    ax.scatter(rows[c.n], rows[c.gta_test], color=ATTACKED, s=10, alpha=0.4)
    ax.axvline(_number(rows[c.critical_samples][0]), color=GREY, linestyle=":", label="N* predicted")
    named_ticks(ax, sorted(set(rows[c.n])))
    ax.set_ylim(0.35, 1.05)
    title = f"N across N*, d = {SignalScaling.of(run).samples_d}, 1−γ = 1/√d"
    finish(ax, title, "training points N", "accuracy")


def _tradeoffs(ax: Axes, run: Run) -> None:
    lam = TradeoffSweep.tradeoff
    rows = run.part("tradeoffs").group_by(lam).agg(numeric().mean()).sort(lam)
    place = np.arange(rows.height)
    for shift, (key, colour, name) in enumerate(LINES):
        ax.bar(place + 0.27 * (1 - shift), rows[key], 0.26, color=colour, label=name)
    ax.set_xticks(place, [f"{v:g}" for v in rows[lam]])
    ax.set_ylim(0, 1.3)
    finish(ax, "the trade-off λ", "λ", "accuracy")


def _dimensions(ax: Axes, run: Run) -> None:
    c = DimensionSweep
    rows = run.part("dimensions").group_by(c.d).agg(numeric().mean()).sort(c.d)
    ax.plot(
        rows[c.d], rows[c.median_memorised], color=NON_ROBUST, marker="o", markersize=3, label="median T1"
    )
    ratio = _number((rows[c.median_memorised] / rows[c.T1_order]).mean())
    name = f"{ratio:.2f}·N/(ησ0σ³d^1.5)"
    ax.plot(rows[c.d], ratio * rows[c.T1_order], color=GREY, linestyle=":", label=name)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    other = ax.twinx()
    other.plot(rows[c.d], rows[c.signal], color=ROBUST, marker="s", markersize=3)
    other.set_ylabel("α³U at the end", color=ROBUST)
    other.set_ylim(0, 1.3 * _number(rows[c.signal].max()))
    finish(ax, "growing d, η ∝ α⁻²", "d", "steps")


def _attack_name(rows: pl.DataFrame, attack: str, share: float) -> str:
    if attack == "gta":
        return "(A)"
    ran_away = rows[AttackSweep.blown_up].all()
    return f"{attack}, {share:g}·δ" + ("\nweights blow up" if ran_away else "")


def _attack_line(rows: pl.DataFrame, radii: int) -> list[float]:
    """Mean accuracies of one training attack by sample: clean, at (A), in each ball; NaN if diverged."""
    c = AttackSweep
    if c.clean not in rows.columns:
        return [math.nan] * 2 * (2 + radii)
    line: list[float] = []
    for sample in ("train", "test"):
        mine = rows.filter(pl.col(c.sample) == sample)
        balls = [mine[c.ball].list.get(index) for index in range(radii)]
        line += [_number(values.mean()) for values in (mine[c.clean], mine[c.gta], *balls)]
    return line


def training_attacks(run: Run) -> Figure:
    """Other attacks in training: final accuracies by reading."""
    c, rows, radii = AttackSweep, run.part("attacks"), SignalScaling.of(run).attack_radii
    trained = {
        pair: rows.filter((pl.col(c.attack) == pair[0]) & (pl.col(c.share) == pair[1]))
        for pair in _pairs(rows)
    }
    readings = ["clean", "gta", *(f"ball{share:g}" for share in radii)]
    figure, axes = panels(1, 1, 8.0, 3.6)
    ax = axes[0, 0]
    table = [_attack_line(mine, len(radii)) for mine in trained.values()]
    image = ax.imshow(np.asarray(table), vmin=0, vmax=1, cmap="viridis", aspect="auto")
    ax.set_yticks(range(len(table)), [_attack_name(mine, *pair) for pair, mine in trained.items()])
    keys = [f"{reading}\n{sample}" for sample in ("train", "test") for reading in readings]
    ax.set_xticks(range(len(keys)), keys, fontsize=7)
    for i, line in enumerate(table):
        for j, value in enumerate(line):
            colour = "white" if value < 0.6 else "black"
            shown = f"{value:.2f}" if math.isfinite(value) else "–"
            ax.text(j, i, shown, ha="center", va="center", fontsize=7, color=colour)
    figure.colorbar(image, ax=ax, label="accuracy")
    ax.set_title(
        "objective (O) with the attack of training (rows), accuracy by reading (columns)", fontsize=10
    )
    return figure


def _pairs(rows: pl.DataFrame) -> list[tuple[str, float]]:
    """The training attacks with their radii, in the order of the spec."""
    found = rows.select(AttackSweep.attack, AttackSweep.share).unique().rows()
    return sorted(found, key=lambda pair: (("gta", "fgsm", "pgd").index(pair[0]), pair[1]))


FIGURES = {
    "signal-stages": {"stages": stages, "robustness": robustness},
    "signal-scaling": {"sweeps": sweeps, "training-attacks": training_attacks},
}
