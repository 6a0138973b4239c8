"""The certificates that a run folder holds, read from its files alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from featscope.certificates.arrays import REMEDY
from featscope.certificates.certificate import Certificate, read_arrays
from featscope.core.errors import BadInput

TENSORS = "tensors.safetensors"


@dataclass(frozen=True)
class Files:
    """A run's files: spec, rows and arrays."""

    folder: Path

    @cached_property
    def spec(self) -> dict[str, Any]:
        """`experiment` and its resolved `spec`."""
        path = self.folder / "spec.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise BadInput("a run says what it is in its spec.json", str(path), REMEDY) from None
        if not isinstance(found, dict) or not isinstance(found.get("spec"), dict):
            raise BadInput("not what a run writes", str(path), REMEDY)
        return found

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, named `part[labels]/name`."""
        return read_arrays(self.folder / TENSORS)[0]

    @cached_property
    def rows(self) -> pl.DataFrame:
        """All rows."""
        path = self.folder / "rows.parquet"
        try:
            return pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError):
            raise BadInput("a run's rows cannot be read", str(path), REMEDY) from None

    def setting(self, key: str) -> Any:
        """A setting by its dotted key; None where there is none."""
        value: Any = self.spec["spec"]
        for level in key.split("."):
            value = value.get(level) if isinstance(value, Mapping) else None
        return value

    def found(self, **equal: Any) -> list[dict[str, Any]]:
        """The rows with these values."""
        rows = self.rows
        for key, value in equal.items():
            rows = rows.filter(pl.col(key) == value) if key in rows.columns else rows.clear()
        return rows.to_dicts()

    def groups(self, part: str) -> Iterator[tuple[str, dict[str, str], dict[str, np.ndarray]]]:
        """Every part of that name: its place, its labels and its arrays."""
        places = sorted({key.rpartition("/")[0] for key in self.arrays})
        for place in places:
            name, _, inner = place.partition("[")
            if name == part:
                labels = dict(pair.split("=", 1) for pair in inner.rstrip("]").split(",") if "=" in pair)
                own = {
                    k.rpartition("/")[2]: a for k, a in self.arrays.items() if k.rpartition("/")[0] == place
                }
                yield place, labels, own


Reader = Callable[[Files], Iterator[Certificate]]


def _patch(files: Files, part: str) -> Iterator[Certificate]:
    """Perturbations of the patch model within ε, and the error that the run says attacks found."""
    eps = files.setting("eps")
    constants = {"eps": eps, "q": files.setting("net.q"), "rho": files.setting("net.rho")}
    for place, labels, arrays in files.groups(part):
        if "delta" not in arrays:
            continue
        where = {"part": part, "threat": "full-ball", "points": "test", "eps": eps, **labels}
        first = files.found(**where, seed=(files.setting("seeds") or [0])[0]) if part == "radii" else []
        stated = {"error": 1 - first[0]["upper"]} if first else {}
        yield Certificate("patch-perturbations", place, arrays, constants, stated)


def _fig3(files: Files) -> Iterator[Certificate]:
    yield from _patch(files, "radii")
    for place, _, arrays in files.groups("matching"):
        rows = files.found(part="matching")
        stated = {"bound": rows[0]["upper"]} if rows else {}
        yield Certificate("matching", place, arrays, {"eps": files.setting("eps")}, stated)


def _minima(files: Files) -> Iterator[Certificate]:
    yield from _patch(files, "gamma")


def _radii(files: Files) -> Iterator[Certificate]:
    for part in ("radii", "built"):
        for place, labels, arrays in files.groups(part):
            if "certificate" not in arrays:
                continue
            seed = int(labels["seed"]) if "seed" in labels else None
            rows = files.found(part="radii", seed=seed) if part == "radii" else []
            radii = [row["binary_exact"] for row in sorted(rows, key=lambda row: row["point"])]
            # More points may have been measured than kept.
            stated = {"radii": radii[: len(arrays["y"])]} if radii and "y" in arrays else {}
            yield Certificate("relu-radii", place, arrays, {}, stated)


def _ball(files: Files) -> Iterator[Certificate]:
    radius = next((row["value"] for row in files.found(part="conditions", name="radius-same")), None)
    for place, labels, arrays in files.groups("robustness"):
        rows = files.found(part="robustness", sample="train", reading="ball", seed=int(labels.get("seed", 0)))
        whole = [row for row in rows if row["share"] == max(row["share"] for row in rows)]
        stated = {"error": 1 - whole[0]["attacked"]} if whole else {}
        yield Certificate("cubic-ball", place, arrays, {"radius": radius}, stated)


def _memory(files: Files) -> Iterator[Certificate]:
    for place, labels, arrays in files.groups("memory"):
        row = next(iter(files.found(part="memory", D=int(labels.get("D", -1)))), {})
        constants = {"delta": row.get("delta"), "separation": row.get("separation")}
        yield Certificate("memory", place, arrays, constants)


def _pairs(files: Files) -> Iterator[Certificate]:
    for place, labels, arrays in files.groups("closest"):
        rows = files.found(part="closest", **labels)
        stated = {"separation": rows[0]["separation"]} if rows else {}
        yield Certificate("pair", place, arrays, {}, stated)


#: which experiments leave certificates, and where
READERS: dict[str, Reader] = {
    "patch-fig3": _fig3,
    "patch-minima": _minima,
    "clusters-fig3": _radii,
    "clusters-built": _radii,
    "signal-stages": _ball,
    "built-cgro": _memory,
    "image-separation": _pairs,
}


def certificates(folder: Path) -> list[Certificate]:
    """All certificates of a run; none if its experiment leaves none."""
    files = Files(folder)
    reader = READERS.get(str(files.spec.get("experiment")))
    return list(reader(files)) if reader else []
