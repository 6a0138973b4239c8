"""What the judges of FA share: the runs they need, rows along training, and verified radii."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import polars as pl

from featscope.certificates.fa import verify
from featscope.claims.claim import Claim, Finding, Need, Reading, Verdict
from featscope.claims.judging import at_least, at_most, explained, fitted, numbers, vacuous
from featscope.core.rows import last_rows, mean_rows
from featscope.core.rules import BEND, SETTLED
from featscope.core.stored import Label
from featscope.experiments.run import Run
from featscope.papers.fa.clusters import Course
from featscope.papers.fa.clusters_regimes import ProofNumbers, RegimeSpec
from featscope.papers.fa.clusters_scaling import Swept
from featscope.papers.fa.openings import window_opens

FIG2 = Need("clusters-fig2")
FIG3 = Need("clusters-fig3")
FIG3_SETTINGS = Need("clusters-fig3-settings")
ABLATIONS = Need("clusters-ablations")
SCALING = Need("clusters-scaling")
BUILT = Need("clusters-built")
ROUTES = Need("clusters-routes")
#: the `paper` profile is large unless told otherwise
SMALLER = Need("clusters-assumption", {"large": False})
SMALLER_LITERAL = Need("clusters-assumption", {"large": False, "init": "literal"})
LARGER = Need("clusters-assumption", {"large": True, "dtype": "float32"})
#: as many points and dimensions more as make ε smaller within reach
PLENTY = Need("clusters-assumption", {"large": False, "plenty": True, "dtype": "float32"})
START = Need("clusters-properties", {"compact": True})


def at_start(init: Literal["literal", "lemma"], data: bool = False) -> Need:
    """The properties at the start for Assumption 4.3 at k = 3, with σ_w literal or as the proofs need it."""
    regime = RegimeSpec(init=init)
    t, law = regime.training, regime.law
    sizes = {"k": law.k, "d": law.d, "n": t.n, "m": t.m}
    scales = {"learning_rate": t.learning_rate, "init_weight": t.init_weight, "init_bias": t.init_bias}
    return Need("clusters-properties", {**sizes, **scales, "compact": True, "dtype": "float32", "data": data})


START_LITERAL, START_LEMMA, START_DATA = at_start("literal"), at_start("lemma"), at_start("lemma", data=True)


#: what FA's theorems on training assume, besides the times that each names
ASSUMPTIONS = ("Assumption 3.2", "Assumption 3.3", "Assumption 4.3")
#: the conditions of `ClusterLaw.check` by name: what speaks of the law alone, …
LAW = ("A3.2", "D3.1", "A3.3")
#: … and of the training set
DATA = (*LAW, "A4.3.d", "A4.3.n", "A4.3.n-top")


def stated(
    id_: str,
    reference: str,
    statement: str,
    hypotheses: tuple[str, ...],
    *readings: Reading,
    assumes: tuple[str, ...] | None = None,
) -> Claim:
    """A claim of FA; one without hypotheses assumes nothing."""
    return Claim(id_, "fa", reference, statement, hypotheses, readings, assumes if hypotheses else ())


def proof_numbers(run: Run) -> Mapping[str, float]:
    """What the proofs' bounds are made of."""
    return run.part("proof").row(0, named=True)


def in_window(run: Run, finding: Finding, fine: bool) -> Finding:
    """VACUOUS where the theorems' window for T is empty, with the numbers that the run gives and the k at
    which it opens."""
    proof = proof_numbers(run)
    least = proof[ProofNumbers.least_steps_fine if fine else ProofNumbers.least_steps]
    most, opens = proof[ProofNumbers.most_steps], window_opens(fine)
    if not least > most:
        return finding
    shown = (
        ProofNumbers.k,
        ProofNumbers.averaging_radius,
        ProofNumbers.decoupling_radius,
        ProofNumbers.epsilon,
    )
    why = f"T must be at least {least:.3g} and at most exp(√k) = {most:.3g}: no T is both before k = {opens}"
    return vacuous(why, explained(finding, **{key: proof[key] for key in shown}), k=opens)


def seeds(run: Run) -> list[int]:
    """The run's seeds."""
    return list(run.settings.seeds)


def last(run: Run, net: str) -> pl.DataFrame:
    """The last row of each seed's training of one network."""
    return last_rows(run.part(net)).sort(Course.seed)


def falls(run: Run, sweep: str, key: str) -> Finding:
    """o(1) along a sweep: the interval of the fitted exponent lies below −BEND.

    Flatter curves cannot be told from constants.
    """
    return _fit(run, sweep, key, -BEND, at_most)


def bounded(run: Run, sweep: str, key: str) -> Finding:
    """O(1) along a sweep: the interval of the fitted exponent lies below BEND."""
    return _fit(run, sweep, key, BEND, at_most)


def persists(run: Run, sweep: str, key: str) -> Finding:
    """Ω(1) along a sweep: the interval of the fitted exponent lies above −BEND."""
    return _fit(run, sweep, key, -BEND, at_least)


def along(run: Run, sweep: str) -> pl.DataFrame:
    """One row for each value of a sweep: the means over seeds."""
    return mean_rows(run.part("setting", sweep=sweep), Swept.at)


def _fit(run: Run, sweep: str, key: str, bound: float, judge: Callable[..., Finding]) -> Finding:
    rows, means = run.part("setting", sweep=sweep).sort(Swept.at, Swept.seed), along(run, sweep)
    shown = {
        "exponent_of": f"{key} in {sweep}",
        "values": means[key].to_list(),
        "at": means[Swept.at].to_list(),
    }
    if (numbers(rows[key]) <= 0).any():
        reason, side = f"{key} is not positive along the sweep", "at most" if judge is at_most else "at least"
        return Finding(Verdict.FAILS, None, bound, {"reason": reason, **shown}, side)
    return judge(fitted(rows[Swept.at].to_list(), rows[key].to_list()), bound, **shown)


def recertified(run: Run, part: str, **labels: Label) -> dict[str, float]:
    """Re-verify the certificates of a part and say how many points they settle."""
    names = ("w", "b", "a", "x", "y", "delta", "certificate")
    proof = verify(*(run.tensor(part, name, **labels).double().numpy() for name in names))
    settled = int(proof.settled(SETTLED).sum())
    return {"points": len(proof.lower), "settled": settled, "least_lower": float(proof.lower.min())}
