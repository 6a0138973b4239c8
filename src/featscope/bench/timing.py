"""Interleaved timing: the ratio of two routes to the same result, with an interval over rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Ratio:
    """Time of ``against`` ÷ time of ``name``: the median over rounds with the central 90 % of the rounds."""

    name: str
    against: str
    ratio: float
    low: float
    high: float

    def as_json(self) -> dict[str, Any]:
        """The line that `featscope bench --json` prints."""
        return {key: round(v, 3) if isinstance(v, float) else v for key, v in asdict(self).items()}


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Mean time of ``repeats`` calls."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


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
) -> Ratio:
    """Time both in turn for some rounds after a warm-up; ``work`` is how many calls of ``other`` one of ours replaces."""
    ours()
    other()
    ratios = [seconds(other, other_repeats or repeats) * work / seconds(ours, repeats) for _ in range(rounds)]
    low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
    return Ratio(name, against, float(middle), float(low), float(high))
