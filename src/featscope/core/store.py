"""The run folder: the contract between what runs and what reads.

A run is written part by part into `<digest>.partial`, which is renamed to `<digest>` when the run is
complete. Every file is written beside its place and moved there, so a killed run leaves a folder that can be
resumed, and a reader never sees half.

What is damaged is made again: a part of an unfinished run from its start, a finished run as a whole. Two
processes that want the same run share it: one makes it, the other waits.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from itertools import permutations
from pathlib import Path
from typing import Any, Protocol

import polars as pl
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor

from featscope.core.conditions import Condition
from featscope.core.errors import BadInput, FeatscopeError, nearest, require
from featscope.core.health import without_gaps
from featscope.core.locks import locked

#: the form of a run folder; a reader refuses what is of a later one
FORMAT = 1
Rows = list[dict[str, Any]]
Json = dict[str, Any]
Label = int | float | str
#: what stands between names and labels of parts in the names of files and tensors
RESERVED = "/\\,[]="
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
    write_bytes(spare, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())
    spare.replace(path)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


class Damaged(BadInput):
    """A file is not what was written, or is gone."""


def read_json(path: Path, remedy: str | None = None) -> Any:
    """Read JSON; a damaged file is a one-line error."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (*_GONE, ValueError) as error:
        raise _damaged(path, error, remedy) from None


#: what reading a file gives that is not there or is no file; other errors of the system are no damage
_GONE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def labelled(name: str, labels: Mapping[str, Label]) -> str:
    """A part's name with its labels: `training[seed=0,method=standard]`."""
    inner = ",".join(f"{key}={value}" for key, value in labels.items())
    return f"{name}[{inner}]" if inner else name


def table(rows: Rows) -> pl.DataFrame:
    """Rows as a data frame; columns that only some rows have are null elsewhere."""
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


def _damaged(path: Path, error: Exception, remedy: str | None = None) -> Damaged:
    reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
    again = f"delete the folder {path.parent} and make the run again with the command that made it"
    return Damaged("damaged or missing file", f"{path} ({reason})", remedy or again)


def _write_data(folder: Path, rows: pl.DataFrame, tensors: Mapping[str, Tensor]) -> None:
    # Through memory, because on a full disk polars and safetensors raise errors of their own.
    made = io.BytesIO()
    rows.write_parquet(made)
    write_bytes(folder / "rows.parquet", made.getvalue())
    write_bytes(
        folder / "tensors.safetensors",
        to_safetensors({name: t.detach().cpu().contiguous() for name, t in tensors.items()}),
    )


