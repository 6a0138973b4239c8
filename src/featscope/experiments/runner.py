"""Runs and what they need: children first, several processes at a time, each run once.

An experiment names the runs that it reads (`Experiment.needs`); the runner makes them before it, hands them
over in the folder, and writes their digests into the manifest. Nothing is started before it is known what is
finished already. A run that another process is at is left to it while there is other work: two commands on
one folder share what is to be done.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import torch

from featscope.core.errors import BadInput, FeatscopeError
from featscope.core.files import Damaged
from featscope.core.locks import Busy
from featscope.core.progress import Progress, Silent
from featscope.core.store import Folder, Store
from featscope.experiments.carry import take_over
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.spec import Request, cost, written_radii


@dataclass(frozen=True)
class _Node:
    """A request and the keys of the requests that it waits for."""

    request: Request
    waits: frozenset[str]


def ordered(requests: Iterable[Request], store: Store | None = None) -> dict[str, _Node]:
    """All distinct requests by their key, with everything they need, children before parents; what a run that
    is in the store once needed is not asked for again."""
    found: dict[str, _Node] = {}

    def add(request: Request, above: tuple[str, ...]) -> str:
        key = request.key
        if key in above:
            raise BadInput("experiments need each other", request.experiment.name, "mend their `needs`")
        if key not in found:
            there = store is not None and store.find(request.identity) is not None
            needs = {} if there else request.needs()
            found[key] = _Node(request, frozenset(add(child, (*above, key)) for child in needs.values()))
        return key

    for request in requests:
        add(request, ())
    return found


def run(
    request: Request,
    store: Store,
    progress: Progress | None = None,
    force: bool = False,
    wait: bool = True,
) -> Run:
    """Return the finished run of a request, making it and what it needs if it is not in the store; a run that
    another process is at is waited for, or is :class:`Busy`."""
    return _found_or_made(request, store, progress or Silent(), force, wait)[0]


def _found_or_made(
    request: Request, store: Store, progress: Progress, force: bool = False, wait: bool = True
) -> tuple[Run, bool]:
    """The finished run, and whether it was made now."""
    found = None if force else store.find(request.identity)
    if found is not None:
        return Run(found.path), False
    children = {label: run(child, store, progress, wait=wait) for label, child in request.needs().items()}
    with store.write(request.identity, progress, fresh=force, wait=wait) as folder:
        # Another process may have made it while this one waited for its turn.
        if not force and (found := store.find(request.identity)) is not None:
            folder.drop()
            return Run(found.path), False
        folder.needed.update(children)
        if not force:
            take_over(request, store, folder)
        return _make(request, folder, children), True


def _make(request: Request, folder: Folder, children: Mapping[str, Run]) -> Run:
    facts = {
        "seeds": list(request.spec.seeds),
        "radii": written_radii(request.identity["spec"]),
        "needs": {label: child.path.name for label, child in children.items()},
    }
    try:
        done = folder.finish(request.experiment.run(request.spec, folder), facts)
    except Damaged as error:
        if str(folder.partial) not in str(error):
            raise
        # A part that was finished before, and that nobody reads again, is damaged.
        folder.begin_again()
        done = folder.finish(request.experiment.run(request.spec, folder), facts)
    return Run(done.path)


def follow_parent() -> None:
    """End this worker when the command that started it is gone; a pool's worker would wait for ever."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _job(name: str, spec: Any, root: Path) -> tuple[Path, bool] | None:
    """Make one run in a worker process with one thread, as :func:`_found_or_made`; None if another process is
    at it."""
    torch.set_num_threads(1)
    try:
        done, made = _found_or_made(Request(experiment(name), spec), Store(root), Silent(), wait=False)
    except Busy:
        return None
    return done.path, made


#: the label under which the progress of all runs together is reported, in expected seconds
WHOLE = "runs"
#: seconds between two looks at runs that another process is at
PATIENCE = 1.0


def _seconds(request: Request) -> float:
    """What a run is expected to take: the time of the `cpu` profile, scaled by the size of its settings."""
    plan = request.experiment
    return cost(plan, "cpu", request.spec).seconds or plan.measured("cpu") or 60.0


