"""Who does the work: processes of this machine, Ray, or SLURM through submitit.

An engine maps jobs to their rows, in any order. None keeps anything: runs are in the store, which all workers
must see, and what is lost with a worker is done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from featscope.core.errors import BadInput, FeatscopeError, known_as, require
from featscope.core.store import Rows
from featscope.experiments.runner import follow_parent
from featscope.sweeps.points import Job, work

#: how often the work of a lost worker is done again
RETRIES = 3
Done = tuple[Job, list[Rows]]


class Engine(Protocol):
    """Something that does jobs."""

    def map(self, jobs: Sequence[Job]) -> Iterator[Done]:
        """Every job with the rows of its points, as they are done."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


def workers_here() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class Local:
    """Processes of this machine, one thread each, as many as there are cores; they stay until ``close``."""

    workers: int = 0
    _pool: ProcessPoolExecutor | None = None

    def map(self, jobs: Sequence[Job]) -> Iterator[Done]:
        """One job stays in this process; a pool whose worker was killed is made again."""
        count = self.workers or workers_here()
        if min(count, len(jobs)) <= 1:
            for job in jobs:
                yield job, work(job)
            return
        left = list(jobs)
        for _ in range(1 + RETRIES):
            try:
                for done in self._pooled(left, count):
                    left.remove(done[0])
                    yield done
                return
            except BrokenProcessPool:
                self.close()
        raise FeatscopeError(
            "worker processes are killed again and again, perhaps for want of memory; repeat with --workers 1"
        )

    def _pooled(self, jobs: Sequence[Job], count: int) -> Iterator[Done]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                count, mp_context=get_context("spawn"), initializer=follow_parent
            )
        under_way: dict[Future[list[Rows]], Job] = {self._pool.submit(work, job): job for job in jobs}
        while under_way:
            done, _ = wait_for(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield under_way.pop(future), future.result()

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


@dataclass
class Ray:
    """A Ray cluster: that at ``address``, or one of this machine."""

    address: str | None = None
    workers: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    _mine: bool = False

    def map(self, jobs: Sequence[Job]) -> Iterator[Done]:
        """At most two jobs for each worker are with Ray at a time; it does a lost worker's job again."""
        ray = _imported("ray", "ray")
        self._begin(ray)
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(work)
        most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        left, under_way = list(jobs), dict[Any, Job]()
        while left or under_way:
            while left and len(under_way) < most:
                job = left.pop(0)
                under_way[remote.remote(job)] = job
            done, _ = ray.wait(list(under_way), num_returns=1)
            for future in done:
                yield under_way.pop(future), ray.get(future)

    def _begin(self, ray: Any) -> None:
        """Join the cluster, or start one with as many workers as there are cores."""
        if ray.is_initialized():
            return
        here = (
            {} if self.address else {"num_cpus": self.workers or workers_here(), "include_dashboard": False}
        )
        ray.init(address=self.address, log_to_driver=False, **here, **self.options)
        self._mine = True

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._mine:
            _imported("ray", "ray").shutdown()
            self._mine = False


@dataclass(frozen=True)
class Slurm:
    """SLURM job arrays by submitit; ``cluster`` "local" runs submitit's own local jobs. ``options`` are
    submitit's, such as slurm_partition and timeout_min."""

    folder: Path
    cluster: str | None = None
    workers: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def map(self, jobs: Sequence[Job]) -> Iterator[Done]:
        """One array of jobs; SLURM requeues what was preempted or timed out."""
        submitit = _imported("submitit", "slurm")
        executor = submitit.AutoExecutor(folder=self.folder / "slurm", cluster=self.cluster)
        usual: dict[str, Any] = {"name": "featscope", "cpus_per_task": 1, "timeout_min": 60}
        if executor.cluster == "slurm":
            usual["slurm_array_parallelism"] = self.workers or 256
        executor.update_parameters(**{**usual, **self.options})
        made = executor.map_array(work, jobs)
        left = dict(zip(made, jobs, strict=True))
        for submitted in submitit.helpers.as_completed(list(left)):
            yield left[submitted], _result(submitted)

    def close(self) -> None:
        """Jobs end by themselves."""


def _result(submitted: Any) -> list[Rows]:
    try:
        found: list[Rows] = submitted.result()
    except Exception as error:
        said = " ".join(str(error).split())[-300:]
        raise FeatscopeError(
            f"job {submitted.job_id} did not end: {said}; the same command goes on from what is finished"
        ) from None
    return found


def _imported(module: str, extra: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError:
        remedy = f"pip install 'featscope[{extra}]', or use --engine local"
        raise BadInput(f"this engine needs the package {module}", "it is not installed", remedy) from None


ENGINES = ("local", "ray", "slurm")


def engine(
    name: str,
    folder: Path,
    workers: int = 0,
    address: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Engine:
    """The engine of that name; ``folder`` is where SLURM's logs go."""
    chosen, given = known_as("engine", name, ENGINES), dict(options or {})
    require(address is None or chosen == "ray", "only Ray has an address", f"--address {address}", "leave it")
    make: Mapping[str, Callable[[], Engine]] = {
        "local": lambda: Local(workers),
        "ray": lambda: Ray(address, workers, given),
        "slurm": lambda: Slurm(folder, given.pop("cluster", None), workers, given),
    }
    require(chosen != "local" or not given, "the local engine has no options", f"{given}", "leave them away")
    return make[chosen]()
