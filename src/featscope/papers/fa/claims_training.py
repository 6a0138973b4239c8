"""FA's statements about the course of training: Lemmas 5.3, 5.5, B.7, B.23, B.24 and their k-class versions C.10, C.23 to C.25."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs
from featscope.claims.judging import at_most, exactly, largest, one_run, over, over_seeds, smallest, vacuous
from featscope.core.rules import MUCH, SMALL
from featscope.experiments.run import Run
from featscope.papers.fa.runs import FIG2, LARGER, SCALING, SMALLER, SMALLER_LITERAL, claim, falls, last, path, within_assumptions

A4 = ("Assumption 3.2", "Assumption 3.3", "Assumption 4.3", "t ≤ T₀ = exp(Õ(√k))")


def _first_inactive(rows: pl.DataFrame) -> dict[str, Any]:
    late = rows.filter(pl.col("own_active") < 1)
    return {"rows": rows.height, "rows_with_inactive": late.height, "least": smallest(rows["own_active"])}


def _active(name: str) -> Judge:
    """Lemma 5.5 / 7. of B.7 and C.10: from step 1 on the own neurons of every point are active."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        parts = [path(run, f"start-{name}").filter(pl.col("step") >= 1), path(run, name)] if "window" in run.summary else [path(run, name)]
        rows = pl.concat(parts, how="diagonal_relaxed").filter(pl.col("step") >= 1 if "window" not in run.summary else pl.lit(True))
        share = 1 - smallest(rows["own_active"])
        start = path(run, f"start-{name}")["own_active"].to_list() if "window" in run.summary else rows["own_active"].to_list()[:3]
        return within_assumptions(run, exactly(share, 0.0, inactive_share_at_worst=share, first_recorded=start, **_first_inactive(rows)))

    return judge


