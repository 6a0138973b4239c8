"""Figures of f_S as a network, and of the tensor-power lemmas."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from polars.selectors import numeric

from featscope.experiments.run import Run
from featscope.papers.cgro.built import AccuracyPrice, Classifier
from featscope.papers.cgro.signal_lemmas import LEMMAS, LemmaCase
from featscope.plots.built import INDICATORS
from featscope.plots.style import (
    ATTACKED,
    CERTIFIED,
    CLEAN,
    GREY,
    NON_ROBUST,
    ROBUST,
    finish,
    named_ticks,
    panels,
)


def _count_lines(ax: Axes, rows: pl.DataFrame, x: str, fixed: str) -> None:
    c, at = Classifier, rows[fixed].max()
    for kind, (name, colour) in INDICATORS.items():
        chosen = rows.filter((pl.col(c.kind) == kind) & (pl.col(fixed) == at))
        mean = chosen.group_by(x).agg(numeric().mean()).sort(x)
        if mean.height:
            ax.plot(mean[x], mean[c.parameters], color=colour, marker="o", markersize=3, label=name)
    named_ticks(ax, sorted(set(rows[x])))
    ax.set_yscale("log")


def cgro_counts(run: Run) -> Figure:
    """Parameters of f_S against N and D, and what it gives on the training balls and elsewhere."""
    c, rows = Classifier, run.part("cgro")
    figure, axes = panels(1, 4, 3.8, 3.4)
    _count_lines(axes[0, 0], rows, c.n, c.D)
    finish(axes[0, 0], f"f_S, D = {max(rows[c.D].to_list())}", "training points N", "parameters")
    _count_lines(axes[0, 1], rows, c.D, c.n)
    finish(axes[0, 1], f"f_S, N = {max(rows[c.n].to_list())}", "dimension D", "parameters")
    _worst_cases(axes[0, 2], rows)
    _accuracy(axes[0, 3], run.part("accuracy"))
    return figure


def _worst_cases(ax: Axes, rows: pl.DataFrame) -> None:
    c = Classifier
    shown = (
        (c.clean_test, CLEAN, "clean test accuracy"),
        (c.slack, CERTIFIED, "certified margin on training balls"),
        (c.fooled_unseen, ATTACKED, "robust error on unseen points"),
    )
    worst = rows.group_by(c.D).agg(pl.col(key).min() for key, _, _ in shown).sort(c.D)
    place = np.arange(worst.height)
    for shift, (key, colour, name) in enumerate(shown):
        ax.bar(place + 0.27 * (shift - 1), worst[key], 0.26, color=colour, label=name)
    ax.set_xticks(place, [f"D = {d}" for d in worst[c.D]])
    ax.set_ylim(0, 1.6)
    ax.set_yticks([0, 0.5, 1])
    finish(ax, "worst case over N and norms", "", "")


def _accuracy(ax: Axes, rows: pl.DataFrame) -> None:
    """Parameters as δ approaches R/2."""
    c = AccuracyPrice
    for kind, (name, colour) in INDICATORS.items():
        chosen = rows.filter(pl.col(c.kind) == kind).group_by(c.share).agg(numeric().mean()).sort(c.share)
        closeness = [1 / (1 - share) for share in chosen[c.share]]
        ax.plot(closeness, chosen[c.parameters], color=colour, marker="o", markersize=3, label=name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    title = f"price of accuracy, D = {max(rows[c.D].to_list())}, N = {max(rows[c.n].to_list())}"
    finish(ax, title, "R/(R − 2δ)", "parameters", legend=False)


def lemmas(run: Run) -> Figure:
    """Hitting times as shares of the lemmas' bounds."""
    c, rows = LemmaCase, run.part("lemmas")
    figure, axes = panels(1, 1, 5.0, 3.4)
    ax = axes[0, 0]
    for lemma, colour in zip(LEMMAS, (ROBUST, NON_ROBUST, ATTACKED), strict=True):
        chosen = rows.filter(pl.col(c.lemma) == lemma)
        ax.scatter(chosen[c.rate], chosen[c.share], s=12, color=colour, label=f"Lemma {lemma}")
    ax.axhline(1.0, color=GREY, linestyle=":")
    ax.set_xscale("log")
    ax.set_ylim(0, 1.15)
    finish(ax, "slowest sequences against the lemmas", "rate·z0", "share of the bound")
    return figure


FIGURES = {"built-cgro": {"counts": cgro_counts}, "signal-lemmas": {"lemmas": lemmas}}
