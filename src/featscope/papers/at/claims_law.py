"""Claims about the law and about the two global minima: AT-A2.3, AT-AB.3, AT-P3.1, AT-P3.2."""

from __future__ import annotations

import math

import polars as pl

from featscope.certificates.at import fooled, matching_bound
from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict
from featscope.claims.judging import (
    at_least,
    at_most,
    error_over_seeds,
    exactly,
    largest,
    numbers,
    reaches,
    scoped,
    smallest,
)
from featscope.core.rules import SMALL
from featscope.core.stats import Interval, wilson
from featscope.experiments.run import Run
from featscope.papers.at.fig3_columns import MATCHING, Matching
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.papers.at.patch_minima import ALONG_GAMMA, ALONG_NOISE, Minima, PatchMinima
from featscope.papers.at.runs import (
    FIG3,
    MINIMA,
    NOISE_SIZE,
    RADIUS_REACHES,
    RADIUS_SIZE,
    ROOM,
    STRONGER_THAN_RADIUS,
)


def _condition(name: str) -> Judge:
    """A condition of the law at Figure 3's values: its number against its bound."""

    def judge(runs: Runs) -> Finding:
        found = next(condition for condition in runs["run"].conditions if condition.name == name)
        return reaches(found.value, found.bound, text=found.text)

    return judge


def _any_classifier(runs: Runs) -> Finding:
    """1 − pairs/2n for a matching of pairs of different labels whose balls meet, re-verified, against 1
    − SMALL."""
    run = runs["run"]
    x, y, left, right = (run.tensor(MATCHING, key).numpy() for key in ("x", "y", "left", "right"))
    bound = matching_bound(x.astype(float), y, left, right, PatchFig3.of(run).eps)
    evidence = {
        "certificate": "matching/x, y, left, right: pairs of different labels whose balls share a point, "
        "re-verified",
        "pairs": len(left),
        "points": len(y),
        "share_of_intersecting_pairs": run.part(MATCHING)[Matching.intersecting_pairs][0],
    }
    if bound is None:
        return Finding(
            Verdict.INCONCLUSIVE, None, 1 - SMALL, {**evidence, "note": "the certificate does not verify"}
        )
    return reaches(bound, 1 - SMALL, **evidence)


def _choices(runs: Runs) -> Finding:
    """The number of conditions that the law does not meet, against 0."""
    found = runs["run"].conditions
    missed = sum(not condition.met for condition in found)
    shown = [condition.as_json() for condition in found]
    return exactly(float(missed), 0.0, conditions=shown)


def _of(run: Run, part: str, feature: str) -> pl.DataFrame:
    return run.part(part).filter(pl.col(Minima.feature) == feature)


def _curve(rows: pl.DataFrame, along: str, column: str) -> dict[str, list[float]]:
    """Means over seeds along γ or along the noise."""
    mean = rows.group_by(along).agg(pl.col(column).mean()).sort(along)
    return {str(along): mean[along].to_list(), str(column): mean[column].to_list()}


def _at_largest_gamma(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col(Minima.gamma) == pl.col(Minima.gamma).max())


def _risk(feature: str) -> Judge:
    """The largest cross-entropy over seeds at the largest γ, with the range over seeds, against SMALL."""

    def judge(runs: Runs) -> Finding:
        rows = _of(runs["run"], ALONG_GAMMA, feature)
        values = numbers(_at_largest_gamma(rows)[Minima.risk])
        spread = Interval(largest(values), smallest(values), largest(values))
        return at_most(spread, SMALL, curve=_curve(rows, Minima.gamma, Minima.risk))

    return judge


def _error(rows: pl.DataFrame, column: str) -> Interval:
    """The error over the rows' seeds; unknown if one row has no accuracy."""
    return error_over_seeds(rows[column].to_list(), rows[Minima.points].to_list())


def _error_to_one(column: str) -> Judge:
    """The error over seeds at the largest γ is at least 1 − SMALL."""

    def judge(runs: Runs) -> Finding:
        run, spec = runs["run"], PatchMinima.of(runs["run"])
        if column == Minima.explicit and spec.eps < spec.law.beta_supremum:
            note = "ε < β: the proof's Δ is not in the ball"
            return scoped([note], Finding(Verdict.INCONCLUSIVE, None, 1 - SMALL, {"note": note}))
        rows = _of(run, ALONG_GAMMA, "non-robust")
        return at_least(
            _error(_at_largest_gamma(rows), column), 1 - SMALL, curve=_curve(rows, Minima.gamma, column)
        )

    return judge


def _own_logit(runs: Runs) -> Finding:
    """The exact error over seeds at the largest γ, only F_y attacked, is at most SMALL."""
    rows = _of(runs["run"], ALONG_GAMMA, "robust")
    curve = _curve(rows, Minima.gamma, Minima.own_logit)
    return at_most(_error(_at_largest_gamma(rows), Minima.own_logit), SMALL, curve=curve)


def _own_logit_noise(runs: Runs) -> Finding:
    """The same at the smallest noise of the sweep."""
    rows = _of(runs["run"], ALONG_NOISE, "robust")
    curve = _curve(rows, Minima.sigma_n, Minima.own_logit)
    least = curve[Minima.sigma_n][0]
    error = _error(rows.filter(pl.col(Minima.sigma_n) == least), Minima.own_logit)
    return at_most(error, SMALL, curve=curve, smallest_noise=least)


