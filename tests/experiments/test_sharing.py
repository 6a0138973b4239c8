"""Runs that are there are found before anything starts; two commands on one folder share the work."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from featscope.core.locks import Busy, locked
from featscope.core.store import Store
from featscope.experiments import runner
from featscope.experiments.runner import WHOLE, run, run_all
from featscope.experiments.spec import Experiment, Request, Spec

MADE: list[int] = []


class Toy(Spec):
    number: int = 0


def _toy(spec, folder):
    MADE.append(spec.number)
    return {}


TOY = Experiment("toy", "at", "x", Toy, _toy, {"cpu": "10 s"})
REQUESTS = [Request(TOY, Toy(number=number)) for number in range(3)]


class Noted:
    def __init__(self) -> None:
        self.whole: list[tuple[int, int, float, float]] = []

    def report(self, label, step, steps, facts) -> None:
        if label == WHOLE:
            self.whole.append((step, steps, facts["done"], facts["all"]))


@pytest.fixture(autouse=True)
def _forget() -> None:
    MADE.clear()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A pool of threads in the place of processes; how many workers each pool was given."""
    started: list[int] = []

    def pool(jobs, **_):
        started.append(jobs)
        return ThreadPoolExecutor(jobs)

    monkeypatch.setattr(runner, "ProcessPoolExecutor", pool)
    monkeypatch.setattr(runner, "experiment", lambda name: TOY)
    monkeypatch.setattr(runner, "PATIENCE", 0.01)
    return started


def test_nothing_starts_when_all_is_there(tmp_path: Path, threads: list[int]) -> None:
    for request in REQUESTS:
        run(request, Store(tmp_path))
    MADE.clear()
    told, shown = [], Noted()
    run_all(REQUESTS, Store(tmp_path), shown, jobs=4, on_run=told.append)
    assert (MADE, told, threads) == ([], [], [])
    assert shown.whole == [(30, 30, 3, 3)]


def test_only_what_is_missing_is_made_and_told(tmp_path: Path, threads: list[int]) -> None:
    run(REQUESTS[0], Store(tmp_path))
    MADE.clear()
    told, shown = [], Noted()
    run_all(
        REQUESTS,
        Store(tmp_path),
        shown,
        jobs=4,
        on_run=lambda done: told.append(done.identity["spec"]["number"]),
    )
    assert sorted(MADE) == sorted(told) == [1, 2]
    assert threads == [2]
    assert shown.whole[0] == (10, 30, 1, 3)
    assert shown.whole[-1] == (30, 30, 3, 3)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_another_process_is_at_comes_last(jobs: int, tmp_path: Path, threads: list[int]) -> None:
    """The first run is locked by another until the two others are made."""
    store, told, free = Store(tmp_path), [], threading.Event()

    def on_run(done) -> None:
        told.append(done.identity["spec"]["number"])
        if len(told) == 2:
            free.set()

    worker = threading.Thread(target=run_all, args=(REQUESTS, store, None, jobs, on_run))
    with locked(store.place(REQUESTS[0].identity)):
        worker.start()
        assert free.wait(60)
        assert sorted(told) == [1, 2]
    worker.join(60)
    assert told[-1] == 0
    assert sorted(MADE) == [0, 1, 2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_another_process_has_made_is_not_told_as_made_here(
    jobs: int, tmp_path: Path, threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another finishes the first run while this one is at the second."""
    store, told = Store(tmp_path), []
    lock = locked(store.place(REQUESTS[0].identity))
    lock.__enter__()

    def other(done) -> None:
        told.append(done.identity["spec"]["number"])
        if len(told) == 2:
            lock.__exit__(None, None, None)
            run(REQUESTS[0], store)

    run_all(REQUESTS, store, None, jobs, other)
    assert sorted(told) == [1, 2]
    assert sorted(MADE) == [0, 1, 2]


def test_a_run_that_is_not_waited_for_is_busy(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with locked(store.place(REQUESTS[0].identity)), pytest.raises(Busy, match="another process"):
        run(REQUESTS[0], store, wait=False)
