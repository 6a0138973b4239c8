"""All benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from featscope.bench import (
    clusters,
    grows,
    images,
    patch,
    points,
    probe,
    recording,
    signal,
    start,
    steps,
    sweep,
    training,
)
from featscope.bench.timing import BenchLine
from featscope.core.errors import unknown

BENCHES: dict[str, Callable[[], Iterator[BenchLine]]] = {
    "steps": steps.measure,
    "patch": patch.measure,
    "clusters": clusters.measure,
    "signal": signal.measure,
    "growth": grows.measure,
    "points": points.measure,
    "store": recording.measure,
    "sweep": sweep.measure,
    "images": images.images,
    "training": training.measure,
    "probe": probe.measure,
    "start": start.measure,
}


def measure(name: str | None = None) -> Iterator[BenchLine]:
    """Run one benchmark, or all."""
    if name is not None and name not in BENCHES:
        raise unknown("benchmark", name, BENCHES)
    for key in [name] if name else BENCHES:
        yield from BENCHES[key]()
