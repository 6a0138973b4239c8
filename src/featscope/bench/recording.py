"""`featscope bench store`: what looking, recording and storing add to steps, and what reading a run takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

from featscope.bench.grows import signal_recursion
from featscope.bench.timing import Ratio, compare, printed_time, seconds, threads
from featscope.core.progress import Silent
from featscope.core.store import Part, Store
from featscope.core.stored import StoredRun
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import Components, Kernel, Objective, recursion_step
from featscope.dynamics.trajectory import seed_labels, trajectory
from featscope.laws.signal import SignalLaw, stack

STEPS, EVERY, SEEDS, N = 1000, 10, 3, 50


def _case() -> tuple[Kernel, SignalLaw]:
    law = SignalLaw()
    starts = [
        law.instance(N, 10, 1 / 32, stream(seed, "data", "train"), stream(seed, "init"))
        for seed in range(SEEDS)
    ]
    return Kernel.of(stack(starts)), law


def _observe(state: Components, t: int) -> Mapping[str, Tensor | float]:
    flat = state.v.flatten(1)
    return {"u": state.u.amax(-1), "v": flat.amax(-1), "memorised": (flat > 1).sum(-1)}


def measure() -> Iterator[Ratio]:
    """1000 steps of a recursion, cheap as steps are, with a row of three numbers every ten."""
    kernel, law = _case()
    step, labels = recursion_step(kernel, Objective.of(law, N, 0.1, 0.9)), seed_labels(range(SEEDS))

    def bare() -> Components:
        state = kernel.start(N)
        for t in range(STEPS):
            state = step(state, t)
        return state

    def recorded(keep: Part | None = None) -> None:
        trajectory(step, kernel.start(N), STEPS, _observe, EVERY, runs=labels, keep=keep)

    with threads(1), tempfile.TemporaryDirectory() as root:
        home = Path(root)

        def kept() -> None:
            folder = home / str(time.perf_counter_ns())
            folder.mkdir()
            recorded(Part(folder, "training"))

        timed = partial(compare, rounds=5, repeats=1, clock=time.process_time)
        yield timed("1000 steps, recorded", recorded, "the steps alone", bare)
        yield timed("1000 steps, recorded and kept", kept, "the steps alone", bare)
        yield _stored(Store(home))


def _stored(store: Store) -> Ratio:
    """A finished run of 1000 rows, written and read."""
    rows = [{"step": t, "seed": 0, "u": 0.1 * t, "v": 0.2 * t} for t in range(1000)]
    identity = {"experiment": "bench", "revision": 1, "profile": "cpu", "spec": {}}

    def write() -> StoredRun:
        with store.write(identity, Silent(), fresh=True) as folder:
            folder.add("training", rows)
            return folder.finish({"u": 1.0}, {"seeds": [0]})

    done = write()
    steps = signal_recursion(n=N, seeds=SEEDS)
    clock = time.process_time
    found = compare(
        "a run of 1000 rows, written", write, "100 steps of a recursion", steps, repeats=1, clock=clock
    )
    taken = [printed_time(seconds(call, 3, clock)) for call in (write, lambda: StoredRun(done.path).rows)]
    return replace(found, note=f"written in {taken[0]}, read in {taken[1]}")
