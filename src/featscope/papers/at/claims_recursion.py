"""Claims that the lemmas' recursions are gradient descent: AT-L5.1, LD.4, LD.2, L5.2, LD.16 to LD.18, LD.7,
LD.21."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict, plain
from featscope.claims.judging import at_most, exactly, largest, numbers, reaches, scoped, smallest
from featscope.core.rules import CONSTANT, SAME, SMALL, STILL
from featscope.core.stats import Interval
from featscope.papers.at.patch_columns import Correlated
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.papers.at.patch_recursion import APPROXIMATIONS, BOTH_ROUTES, BothRoutes
from featscope.papers.at.runs import FIG3, RECURSION

NOISELESS = ("noiseless population data", "features orthonormal")


def _gap(arm: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(BOTH_ROUTES, arm=arm)
        steps, seeds = int(numbers(rows[BothRoutes.step]).max()), rows[BothRoutes.seed].n_unique()
        gap = float(numbers(rows[BothRoutes.gap]).max())
        return exactly(gap, SAME, steps=steps, runs=seeds, measured="largest |Δw| over all steps")

    return judge


def _growth(values: np.ndarray) -> float:
    """The largest growth, over time and over the pairs that start above zero, of values (steps, pairs); 0 if
    no pair does, NaN if one is NaN."""
    started = values[0] > 0
    if np.isnan(values).any():
        return math.nan
    return float((values[:, started].max(0) / values[0, started]).max()) if started.any() else 0.0


def _cross_growth(arm: str) -> Judge:
    """For each seed the largest growth, over time and over the pairs (i, j), of max_r C and max_r D; the
    lemma is about every pair."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(BOTH_ROUTES, arm=arm).sort(Correlated.step)
        seeds = [group for _, group in rows.group_by(Correlated.seed, maintain_order=True)]
        of_c, of_d = (
            [_growth(numbers(seed[name])) for seed in seeds] for name in (Correlated.C, Correlated.D)
        )
        by_seed = np.maximum(of_c, of_d)
        # Growth is at least 1; where no pair starts above zero there is nothing to compare with.
        by_seed[by_seed == 0] = np.nan
        found = Interval(largest(by_seed), smallest(by_seed), largest(by_seed))
        return at_most(found, CONSTANT, growth_of_C=plain(of_c), growth_of_D=plain(of_d))

    return judge


def _noisy(judge: Judge) -> Judge:
    """The lemmas of appendix D are about noiseless data; a run with noise is outside of them."""

    def judged(runs: Runs) -> Finding:
        law = PatchFig3.of(runs["run"]).law
        noise = law.sigma_n * law.d**0.5
        return scoped([f"no noise: σ_n√d is {noise:.3g}"] if noise > 0 else [], judge(runs))

    return judged


def _approximation(runs: Runs) -> Finding:
    """Share of recorded steps in the polynomial stage at which Lemma 5.2's step is within a factor CONSTANT
    of the exact one."""
    rows = runs["run"].part(BOTH_ROUTES, arm="adversarial").filter(pl.col(BothRoutes.polynomial) == 1.0)
    inside, total, medians = 0, 0, {}
    for kind, columns in APPROXIMATIONS.items():
        guess, exact = (numbers(rows[column]).ravel() for column in columns)
        # NaN is no standing still: it stays among the steps and is within no factor.
        moving = ~(np.maximum(np.abs(exact), np.abs(guess)) <= STILL)
        with np.errstate(divide="ignore"):
            ratio = guess[moving] / exact[moving]
        inside += int(((ratio >= 1 / CONSTANT) & (ratio <= CONSTANT)).sum())
        total += int(moving.sum())
        medians[kind] = float(np.median(ratio[np.isfinite(ratio)])) if np.isfinite(ratio).any() else None
    if total == 0:
        return Finding(Verdict.VACUOUS, None, None, {"reason": "no step lies in the polynomial stage"})
    note = (
        "the lemma drops the initial directions; with σ0 = 1/√d they have norm 1 "
        "and the ascent step along them switches neurons off"
    )
    return reaches(inside / total, 1 - SMALL, median_ratio=medians, steps=total, note=note)


CLAIMS = (
    *(
        Claim(
            id=name,
            paper="at",
            reference=reference,
            statement=statement,
            hypotheses=NOISELESS,
            assumes=(),
            readings=(
                Reading(
                    "recursion-against-descent",
                    "largest difference over all steps and seeds, float64",
                    {"run": RECURSION},
                    _gap(arm),
                ),
            ),
        )
        for name, reference, statement, arm in (
            (
                "AT-L5.1",
                "AT Lemma 5.1",
                "The diagonal coefficients A and B follow their recursion under standard training.",
                "standard",
            ),
            (
                "AT-LD.4",
                "AT Lemma D.4",
                "A, B, C and D follow their recursion under standard training.",
                "standard",
            ),
            (
                "AT-LD.2",
                "AT Lemma D.2",
                "The weights are their initial part orthogonal to the features plus A, B, C, D along them.",
                "standard",
            ),
            (
                "AT-LD.16",
                "AT Lemma D.16",
                "Under adversarial training the weights are combinations of features and initial directions.",
                "adversarial",
            ),
            (
                "AT-LD.17",
                "AT Lemma D.17",
                "Adversarial patches are combinations of features and initial directions with clipped "
                "coefficients.",
                "adversarial",
            ),
            (
                "AT-LD.18",
                "AT Lemma D.18",
                "A to E follow their recursion under adversarial training with the coefficient clip.",
                "adversarial",
            ),
        )
    ),
    Claim(
        id="AT-L5.2",
        paper="at",
        reference="AT Lemma 5.2 and Lemma D.22",
        statement="In the polynomial stage of adversarial training A and B grow by a closed formula in their "
        "own sums of q-th powers.",
        hypotheses=(*NOISELESS, "all neurons in the polynomial part"),
        assumes=(),
        readings=(
            Reading(
                "within-a-constant",
                "share of steps at which the formula's step is within a factor three of the exact one",
                {"run": RECURSION},
                _approximation,
            ),
        ),
    ),
    Claim(
        id="AT-LD.7",
        paper="at",
        reference="AT Lemma D.7",
        statement="Under standard training off-diagonal correlations stay of the order of their initial "
        "values.",
        hypotheses=NOISELESS,
        assumes=(),
        readings=(
            Reading(
                "noiseless", "largest over time ÷ initial", {"run": RECURSION}, _cross_growth("standard")
            ),
            Reading(
                "with-noise",
                "the same in Figure 3's run",
                {"run": FIG3},
                _noisy(_cross_growth("standard")),
            ),
        ),
    ),
    Claim(
        id="AT-LD.21",
        paper="at",
        reference="AT Lemma D.21",
        statement="Under adversarial training off-diagonal correlations stay of the order of their initial "
        "values.",
        hypotheses=NOISELESS,
        assumes=(),
        readings=(
            Reading(
                "coefficient-clip",
                "largest over time ÷ initial, noiseless, the clip as printed",
                {"run": RECURSION},
                _cross_growth("adversarial"),
            ),
            Reading(
                "patch-clip",
                "the same in Figure 3's run",
                {"run": FIG3},
                _noisy(_cross_growth("adversarial")),
            ),
        ),
    ),
)
