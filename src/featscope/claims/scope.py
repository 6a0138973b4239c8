"""The one rule on hypotheses, for every paper: a statement read where a hypothesis of it is not met is
OUT_OF_SCOPE, with the verdict that its numbers would get.

What is asked of a setting are the conditions that the runs' law records and the statement assumes
(`Claim.supposed`), and what the judge itself saw unmet in the rows (`Finding.unmet`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import polars as pl

from featscope.claims.claim import Claim, Finding, Reading, Runs, Verdict
from featscope.core.conditions import Condition
from featscope.core.store import CONDITIONS
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run


@dataclass(frozen=True)
class Hypothesis:
    """A condition of a run's law at the settings that a reading reads: the first that misses it, or the
    first, and how many miss it."""

    condition: Condition
    missed: int
    settings: int

    @property
    def met(self) -> bool:
        """Whether every setting meets it."""
        return self.missed == 0

    def __str__(self) -> str:
        c = self.condition
        told = f"{c.text}: {c.value:.4g} against {c.bound:.4g}"
        return (
            told if self.met or self.settings == 1 else f"{told} ({self.missed} of {self.settings} settings)"
        )


def hypotheses(run: Run, reading: Reading) -> list[Hypothesis]:
    """All conditions of the run's law at the settings that the reading reads."""
    rows, names = run.part(CONDITIONS, **reading.at), [field.name for field in fields(Condition)]
    found = []
    for _, same in rows.group_by("text", maintain_order=True) if rows.height else ():
        missed = same.filter(~pl.col("met"))
        shown = (missed if missed.height else same).row(0, named=True)
        condition = Condition(**{name: shown[name] for name in names})
        found.append(Hypothesis(condition, missed.height, same.height))
    return found


def assumed(claim: Claim, reading: Reading, runs: Runs) -> Iterator[tuple[Hypothesis, bool]]:
    """Every condition of the runs' laws, each once, and whether the statement assumes it."""
    names, told = claim.supposed(reading), set[str]()
    for run in runs.values():
        for found in hypotheses(run, reading):
            if str(found) not in told:
                told.add(str(found))
                yield found, names is None or found.condition.name in names


def settled(claim: Claim, reading: Reading, runs: Runs) -> Finding:
    """What the judge finds, INCONCLUSIVE if seeds were lost that its rows do not count, OUT_OF_SCOPE if a
    hypothesis is not met."""
    finding = _without_the_lost(reading.judge(runs), runs)
    law = list(assumed(claim, reading, runs))
    missed = sorted({*finding.unmet, *(str(found) for found, asked in law if asked and not found.met)})
    beside = sorted(str(found) for found, asked in law if not asked and not found.met)
    evidence = {**finding.evidence, **({"unmet_but_not_assumed": beside} if beside else {})}
    return _scoped(missed, replace(finding, evidence=evidence))


def _scoped(missed: Sequence[str], finding: Finding) -> Finding:
    if not missed:
        return finding
    evidence = {**finding.evidence, "unmet": list(missed), "would_be": finding.verdict.value}
    return replace(finding, verdict=Verdict.OUT_OF_SCOPE, evidence=evidence, unmet=tuple(missed))


def _without_the_lost(finding: Finding, runs: Runs) -> Finding:
    """What is left of the seeds may be those that the statement likes."""
    lost = {label: run.diverged for label, run in runs.items() if _left_out(run)}
    if not lost:
        return finding
    told = {"diverged": lost, "verdict_without_them": finding.verdict.value}
    decided = finding.verdict in (Verdict.HOLDS, Verdict.FAILS)
    verdict = Verdict.INCONCLUSIVE if decided else finding.verdict
    return replace(finding, verdict=verdict, evidence={**finding.evidence, **told})


def _left_out(run: Run) -> bool:
    """Whether runs diverged that the rows do not count themselves."""
    return bool(run.diverged) and not experiment(run.experiment).counts_diverged
