"""What CGRO's judges share: the runs they read, the rows of each seed, Õ(1), which trained networks are in
scope, and the form of a claim."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from featscope.claims.claim import Claim, Finding, Kind, Need, Reading
from featscope.claims.judging import scoped, soft
from featscope.core.rules import CONSTANT
from featscope.experiments.run import Run
from featscope.papers.cgro.signal_stages import SignalStages
from featscope.papers.cgro.stages_columns import Training

STAGES = {"run": Need("signal-stages")}
SCALING = {"run": Need("signal-scaling")}
LEMMAS_RUN = {"run": Need("signal-lemmas")}
HYPOTHESES = (
    "Parameterization 3.1",
    "attack (A) with the linear target",
    "N ≪ N* (not in the statement; see docs/cgro.md)",
)
#: the conditions of `SignalLaw.check` that the statements name, and what their proof needs besides.
#: The radius
#: against the class distance is told, not assumed: no statement asks for it.
STATED = ("start", "step", "tradeoff", "noise")
PROOF = (*STATED, "samples")


def each_seed(run: Run) -> list[pl.DataFrame]:
    """The training rows of every seed."""
    rows = run.part("training")
    return [rows.filter(pl.col(Training.seed) == seed) for seed in SignalStages.of(run).seeds]


def last_value(frame: pl.DataFrame, key: str) -> float:
    """The last value; NaN where a seed has none, so that a check on it does not hold."""
    last = frame[key][-1] if frame.height else None
    return math.nan if last is None else float(last)


def logarithm(run: Run) -> float:
    """Õ(1) at the run's d."""
    return soft(SignalStages.of(run).law.d)


#: what the claims on real images speak of
TRAINED = (
    f"the network fits the attacked training images: robust training accuracy at least {CONSTANT:g} times "
    "chance",
)


def only_if_fitted(classes: int, robust_train: Sequence[float], finding: Finding) -> Finding:
    """Out of scope if a network did not learn to withstand the attack on its own training images."""
    level = CONSTANT / classes
    if all(reached >= level for reached in robust_train):
        return finding
    return scoped([f"robust training accuracy {min(robust_train):.3f}, needed {level:.3f}"], finding)


def stated(
    id_: str, where: str, text: str, readings: tuple[Reading, ...], hypotheses: tuple[str, ...] = HYPOTHESES
) -> Claim:
    """A claim of this paper; without other hypotheses it speaks of training on the signal law, with none it
    assumes nothing."""
    assumes = PROOF if hypotheses == HYPOTHESES else None if hypotheses else ()
    # Lemma C.11 proves the induction hypothesis.
    kind = Kind.LEMMA if "Hypothesis" in where else None
    return Claim(id_, "cgro", where, text, hypotheses, readings, assumes, kind)
