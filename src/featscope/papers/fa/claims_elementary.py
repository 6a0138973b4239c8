"""FA's statements that need no training, judged from rows: A.8, A.9, A.15, B.6, C.18, and A.12 for n → ∞."""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Need, Runs
from featscope.claims.judging import every, exactly, largest, one_run, reaches, smallest
from featscope.core.rules import SAME
from featscope.papers.fa.clusters import Course
from featscope.papers.fa.clusters_elementary import Activation, Derivative, Softmax, Tail
from featscope.papers.fa.clusters_regimes import FirstSteps
from featscope.papers.fa.runs import SMALLER, stated

ELEMENTARY = Need("clusters-elementary")


def _excess(rows: pl.DataFrame, above: pl.Expr) -> tuple[float, dict[str, float]]:
    """The largest value of an expression, NaN if one is missing, and the row where it is."""
    values = rows.select(above.alias("excess"))["excess"]
    worst = largest(values.to_list())
    place = values.fill_nan(math.inf).arg_max()
    return worst, {} if place is None else rows.drop("part", strict=False).row(place, named=True)


def _tail(*lemmas: str) -> Judge:
    """ln of the exact probability less ln of the bound, at every point of the grid."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("tails").filter(pl.col(Tail.lemma).is_in(lemmas))
        worst, place = _excess(rows, pl.col(Tail.exact) - pl.col(Tail.bound))
        return exactly(worst, SAME, cases=rows.height, worst_at=place)

    return judge


def fails_in_the_limit(runs: Runs) -> Finding:
    """The exact probability of failing less what is allowed, n → ∞, at every k."""
    rows = runs["run"].part("activation")
    worst, place = _excess(rows, pl.col(Activation.fails) - pl.col(Activation.allowed))
    # Polars takes NaN for larger than every number; an unknown probability breaks nothing.
    known = pl.col(Activation.fails).fill_nan(-math.inf)
    broken = rows.filter(known > pl.col(Activation.allowed))[Activation.k]
    why = "the proof takes the least of 2m Gaussians where the statement asks for 2mk: failing stays likely"
    return exactly(worst, 0.0, worst_at=place, breaks_at_k=broken.min(), note=why if broken.len() else "")


def _slopes(runs: Runs) -> Finding:
    """−1 ≤ yℓ' ≤ 0 at every margin."""
    rows = runs["run"].part("derivatives")
    return every(
        {
            "−yℓ' at most 1": exactly(-smallest(rows[Derivative.least_slope]), 1.0),
            "yℓ' at most 0": exactly(largest(rows[Derivative.largest_slope]), 0.0),
        }
    )


def _ratio(condition: pl.Expr) -> Judge:
    """Δ/2 ≤ ln ratio ≤ Δ for pairs of margins that meet a condition."""
    gap = pl.col(Derivative.q_i) - pl.col(Derivative.q_j)

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("derivatives").filter(condition)
        low, where = _excess(rows, gap / 2 - pl.col(Derivative.log_ratio))
        top, _ = _excess(rows, pl.col(Derivative.log_ratio) - gap)
        parts = {"Δ/2 − ln ratio": exactly(low, SAME, worst_at=where), "ln ratio − Δ": exactly(top, SAME)}
        return every(parts, pairs=rows.height)

    return judge


def _margins_met(runs: Runs) -> Finding:
    """The least margin of a training point from t = 1 on: from 0 on, q_i + q_j ≥ 0 for all pairs."""
    run = runs["run"]
    start = run.part("start", net="binary").filter(pl.col(FirstSteps.step) >= 1)
    rows = pl.concat([start, run.part("binary")], how="diagonal_relaxed")
    return reaches(smallest(rows[Course.margin_min]), 0.0, rows=rows.height)


def _softmax(runs: Runs) -> Finding:
    """Both sides of C.18, as logarithms."""
    rows = runs["run"].part("softmax")
    low, where = _excess(rows, pl.col(Softmax.log_low) - pl.col(Softmax.log_ratio))
    top, place = _excess(rows, pl.col(Softmax.log_ratio) - pl.col(Softmax.log_top))
    parts = {
        "from below": exactly(low, SAME, worst_at=where),
        "from above": exactly(top, SAME, worst_at=place),
    }
    return every(parts, pairs=rows.height)


EVERY_PAIR = pl.lit(True)
NOT_NEGATIVE = pl.col(Derivative.q_i) + pl.col(Derivative.q_j) >= 0

CLAIMS: tuple[Claim, ...] = (
    stated(
        "FA-LA.8",
        "Lemma A.8",
        "Pr[|⟨x, ξ⟩| ≥ ‖x‖ ln d] ≤ 2d^(−ln d/2) for Gaussian ξ.",
        (),
        one_run("exact", "the tail itself, d from 2 to 10⁹", ELEMENTARY, _tail("A.8")),
    ),
    stated(
        "FA-LA.9",
        "Lemma A.9",
        "The least and the largest of l Gaussians lie near ∓√(2 ln l).",
        (),
        one_run("least", "the probability itself, l from 1 to 10⁸", ELEMENTARY, _tail("A.9 min")),
        one_run("largest", "the same for the largest, t ≤ 2 ln l", ELEMENTARY, _tail("A.9 max")),
    ),
    stated(
        "FA-LA.15",
        "Lemma A.15",
        "−1 ≤ y_i ℓ_i' ≤ 0 at any time.",
        (),
        one_run("margins", "margins from −30 to 30", ELEMENTARY, _slopes),
    ),
    stated(
        "FA-LB.6",
        "Lemma B.6",
        "For q_i ≥ q_j the ratio of loss derivatives lies between e^(Δ/2) and e^Δ.",
        (),
        one_run("as printed", "any two margins", ELEMENTARY, _ratio(EVERY_PAIR)),
        one_run("q_i + q_j ≥ 0", "the condition that mends it", ELEMENTARY, _ratio(NOT_NEGATIVE)),
        one_run(
            "in training",
            "the condition is met from step 1 on: no margin is negative; Assumption 4.3 at k = 3 (quick: 2)",
            SMALLER,
            _margins_met,
        ),
    ),
    stated(
        "FA-LC.18",
        "Lemma C.18",
        "The k-class ratio of loss derivatives lies between (e^Δ + k − 1)/(k(1 + 2ε)) and e^Δ(1 + 2ε).",
        (),
        one_run("grid", "other outputs 0 or ε, ε to 1.25: e^ε ≤ 1 + 2ε is used", ELEMENTARY, _softmax),
    ),
)