def _read_rows(folder: Path) -> pl.DataFrame:
    path = folder / "rows.parquet"
    try:
        # The names of parts have brackets, which are no pattern.
        return pl.read_parquet(path, glob=False)
    except (*_GONE, pl.exceptions.PolarsError) as error:
        raise _damaged(path, error) from None


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    path = folder / "tensors.safetensors"
    try:
        return load_file(str(path))
    except (*_GONE, SafetensorError) as error:
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
    """One part of a run that is being written, for example the training of one seed: a name, and labels that
    become columns of its rows."""

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
        """Return what was saved last, or None; what is damaged is thrown away, so that the part is made
        again."""
        if not self._pointer.exists():
            return None
        try:
            return self.read()
        except Damaged:
            self._pointer.unlink()
            return None

    def read(self) -> Saved:
        """What was saved last."""
        pointer = self._read_pointer()
        folder = self.home / pointer["folder"]
        rows = _read_rows(folder).to_dicts()
        return Saved(pointer["step"], pointer["done"], rows, _read_tensors(folder), pointer["notes"])

    def _read_pointer(self) -> Json:
        pointer = read_json(self._pointer)
        if not isinstance(pointer, dict) or not {"folder", "step", "done", "notes"} <= set(pointer):
            raise _damaged(self._pointer, ValueError("not what a run writes"))
        return pointer

    def _folders(self) -> list[Path]:
        """Every folder that a save of this part has left; a part's name may be the beginning of another's."""
        tail = re.compile(re.escape(self.key) + r"\.\d+(\.done)?(\.again)?")
        return [path for path in self.home.iterdir() if tail.fullmatch(path.name)]

    def save(
        self,
        step: int,
        done: bool,
        rows: Rows,
        tensors: Mapping[str, Tensor],
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Write rows and tensors beside the old ones, then move the pointer to them."""
        folder = self.home / f"{self.key}.{step}{'.done' if done else ''}"
        if self._points_to(folder):
            # The same step once more: what the pointer names stays until it names another.
            folder = folder.with_name(folder.name + ".again")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _write_data(folder, table(rows), tensors)
        write_json(
            self._pointer,
            {**self._place(), "folder": folder.name, "step": step, "done": done, "notes": dict(notes or {})},
        )
        for other in self._folders():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)

    def _points_to(self, folder: Path) -> bool:
        try:
            return self._pointer.exists() and self._read_pointer()["folder"] == folder.name
        except Damaged:
            return False

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
    #: what a reader of the run should know of how it was made
    notes: Json = field(default_factory=dict)

    @property
    def partial(self) -> Path:
        """Where the run is until it is complete."""
        return self.place.with_name(self.place.name + ".partial")

    def part(self, name: str, **labels: Label) -> Part:
        """Return the part of that name; labels (``seed=0``) tell parts of one name apart and become columns
        of their rows."""
        for text in (name, *labels, *map(str, labels.values())):
            plain = not set(text) & set(RESERVED)
            require(
                plain, f"names and labels of parts go without {RESERVED}", repr(text), "write it otherwise"
            )
        return Part(self.partial / "parts", name, labels, self.progress)

    def add(
        self, name: str, rows: Rows, tensors: Mapping[str, Tensor] | None = None, **labels: Label
    ) -> None:
        """Save a part that was made in one go."""
        self.part(name, **labels).save(0, True, rows, tensors or {})

    def once(
        self, name: str, make: Callable[[], tuple[Rows, Mapping[str, Tensor]]], **labels: Label
    ) -> Saved:
        """The part as an interrupted run left it whole, or as ``make`` makes it now."""
        part = self.part(name, **labels)
        if (saved := part.load()) is None or not saved.done:
            part.save(0, True, *make())
            saved = part.load()
        assert saved is not None
        return saved

    def conditions(self, found: Sequence[Condition], **labels: Label) -> None:
        """Record the assumptions of the run's law with their numbers; the ledger shows those that are not
        met.

        A run of several settings records those of each under its labels.
        """
        self.add(CONDITIONS, [condition.as_json() for condition in found], None, **labels)

    def drop(self) -> None:
        """Take away what was begun."""
        shutil.rmtree(self.partial, ignore_errors=True)

    def _parts(self) -> Iterator[tuple[Part, Saved]]:
        for pointer in sorted((self.partial / "parts").glob("*.json")):
            place = read_json(pointer)
            part = Part(pointer.parent, place["name"], place["labels"])
            yield part, part.read()

    def finish(self, summary: Json, facts: Mapping[str, Any]) -> StoredRun:
        """Gather the parts, write summary and manifest, and move the folder to its final place."""
        frames, tensors, notes = [], {}, dict(self.notes)
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
        write_json(
            self.partial / "manifest.json", {**_environment(), **facts, "notes": notes, **self._clock()}
        )
        # The order matters: at every moment a kill leaves the old run, or the parts of the new one, or the
        # new one.
        old = _old(self.place)
        shutil.rmtree(old, ignore_errors=True)
        if self.place.exists():
            self.place.rename(old)
        self.partial.rename(self.place)
        shutil.rmtree(self.place / "parts", ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        return StoredRun(self.place)

    def begin_again(self) -> None:
        """Forget all parts."""
        shutil.rmtree(self.partial, ignore_errors=True)
        (self.partial / "parts").mkdir(parents=True)

    def _clock(self) -> Json:
        return {
            "started": self.started,
            "wall_seconds": round(time.time() - self.started, 2),
            "finished": True,
        }


@dataclass(frozen=True)
class StoredRun:
    """A finished run as files, read only; with settings of the experiment's type it is an
    `experiments.run.Run`."""

    path: Path

    def _object(self, name: str, *keys: str) -> Json:
        path = self.path / name
        found = read_json(path)
        if not isinstance(found, dict) or not set(keys) <= set(found):
            raise _damaged(path, ValueError("not what a run writes"))
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
        """Return the finished run of this identity, or None; a damaged one does not count."""
        run = StoredRun(self.place(identity))
        if not (run.path / "manifest.json").exists() or run.damage() is not None:
            return None
        if _old(run.path).exists() or (run.path / "parts").exists():
            # Left by a kill after the exchange; a store that cannot be written, or is being written, keeps
            # it.
            with contextlib.suppress(FeatscopeError, OSError), locked(run.path, wait=False):
                _bring_back(run.path)
        return run

    @contextlib.contextmanager
    def write(
        self, identity: Json, progress: Progress, fresh: bool = False, wait: bool = True
    ) -> Iterator[Folder]:
        """Open the spec's folder for writing, resuming what an interrupted run left unless ``fresh``;
        ``wait`` for another that writes it."""
        folder = Folder(self.place(identity), progress, identity)
        folder.place.parent.mkdir(parents=True, exist_ok=True)
        with locked(
            folder.place,
            wait,
            lambda begun: progress.report("waiting for another process", int(not begun), 1, {}),
        ):
            _bring_back(folder.place)
            if fresh:
                shutil.rmtree(folder.partial, ignore_errors=True)
            if (folder.place / "manifest.json").exists() and (
                damage := StoredRun(folder.place).damage()
            ) is not None:
                folder.notes["folder"] = {"made again because": damage}
            (folder.partial / "parts").mkdir(parents=True, exist_ok=True)
            yield folder


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


def _old(place: Path) -> Path:
    """Where a run goes while another takes its place."""
    return place.with_name(place.name + ".old")


def _bring_back(place: Path) -> None:
    """Undo half an exchange that a kill left."""
    if _old(place).exists() and not place.exists():
        _old(place).rename(place)
    shutil.rmtree(_old(place), ignore_errors=True)
    shutil.rmtree(place / "parts", ignore_errors=True)


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
