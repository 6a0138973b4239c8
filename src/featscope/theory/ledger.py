"""The ledger: every claim, judged from the runs that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from featscope.core.errors import BadInput, unknown
from featscope.core.store import Progress, Run, Store
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve, run
from featscope.theory import at
from featscope.theory.claim import Claim, Reading

_ALL: tuple[Claim, ...] = (*at.CLAIMS,)
CLAIMS: dict[str, Claim] = {claim.id: claim for claim in _ALL}
PAPERS = ("at", "fa", "cgro", "ep")

Entry = dict[str, Any]


def select(ids: Sequence[str], paper: str | None) -> list[Claim]:
    """Return the claims of these ids (all if none are given), of one paper if named."""
    if paper is not None and paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    for name in ids:
        if name not in CLAIMS:
            raise unknown("claim", name, CLAIMS)
    chosen = [CLAIMS[name] for name in ids] if ids else list(CLAIMS.values())
    chosen = [claim for claim in chosen if paper is None or claim.paper == paper]
    if not chosen:
        raise BadInput("no claim is left", f"claims={list(ids)}, paper={paper}", "name claims of that paper")
    return chosen


def entry(claim: Claim, reading: Reading, runs: dict[str, Run]) -> Entry:
    """Judge one reading and return its line of the ledger."""
    finding = reading.judge(runs)
    evidence = {**finding.evidence, "runs": {label: r.path.name for label, r in runs.items()}}
    return {
        "id": claim.id,
        "paper": claim.paper,
        "reference": claim.reference,
        "statement": claim.statement,
        "reading": reading.name,
        "reads": reading.text,
        "verdict": finding.verdict.value,
        "value": finding.value,
        "bound": finding.bound,
        "evidence": evidence,
    }


def check(
    claims: Sequence[Claim],
    profile: str,
    store: Store,
    progress: Progress | None = None,
    on_run: Callable[[Run], None] | None = None,
) -> Iterator[Entry]:
    """Run what the claims need and is not in the store, and yield the ledger line by line."""
    seen: set[str] = set()
    for claim in claims:
        for reading in claim.readings:
            runs: dict[str, Run] = {}
            for label, need in reading.needs.items():
                plan = experiment(need.experiment)
                runs[label] = run(plan, resolve(plan, profile, need.overrides), store, progress)
                if on_run is not None and str(runs[label].path) not in seen:
                    seen.add(str(runs[label].path))
                    on_run(runs[label])
            yield entry(claim, reading, runs)
