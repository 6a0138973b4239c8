"""The pictures of the pages: which figure of which experiment each is, drawn from finished runs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from featscope.core.store import Store
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.spec import request
from featscope.report.figures import drawings

#: file below docs/figures → experiment and the name of its figure, at the cpu profile
PICTURES = {
    "at-figure-3.png": ("patch-fig3", "figure-3"),
    "at-batches.png": ("patch-batches", "batches"),
    "at-radii.png": ("patch-fig3", "radii"),
    "at-scaling.png": ("patch-scaling", "scaling"),
    "at-figure-4.png": ("image-features", "features"),
    "at-reconstructions.png": ("image-features", "reconstructions"),
    "at-inversion.png": ("image-inversion", "cells"),
    "fa-figure-2.png": ("clusters-fig2", "fig2"),
    "fa-figure-3.png": ("clusters-fig3", "fig3"),
    "fa-scaling.png": ("clusters-scaling", "scaling"),
    "cgro-stages.png": ("signal-stages", "stages"),
    "cgro-robustness.png": ("signal-stages", "robustness"),
    "cgro-sweeps.png": ("signal-scaling", "sweeps"),
    "cgro-built.png": ("built-cgro", "counts"),
    "cgro-landscape.png": ("image-landscape", "landscape"),
    "cgro-flatness.png": ("image-landscape", "flatness"),
    "cgro-landscape-cifar10.png": ("image-landscape-cifar10", "landscape"),
    "cgro-flatness-cifar10.png": ("image-landscape-cifar10", "flatness"),
    "ep-packing.png": ("packing", "packing"),
}


def _save(png: bytes, path: Path) -> None:
    """Keep a picture in 128 colours: charts need no more, and the repository stays light."""
    Image.open(io.BytesIO(png)).convert("RGB").quantize(128).save(path, optimize=True)


def draw(runs: Path, folder: Path) -> Iterator[str]:
    """Draw every picture whose run is below ``runs`` and say what became of each."""
    for name, (asked, figure) in PICTURES.items():
        found = Store(runs).find(request(experiment(asked), "cpu").identity)
        if found is None:
            yield f"{name}: no finished run of {asked} at the cpu profile; left as it is"
            continue
        _save(drawings(asked)[figure](Run(found.path)).png(), folder / name)
        yield f"{name}: drawn from {found.path.name}"
