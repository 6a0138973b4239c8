"""Claims about the law and about the two global minima: AT-A2.3, AT-AB.3, AT-P3.1, AT-P3.2."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict, plain
from featscope.claims.judging import at_least, at_most, largest, numbers, smallest
from featscope.core.rules import SMALL
from featscope.core.stats import NOTHING, Interval, wilson
from featscope.experiments.run import Run
from featscope.papers.at.certificates import fooled, matching_bound
from featscope.papers.at.runs import ASSUMPTION, FIG3, MINIMA


def _condition(name: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        row = runs["run"].part("law").filter(pl.col("name") == name).to_dicts()[0]
        verdict = Verdict.HOLDS if row["met"] else Verdict.FAILS
        return Finding(verdict, plain(row["value"]), plain(row["bound"]), {"text": row["text"]})

    return judge


def _any_classifier(runs: Runs) -> Finding:
    run = runs["run"]
    t = {key: run.tensors[f"law/{key}"].numpy() for key in ("x", "y", "left", "right")}
    bound = matching_bound(t["x"].astype(float), t["y"], t["left"], t["right"], float(run.spec["spec"]["eps"]))
    evidence = {
        "certificate": "law/x, law/y, law/left, law/right: pairs of different labels with a common point in both balls, re-verified",
        "pairs": len(t["left"]),
        "points": len(t["y"]),
        "share_of_intersecting_pairs": run.summary["any_classifier"]["intersecting_pairs"],
    }
    if bound is None:
        return Finding(Verdict.INCONCLUSIVE, None, 1 - SMALL, {**evidence, "note": "the certificate does not verify"})
    verdict = Verdict.HOLDS if bound >= 1 - SMALL else Verdict.FAILS
    return Finding(verdict, bound, 1 - SMALL, evidence)


def _choices(runs: Runs) -> Finding:
    rows = runs["run"].part("law")
    missed = rows.filter(~pl.col("met").fill_null(value=False)).height
    return Finding(Verdict.FAILS if missed else Verdict.HOLDS, float(missed), 0.0, {"conditions": plain(rows.to_dicts())})


def _at_largest_gamma(run: Run, feature: str) -> pl.DataFrame:
    rows = run.part("gamma").filter(pl.col("feature") == feature)
    return rows.filter(pl.col("gamma") == rows["gamma"].max())


def _curve(run: Run, feature: str, column: str) -> dict[str, list[float]]:
    return {"gamma": run.summary[feature]["gamma"], column: run.summary[feature][column]}


def _risk(feature: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        values = numbers(_at_largest_gamma(runs["run"], feature)["risk"])
        return at_most(Interval(largest(values), smallest(values), largest(values)), SMALL, curve=_curve(runs["run"], feature, "risk"))

    return judge


def _error(run: Run, feature: str, column: str) -> Interval:
    return _pooled(_at_largest_gamma(run, feature), column)


def _pooled(rows: pl.DataFrame, column: str) -> Interval:
    """The error of all rows' points together; unknown if one row has no accuracy."""
    right, points = numbers(rows[column]) * numbers(rows["points"]), int(rows["points"].sum())
    return NOTHING if np.isnan(right).any() else wilson(points - round(float(right.sum())), points)


