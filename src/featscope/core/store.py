"""The run folder: the contract between what runs and what reads.

A run is written part by part into `<digest>.partial`, which is renamed to `<digest>` when the run is complete. Every file is
written beside its place and moved there, so a killed run leaves a folder that can be resumed, and a reader never sees half.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Protocol

import polars as pl
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from featscope.core.conditions import Condition
from featscope.core.errors import BadInput, FeatscopeError, nearest
from featscope.core.health import without_gaps

FORMAT = 1
Rows = list[dict[str, Any]]
Json = dict[str, Any]
Label = int | float | str
#: the part that holds the conditions of a run's law
CONDITIONS = "conditions"


class Progress(Protocol):
    """What shows the work's progress to a person."""

    def report(self, label: str, step: int, steps: int, facts: Mapping[str, float]) -> None:
        """Show that ``step`` of ``steps`` is reached, with the quantities that matter."""
        ...


class Silent:
    """No progress shown."""

    def report(self, label: str, step: int, steps: int, facts: Mapping[str, float]) -> None:
        """Show nothing."""


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: the text that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """The first 16 hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    spare = path.with_name(path.name + ".new")
    with spare.open("w", encoding="utf-8") as out:
        json.dump(value, out, indent=2, allow_nan=False)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())
    spare.replace(path)


def read_json(path: Path) -> Any:
    """Read JSON; a damaged file is a one-line error."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from None


def labelled(name: str, labels: Mapping[str, Label]) -> str:
    """A part's name with its labels: `training[seed=0,method=standard]`."""
    inner = ",".join(f"{key}={value}" for key, value in labels.items())
    return f"{name}[{inner}]" if inner else name


def table(rows: Rows) -> pl.DataFrame:
    """Rows as a data frame; columns that only some rows have are null elsewhere."""
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


def _damaged(path: Path, error: Exception) -> BadInput:
    reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
    return BadInput("damaged or missing file in a run folder", f"{path} ({reason})", "delete the folder or run with --force")


def _write_data(folder: Path, rows: pl.DataFrame, tensors: Mapping[str, Tensor]) -> None:
    rows.write_parquet(folder / "rows.parquet")
    save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, str(folder / "tensors.safetensors"))


def _read_rows(folder: Path) -> pl.DataFrame:
    path = folder / "rows.parquet"
    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _damaged(path, error) from None


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    path = folder / "tensors.safetensors"
    try:
        return load_file(str(path))
    except (OSError, SafetensorError) as error:
        raise _damaged(path, error) from None


@dataclass(frozen=True)
class Saved:
    """A part as it was last written: the step reached, whether it is complete, its rows and tensors."""

    step: int
    done: bool
    rows: Rows
    tensors: dict[str, Tensor]
    notes: Json


@dataclass(frozen=True)
class Part:
    """One part of a run that is being written, for example the training of one seed: a name, and labels that become columns of its rows."""

    home: Path
    name: str
    labels: Mapping[str, Label] = field(default_factory=dict)
    progress: Progress = field(default_factory=Silent)

    @property
    def key(self) -> str:
        """Name and labels as one text, for files and tensors: `training[seed=0]`."""
        return labelled(self.name, self.labels)

    @property
    def _pointer(self) -> Path:
        return self.home / f"{self.key}.json"

    def load(self) -> Saved | None:
        """Return what was saved last, or None."""
        if not self._pointer.exists():
            return None
        pointer = read_json(self._pointer)
        folder = self.home / pointer["folder"]
        rows = _read_rows(folder).to_dicts()
        return Saved(pointer["step"], pointer["done"], rows, _read_tensors(folder), pointer["notes"])

    def save(self, step: int, done: bool, rows: Rows, tensors: Mapping[str, Tensor], notes: Mapping[str, Any] | None = None) -> None:
        """Write rows and tensors beside the old ones, then move the pointer to them."""
        folder = self.home / f"{self.key}.{step}{'.done' if done else ''}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _write_data(folder, table(rows), tensors)
        old = read_json(self._pointer)["folder"] if self._pointer.exists() else None
        write_json(self._pointer, {**self._place(), "folder": folder.name, "step": step, "done": done, "notes": dict(notes or {})})
        if old and old != folder.name:
            shutil.rmtree(self.home / old, ignore_errors=True)

    def _place(self) -> Json:
        return {"name": self.name, "labels": dict(self.labels)}

    def report(self, step: int, steps: int, facts: Mapping[str, float]) -> None:
        """Pass progress on."""
        self.progress.report(self.key, step, steps, facts)


