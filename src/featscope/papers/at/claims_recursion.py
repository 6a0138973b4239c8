"""Claims that the lemmas' recursions are gradient descent: AT-L5.1, LD.4, LD.2, L5.2, LD.16 to LD.18, LD.7,
LD.21."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict, plain
from featscope.claims.judging import at_most, exactly, largest, numbers, reaches, scoped, smallest
from featscope.core.columns import Column
from featscope.core.rules import CONSTANT, SAME, SMALL, STILL
from featscope.core.stats import Interval
from featscope.papers.at.patch_columns import Correlated
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.papers.at.patch_recursion import APPROXIMATIONS, BOTH_ROUTES, BothRoutes
from featscope.papers.at.runs import FULL_BATCH, LONG_STEPS, RECURSION

NOISELESS = ("noiseless population data", "features orthonormal")


def _equal(arm: str, column: Column) -> Judge:
    """The largest of a difference over all steps and seeds, against rounding."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(BOTH_ROUTES, arm=arm)
        steps, seeds = int(numbers(rows[BothRoutes.step]).max()), rows[BothRoutes.seed].n_unique()
        gaps = numbers(rows[column])
        first = numbers(rows[BothRoutes.step])[gaps > SAME]
        return exactly(
            float(gaps.max()),
            SAME,
            steps=steps,
            runs=seeds,
            measured=column.meaning,
            first_recorded_step_apart=int(first.min()) if first.size else None,
        )

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


def _approximation(arm: str) -> Judge:
    """Share of recorded steps in the polynomial stage at which Lemma 5.2's step is within a factor CONSTANT
    of the exact one."""

    def judge(runs: Runs) -> Finding:
        return _share_within(
            runs["run"].part(BOTH_ROUTES, arm=arm).filter(pl.col(BothRoutes.polynomial) == 1.0)
        )

    return judge


def _share_within(rows: pl.DataFrame) -> Finding:
    if rows.height == 0:
        return Finding(Verdict.VACUOUS, None, None, {"reason": "no step lies in the polynomial stage"})
    inside, total, medians = 0, 0, {}
    steps, beyond = numbers(rows[BothRoutes.step]), list[float]()
    for kind, columns in APPROXIMATIONS.items():
        guess, exact = (numbers(rows[column]) for column in columns)
        # NaN is no standing still: it stays among the steps and is within no factor.
        moving = ~(np.maximum(np.abs(exact), np.abs(guess)) <= STILL)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = guess / exact
        within = (ratio >= 1 / CONSTANT) & (ratio <= CONSTANT)
        inside += int((within & moving).sum())
        total += int(moving.sum())
        beyond += steps[(~within & moving).any(-1)].tolist()
        told = ratio[moving & np.isfinite(ratio)]
        medians[kind] = float(np.median(told)) if told.size else None
    if total == 0:
        return Finding(Verdict.VACUOUS, None, None, {"reason": "nothing moves in the polynomial stage"})
    shown = {"median_ratio": medians, "steps": total, "inside": inside}
    ends = [min(beyond), max(beyond)] if beyond else None
    return reaches(inside / total, 1 - SMALL, **shown, recorded_steps_outside=ends)


#: the descents that adversarial recursions are held against, each with its arm
DESCENTS = (
    ("lemma-clip", "descent with Lemma D.17's own clip", "adversarial"),
    ("patch-clip", "descent as in §2.5, patch clip", "patch"),
    ("coordinate-clip", "descent as in §2.5, coordinate clip", "coordinate"),
)


def _identity(
    name: str, reference: str, statement: str, column: Column, arms: Iterable[tuple[str, str, str]]
) -> Claim:
    """A lemma that says what descent does exactly, held against descent."""
    readings = (
        Reading(reading, f"{column.meaning}; {text}", {"run": RECURSION}, _equal(arm, column))
        for reading, text, arm in arms
    )
    return Claim(name, "at", reference, statement, NOISELESS, tuple(readings), assumes=())


STANDARD_DESCENT = (("descent", "standard training, float64", "standard"),)
CLAIMS = (
    _identity(
        "AT-L5.1",
        "AT Lemma 5.1",
        "The diagonal coefficients A and B follow their recursion under standard training.",
        BothRoutes.gap_diagonal,
        STANDARD_DESCENT,
    ),
    _identity(
        "AT-LD.4",
        "AT Lemma D.4",
        "The off-diagonal coefficients C and D follow their recursion under standard training.",
        BothRoutes.gap_off,
        STANDARD_DESCENT,
    ),
    _identity(
        "AT-LD.2",
        "AT Lemma D.2",
        "The weights are their initial part orthogonal to the features plus A, B, C, D along them.",
        BothRoutes.outside,
        STANDARD_DESCENT,
    ),
    _identity(
        "AT-LD.16",
        "AT Lemma D.16",
        "Under adversarial training the weights are combinations of features and initial directions.",
        BothRoutes.outside,
        DESCENTS,
    ),
    _identity(
        "AT-LD.17",
        "AT Lemma D.17",
        "Adversarial patches are combinations of features and initial directions with clipped coefficients.",
        BothRoutes.gap_x,
        DESCENTS,
    ),
    _identity(
        "AT-LD.18",
        "AT Lemma D.18",
        "A to E follow their recursion under adversarial training.",
        BothRoutes.gap,
        DESCENTS,
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
                "as-printed",
                "share of steps at which the formula's step is within a factor three of the exact one; Lemma "
                "D.17's clip as printed",
                {"run": RECURSION},
                _approximation("adversarial"),
            ),
            Reading(
                "features-only",
                "the same where the clip acts on feature coefficients only and the initial directions are "
                "left alone",
                {"run": RECURSION},
                _approximation("features-only"),
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
                "the same on Figure 3's noisy points; η = 0.1, full batch",
                {"run": FULL_BATCH},
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
                "the same on Figure 3's noisy points; η = 1, full batch, patch clip",
                {"run": LONG_STEPS},
                _noisy(_cross_growth("adversarial")),
            ),
        ),
    ),
)
