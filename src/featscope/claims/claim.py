"""Claims and verdicts.

A claim is a statement of a paper with one or more readings. A reading names the runs it needs and a pure function that judges their
rows. The rules that turn "≫", "o(1)" or "O(f(d))" into an inequality about a finite run are those of core/rules.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from featscope.core.rules import BEND, CONSTANT, MUCH, SAME, SMALL
from featscope.core.stats import NOTHING, Interval, exponent
from featscope.experiments.run import Run

__all__ = [
    "BEND",
    "CONSTANT",
    "MUCH",
    "SAME",
    "SMALL",
    "Claim",
    "Finding",
    "Judge",
    "Need",
    "Reading",
    "Runs",
    "Verdict",
    "at_least",
    "at_most",
    "exactly",
    "exponent_at_most",
    "fitted",
    "out_of_scope",
    "plain",
    "vacuous",
]


class Verdict(StrEnum):
    """What a check can say."""

    HOLDS = "HOLDS"
    FAILS = "FAILS"
    OUT_OF_SCOPE = "OUT_OF_SCOPE"
    VACUOUS = "VACUOUS"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Finding:
    """A verdict with its value, the bound it was held to, and the evidence."""

    verdict: Verdict
    value: float | None
    bound: float | None
    evidence: Mapping[str, Any] = field(default_factory=dict)


Runs = Mapping[str, Run]
Judge = Callable[[Runs], Finding]


@dataclass(frozen=True)
class Need:
    """An experiment with overrides whose run a reading reads."""

    experiment: str
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """One way to read a statement, with what it needs and how it is judged."""

    name: str
    text: str
    needs: Mapping[str, Need]
    judge: Judge


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, in our words."""

    id: str
    paper: str
    reference: str
    statement: str
    hypotheses: tuple[str, ...]
    readings: tuple[Reading, ...]


def at_most(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is ≤ bound, FAILS if it is all above, INCONCLUSIVE if it straddles or is no interval."""
    if any(math.isnan(number) for number in estimate):
        verdict = Verdict.INCONCLUSIVE
    elif estimate.high <= bound:
        verdict = Verdict.HOLDS
    elif estimate.low > bound:
        verdict = Verdict.FAILS
    else:
        verdict = Verdict.INCONCLUSIVE
    ends = [plain(estimate.low), plain(estimate.high)]
    return Finding(verdict, plain(estimate.value), plain(bound), {"interval": ends, **evidence})


def at_least(estimate: Interval, bound: float, **evidence: Any) -> Finding:
    """HOLDS if the whole interval is ≥ bound, FAILS if it is all below, INCONCLUSIVE if it straddles."""
    mirrored = at_most(Interval(-estimate.value, -estimate.high, -estimate.low), -bound)
    ends = [plain(estimate.low), plain(estimate.high)]
    return Finding(mirrored.verdict, plain(estimate.value), plain(bound), {"interval": ends, **evidence})


def exactly(value: float, bound: float, **evidence: Any) -> Finding:
    """HOLDS if a number that carries no sampling error is ≤ bound, FAILS otherwise (NaN fails)."""
    verdict = Verdict.HOLDS if value <= bound else Verdict.FAILS
    return Finding(verdict, plain(value), plain(bound), evidence)


def fitted(x: Sequence[float | None], y: Sequence[float | None]) -> Interval:
    """The exponent of y in x; no interval where a number is missing, not positive or not finite, or there are fewer than three sizes."""
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None and 0 < a < math.inf and 0 < b < math.inf]
    if len(pairs) < len(x) or len({a for a, _ in pairs}) < 3:
        return NOTHING
    return exponent([a for a, _ in pairs], [b for _, b in pairs])


def exponent_at_most(x: Sequence[float], y: Sequence[float], bound: float, **evidence: Any) -> Finding:
    """Judge y = O(x^bound): the fitted exponent's interval against bound + BEND."""
    fit = fitted(x, y)
    return at_most(fit, bound + BEND, exponent=plain(fit.value), predicted=bound, allowance=BEND, **evidence)


def out_of_scope(unmet: Sequence[str], finding: Finding) -> Finding:
    """Keep the numbers, but say that hypotheses are not met and which."""
    evidence = {**finding.evidence, "unmet": list(unmet), "would_be": finding.verdict.value}
    return Finding(Verdict.OUT_OF_SCOPE, finding.value, finding.bound, evidence)


def vacuous(why: str, finding: Finding) -> Finding:
    """Keep the numbers, but say why the statement's own constants make it empty here."""
    evidence = {**finding.evidence, "vacuous": why, "would_be": finding.verdict.value}
    return Finding(Verdict.VACUOUS, finding.value, finding.bound, evidence)


def plain(value: float) -> float | None:
    """A number as evidence, which is JSON and has no NaN and no infinity."""
    return value if math.isfinite(value) else None