@dataclass
class Folder:
    """A run that is being written."""

    place: Path
    progress: Progress
    identity: Json
    #: finished runs that the experiment said it needs, by its own labels
    needed: dict[str, StoredRun] = field(default_factory=dict)
    started: float = field(default_factory=time.time)

    @property
    def partial(self) -> Path:
        """Where the run is until it is complete."""
        return self.place.with_name(self.place.name + ".partial")

    def part(self, name: str, **labels: Label) -> Part:
        """Return the part of that name; labels (``seed=0``) tell parts of one name apart and become columns of their rows."""
        return Part(self.partial / "parts", name, labels, self.progress)

    def add(self, name: str, rows: Rows, tensors: Mapping[str, Tensor] | None = None, **labels: Label) -> None:
        """Save a part that was made in one go."""
        self.part(name, **labels).save(0, True, rows, tensors or {})

    def once(self, name: str, make: Callable[[], tuple[Rows, Mapping[str, Tensor]]], **labels: Label) -> Saved:
        """The part as an interrupted run left it whole, or as ``make`` makes it now."""
        part = self.part(name, **labels)
        if (saved := part.load()) is None or not saved.done:
            part.save(0, True, *make())
            saved = part.load()
        assert saved is not None
        return saved

    def conditions(self, found: Sequence[Condition]) -> None:
        """Record the assumptions of the run's law with their numbers; the ledger shows those that are not met."""
        self.add(CONDITIONS, [condition.as_json() for condition in found])

    def drop(self) -> None:
        """Take away what was begun."""
        shutil.rmtree(self.partial, ignore_errors=True)

    def _parts(self) -> Iterator[tuple[Part, Saved]]:
        for pointer in sorted((self.partial / "parts").glob("*.json")):
            place = read_json(pointer)
            part = Part(pointer.parent, place["name"], place["labels"])
            if (saved := part.load()) is not None:
                yield part, saved

    def finish(self, summary: Json, facts: Mapping[str, Any]) -> StoredRun:
        """Gather the parts, write summary and manifest, and move the folder to its final place."""
        frames, tensors, notes = [], {}, {}
        for part, saved in self._parts():
            frames.append(table([{"part": part.name, **part.labels, **row} for row in saved.rows]))
            tensors.update({f"{part.key}/{key}": t for key, t in saved.tensors.items()})
            if saved.notes:
                notes[part.key] = saved.notes
        summary, gaps = without_gaps(summary)
        if gaps:
            notes["summary"] = {"not finite, written as null": gaps}
        filled = [frame for frame in frames if frame.width]
        rows = pl.concat(filled, how="diagonal_relaxed") if filled else pl.DataFrame()
        _write_data(self.partial, rows, tensors)
        write_json(self.partial / "spec.json", self.identity)
        write_json(self.partial / "summary.json", summary)
        write_json(self.partial / "manifest.json", {**_environment(), **facts, "notes": notes, **self._clock()})
        shutil.rmtree(self.partial / "parts", ignore_errors=True)
        if self.place.exists():
            shutil.rmtree(self.place)
        self.partial.rename(self.place)
        return StoredRun(self.place)

    def _clock(self) -> Json:
        return {"started": self.started, "wall_seconds": round(time.time() - self.started, 2), "finished": True}