def _full_ball(runs: Runs) -> Finding:
    """The exact error over the ball at the largest γ is at most SMALL; one explicit Δ can refute it."""
    run, spec = runs["run"], PatchMinima.of(runs["run"])
    x, y, delta, w = (run.tensor(ALONG_GAMMA, key).numpy() for key in ("x", "y", "delta", "w"))
    hits = fooled(w, x, y, delta, spec.eps, spec.net.q, spec.net.rho)
    rows = _of(run, ALONG_GAMMA, "robust")
    shown, exact = wilson(hits, len(y)), _error(_at_largest_gamma(rows), Minima.full_ball)
    exact = Interval(shown.value, shown.low, 1.0) if math.isnan(exact.value) else exact
    # One explicit Δ can only refute, whatever the exact minimum says; that nothing refutes is for the exact
    # minimum to say.
    low = max(shown.low, exact.low)
    return at_most(
        Interval(exact.value, low, max(exact.high, low)),
        SMALL,
        certificate="gamma/x, gamma/y, gamma/delta, gamma/w: −ε u_y + ε u_j on every patch, re-verified "
        "point by point",
        fooled=f"{hits} of {len(y)}",
        exact_accuracy_largest_over_gamma=max(_curve(rows, Minima.gamma, Minima.full_ball)[Minima.full_ball]),
    )


CLAIMS = (
    Claim(
        id="AT-A2.3",
        paper="at",
        reference="AT Assumption 2.3 and §2.5 (small perturbation radius)",
        statement="Robust features are much stronger, non-robust ones much denser, and classes are separated "
        "far beyond the radius.",
        hypotheses=(),
        readings=(
            Reading(
                "strong",
                "inf α is at least ten times sup β at Figure 3's law",
                {"run": FIG3},
                _condition("A2.3 strong"),
            ),
            Reading(
                "dense",
                "Σ_NR β³ is at least ten times Σ_R α³ at Figure 3's law",
                {"run": FIG3},
                _condition("A2.3 dense"),
            ),
            Reading(
                "separation",
                "points of different classes are farther apart than 2ε",
                {"run": FIG3},
                _condition("2ε-separation"),
            ),
            Reading(
                "any-classifier",
                "some classifier could be robust on a sample: a matching of intersecting pairs does not "
                "forbid it",
                {"run": FIG3},
                _any_classifier,
            ),
        ),
    ),
    Claim(
        id="AT-AB.3",
        paper="at",
        reference="AT Assumption B.3",
        statement="The choices of hyperparameters that the proofs assume; counts those that Figure 3's law "
        "does not meet.",
        hypotheses=(),
        readings=(
            Reading(
                "figure-3",
                "every condition with a finite meaning is met by Figure 3's law",
                {"run": FIG3},
                _choices,
            ),
        ),
    ),
    Claim(
        id="AT-P3.1",
        paper="at",
        reference="AT Proposition 3.1",
        statement="The network w_i = γ v_i has vanishing risk but adversarial error 1 − o(1) as γ grows.",
        hypotheses=("the choices of B.3: d ≫ 2k, σ_n = 1/√d, ε > β",),
        assumes=(ROOM, NOISE_SIZE, RADIUS_REACHES, RADIUS_SIZE),
        readings=(
            Reading(
                "risk",
                "cross-entropy at the largest γ",
                {"run": MINIMA},
                _risk("non-robust"),
                assumes=(ROOM, NOISE_SIZE),
            ),
            Reading(
                "model-free",
                "error under the proof's own Δ at the largest γ",
                {"run": MINIMA},
                _error_to_one(Minima.explicit),
            ),
            Reading(
                "full-ball",
                "exact error over the ball at the largest γ",
                {"run": MINIMA},
                _error_to_one(Minima.full_ball),
            ),
        ),
    ),
    Claim(
        id="AT-P3.2",
        paper="at",
        reference="AT Proposition 3.2",
        statement="The network w_i = γ u_i has vanishing risk and adversarial error o(1) as γ grows.",
        hypotheses=("the choices of B.3: d ≫ 2k, σ_n = 1/√d; for the attacked network α ≫ ε",),
        assumes=(ROOM, NOISE_SIZE, RADIUS_SIZE, STRONGER_THAN_RADIUS),
        readings=(
            Reading(
                "risk",
                "cross-entropy at the largest γ",
                {"run": MINIMA},
                _risk("robust"),
                assumes=(ROOM, NOISE_SIZE),
            ),
            Reading(
                "own-logit",
                "the attack only lowers F_y; exact error at the largest γ, Figure 3's law",
                {"run": MINIMA},
                _own_logit,
            ),
            Reading(
                "own-logit-small-noise",
                "the same at the smallest swept noise: σ_n = 1/√d goes to 0 with d",
                {"run": MINIMA},
                _own_logit_noise,
            ),
            Reading(
                "full-ball",
                "every Δ of the ball, with the perturbation that writes ε u_j on each patch",
                {"run": MINIMA},
                _full_ball,
            ),
        ),
    ),
)
