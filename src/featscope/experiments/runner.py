"""Runs and what they need: children first, several processes at a time, each run once.

An experiment names the runs that it reads (`Experiment.needs`); the runner makes them before it, hands them
over in the folder, and writes their digests into the manifest. A run that another process is at is waited
for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import torch

from featscope.core.errors import BadInput, FeatscopeError
from featscope.core.files import Damaged
from featscope.core.progress import Progress, Silent
from featscope.core.store import Store
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.spec import Request, written_radii


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


def run(request: Request, store: Store, progress: Progress | None = None, force: bool = False) -> Run:
    """Return the finished run of a request, making it and what it needs if it is not in the store."""
    found = None if force else store.find(request.identity)
    if found is not None:
        return Run(found.path)
    shown = progress or Silent()
    children = {label: run(child, store, shown) for label, child in request.needs().items()}
    with store.write(request.identity, shown, fresh=force) as folder:
        # Another process may have made it while this one waited for its turn.
        if not force and (found := store.find(request.identity)) is not None:
            folder.drop()
            return Run(found.path)
        folder.needed.update(children)
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


def _follow_parent() -> None:
    """End this worker when the command that started it is gone; a pool's worker would wait for ever."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _job(name: str, spec: Any, root: Path) -> Path:
    """Make one run in a worker process with one thread."""
    torch.set_num_threads(1)
    return run(Request(experiment(name), spec), Store(root)).path


def run_all(
    requests: Sequence[Request],
    store: Store,
    progress: Progress | None = None,
    jobs: int = 1,
    on_run: Callable[[Run], None] | None = None,
) -> None:
    """Make the runs of all requests, ``jobs`` at a time; a run that exists is reported too."""
    shown, told = progress or Silent(), on_run or (lambda _: None)
    nodes = ordered(requests, store)
    if jobs <= 1 or len(nodes) <= 1:
        for node in nodes.values():
            told(run(node.request, store, shown))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_follow_parent) as pool:
        try:
            _drain(pool, nodes, store, shown, told)
        except BrokenProcessPool:
            lost = "a worker process was killed, perhaps for want of memory"
            raise FeatscopeError(f"{lost}; repeat the command, with --jobs 1 if it recurs") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _drain(
    pool: ProcessPoolExecutor,
    nodes: dict[str, _Node],
    store: Store,
    progress: Progress,
    on_run: Callable[[Run], None],
) -> None:
    """Submit every request whose children are done, until all are."""
    waiting, done = dict(nodes), set[str]()
    under_way: dict[Future[Path], str] = {}
    while waiting or under_way:
        for key in [key for key, node in waiting.items() if node.waits <= done]:
            request = waiting.pop(key).request
            under_way[pool.submit(_job, request.experiment.name, request.spec, store.root)] = key
        ready, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in ready:
            done.add(under_way.pop(future))
            on_run(Run(future.result()))
            progress.report("runs", len(done), len(nodes), {})
