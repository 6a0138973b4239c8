"""Work in forked processes that have the heavy libraries already loaded, a few at a time, each with a limit
of CPU time."""

import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HEAVY = (
    "torch",
    "numpy",
    "scipy",
    "scipy.stats",
    "scipy.optimize",
    "polars",
    "pydantic",
    "hypothesis",
    "typer",
    "safetensors.torch",
)
PAUSE = 0.02


@dataclass(frozen=True)
class Task:
    """A function to run in a process of its own; its return value is the exit code."""

    name: str
    work: Callable[[], int]
    cpu_seconds: float
    wall_seconds: float


@dataclass(frozen=True)
class End:
    """How a task ended."""

    code: int
    signal: int
    timed_out: bool
    seconds: float

    @property
    def said(self) -> str:
        """In words."""
        return (
            "timed out" if self.timed_out else f"signal {self.signal}" if self.signal else f"exit {self.code}"
        )


@dataclass(frozen=True)
class _Running:
    task: Task
    started: float


def load_heavy_libraries() -> None:
    """Pay the imports once, before the first fork; whatever is not installed is not needed."""
    for name in HEAVY:
        try:
            __import__(name)
        except ImportError:
            print(f"not installed, not loaded ahead: {name}", file=sys.stderr)
    gc.freeze()  # the children's garbage collector need not walk through them


def run_all(tasks: list[Task], jobs: int, logs: Path) -> Iterator[tuple[Task, End]]:
    """Each task with its end, in the order in which they end."""
    logs.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the children end too
    waiting = list(reversed(tasks))
    running: dict[int, _Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                task = waiting.pop()
                running[_start(task, logs)] = _Running(task, time.monotonic())
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                ended = running.pop(pid)
                yield ended.task, _end(ended, status)
            else:
                _stop_the_late(running)
                time.sleep(PAUSE)
    finally:
        for pid in running:
            os.killpg(pid, signal.SIGKILL)


def _start(task: Task, logs: Path) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        log = os.open(logs / f"{task.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        limit = int(task.cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        code = task.work()
    except BaseException as error:  # a child never returns into the parent's loop
        print(repr(error), file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end(running: _Running, status: int) -> End:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
    late = number in (signal.SIGXCPU, signal.SIGKILL)
    return End(code, number, late, time.monotonic() - running.started)


def _stop_the_late(running: dict[int, _Running]) -> None:
    """CPU time is limited by the kernel; this is for a child that only waits."""
    for pid, one in running.items():
        if time.monotonic() - one.started > one.task.wall_seconds:
            os.killpg(pid, signal.SIGKILL)
