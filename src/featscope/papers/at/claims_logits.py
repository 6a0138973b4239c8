"""Claims about logits and early speeds along the recursions, and about the largest of Gaussians: AT-LB.1,
LD.5, LD.6, LD.8, LD.19, LD.20."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict
from featscope.claims.judging import every, exactly, largest, numbers, reaches, smallest
from featscope.core.rules import CONSTANT, SMALL
from featscope.papers.at.choices import POLYNOMIAL_START
from featscope.papers.at.inside import inside
from featscope.papers.at.patch_scaling import PatchScaling
from featscope.papers.at.runs import SCALING
from featscope.papers.at.scaling_columns import CURVES, MAXIMA, Curves, Maxima

STANDARD, ATTACKED = "standard", "features-only"
#: what the logit lemmas suppose is O(log d): B under standard training, A under the attack, where B = o(1)
LEARNED = {STANDARD: Curves.v, ATTACKED: Curves.u}


def _premised(rows: pl.DataFrame, arm: str) -> pl.DataFrame:
    """The recorded steps at which the lemmas' suppositions are met, with O(f) as at most CONSTANT · f.

    What is not a number is no excuse: its row stays.
    """
    log_d = np.log(numbers(rows[Curves.d]))
    off = CONSTANT * log_d / np.sqrt(numbers(rows[Curves.d]))
    broken = numbers(rows[LEARNED[arm]]).max(-1) > CONSTANT * log_d
    broken |= (numbers(rows[Curves.C_max]) > off) | (numbers(rows[Curves.D_max]) > off)
    if arm == ATTACKED:
        broken |= numbers(rows[Curves.v]).max(-1) > SMALL
    return rows.filter(~broken)


def _times_d_to_c(rows: pl.DataFrame, column: str) -> float:
    """The largest of a logit times d^c, c = F_y ÷ log d, over classes and steps: in logarithms, because both
    may leave the numbers."""
    with np.errstate(divide="ignore", over="ignore"):
        return float(np.exp(np.max(np.log(numbers(rows[column])) + numbers(rows[Curves.F]))))


def _nothing() -> Finding:
    return Finding(Verdict.VACUOUS, None, None, {"note": "no recorded step meets what the lemma supposes"})


def _at_start(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col(Curves.step) == 0)


def _logits(arm: str, parts: Callable[[pl.DataFrame, pl.DataFrame, int], dict[str, Finding]]) -> Judge:
    """What is asked of the steps that the lemmas mean, of the first step, and with k classes."""

    def judge(runs: Runs) -> Finding:
        rows, k = runs["run"].part(CURVES, arm=arm), PatchScaling.of(runs["run"]).law.k
        meant, first = _premised(rows, arm), _at_start(rows)
        if meant.height == 0 or first.height == 0:
            return _nothing()
        return every(parts(meant, first, k), steps=meant.height, of=rows.height)

    return judge


def _diagonal(arm: str) -> Judge:
    """1 − logit_y: at least a third at the start, and at most CONSTANT (k−1)/d^c at every step."""

    def parts(meant: pl.DataFrame, first: pl.DataFrame, k: int) -> dict[str, Finding]:
        return {
            "small": exactly(_times_d_to_c(meant, Curves.residual) / (k - 1), CONSTANT, k_minus_1=k - 1),
            "start": reaches(float(numbers(first[Curves.residual]).min()), 1 / CONSTANT),
        }

    return _logits(arm, parts)


def _others(arm: str) -> Judge:
    """logit_i: within a factor CONSTANT of 1/k at the start, and at most CONSTANT/d^c at every step."""

    def parts(meant: pl.DataFrame, first: pl.DataFrame, k: int) -> dict[str, Finding]:
        return {
            "small": exactly(_times_d_to_c(meant, Curves.other_high), CONSTANT),
            "start low": reaches(float(k * numbers(first[Curves.other_low]).min()), 1 / CONSTANT),
            "start high": exactly(float(k * numbers(first[Curves.other_high]).max()), CONSTANT),
        }

    return _logits(arm, parts)


def _speed(most: float) -> Judge:
    """The speeds of A and B in units of the lemma's formula, within a factor CONSTANT, over the classes and
    steps in the polynomial stage at which F_y is at most ``most``."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(CURVES, arm=STANDARD)
        early = (numbers(rows[Curves.linear]) == 0) & ~(numbers(rows[Curves.F]) > most)
        if not early.any():
            return _nothing()
        low, high = (numbers(rows[c])[early] for c in (Curves.rate_low, Curves.rate_high))
        parts = {"low": reaches(smallest(low), 1 / CONSTANT), "high": exactly(largest(high), CONSTANT)}
        return every(parts, classes_and_steps=int(early.sum()))

    return judge


