"""The ledger: every claim, judged from the runs that it needs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import fields
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import polars as pl
import torch

from featscope.core.conditions import Condition, unmet
from featscope.core.errors import BadInput, FeatscopeError, unknown
from featscope.core.store import Progress, Run, Silent, Store, canonical
from featscope.experiments.registry import EXPERIMENTS, experiment
from featscope.experiments.spec import Spec, identity, resolve, run
from featscope.images.datasets import is_there
from featscope.theory import at, cgro, ep, fa
from featscope.theory.claim import Claim, Reading, Verdict

_ALL: tuple[Claim, ...] = (*at.CLAIMS, *fa.CLAIMS, *cgro.CLAIMS, *ep.CLAIMS)
CLAIMS: dict[str, Claim] = {claim.id: claim for claim in _ALL}
PAPERS = ("at", "fa", "cgro", "ep")

Entry = dict[str, Any]


def data_of(claim: Claim) -> list[str]:
    """The data sets that the claim's experiments need; a need that overrides the data set needs that one too."""
    needs = [need for reading in claim.readings for need in reading.needs.values()]
    fixed = {name for need in needs for name in experiment(need.experiment).needs_data}
    return sorted(fixed | {need.overrides["dataset"] for need in needs if "dataset" in need.overrides})


def lacks(claim: Claim) -> list[str]:
    """Those of them that have not been fetched."""
    return [name for name in data_of(claim) if not is_there(name)]


def select(ids: Sequence[str], paper: str | None, images: bool = False) -> list[Claim]:
    """Return the claims of these ids, of one paper if named; without ids, all on synthetic data, and with ``images`` also those whose data is there."""
    if paper is not None and paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    for name in ids:
        if name not in CLAIMS:
            raise unknown("claim", name, CLAIMS)
    chosen = [CLAIMS[name] for name in ids] if ids else [c for c in CLAIMS.values() if not data_of(c) or (images and not lacks(c))]
    chosen = [claim for claim in chosen if paper is None or claim.paper == paper]
    if not chosen:
        raise BadInput("no claim is left", f"claims={list(ids)}, paper={paper}", "name claims of that paper")
    return chosen


def unmet_conditions(run: Run) -> list[str]:
    """Conditions that the run's law does not meet, with numbers, where the run recorded its law's check as part `law`."""
    names = [field.name for field in fields(Condition)]
    if not set(names) <= set(run.rows.columns):
        return []
    rows = run.rows.filter(pl.col("part") == "law").select(names).to_dicts()
    return unmet([Condition(**row) for row in rows])


def counts_diverged(run: Run) -> bool:
    """Whether the run's rows themselves count what diverged."""
    return run.experiment in EXPERIMENTS and EXPERIMENTS[run.experiment].counts_diverged


def entry(claim: Claim, reading: Reading, runs: dict[str, Run]) -> Entry:
    """Judge one reading and return its line of the ledger."""
    finding = reading.judge(runs)
    missed = sorted({text for r in runs.values() for text in unmet_conditions(r)} | set(finding.evidence.get("unmet", [])))
    evidence = {**finding.evidence, **({"unmet": missed} if missed else {}), "runs": {label: r.path.name for label, r in runs.items()}}
    verdict, lost = finding.verdict, {label: r.diverged for label, r in runs.items() if r.diverged and not counts_diverged(r)}
    if lost:
        # What is left of the seeds may be those that the statement likes.
        evidence |= {"diverged": lost, "verdict_without_them": verdict.value}
        verdict = Verdict.INCONCLUSIVE if verdict in (Verdict.HOLDS, Verdict.FAILS) else verdict
    return {
        "id": claim.id,
        "paper": claim.paper,
        "reference": claim.reference,
        "statement": claim.statement,
        "reading": reading.name,
        "reads": reading.text,
        "verdict": verdict.value,
        "value": finding.value,
        "bound": finding.bound,
        "evidence": evidence,
    }


def needed(claims: Sequence[Claim], profile: str) -> dict[str, tuple[str, Spec]]:
    """The distinct runs that the claims read: identity → experiment and spec, in the order of the claims."""
    plans: dict[str, tuple[str, Spec]] = {}
    for claim in claims:
        for reading in claim.readings:
            for need in reading.needs.values():
                plan = experiment(need.experiment)
                spec = resolve(plan, profile, need.overrides)
                plans.setdefault(canonical(identity(plan, spec)), (plan.name, spec))
    return plans


def _follow_parent() -> None:
    """End this worker when the command that started it is gone; a pool's worker would wait for ever."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _job(name: str, spec: Spec, root: Path) -> Path:
    """Run one experiment in a worker process with one thread."""
    torch.set_num_threads(1)
    return run(experiment(name), spec, Store(root)).path


def make_runs(plans: Sequence[tuple[str, Spec]], store: Store, progress: Progress, jobs: int, on_run: Callable[[Run], None]) -> None:
    """Make the runs that are not in the store, ``jobs`` at a time; a run that exists is reported too."""
    if jobs <= 1 or len(plans) <= 1:
        for name, spec in plans:
            on_run(run(experiment(name), spec, store, progress))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_follow_parent) as pool:
        try:
            waiting = [pool.submit(_job, name, spec, store.root) for name, spec in plans]
            for done, future in enumerate(as_completed(waiting), start=1):
                on_run(Run(future.result()))
                progress.report("runs", done, len(plans), {})
        except BrokenProcessPool:
            raise FeatscopeError(
                "a worker process was killed, perhaps for want of memory; repeat the command, with --jobs 1 if it recurs"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def check(
    claims: Sequence[Claim],
    profile: str,
    store: Store,
    progress: Progress | None = None,
    on_run: Callable[[Run], None] | None = None,
    jobs: int = 1,
) -> Iterator[Entry]:
    """Run what the claims need and is not in the store, and yield the ledger line by line."""
    plans = needed(claims, profile)
    make_runs(list(plans.values()), store, progress or Silent(), jobs, on_run or (lambda _: None))
    for claim in claims:
        for reading in claim.readings:
            runs = {}
            for label, need in reading.needs.items():
                plan = experiment(need.experiment)
                runs[label] = run(plan, resolve(plan, profile, need.overrides), store)
            yield entry(claim, reading, runs)
