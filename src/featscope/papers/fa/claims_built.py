"""FA's statements about networks built by hand (Proposition 4.8, appendix D), judged from rows."""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.claim import Claim, Finding, Runs, Verdict
from featscope.claims.judging import at_most, counted, exactly, largest, one_run, smallest
from featscope.core.rules import SMALL
from featscope.papers.fa.clusters_built import BiasedRow, BuiltRow, BuiltSpec, FragileRow
from featscope.papers.fa.runs import BUILT, recertified, stated


def _averaging_clean(runs: Runs) -> Finding:
    """The clean error on fresh points, with Wilson's interval, is at most SMALL."""
    run = runs["run"]
    clean = run.part("built", net="averaging")[BuiltRow.clean].item()
    return at_most(counted(1 - clean, BuiltSpec.of(run).test_points), SMALL, clean=clean)


def _biased_fragile(runs: Runs) -> Finding:
    """The largest robust accuracy at 2(1+c)√(d/k) among biases with clean accuracy ≥ 1 − SMALL."""
    run = runs["run"]
    rows, spec = run.part("biased"), BuiltSpec.of(run)
    # A network whose accuracy is unknown may classify well; polars takes NaN for larger than every number.
    good = rows.filter(pl.col(BiasedRow.clean) >= 1 - SMALL)
    if not good.height:
        return Finding(
            Verdict.INCONCLUSIVE,
            None,
            SMALL,
            {"reason": "no biases of the grid classify well", "nets": 0},
            "at most",
        )
    unit = math.sqrt(spec.law.d / spec.law.k)
    shown = {
        "nets": good.height,
        "largest_radius": largest(good[BiasedRow.max]) / unit,
        "proof": recertified(run, "built", net="averaging"),
        "explicit": run.part("explicit").drop("part").row(0, named=True),
    }
    return at_most(counted(largest(good[BiasedRow.robust_far]), spec.test_points), SMALL, **shown)


def _decoupled(runs: Runs) -> Finding:
    """Robust accuracy of θ_dec at √d/3, exact; both classes' radii beside √d/2 and √(d/2)."""
    run = runs["run"]
    row, spec = run.part("built", net="decoupled").row(0, named=True), BuiltSpec.of(run)
    shown = {
        key: row[key] / math.sqrt(spec.law.d)
        for key in (BuiltRow.min, BuiltRow.median_plus, BuiltRow.median_minus)
    }
    proof = recertified(run, "built", net="decoupled")
    wrong = counted(1 - row[BuiltRow.robust_third], spec.test_points)
    return at_most(wrong, SMALL, in_units_of_root_d=shown, proof=proof)


def _fragile(runs: Runs) -> Finding:
    """Right answers of Proposition 4.8's network after the proof's perturbation, if it was right before."""
    run = runs["run"]
    row = run.part("fragile").drop("part").row(0, named=True)
    clean = smallest([row[FragileRow.clean], row[FragileRow.fine_clean]])
    if not clean >= 1 - SMALL:
        return Finding(Verdict.FAILS, 1 - clean, SMALL, row, "at most")
    return at_most(counted(row[FragileRow.right_after_explicit], BuiltSpec.of(run).test_points), SMALL, **row)


def _fragile_loss(runs: Runs) -> Finding:
    """The cross-entropy of the built network is at most SMALL."""
    return exactly(runs["run"].part("fragile")[FragileRow.loss].item(), SMALL)


CLAIMS: tuple[Claim, ...] = (
    stated(
        "FA-P4.8",
        "Proposition 4.8",
        "A multi-class network with perfect clean accuracy need not be robust at Ω(√(d/k)).",
        ("Assumption 3.2",),
        one_run("built", "the network and perturbation of the proof", BUILT, _fragile),
    ),
    stated(
        "FA-TD.4",
        "Theorem D.4",
        "The restatement of Proposition 4.8 with its loss exp(−Ω(d)).",
        ("Assumption 3.2",),
        one_run("loss", "cross-entropy of the built network", BUILT, _fragile_loss),
    ),
    stated(
        "FA-TD.1",
        "Theorem D.1",
        "θ_avg has biases (0, 0) with clean accuracy 1 − o(1).",
        ("Assumption 3.2",),
        one_run("built", "fresh points of §6.1's law", BUILT, _averaging_clean),
    ),
    stated(
        "FA-TD.2",
        "Theorem D.2",
        "θ_avg with any biases that classify well has no robust accuracy at Ω(√(d/k)).",
        ("Assumption 3.2",),
        one_run("built", "a grid of biases, exact radii at 2(1+c)√(d/k)", BUILT, _biased_fragile),
    ),
    stated(
        "FA-TD.3",
        "Theorem D.3",
        "θ_dec is √d/3-robust.",
        ("Assumption 3.2",),
        one_run("built", "exact radii of fresh points", BUILT, _decoupled),
    ),
)
