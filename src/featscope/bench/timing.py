"""Interleaved timing: the ratio of two routes to the same result, with an interval over rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


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
        return {key: round(v, 3) if isinstance(v, float) else v for key, v in asdict(self).items()}


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
