"""The ledger: every claim, judged from the runs that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from featscope.claims.claim import Claim, Reading, Verdict
from featscope.claims.judging import unmet_conditions
from featscope.claims.registry import claim as claim_of
from featscope.claims.registry import claims as all_claims
from featscope.core.errors import BadInput, unknown
from featscope.core.progress import Progress
from featscope.core.store import Store
from featscope.experiments.registry import experiment, rooms
from featscope.experiments.run import Run
from featscope.experiments.runner import run, run_all
from featscope.experiments.spec import Request, request
from featscope.images.data_folder import is_there


@dataclass(frozen=True)
class Line:
    """One reading of one claim with its verdict, the number that decided it, the bound it was held to, and
    the evidence."""

    id: str
    paper: str
    reference: str
    statement: str
    reading: str
    reads: str
    verdict: str
    value: float | None
    bound: float | None
    evidence: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The line as a JSON object."""
        return asdict(self)


def data_of(claim: Claim) -> list[str]:
    """The data sets that the claim's experiments need; a need that overrides the data set needs that one
    too."""
    needs = [need for reading in claim.readings for need in reading.needs.values()]
    fixed = {name for need in needs for name in experiment(need.experiment).needs_data}
    return sorted(fixed | {need.overrides["dataset"] for need in needs if "dataset" in need.overrides})


def lacks(claim: Claim) -> list[str]:
    """Those of them that have not been fetched."""
    return [name for name in data_of(claim) if not is_there(name)]


def select(ids: Sequence[str], paper: str | None, images: bool = False) -> list[Claim]:
    """The claims of these ids, of one paper if named; without ids, all on synthetic data, and with ``images``
    also those whose data is there."""
    if paper is not None and paper not in rooms():
        raise unknown("paper", paper, rooms())
    usual = (c for c in all_claims().values() if not data_of(c) or (images and not lacks(c)))
    chosen = [claim_of(name) for name in ids] if ids else list(usual)
    chosen = [claim for claim in chosen if paper is None or claim.paper == paper]
    if not chosen:
        raise BadInput("no claim is left", f"claims={list(ids)}, paper={paper}", "name claims of that paper")
    return chosen


def requests(reading: Reading, profile: str) -> dict[str, Request]:
    """The runs that a reading needs, by its own labels."""
    return {
        label: request(experiment(need.experiment), profile, need.overrides)
        for label, need in reading.needs.items()
    }


def judge(claim: Claim, reading: Reading, runs: Mapping[str, Run]) -> Line:
    """Judge one reading and return its line of the ledger."""
    finding = reading.judge(runs)
    missed = sorted(
        {text for r in runs.values() for text in unmet_conditions(r)} | set(finding.evidence.get("unmet", []))
    )
    evidence = {
        **finding.evidence,
        **({"unmet": missed} if missed else {}),
        "runs": {label: r.path.name for label, r in runs.items()},
    }
    verdict, lost = finding.verdict, {label: r.diverged for label, r in runs.items() if _left_out(r)}
    if lost:
        # What is left of the seeds may be those that the statement likes.
        evidence |= {"diverged": lost, "verdict_without_them": verdict.value}
        verdict = Verdict.INCONCLUSIVE if verdict in (Verdict.HOLDS, Verdict.FAILS) else verdict
    stated = (claim.id, claim.paper, claim.reference, claim.statement, reading.name, reading.text)
    return Line(*stated, verdict.value, finding.value, finding.bound, evidence)


def _left_out(run: Run) -> bool:
    """Whether runs diverged that the rows do not count themselves."""
    return bool(run.diverged) and not experiment(run.experiment).counts_diverged


def check(
    claims: Sequence[Claim],
    profile: str,
    store: Store,
    progress: Progress | None = None,
    on_run: Callable[[Run], None] | None = None,
    jobs: int = 1,
) -> Iterator[Line]:
    """Run what the claims need and is not in the store, and yield the ledger line by line."""
    readings = [
        (claim, reading, requests(reading, profile)) for claim in claims for reading in claim.readings
    ]
    run_all([wanted for _, _, needs in readings for wanted in needs.values()], store, progress, jobs, on_run)
    for claim, reading, needs in readings:
        yield judge(claim, reading, {label: run(wanted, store) for label, wanted in needs.items()})
