"""All benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from featscope.bench import clusters, images, patch, probe, signal, start
from featscope.bench.timing import Ratio
from featscope.core.errors import unknown

BENCHES: dict[str, Callable[[], Iterator[Ratio]]] = {
    "patch": patch.measure,
    "clusters": clusters.measure,
    "signal": signal.measure,
    "images": images.images,
    "probe": probe.measure,
    "start": start.measure,
}


def measure(name: str | None = None) -> Iterator[Ratio]:
    """Run one benchmark, or all."""
    if name is not None and name not in BENCHES:
        raise unknown("benchmark", name, BENCHES)
    for key in [name] if name else BENCHES:
        yield from BENCHES[key]()
