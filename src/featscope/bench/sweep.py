"""`featscope bench sweep`: points a second of a sweep over the recursion against a loop over single
`featscope run` calls."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

from featscope.bench.timing import Ratio, printed_time

#: docs/how-to/sweeps.md: 20 × 20 points at d = 10⁶, three seeds
SIDE, SEEDS = 20, 3
AXES = ("law.alpha=1.25:5:{n}:log", "law.patches=3:40:{n}")
FIXED = ("--set", "law.d=1000000", "--seeds", str(SEEDS))
#: single calls that are timed; a loop over all points would take as much longer as there are points
SAMPLE = 5


def _featscope(*arguments: str) -> float:
    """Seconds of a command in a process of its own."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "featscope", *arguments], check=True, capture_output=True)
    return time.perf_counter() - begin


def measure(side: int = SIDE, sample: int = SAMPLE) -> Iterator[Ratio]:
    """The whole sweep once, start-up, storing and judging included, against single calls spread over its
    points."""
    points = side * side
    with tempfile.TemporaryDirectory() as root:
        varied = [part for axis in AXES for part in ("--vary", axis.format(n=side))]
        swept = _featscope("sweep", "patch-race", *varied, *FIXED, "--out", str(Path(root) / "sweep"))
        single = []
        for alpha, patches in zip(np.geomspace(1.25, 5, sample), np.linspace(3, 40, sample), strict=True):
            place = ("--set", f"law.alpha={alpha}", "--set", f"law.patches={round(patches)}")
            single.append(
                _featscope("run", "patch-race", *place, *FIXED, "--out", str(Path(root) / "single"))
            )
    ratios = [points * taken / swept for taken in single]
    note = f"{points} points in {printed_time(swept)}, a single call {printed_time(median(single))}"
    yield Ratio(f"sweep of {points} points", "single runs", median(ratios), min(ratios), max(ratios), note)
