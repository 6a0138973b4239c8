"""The run folder: the contract between what runs and what reads.

A run is written part by part into `<digest>.partial`, which is renamed to `<digest>` when the run is
complete. Every file is written beside its place and moved there, so a killed run leaves a folder that can be
resumed, and a reader never sees half.

What is damaged is made again: a part of an unfinished run from its start, a finished run as a whole. Two
processes that want the same run share it: one makes it, the other waits.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from torch import Tensor

from featscope.core.conditions import Condition
from featscope.core.environment import environment
from featscope.core.errors import FeatscopeError, require
from featscope.core.files import (
    Damaged,
    damaged,
    digest,
    read_json,
    read_rows,
    read_tensors,
    write_data,
    write_json,
)
from featscope.core.health import without_gaps
from featscope.core.locks import locked
from featscope.core.progress import Progress, Silent
from featscope.core.stored import Label, StoredRun, labelled

Rows = list[dict[str, Any]]
Json = dict[str, Any]
#: what stands between names and labels of parts in the names of files and tensors
RESERVED = "/\\,[]="
#: the label of a part that belongs to one seed
SEED_LABEL = "seed"
#: the part that holds the conditions of a run's law
CONDITIONS = "conditions"


def table(rows: Rows) -> pl.DataFrame:
    """Rows as a data frame; columns that only some rows have are null elsewhere."""
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


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
        rows = read_rows(folder).to_dicts()
        return Saved(pointer["step"], pointer["done"], rows, read_tensors(folder), pointer["notes"])

    def _read_pointer(self) -> Json:
        pointer = read_json(self._pointer)
        if not isinstance(pointer, dict) or not {"folder", "step", "done", "notes"} <= set(pointer):
            raise damaged(self._pointer, ValueError("not what a run writes"))
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
        write_data(folder, table(rows), tensors)
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

    def written(self, saved: Saved) -> Json:
        """What a manifest says of a part, so that it can be taken over from the finished run."""
        return {**self._place(), "step": saved.step, "notes": saved.notes, "tensors": sorted(saved.tensors)}

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
    worked: float = field(default_factory=time.process_time)
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
        home = self.partial / "parts"
        places = [read_json(pointer) for pointer in home.glob("*.json")]
        for place in sorted(places, key=_order):
            part = Part(home, place["name"], place["labels"])
            yield part, part.read()

    def finish(self, summary: Json, facts: Mapping[str, Any]) -> StoredRun:
        """Gather the parts, write summary and manifest, and move the folder to its final place."""
        frames, tensors, notes = [], {}, dict(self.notes)
        by_seed: list[Json] = []
        for part, saved in self._parts():
            frames.append(table([{"part": part.name, **part.labels, **row} for row in saved.rows]))
            tensors.update({f"{part.key}/{key}": t for key, t in saved.tensors.items()})
            if saved.notes:
                notes[part.key] = saved.notes
            if SEED_LABEL in part.labels:
                by_seed.append(part.written(saved))
        summary, gaps = without_gaps(summary)
        if gaps:
            notes["summary"] = {"not finite, written as null": gaps}
        filled = [frame for frame in frames if frame.width]
        rows = pl.concat(filled, how="diagonal_relaxed") if filled else pl.DataFrame()
        write_data(self.partial, rows, tensors)
        write_json(self.partial / "spec.json", self.identity)
        write_json(self.partial / "summary.json", summary)
        write_json(
            self.partial / "manifest.json",
            {**environment(), **facts, "notes": notes, "parts": by_seed, **self._clock()},
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
            "cpu_seconds": round(time.process_time() - self.worked, 2),
            "finished": True,
        }


@dataclass(frozen=True)
class Store:
    """All runs below one folder."""

    root: Path

    def __post_init__(self) -> None:
        there = next((place for place in (self.root, *self.root.parents) if place.exists()), None)
        free = there is None or there.is_dir()
        require(free, "runs need a folder, and this is a file", f"out={str(there)!r}", "name a folder")

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


def _order(place: Json) -> tuple[str, list[tuple[str, bool, Label]]]:
    """Parts by name, then by labels as the numbers or texts that they are: seed 2 before seed 10."""
    return place["name"], [(key, isinstance(value, str), value) for key, value in place["labels"].items()]


def _old(place: Path) -> Path:
    """Where a run goes while another takes its place."""
    return place.with_name(place.name + ".old")


def _bring_back(place: Path) -> None:
    """Undo half an exchange that a kill left."""
    if _old(place).exists() and not place.exists():
        _old(place).rename(place)
    shutil.rmtree(_old(place), ignore_errors=True)
    shutil.rmtree(place / "parts", ignore_errors=True)
