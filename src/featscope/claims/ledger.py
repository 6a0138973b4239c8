"""The ledger: every claim, judged from the runs that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from featscope.claims.claim import Claim, Reading, Runs
from featscope.claims.registry import claim as claim_of
from featscope.claims.registry import claims as all_claims
from featscope.claims.registry import rules_history
from featscope.claims.scope import assumed, settled
from featscope.core.errors import BadInput, known_as, unknown
from featscope.core.progress import Progress
from featscope.core.store import Store
from featscope.experiments.keys import full_key, knows, leaves
from featscope.experiments.registry import experiment, rooms
from featscope.experiments.run import Run
from featscope.experiments.runner import run, run_all
from featscope.experiments.shipped import adopt
from featscope.experiments.spec import Request, request
from featscope.images.data_folder import is_there

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One reading of one claim with its verdict, the number that decided it, the bound it was held to and
    from which side, the interval over seeds, the hypotheses with their numbers, and the evidence."""

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
    kind: str = ""
    direction: str = ""
    low: float | None = None
    high: float | None = None
    profile: str = ""
    hypotheses: Sequence[str] = ()
    unmet: Sequence[str] = ()
    would_be: str | None = None
    settings: Settings = field(default_factory=dict)
    experiments: Sequence[str] = ()
    rules_history: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The line as a JSON object."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}


def data_of(claim: Claim, profile: str) -> list[str]:
    """The data sets that the runs of the claim's readings need in a profile."""
    needs = [need for reading in claim.readings for need in reading.needs.values()]
    return sorted(
        {name for need in needs for name in experiment(need.experiment).needs_data(profile, need.overrides)}
    )


def lacks(claim: Claim, profile: str) -> list[str]:
    """Those of them that have not been fetched."""
    return [name for name in data_of(claim, profile) if not is_there(name)]


def select(ids: Sequence[str], paper: str | None, profile: str, images: bool = False) -> list[Claim]:
    """The claims of these ids, of one paper if named; without ids, all on synthetic data, and with ``images``
    also those whose data is there."""
    if paper is not None:
        paper = known_as("paper", paper, rooms())
    usual = (
        c for c in all_claims().values() if not data_of(c, profile) or (images and not lacks(c, profile))
    )
    # A claim named twice, in capitals or not, is judged once.
    named = {found.id: found for found in map(claim_of, ids)}
    chosen = list(named.values()) if ids else list(usual)
    chosen = [claim for claim in chosen if paper is None or claim.paper == paper]
    if not chosen:
        raise BadInput("no claim is left", f"claims={list(ids)}, paper={paper}", "name claims of that paper")
    return chosen


def requests(reading: Reading, profile: str, settings: Settings | None = None) -> dict[str, Request]:
    """The runs that a reading needs, by its own labels; ``settings`` change those experiments that have
    them."""
    found = {}
    for label, need in reading.needs.items():
        plan = experiment(need.experiment)
        changes = {key: value for key, value in (settings or {}).items() if knows(plan.spec, key)}
        found[label] = request(plan, profile, {**need.overrides, **changes})
    return found


def inapplicable(reading: Reading, settings: Settings) -> str | None:
    """Why a reading cannot be judged at other settings: it fixes one of them itself, or has it in none of its
    experiments."""
    for key in settings:
        having = [need for need in reading.needs.values() if knows(experiment(need.experiment).spec, key)]
        if not having:
            return f"{_names(reading)} has no setting {key}"
        for need in having:
            model = experiment(need.experiment).spec
            if full_key(model, key) in {full_key(model, fixed) for fixed in need.overrides}:
                return f"it fixes {key} itself"
    return None


def _names(reading: Reading) -> str:
    return " and ".join(sorted({need.experiment for need in reading.needs.values()}))


def concerned(
    claims: Sequence[Claim], settings: Settings
) -> tuple[list[tuple[Claim, Reading]], dict[str, str]]:
    """The readings that can be judged at these settings, and why the others cannot; refused if none can."""
    pairs = [(claim, reading) for claim in claims for reading in claim.readings]
    reasons = {(c.id, r.name): inapplicable(r, settings) for c, r in pairs}
    fit = [(c, r) for c, r in pairs if reasons[c.id, r.name] is None]
    left = {f"{id_} {name}": why for (id_, name), why in reasons.items() if why is not None}
    if not fit:
        _refuse(pairs, settings, next(iter(left.values())))
    return fit, left


def _refuse(pairs: Sequence[tuple[Claim, Reading]], settings: Settings, why: str) -> None:
    """No reading can be judged so: a mistyped key names the nearest of the experiments' own."""
    plans = {need.experiment: experiment(need.experiment) for _, r in pairs for need in r.needs.values()}
    keys = {key for plan in plans.values() for key in leaves(plan.spec)}
    for key in settings:
        if not any(knows(plan.spec, key) for plan in plans.values()):
            raise unknown(f"setting of {', '.join(plans)}", key, keys)
    raise BadInput("no reading can be judged at these settings", why, "change another setting")


def judge(
    claim: Claim, reading: Reading, runs: Runs, profile: str = "", settings: Settings | None = None
) -> Line:
    """Judge one reading and return its line of the ledger."""
    finding = settled(claim, reading, runs)
    would_be = finding.evidence.get("would_be") if finding.verdict in ("OUT_OF_SCOPE", "VACUOUS") else None
    return Line(
        claim.id,
        claim.paper,
        claim.reference,
        claim.statement,
        reading.name,
        reading.text,
        finding.verdict.value,
        finding.value,
        finding.bound,
        {**finding.evidence, "runs": {label: r.path.name for label, r in runs.items()}},
        kind=claim.kind.value,
        direction=finding.direction,
        low=finding.low,
        high=finding.high,
        profile=profile,
        hypotheses=[str(found) for found, asked in assumed(claim, reading, runs) if asked],
        unmet=list(finding.unmet),
        would_be=would_be,
        settings=dict(settings or {}),
        experiments=sorted({need.experiment for need in reading.needs.values()}),
        rules_history=rules_history(claim),
    )


def check(
    claims: Sequence[Claim],
    profile: str,
    store: Store,
    progress: Progress | None = None,
    on_run: Callable[[Run], None] | None = None,
    jobs: int = 1,
    settings: Settings | None = None,
) -> Iterator[Line]:
    """Run what the claims need and is not in the store, and yield the ledger line by line; with ``settings``
    those readings that can be judged there."""
    pairs, _ = concerned(claims, settings or {})
    readings = [(claim, reading, requests(reading, profile, settings)) for claim, reading in pairs]
    wanted = [one for _, _, needs in readings for one in needs.values()]
    adopt(wanted, store)
    run_all(wanted, store, progress, jobs, on_run)
    for claim, reading, needs in readings:
        runs = {label: run(one, store) for label, one in needs.items()}
        yield judge(claim, reading, runs, profile, settings)


def found_runs(reading: Reading, profile: str, store: Store) -> Runs | None:
    """The runs of a reading if all are there; nothing is run."""
    runs = {label: store.find(wanted.identity) for label, wanted in requests(reading, profile).items()}
    there = {label: Run(stored.path) for label, stored in runs.items() if stored is not None}
    return there if len(there) == len(runs) else None
