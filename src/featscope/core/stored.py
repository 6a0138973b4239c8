"""Finished runs as files, read only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Any

import polars as pl
from safetensors import SafetensorError, safe_open
from torch import Tensor

from featscope.core.errors import BadInput, nearest, require
from featscope.core.files import Damaged, damaged, read_json, read_rows, read_tensors

#: the form of a run folder; a reader refuses what is of a later one
FORMAT = 1
Label = int | float | str
#: where a manifest names the tensors that were not passed on
LEFT_OUT = "left_out"


def labelled(name: str, labels: Mapping[str, Label]) -> str:
    """A part's name with its labels: `training[seed=0,method=standard]`."""
    inner = ",".join(f"{key}={value}" for key, value in labels.items())
    return f"{name}[{inner}]" if inner else name


class LeftOut(BadInput):
    """A tensor that the run had and that was not passed on with it."""


@dataclass(frozen=True)
class StoredRun:
    """A finished run as files, read only; with settings of the experiment's type it is an
    `experiments.run.Run`."""

    path: Path

    def _object(self, name: str, *keys: str) -> dict[str, Any]:
        path = self.path / name
        found = read_json(path)
        if not isinstance(found, dict) or not set(keys) <= set(found):
            raise damaged(path, ValueError("not what a run writes"))
        return found

    def damage(self) -> str | None:
        """Which file cannot be read, if one cannot; tables and tensors are opened, not read."""
        try:
            StoredRun(self.path)._open()
        except (Damaged, OSError, pl.exceptions.PolarsError, SafetensorError) as error:
            return " ".join(str(error).split())[:200]
        return None

    def _open(self) -> None:
        for part in (self.identity, self.summary, self.manifest):
            part.keys()
        pl.read_parquet_schema(self.path / "rows.parquet")
        with safe_open(str(self.path / "tensors.safetensors"), "pt") as tensors:
            tensors.keys()

    @cached_property
    def identity(self) -> dict[str, Any]:
        """`experiment`, `revision` and the resolved `spec`."""
        return self._object("spec.json", "experiment", "spec")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The run's key numbers."""
        return self._object("summary.json")

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Versions, platform, seeds, radii, wall time."""
        found = self._object("manifest.json", "wall_seconds")
        # Not damaged, so not to be made again: what a later version wrote stays.
        require(
            found.get("format", FORMAT) <= FORMAT,
            f"this version reads run folders up to form {FORMAT}",
            f"{self.path}: form {found.get('format')}",
            "read it with the featscope that wrote it, or give another --out",
        )
        return found

    @cached_property
    def rows(self) -> pl.DataFrame:
        """All rows; `part` names the part of the run."""
        return read_rows(self.path)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors, named `part/name`."""
        return read_tensors(self.path)

    @property
    def diverged(self) -> dict[str, list[str]]:
        """Part → the runs of it that left the numbers."""
        notes = self.manifest.get("notes", {})
        return {part: sorted(note["diverged"]) for part, note in notes.items() if note.get("diverged")}

    @property
    def experiment(self) -> str:
        """The experiment's name."""
        return str(self.identity["experiment"])

    def part(self, name: str, **labels: Label) -> pl.DataFrame:
        """The rows of one part, or of those of its rows that have these labels, without the columns that the
        part does not have."""
        rows = self.rows.filter(pl.col("part") == name)
        rows = rows.select([c for c in rows.columns if rows[c].null_count() < max(rows.height, 1)])
        for key, value in labels.items():
            rows = rows.filter(pl.col(key) == value) if key in rows.columns else rows.clear()
        return rows

    def tensor(self, part: str, name: str, **labels: Label) -> Tensor:
        """One tensor of a part."""
        orders = (dict(order) for order in permutations(labels.items()))
        keys = [f"{labelled(part, order)}/{name}" for order in orders]
        key = next((key for key in keys if key in self.tensors), keys[0])
        if gone := set(keys) & set(self.manifest.get(LEFT_OUT, [])):
            remedy = f"make the run again: featscope run {self.experiment}"
            raise LeftOut("this tensor was not passed on", f"{min(gone)} in {self.path}", remedy)
        if key not in self.tensors:
            raise BadInput("no such tensor in the run", f"{key} in {self.path}", nearest(key, self.tensors))
        return self.tensors[key]


def find_stored(root: Path) -> list[StoredRun]:
    """All finished runs at or below ``root``, by path."""
    if not root.is_dir():
        raise BadInput("not a folder", str(root), "give the folder of a run, or one that holds runs")
    found = []
    # os.walk does not mind folders that another process moves meanwhile.
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.endswith((".partial", ".old"))]
        found += [Path(folder)] if "manifest.json" in files else []
    return [StoredRun(path) for path in sorted(found)]
