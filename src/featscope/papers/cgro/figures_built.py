"""Figures of f_S as a network, and of the tensor-power lemmas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from polars.selectors import numeric

from featscope.experiments.run import Run
from featscope.plots.style import ATTACKED, CERTIFIED, CLEAN, GREY, NON_ROBUST, ROBUST, finish, named_ticks, panels

KINDS = {"Linf": ("ℓ∞", ROBUST), "L2-shared": ("ℓ2, shared squares", CLEAN), "L2-each": ("ℓ2, squares for each point", NON_ROBUST)}


def _count_lines(ax: Any, rows: pl.DataFrame, x: str, fixed: str) -> None:
    at = rows[fixed].max()
    for kind, (name, colour) in KINDS.items():
        chosen = rows.filter((pl.col("kind") == kind) & (pl.col(fixed) == at)).group_by(x).agg(numeric().mean()).sort(x)
        if chosen.height:
            ax.plot(chosen[x], chosen["parameters"], color=colour, marker="o", markersize=3, label=name)
    named_ticks(ax, sorted(set(rows[x])))
    ax.set_yscale("log")


def cgro_counts(run: Run) -> Figure:
    """Parameters of f_S against N and D, and what it gives on the training balls and elsewhere."""
    rows = run.part("cgro")
    figure, axes = panels(1, 4, 3.8, 3.4)
    _count_lines(axes[0, 0], rows, "n", "D")
    finish(axes[0, 0], f"f_S, D = {max(rows['D'].to_list())}", "training points N", "parameters")
    _count_lines(axes[0, 1], rows, "D", "n")
    finish(axes[0, 1], f"f_S, N = {max(rows['n'].to_list())}", "dimension D", "parameters")
    ax = axes[0, 2]
    case = rows.group_by("D").agg(pl.col("clean_test").min(), pl.col("slack").min(), pl.col("fooled_unseen").min()).sort("D")
    place = np.arange(case.height)
    shown = (
        ("clean_test", CLEAN, "clean test accuracy"),
        ("slack", CERTIFIED, "certified margin on training balls"),
        ("fooled_unseen", ATTACKED, "robust error on unseen points"),
    )
    for shift, (key, colour, name) in enumerate(shown):
        ax.bar(place + 0.27 * (shift - 1), case[key], 0.26, color=colour, label=name)
    ax.set_xticks(place, [f"D = {d}" for d in case["D"]])
    ax.set_ylim(0, 1.6)
    ax.set_yticks([0, 0.5, 1])
    finish(ax, "worst case over N and norms", "", "")
    _accuracy(axes[0, 3], run.part("accuracy"))
    return figure


def _accuracy(ax: Any, rows: pl.DataFrame) -> None:
    """Parameters as δ approaches R/2."""
    for kind, (name, colour) in KINDS.items():
        chosen = rows.filter(pl.col("kind") == kind).sort("share")
        ax.plot([1 / (1 - share) for share in chosen["share"]], chosen["parameters"], color=colour, marker="o", markersize=3, label=name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    finish(
        ax, f"price of accuracy, D = {max(rows['D'].to_list())}, N = {max(rows['n'].to_list())}", "R/(R − 2δ)", "parameters", legend=False
    )


def lemmas(run: Run) -> Figure:
    """Hitting times as shares of the lemmas' bounds."""
    rows = run.part("lemmas")
    figure, axes = panels(1, 1, 5.0, 3.4)
    ax = axes[0, 0]
    for lemma, colour in (("A.1", ROBUST), ("A.2", NON_ROBUST), ("A.3", ATTACKED)):
        chosen = rows.filter(pl.col("lemma") == lemma)
        ax.scatter(chosen["rate"], chosen["share"], s=12, color=colour, label=f"Lemma {lemma}")
    ax.axhline(1.0, color=GREY, linestyle=":")
    ax.set_xscale("log")
    ax.set_ylim(0, 1 + math.ulp(1.0) + 0.15)
    finish(ax, "slowest sequences against the lemmas", "rate·z0", "share of the bound")
    return figure


FIGURES = {"built-cgro": {"counts": cgro_counts}, "signal-lemmas": {"lemmas": lemmas}}