def _proof_bounds(run: Run, fine: bool, row: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Items of Lemma B.7 (C.10) that a row can speak of: value and the proof's bound."""
    s = run.summary
    k, n, eps, eta = s["k"], s["n"], s["epsilon"], s["learning_rate"]
    factor = k**2 if fine else 1
    steps = max(row["time"] / eta, 1.0)
    return {
        "1 upper: σ ≤ (2k/n) ln(t+1)": (row["sigma_max"], 2 * k / n * math.log(steps + 1)),
        "1 lower: σ ≥ (k/2n) ln(tη)": (-row["sigma_min"], -k / (2 * n) * math.log(steps * eta)),
        "4: margin gap": (row["margin_max"] - row["margin_min"], (33 * factor if fine else 65) * eps),
        "6: derivative ratio": (row["slope_ratio"] - 1, (67 * factor if fine else 130) * eps),
        "7: inactive own neurons": (1 - row["own_active"], 0.0),
        "8: |λ| of other clusters": (row["lambda_other"], eps),
        "8: |σ| of other classes": (row["sigma_other"], 2 * eps),
    }


def _lemma(name: str) -> Judge:
    """All items of Lemma B.7 or C.10 along the flow, with the proof's constants."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        furthest: dict[str, list[float]] = {}
        for row in path(run, name).to_dicts():
            for item, (value, bound) in _proof_bounds(run, name == "fine", row).items():
                # What is no number keeps no bound.
                excess = math.inf if math.isnan(value - bound) else value - bound
                if row["step"] > 0 and excess > furthest.get(item, [-math.inf])[0]:
                    furthest[item] = [excess, value, bound]
        broken = [item for item, entry in furthest.items() if entry[0] > 0]
        excess = largest(entry[0] for entry in furthest.values())
        found = exactly(excess, 0.0, items={item: entry[1:] for item, entry in furthest.items()}, broken=broken)
        window = run.summary["window"]
        why = (
            f"ε = {run.summary['epsilon']:.2f} where the proof needs o(k^−2.5), and T₀ = exp(√k) = {window['most']:.1f} steps with "
            "unit constants; the items are shown along the whole flow"
        )
        return vacuous(why, found)

    return judge


def _growth(name: str) -> Judge:
    """ln(Tη)/4 ≤ λ ≤ 4 ln(T+1) at the end of the flow."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        eta = run.summary["learning_rate"]
        excess = []
        for row in last(run, name):
            steps = row["time"] / eta
            excess += [math.log(max(steps * eta, 1e-300)) / 4 - row["lambda_min"], row["lambda_max"] - 4 * math.log(steps + 1)]
        ends = [{"lambda": [row["lambda_min"], row["lambda_max"]], "time": row["time"]} for row in last(run, name)]
        window = run.summary["window"]
        found = exactly(
            largest(excess), 0.0, ends=ends, low=math.log(max(ends[0]["time"], 1e-300)) / 4, high=4 * math.log(ends[0]["time"] / eta + 1)
        )
        return vacuous(f"T = {ends[0]['time'] / eta:.2g} steps, T₀ = exp(√k) = {window['most']:.1f}: the window is empty", found)

    return judge


def _ratios(run: Run, name: str) -> list[float]:
    """Largest ÷ least own λ of each seed; infinite where the least is 0 or negative, which rows mark by −1."""
    return [math.inf if row["lambda_ratio"] < 0 else row["lambda_ratio"] for row in last(run, name)]


def _ratio(name: str, factor: float) -> Judge:
    """λ ratios ≤ 1 + 204ε (times k² for the k-class network)."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        bound = factor * (run.summary["k"] ** 2 if name == "fine" else 1) * run.summary["epsilon"]
        found = exactly(largest(_ratios(run, name)) - 1, bound)
        return vacuous(f"the bound allows a ratio of {1 + bound:.0f}", found) if bound > MUCH else found

    return judge


def _near_one(name: str) -> Judge:
    """λ ratios are 1 ± o(1): within SMALL at one setting."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        ratios = _ratios(run, name)
        return within_assumptions(run, at_most(over_seeds([r - 1 for r in ratios]), SMALL, ratios=ratios))

    return judge


def _gap(name: str) -> Judge:
    """The margin gap at the end relative to the margin, with the absolute one beside it."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = last(run, name)
        shares = [over(row["margin_max"] - row["margin_min"], row["margin_max"]) for row in rows]
        gaps = [row["margin_max"] - row["margin_min"] for row in rows]
        return within_assumptions(
            run, at_most(over_seeds(shares), SMALL, gaps=gaps, margins=[[row["margin_min"], row["margin_max"]] for row in rows])
        )

    return judge


def _signs(name: str) -> Judge:
    """The largest λ of a foreign feature and minus the least λ of an own one, along training."""

    def judge(runs: Runs) -> Finding:
        rows = path(runs["run"], name)
        lowest, top = smallest(rows["lambda_min"]), largest(rows["lambda_other_top"])
        return exactly(largest([-lowest, top]), 0.0, least_own=lowest, largest_other=top)

    return judge


def _sweep(key: str) -> Judge:
    return lambda runs: falls(runs["run"], "n", key)


SMALLER_TEXT = "Assumption 4.3 at k = 3 (quick: 2), flow, σ_w = η/(6nm√d)"
LARGER_TEXT = "Assumption 4.3 at k = 4 (quick: 3), flow, σ_w = η/(6nm√d), float32"
N_TEXT = "along n at d = 10⁶, k = 10: o(1) as a fitted exponent"


def _regimes(judge: Judge) -> tuple[Reading, ...]:
    return one_run("assumption", SMALLER_TEXT, SMALLER, judge), one_run("assumption-large", LARGER_TEXT, LARGER, judge)


CLAIMS: tuple[Claim, ...] = (
    claim(
        "FA-L5.3",
        "Lemma 5.3",
        "Margins of training points stay balanced: their gaps are at most ε(k) → 0 at all times.",
        A4,
        one_run("paper", "§6.1's values: gap ÷ margin at the end", FIG2, _gap("binary")),
        *_regimes(_gap("binary")),
        one_run("scaling", N_TEXT, SCALING, _sweep("margin_gap")),
    ),
    claim(
        "FA-L5.5",
        "Lemma 5.5",
        "From step 1 on every training point activates all neurons of its class.",
        A4,
        one_run("paper", "§6.1's values, every recorded step", FIG2, _active("binary")),
        one_run("assumption-literal", "Assumption 4.3 at k = 3 as printed, σ_w² = η k^−5", SMALLER_LITERAL, _active("binary")),
        one_run("assumption-lemma", SMALLER_TEXT, SMALLER, _active("binary")),
        one_run("assumption-lemma-large", LARGER_TEXT, LARGER, _active("binary")),
    ),
    claim("FA-LB.7", "Lemma B.7", "Eight inductive bounds on coefficients, margins and activations.", A4, *_regimes(_lemma("binary"))),
    claim("FA-LB.23", "Lemma B.23", "ln(Tη)/4 ≤ λ ≤ 4 ln(T+1) for the features of the neuron's class.", A4, *_regimes(_growth("binary"))),
    claim(
        "FA-LB.24",
        "Lemma B.24",
        "Coefficients of features of the neurons' own classes agree up to a factor 1 + 204ε.",
        A4,
        *_regimes(_ratio("binary", 204)),
        one_run("o(1)", SMALLER_TEXT + "; ratio within 5 % of 1", SMALLER, _near_one("binary")),
        one_run("o(1)-large", LARGER_TEXT + "; ratio within 5 % of 1", LARGER, _near_one("binary")),
        one_run("scaling", N_TEXT + " of ratio − 1", SCALING, _sweep("ratio_excess")),
    ),
    claim(
        "FA-LC.10",
        "Lemma C.10",
        "The eight inductive bounds for the k-class network.",
        A4,
        *_regimes(_lemma("fine")),
        one_run("activation, literal", "item 7 with σ_w² = η k^−5 as printed", SMALLER_LITERAL, _active("fine")),
        one_run("activation, lemma", "item 7 with σ_w = η/(6nm√d)", SMALLER, _active("fine")),
        one_run("margins", N_TEXT, SCALING, _sweep("fine_margin_gap")),
    ),
    claim(
        "FA-LC.9",
        "Corollaries B.5 and C.9",
        "λ is positive for the neuron's own features and not positive for the others, at all times.",
        (),
        one_run("2-class", "§6.1's values, every step", FIG2, _signs("binary")),
        one_run("k-class", "§6.1's values, every step", FIG2, _signs("fine")),
    ),
    claim("FA-LC.23", "Lemma C.23", "ln(Tη)/4 ≤ λ ≤ 4 ln(T+1) for the k-class network.", A4, *_regimes(_growth("fine"))),
    claim(
        "FA-LC.24",
        "Lemma C.24",
        "Own-cluster coefficients of the k-class network agree up to a factor 1 + 204k²ε.",
        A4,
        *_regimes(_ratio("fine", 204)),
        one_run("o(1)-large", LARGER_TEXT + "; ratio within 5 % of 1", LARGER, _near_one("fine")),
    ),
    claim(
        "FA-LC.25",
        "Lemma C.25",
        "√d ‖w_s − λ μ_s/‖μ_s‖²‖ = o(1) for the k-class network.",
        A4,
        one_run("scaling", N_TEXT, SCALING, _sweep("fine_deviation")),
    ),
)
