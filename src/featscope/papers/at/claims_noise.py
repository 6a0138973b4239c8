"""Claims of AT's appendix E, where data are noisy and finite: AT-LE.2 to AT-LE.10."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict, plain
from featscope.claims.judging import at_least, at_most, exactly, exponent_at_most, largest, numbers, out_of_scope, smallest
from featscope.core.rules import CONSTANT, SAME
from featscope.core.stats import Interval
from featscope.experiments.run import Run
from featscope.papers.at.finals import finals
from featscope.papers.at.runs import COORDINATE, FIG3, NOISE

#: Õ(f) at one finite setting: at most f·log d.
TILDE = "Õ(f) is read as at most f · log d"


def _law(run: Run) -> dict[str, float]:
    body = run.spec["spec"]
    return {"d": float(body["law"]["d"]), "N": float(body["train_size"]), "P": float(body["law"]["patches"]), "k": float(body["law"]["k"])}


def _spread(values: list[float]) -> Interval:
    """The largest over seeds, with the range over seeds as its interval; NaN if a seed has none."""
    return Interval(largest(values), smallest(values), largest(values))


def _decomposition(runs: Runs) -> Finding:
    n = _law(runs["run"])
    if n["N"] * n["P"] >= n["d"] - 2 * n["k"]:
        note = "the N·P noise vectors span everything orthogonal to the features, so every weight vector has this form"
        return Finding(Verdict.VACUOUS, n["N"] * n["P"], n["d"] - 2 * n["k"], {"note": note})
    return Finding(Verdict.INCONCLUSIVE, None, None, {"note": "fewer noise vectors than dimensions: the reading large-d measures it"})


def _in_span(runs: Runs) -> Finding:
    """The largest share of w(T) − w(0) outside the span of features and noise, over dimensions far larger than that span."""
    shares = {key: found["outside_span"] for key, found in runs["run"].summary.items()}
    return exactly(largest(np.asarray(list(shares.values()), dtype=float)), SAME, by_dimension=shares)


def _noise_small(arm: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(arm).filter(pl.col("noise_max").is_not_null())
        d = _law(runs["run"])["d"]
        worst = [float(numbers(group["noise_max"]).max()) for _, group in rows.group_by("run", maintain_order=True)]
        start = [float(numbers(group.sort("step")["noise_max"])[0]) for _, group in rows.group_by("run", maintain_order=True)]
        shown = plain({"at_initialisation": largest(start), "growth": largest(worst) / largest(start)})
        return at_most(_spread(worst), math.log(d) / math.sqrt(d), rule=TILDE, **shown)

    return judge


def _noise_in_d(runs: Runs) -> Finding:
    """The largest noise correlation over training as a power of d, at a fixed number of points."""
    by_d: dict[float, list[float]] = {}
    for (d, _), group in runs["run"].rows.sort("d").group_by("d", "run", maintain_order=True):
        by_d.setdefault(float(str(d)), []).append(largest(numbers(group["noise_max"])))
    medians = [float(np.median(values)) for values in by_d.values()]
    finding = exponent_at_most(list(by_d), medians, -0.5, median=plain(medians))
    n = runs["run"].spec["spec"]["train_size"]
    return out_of_scope([f"N = poly(d): N is {n} at every d, and a point's own noise is learned in proportion to 1/N"], finding)


def _noise_update(runs: Runs) -> Finding:
    rows = runs["run"].part("standard").filter(pl.col("noise_update_rest").is_not_null())
    d = _law(runs["run"])["d"]
    worst = [float(numbers(g["noise_update_rest"]).max()) for _, g in rows.group_by("run", maintain_order=True)]
    return at_most(
        _spread(worst), math.log(d) / math.sqrt(d), rule=TILDE, measured="largest remainder per unit of η over the recorded steps"
    )


def _since(rows: pl.DataFrame, d: float) -> pl.DataFrame:
    """The rows at which max F_y has reached log d. For polars NaN is larger than all: such rows stay, and make what is read from them NaN."""
    return rows.filter(pl.col("F_max") >= math.log(d))


def _balanced(runs: Runs) -> Finding:
    """min F_y ÷ max F_y within a class once max F_y ≥ log d."""
    d = _law(runs["run"])["d"]
    rows = _since(runs["run"].part("standard"), d)
    if rows.height == 0:
        return Finding(Verdict.VACUOUS, None, None, {"note": "max F_y never reaches log d in this run"})
    worst = [float(numbers(g["F_ratio"]).min()) for _, g in rows.group_by("run", maintain_order=True)]
    return at_least(Interval(smallest(worst), smallest(worst), largest(worst)), 1 / CONSTANT)


def _total_residual(runs: Runs) -> Finding:
    """η Σ_{t ≥ T0} mean (1 − logit_y), T0 the first recorded step with max F_y ≥ log d (trapezoid over recorded steps)."""
    run, d = runs["run"], _law(runs["run"])["d"]
    eta = float(run.spec["spec"]["standard"]["learning_rate"])
    totals = []
    for _, rows in run.part("standard").sort("step").group_by("run", maintain_order=True):
        reached = _since(rows, d)
        if reached.height == 0:
            continue
        late = rows.filter(pl.col("step") >= reached["step"][0])
        step, residual = numbers(late["step"]), numbers(late["residual"])
        totals.append(float(eta * ((residual[1:] + residual[:-1]) / 2 * (step[1:] - step[:-1])).sum()))
    if not totals:
        return Finding(Verdict.VACUOUS, None, None, {"note": "max F_y never reaches log d in this run"})
    return at_most(_spread(totals), math.log(d), rule=TILDE)


def _losers(runs: Runs) -> Finding:
    run, d = runs["run"], _law(runs["run"])["d"]
    worst = np.max([finals(run, "standard", column).max(-1) for column in ("u", "C", "D")], axis=0)
    return at_most(_spread(worst.tolist()), math.log(d) / math.sqrt(d), rule=TILDE, measured="largest of A, C and D at the end")


def _winner(runs: Runs) -> Finding:
    d = _law(runs["run"])["d"]
    ratios = finals(runs["run"], "standard", "v").min(-1) / math.log(d)
    return at_least(
        Interval(smallest(ratios), smallest(ratios), largest(ratios)),
        1 / CONSTANT,
        measured="smallest max_r B over classes ÷ log d, Θ read as ≥ 1/3",
    )


SETTING = ("Figure 3's law and training",)


def _claim(name: str, reference: str, statement: str, *readings: Reading) -> Claim:
    return Claim(f"AT-{name}", "at", f"AT {reference}", statement, SETTING, readings)


CLAIMS = (
    _claim(
        "LE.2",
        "Lemma E.2",
        "Under standard training weights are w(0) plus features plus training noise.",
        Reading("figure-3", "whether the statement excludes anything", {"run": FIG3}, _decomposition),
        Reading("large-d", "what lies outside the span, d up to 10⁹ by compact copies", {"run": NOISE}, _in_span),
    ),
    _claim(
        "LE.3",
        "Lemma E.3",
        "Under standard training ⟨w, ξ_p⟩ stays Õ(1/√d) on all training patches.",
        Reading("figure-3", "largest over neurons, patches and recorded steps", {"run": FIG3}, _noise_small("standard")),
        Reading("fixed-N-in-d", "exponent in d up to 10⁹ with N fixed, by compact copies in law", {"run": NOISE}, _noise_in_d),
    ),
    _claim(
        "LE.4",
        "Lemma E.4",
        "A step changes ⟨w, ξ_p⟩ by the patch's own term up to η·Õ(1/√d).",
        Reading("figure-3", "largest remainder per unit of η", {"run": FIG3}, _noise_update),
    ),
    _claim(
        "LE.5",
        "Lemma E.5",
        "Once F_y has reached log d, it is of the same order on all points of a class.",
        Reading("figure-3", "smallest ratio min ÷ max within a class", {"run": FIG3}, _balanced),
    ),
    _claim(
        "LE.6",
        "Lemma E.6",
        "The summed mean of 1 − logit_y from T0 on is Õ(1/η).",
        Reading("figure-3", "η times the sum", {"run": FIG3}, _total_residual),
    ),
    _claim(
        "LE.7",
        "Lemma E.7",
        "At the end of standard training B = Θ(log d), and A, C and D are O(polylog(d)/√d).",
        Reading("losers", "A, C and D against log d/√d", {"run": FIG3}, _losers),
        Reading("winner", "B against log d", {"run": FIG3}, _winner),
    ),
    _claim(
        "LE.9",
        "Lemma E.9",
        "Under adversarial training weights are w(0) plus features plus training noise.",
        Reading("figure-3", "whether the statement excludes anything", {"run": FIG3}, _decomposition),
    ),
    _claim(
        "LE.10",
        "Lemma E.10",
        "Under adversarial training ⟨w, ξ_p⟩ stays Õ(1/√d) on all training patches.",
        Reading("patch-clip", "largest over neurons, patches and recorded steps", {"run": FIG3}, _noise_small("adversarial")),
        Reading("coordinate-clip", "the same with the coordinate clip", {"run": COORDINATE}, _noise_small("adversarial")),
    ),
)