def _maximum(side: str) -> Judge:
    """The largest log of exact probability ÷ bound over the grid, against 0."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(MAXIMA, side=side)
        over = numbers(rows[Maxima.log_exact]) - numbers(rows[Maxima.log_bound])
        return exactly(
            largest(over), 0.0, cells=rows.height, nearest_cell=rows.to_dicts()[int(over.argmax())]
        )

    return judge


NOISELESS = ("noiseless population data", "what is learned is O(log d), the rest O(log d/√d)")


def _logit_claim(number: str, statement: str, judge: Judge, text: str, *, attacked: bool = False) -> Claim:
    at_figure = Reading("figure-3", f"{text}; Figure 3's law, d from 10² to 10⁹", {"run": SCALING}, judge)
    readings = (at_figure, *inside(judge, text, attacked=attacked))
    return Claim(f"AT-LD.{number}", "at", f"AT Lemma D.{number}", statement, NOISELESS, readings, assumes=())


DIAGONAL = "(1 − logit_y) d^c ÷ (k − 1), c = F_y ÷ log d, where what is supposed is met; ≥ 1/3 at the start"
OFF_DIAGONAL = "logit_i d^c, c = F_y ÷ log d, where what is supposed is met; 1/k at the start"
CLAIMS = (
    Claim(
        id="AT-LB.1",
        paper="at",
        reference="AT Lemma B.1",
        statement="The largest of n Gaussians is near √(2 log 2n), with probabilities on both sides.",
        hypotheses=("independent N(0, 1)",),
        assumes=(),
        readings=tuple(
            Reading(
                side,
                f"largest log of exact probability ÷ bound, n = 1 … 10⁵, {letter} = .1 … 6",
                {"run": SCALING},
                _maximum(side),
            )
            for side, letter in (("above", "t"), ("below", "δ"))
        ),
    ),
    _logit_claim(
        "5",
        "Under standard training 1 − logit_y is of order 1 at first, and O(d^−c) once F_y ≥ c log d.",
        _diagonal(STANDARD),
        DIAGONAL,
    ),
    _logit_claim(
        "6",
        "Under standard training logit_i is of order 1/k at first, and O(d^−c) once F_y ≥ c log d.",
        _others(STANDARD),
        OFF_DIAGONAL,
    ),
    Claim(
        id="AT-LD.8",
        paper="at",
        reference="AT Lemma D.8",
        statement="Early in standard training A and B grow at Θ(η) times their own power and the features' "
        "moment.",
        hypotheses=("noiseless population data", "all neurons in the polynomial part"),
        assumes=(POLYNOMIAL_START,),
        readings=tuple(
            reading
            for name, most, text in (
                ("small outputs", SMALL, "while F_y = o(1)"),
                (
                    "polynomial stage",
                    math.inf,
                    "until a neuron leaves the polynomial part, as Lemma D.9 uses it",
                ),
            )
            for reading in (
                Reading(
                    f"{name} (figure-3)",
                    f"range of the constant, {text}; Figure 3's law",
                    {"run": SCALING},
                    _speed(most),
                ),
                *inside(_speed(most), f"range of the constant, {text}", name),
            )
        ),
    ),
    _logit_claim(
        "19",
        "At adversarial examples 1 − logit_y is of order 1 at first, and O(d^−c) once F_y ≥ c log d.",
        _diagonal(ATTACKED),
        DIAGONAL,
        attacked=True,
    ),
    _logit_claim(
        "20",
        "At adversarial examples logit_i is of order 1/k at first, and O(d^−c) once F_y ≥ c log d.",
        _others(ATTACKED),
        OFF_DIAGONAL,
        attacked=True,
    ),
)