@dataclass
class _Work:
    """What is to be done: the runs that wait, those that another process is at, and those that are done."""

    nodes: dict[str, _Node]
    store: Store
    progress: Progress
    on_run: Callable[[Run], None]
    waiting: dict[str, _Node] = field(init=False)
    done: set[str] = field(init=False)
    #: runs that were made here, and that nobody has been told of
    untold: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        there = {key for key, node in self.nodes.items() if self.store.find(node.request.identity)}
        self.done = there
        # Longest first: what is begun last must not keep one worker while the others are idle.
        left = [item for item in self.nodes.items() if item[0] not in there]
        self.waiting = dict(sorted(left, key=lambda item: -_seconds(item[1].request)))
        self._report()

    @property
    def ready(self) -> list[str]:
        """The runs that can be made now."""
        return [key for key, node in self.waiting.items() if node.waits <= self.done]

    def left_to_another(self, key: str) -> None:
        """Put a run to the end of the queue."""
        self.waiting[key] = self.waiting.pop(key, self.nodes[key])

    def finished(self, key: str, made: Run | None = None) -> None:
        """Count a run; it is told of, if it was made here, when the next are under way."""
        self.waiting.pop(key, None)
        self.done.add(key)
        if made is not None:
            self.untold.append(made)
        self._report()

    def tell(self) -> None:
        """Tell of what was made: who listens may take seconds over it, to draw a figure."""
        while self.untold:
            self.on_run(self.untold.pop(0))

    def collect(self) -> None:
        """Count what another process has finished meanwhile."""
        for key in self.ready:
            if self.store.find(self.nodes[key].request.identity):
                self.finished(key)

    def _report(self) -> None:
        expected = {key: node.request.experiment.measured("cpu") or 60.0 for key, node in self.nodes.items()}
        steps = [sum(expected[key] for key in keys) for keys in (self.done, self.nodes)]
        counts = {"done": float(len(self.done)), "all": float(len(self.nodes))}
        self.progress.report(WHOLE, round(steps[0]), round(steps[1]), counts)


def run_all(
    requests: Sequence[Request],
    store: Store,
    progress: Progress | None = None,
    jobs: int = 1,
    on_run: Callable[[Run], None] | None = None,
) -> None:
    """Make the runs of all requests that are not in the store, ``jobs`` at a time; ``on_run`` is told of
    those that were made."""
    work = _Work(ordered(requests, store), store, progress or Silent(), on_run or (lambda _: None))
    jobs = min(jobs, len(work.waiting))
    if jobs <= 1:
        _one_by_one(work)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=follow_parent) as pool:
        try:
            _drain(pool, jobs, work)
        except BrokenProcessPool:
            lost = "a worker process was killed, perhaps for want of memory"
            raise FeatscopeError(f"{lost}; repeat the command, with --jobs 1 if it recurs") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_by_one(work: _Work) -> None:
    """Make every run in this process; what another is at comes last."""
    refused = set[str]()
    while work.waiting:
        key = work.ready[0]
        request = work.nodes[key].request
        try:
            done, made = _found_or_made(request, work.store, work.progress, wait=key in refused)
        except Busy:
            refused.add(key)
            work.left_to_another(key)
        else:
            work.finished(key, done if made else None)
            work.tell()


def _drain(pool: ProcessPoolExecutor, jobs: int, work: _Work) -> None:
    """Keep the workers busy with requests whose children are done, until all are."""
    under_way: dict[Future[tuple[Path, bool] | None], str] = {}
    while work.waiting or under_way:
        work.collect()
        for key in work.ready[: jobs - len(under_way)]:
            request = work.waiting.pop(key).request
            job = pool.submit(_job, request.experiment.name, request.spec, work.store.root)
            under_way[job] = key
        work.tell()
        done, _ = wait_for(under_way, return_when=FIRST_COMPLETED)
        refused = [key for job in done if _settle(work, under_way.pop(job), job.result())]
        if len(refused) == len(done):
            time.sleep(PATIENCE)
    work.tell()


def _settle(work: _Work, key: str, found: tuple[Path, bool] | None) -> bool:
    """Count a job that ended; whether another process was at its run."""
    if found is None:
        work.left_to_another(key)
        return True
    path, made = found
    work.finished(key, Run(path) if made else None)
    return False
