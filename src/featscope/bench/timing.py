"""Interleaved timing: the ratio of two routes to the same result, with an interval over rounds; and how a
cost grows with a size."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: rounds of resampling behind the interval of an exponent
RESAMPLED = 500


@dataclass(frozen=True)
class Ratio:
    """Time of ``against`` ÷ time of ``name``: the median over rounds with the central 90 % of the rounds;
    ``note`` says what both gave."""

    name: str
    against: str
    ratio: float
    low: float
    high: float
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """The line that `featscope bench --json` prints."""
        return _rounded(asdict(self))


@dataclass(frozen=True)
class FittedGrowth:
    """Time ∝ size^exponent, fitted to the medians over rounds, with the central 90 % of fits to resampled
    rounds; ``note`` gives the times."""

    name: str
    grows_with: str
    exponent: float
    low: float
    high: float
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """The line that `featscope bench --json` prints."""
        return _rounded(asdict(self))


BenchLine = Ratio | FittedGrowth


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {key: round(v, 3) if isinstance(v, float) else v for key, v in values.items()}


Clock = Callable[[], float]


def seconds(call: Callable[[], Any], repeats: int, clock: Clock = time.perf_counter) -> float:
    """Mean time of ``repeats`` calls."""
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def compare(
    name: str,
    ours: Callable[[], Any],
    against: str,
    other: Callable[[], Any],
    *,
    rounds: int = 9,
    repeats: int = 10,
    other_repeats: int | None = None,
    work: float = 1.0,
    clock: Clock = time.perf_counter,
    check: Callable[[Any, Any], str] = lambda mine, theirs: "",
) -> Ratio:
    """Time both in turn for some rounds after a warm-up, whose results ``check`` sees; ``work`` is how many
    calls of ``other`` one of ours replaces."""
    note = check(ours(), other())
    ratios = [
        seconds(other, other_repeats or repeats, clock) * work / seconds(ours, repeats, clock)
        for _ in range(rounds)
    ]
    low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
    return Ratio(name, against, float(middle), float(low), float(high), note)


def growth(
    name: str,
    grows_with: str,
    calls: Mapping[int, Callable[[], Any]],
    *,
    rounds: int = 5,
    repeats: int = 3,
    clock: Clock = time.process_time,
) -> FittedGrowth:
    """Time the calls of all sizes in turn, and fit the exponent of their medians."""
    for call in calls.values():
        call()
    taken = np.array([[seconds(call, repeats, clock) for call in calls.values()] for _ in range(rounds)])
    sizes = np.log(np.array(list(calls), dtype=float))

    def fitted(rows: NDArray[np.float64]) -> float:
        return float(np.polyfit(sizes, np.log(np.maximum(np.median(rows, 0), 1e-9)), 1)[0])

    rng = np.random.default_rng(0)
    fits = [fitted(taken[rng.integers(0, rounds, rounds)]) for _ in range(RESAMPLED)]
    low, high = np.quantile(fits, [0.05, 0.95])
    times = zip(calls, np.median(taken, 0), strict=True)
    note = ", ".join(f"{size:g}: {printed_time(float(t))}" for size, t in times)
    return FittedGrowth(name, grows_with, fitted(taken), float(low), float(high), note)


def printed_time(taken: float) -> str:
    """Seconds in the unit that reads well."""
    unit, size = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3)) if taken >= s), ("µs", 1e-6))
    digits = max(0, 2 - int(math.log10(max(taken / size, 1.0))))
    return f"{taken / size:.{digits}f} {unit}"


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads of torch, and as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def machine() -> dict[str, Any]:
    """Where it was measured, and how busy the machine was."""
    import torch

    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if hasattr(os, "getloadavg"):
        found["load"] = round(os.getloadavg()[0], 1)
    return found


def _processor() -> str:
    """The name of the processor, where the system tells."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