@dataclass(frozen=True)
class StoredRun:
    """A finished run as files, read only; with settings of the experiment's type it is an `experiments.run.Run`."""

    path: Path

    def _object(self, name: str, *keys: str) -> Json:
        path = self.path / name
        found = read_json(path)
        if not isinstance(found, dict) or not set(keys) <= set(found):
            raise _damaged(path, ValueError("not what a run writes"))
        return found

    @cached_property
    def identity(self) -> Json:
        """`experiment`, `revision` and the resolved `spec`."""
        return self._object("spec.json", "experiment", "spec")

    @cached_property
    def summary(self) -> Json:
        """The run's key numbers."""
        return self._object("summary.json")

    @cached_property
    def manifest(self) -> Json:
        """Versions, platform, seeds, radii, wall time."""
        return self._object("manifest.json", "wall_seconds")

    @cached_property
    def rows(self) -> pl.DataFrame:
        """All rows; `part` names the part of the run."""
        return _read_rows(self.path)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors, named `part/name`."""
        return _read_tensors(self.path)

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
        """The rows of one part, or of those of its rows that have these labels, without the columns that the part does not have."""
        rows = self.rows.filter(pl.col("part") == name)
        rows = rows.select([c for c in rows.columns if rows[c].null_count() < max(rows.height, 1)])
        for key, value in labels.items():
            rows = rows.filter(pl.col(key) == value)
        return rows

    def tensor(self, part: str, name: str, **labels: Label) -> Tensor:
        """One tensor of a part."""
        key = f"{labelled(part, labels)}/{name}"
        if key not in self.tensors:
            raise BadInput("no such tensor in the run", f"{key} in {self.path}", nearest(key, self.tensors))
        return self.tensors[key]


@dataclass(frozen=True)
class Store:
    """All runs below one folder."""

    root: Path

    def place(self, identity: Json) -> Path:
        """Where the run of this spec is or will be."""
        return self.root / str(identity["experiment"]) / digest(identity)

    def find(self, identity: Json) -> StoredRun | None:
        """Return the finished run of this identity, or None."""
        place = self.place(identity)
        return StoredRun(place) if (place / "manifest.json").exists() else None

    @contextlib.contextmanager
    def write(self, identity: Json, progress: Progress, fresh: bool = False, wait: bool = True) -> Iterator[Folder]:
        """Open the spec's folder for writing, resuming what an interrupted run left unless ``fresh``; ``wait`` for another that writes it."""
        folder = Folder(self.place(identity), progress, identity)
        folder.place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.place.with_name(folder.place.name + ".lock"), wait):
            if fresh:
                shutil.rmtree(folder.partial, ignore_errors=True)
            (folder.partial / "parts").mkdir(parents=True, exist_ok=True)
            yield folder


def find_stored(root: Path) -> list[StoredRun]:
    """All finished runs at or below ``root``, by path."""
    if not root.is_dir():
        raise BadInput("not a folder", str(root), "give the folder of a run, or one that holds runs")
    found = (path.parent for path in sorted(root.rglob("manifest.json")))
    return [StoredRun(path) for path in found if not path.name.endswith(".partial")]


@contextlib.contextmanager
def _locked(path: Path, wait: bool) -> Iterator[None]:
    handle = _lock(path, wait)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        handle.close()


def _lock(path: Path, wait: bool) -> IO[str]:
    """The lock file, held. Who held it before has removed it, so a lock on a file that is no longer at its place is taken anew."""
    while True:
        handle: IO[str] = path.open("w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            handle.close()
            message = f"another process is writing this run: {path.with_suffix('')}; wait for it or use another --out"
            raise FeatscopeError(message) from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                return handle
        handle.close()


def _environment() -> Json:
    packages = ("featscope", "torch", "numpy", "scipy", "polars", "safetensors")
    return {
        "format": FORMAT,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": {name: version(name) for name in packages},
        "threads": torch.get_num_threads(),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
    }