def _error_to_one(column: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        curve = _curve(runs["run"], "non-robust", column)
        if None in curve[column]:
            note = "ε < β: the proof's Δ is not in the ball"
            return Finding(Verdict.OUT_OF_SCOPE, None, 1 - SMALL, {"unmet": [note]})
        return at_least(_error(runs["run"], "non-robust", column), 1 - SMALL, curve=curve)

    return judge


def _own_logit(runs: Runs) -> Finding:
    return at_most(_error(runs["run"], "robust", "own-logit"), SMALL, curve=_curve(runs["run"], "robust", "own-logit"))


def _own_logit_noise(runs: Runs) -> Finding:
    rows = runs["run"].part("noise").filter(pl.col("feature") == "robust")
    curve = rows.group_by("sigma_n").agg(pl.col("own-logit").mean()).sort("sigma_n").to_dict(as_series=False)
    least = curve["sigma_n"][0]
    error = _pooled(rows.filter(pl.col("sigma_n") == least), "own-logit")
    return at_most(error, SMALL, curve=plain(curve), smallest_noise=least)


def _full_ball(runs: Runs) -> Finding:
    run = runs["run"]
    t = {key: run.tensors[f"gamma/{key}"].numpy() for key in ("x", "y", "delta", "w")}
    body = run.spec["spec"]
    hits = fooled(t["w"], t["x"], t["y"], t["delta"], float(body["eps"]), int(body["net"]["q"]), float(body["net"]["rho"]))
    shown, exact = wilson(hits, len(t["y"])), _error(run, "robust", "full-ball")
    exact = Interval(shown.value, shown.low, 1.0) if math.isnan(exact.value) else exact
    # One explicit Δ can only refute, whatever the exact minimum says; that nothing refutes is for the exact minimum to say.
    low = max(shown.low, exact.low)
    return at_most(
        Interval(exact.value, low, max(exact.high, low)),
        SMALL,
        certificate="gamma/x, gamma/y, gamma/delta, gamma/w: −ε u_y + ε u_j on every patch, re-verified point by point",
        fooled=f"{hits} of {len(t['y'])}",
        exact_accuracy_largest_over_gamma=float(np.max(run.summary["robust"]["full-ball"])),
    )


CLAIMS = (
    Claim(
        id="AT-A2.3",
        paper="at",
        reference="AT Assumption 2.3 and §2.5 (small perturbation radius)",
        statement="Robust features are much stronger, non-robust ones much denser, and classes are separated far beyond the radius.",
        hypotheses=(),
        readings=(
            Reading("strong", "inf α is at least ten times sup β at Figure 3's law", {"run": FIG3}, _condition("A2.3 strong")),
            Reading("dense", "Σ_NR β³ is at least ten times Σ_R α³ at Figure 3's law", {"run": FIG3}, _condition("A2.3 dense")),
            Reading("separation", "points of different classes are farther apart than 2ε", {"run": FIG3}, _condition("2ε-separation")),
            Reading(
                "any-classifier",
                "some classifier could be robust on a sample: a matching of intersecting pairs does not forbid it",
                {"run": FIG3},
                _any_classifier,
            ),
        ),
    ),
    Claim(
        id="AT-AB.3",
        paper="at",
        reference="AT Assumption B.3",
        statement="The choices of hyperparameters that the proofs assume; counts those that Figure 3's law does not meet.",
        hypotheses=(),
        readings=(Reading("figure-3", "every condition with a finite meaning is met by Figure 3's law", {"run": FIG3}, _choices),),
    ),
    Claim(
        id="AT-P3.1",
        paper="at",
        reference="AT Proposition 3.1",
        statement="The network w_i = γ v_i has vanishing risk but adversarial error 1 − o(1) as γ grows.",
        hypotheses=ASSUMPTION,
        readings=(
            Reading("risk", "cross-entropy at the largest γ", {"run": MINIMA}, _risk("non-robust")),
            Reading("model-free", "error under the proof's own Δ at the largest γ", {"run": MINIMA}, _error_to_one("explicit")),
            Reading("full-ball", "exact error over the ball at the largest γ", {"run": MINIMA}, _error_to_one("full-ball")),
        ),
    ),
    Claim(
        id="AT-P3.2",
        paper="at",
        reference="AT Proposition 3.2",
        statement="The network w_i = γ u_i has vanishing risk and adversarial error o(1) as γ grows.",
        hypotheses=ASSUMPTION,
        readings=(
            Reading("risk", "cross-entropy at the largest γ", {"run": MINIMA}, _risk("robust")),
            Reading("own-logit", "the attack only lowers F_y; exact error at the largest γ, Figure 3's law", {"run": MINIMA}, _own_logit),
            Reading(
                "own-logit-small-noise",
                "the same at the smallest swept noise: σ_n = 1/√d goes to 0 with d",
                {"run": MINIMA},
                _own_logit_noise,
            ),
            Reading("full-ball", "every Δ of the ball, with the perturbation that writes ε u_j on each patch", {"run": MINIMA}, _full_ball),
        ),
    ),
)
