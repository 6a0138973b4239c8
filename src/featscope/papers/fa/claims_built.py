"""FA's statements about networks built by hand (Proposition 4.8, appendix D), judged from rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Need, Reading, Runs, Verdict
from featscope.claims.judging import (
    at_most,
    counted,
    exactly,
    largest,
    one_run,
    smallest,
    steepest,
    trivially_met,
)
from featscope.core.rules import BEND, SMALL
from featscope.experiments.run import Run
from featscope.laws.clusters import ClusterLaw
from featscope.papers.fa.clusters_built import BiasedRow, BuiltRow, BuiltSpec, FragilePoint, FragileRow
from featscope.papers.fa.openings import radius_opens, trivial_radius
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
    found = at_most(counted(largest(good[BiasedRow.robust_far]), spec.test_points), SMALL, **shown)
    return _with_content(spec.law, 2 * (1 + spec.law.balance), found)


def _with_content(law: ClusterLaw, factor: float, found: Finding) -> Finding:
    """VACUOUS where factor · √(d/k) is a radius that every classifier fails at."""
    radius, trivial, opens = factor * math.sqrt(law.d / law.k), trivial_radius(law.d), radius_opens(factor)
    why = (
        f"the radius {radius:.1f} exceeds half the distance of two centres, {trivial:.1f}, where no "
        f"classifier is robust; it does not from k = {opens} on"
    )
    return trivially_met(found, radius >= trivial, why, k=opens)


def _biased_largest(run: Run) -> float:
    """The largest exact radius ÷ √(d/k) among biases that classify well; NaN if none does."""
    law, rows = BuiltSpec.of(run).law, run.part("biased")
    good = rows.filter(pl.col(BiasedRow.clean) >= 1 - SMALL)
    return largest(good[BiasedRow.max]) / math.sqrt(law.d / law.k)


def _fragile_largest(run: Run) -> float:
    """The largest radius ÷ √(d/k) that PGD, or the proof's direction, needs against Proposition 4.8's
    network."""
    law, rows = BuiltSpec.of(run).law, run.part("fragile_points")
    pairs = rows.select(FragilePoint.attacked, FragilePoint.along).iter_rows()
    return largest(smallest(pair) for pair in pairs) / math.sqrt(law.d / law.k)


def _measured(radius: Callable[[Run], float]) -> Judge:
    """O(1) from k to k: the largest radius ÷ √(d/k) does not grow, its slope in ln k is at most BEND."""

    def judge(runs: Runs) -> Finding:
        found = {float(BuiltSpec.of(run).law.k): radius(run) for run in runs.values()}
        value = steepest(list(found), list(found.values()))
        return exactly(value, BEND, over_root_dk={f"k = {k:g}": r for k, r in found.items()}, allowance=BEND)

    return judge


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
    spec = BuiltSpec.of(run)
    found = at_most(counted(row[FragileRow.right_after_explicit], spec.test_points), SMALL, **row)
    return _with_content(spec.law, 3 * (1 + spec.law.balance), found)


def _fragile_loss(runs: Runs) -> Finding:
    """The cross-entropy of the built network is at most SMALL."""
    return exactly(runs["run"].part("fragile")[FragileRow.loss].item(), SMALL)


#: beyond the k from which on both statements say something
MANY = Need("clusters-built", {"k": 80, "d": 20_000, "test_points": 100})
HALF_AS_MANY = Need("clusters-built", {"k": 40, "d": 20_000, "test_points": 100})
MEASURED = "the largest radius ÷ √(d/k) at d = 20 000 from k = 40 to k = 80: no growth"

CLAIMS: tuple[Claim, ...] = (
    stated(
        "FA-P4.8",
        "Proposition 4.8",
        "A multi-class network with perfect clean accuracy need not be robust at Ω(√(d/k)).",
        ("Assumption 3.2",),
        one_run("built", "the network and perturbation of the proof, §6.1's law", BUILT, _fragile),
        one_run("many clusters", "the same at k = 80, d = 20 000, beyond k = 72", MANY, _fragile),
        Reading("measured", MEASURED, {"few": HALF_AS_MANY, "many": MANY}, _measured(_fragile_largest)),
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
        one_run("built", "a grid of biases, exact radii at 2(1+c)√(d/k), §6.1's law", BUILT, _biased_fragile),
        one_run("many clusters", "the same at k = 80, d = 20 000, beyond k = 32", MANY, _biased_fragile),
        Reading("measured", MEASURED, {"few": HALF_AS_MANY, "many": MANY}, _measured(_biased_largest)),
    ),
    stated(
        "FA-TD.3",
        "Theorem D.3",
        "θ_dec is √d/3-robust.",
        ("Assumption 3.2",),
        one_run("built", "exact radii of fresh points", BUILT, _decoupled),
    ),
)
