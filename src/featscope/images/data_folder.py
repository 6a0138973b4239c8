"""The data folder: how a data set or the weights of an encoder get there — whole, checked, from the first
source that has them.

What is stored has a folder of its own name with a manifest. It is written beside its place and moved there
when it is complete, so a reader never sees half of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from featscope.core.errors import BadInput, require
from featscope.core.files import read_json, write_json
from featscope.core.locks import locked
from featscope.images.sources import Report, SourceFailed, quiet

FORMAT = 1
VARIABLE = "FEATSCOPE_DATA"
Say = Callable[[str], None]
C = TypeVar("C")


class Entry(Protocol):
    """What the catalogue says of everything that it lists."""

    @property
    def name(self) -> str:
        """Its folder."""
        ...

    @property
    def title(self) -> str:
        """Its name in messages."""
        ...

    @property
    def bytes(self) -> int:
        """Its size on disk."""
        ...


class Item(Entry, Protocol[C]):
    """Something the data folder can hold; ``C`` is its content as a source gives it."""

    @property
    def hint(self) -> str:
        """What to do when no source has it."""
        ...

    def from_folder(self, folder: Path, checked: bool) -> C:
        """Read it from files that the user names."""
        ...

    def sources(self, cache: Path, report: Report) -> dict[str, Callable[[], C]]:
        """Where else it may come from, in order."""
        ...

    def install(self, content: C, root: Path, source: str, checked: bool) -> Path:
        """Check it and write it."""
        ...

    def verify(self, root: Path) -> dict[str, Any]:
        """Check again what is there."""
        ...


E = TypeVar("E", bound=Entry)


@dataclass(frozen=True)
class Listed(Generic[E]):
    """An item that the catalogue describes."""

    entry: E

    @property
    def name(self) -> str:
        """Its folder."""
        return self.entry.name

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.entry.title

    @property
    def bytes(self) -> int:
        """Its size on disk."""
        return self.entry.bytes


def data_folder(given: Path | None = None) -> Path:
    """The folder that holds the data: as given, else $FEATSCOPE_DATA, else featscope/data in the user's cache
    folder."""
    if given is not None:
        return given
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "featscope" / "data"


def is_there(name: str, root: Path | None = None) -> bool:
    """Whether the data set or encoder has been fetched."""
    return (data_folder(root) / name / "manifest.json").exists()


def read_manifest(name: str, title: str, root: Path, *keys: str) -> dict[str, Any]:
    """The manifest of what is stored under ``name``; it must have this version's form and all ``keys``."""
    path = root / name / "manifest.json"
    if not path.exists():
        raise BadInput(
            f"{title} is not there", str(root), f"run `featscope data fetch {name}`, or set {VARIABLE}"
        )
    manifest = read_json(path, f"run `featscope data fetch {name} --force`")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or not set(keys) <= set(manifest):
        raise BadInput(
            "not a manifest of this version", str(path), f"run `featscope data fetch {name} --force`"
        )
    return manifest


def put(root: Path, name: str, source: str, write: Callable[[Path], dict[str, Any]]) -> Path:
    """Let ``write`` fill a folder and return its manifest; the folder appears under ``name`` when all is
    written, and what was there goes in one move."""
    place, partial, old = root / name, root / f"{name}.partial", root / f"{name}.old"
    bring_back(root, name)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        write_json(partial / "manifest.json", {"format": FORMAT, **write(partial)})
        write_json(partial / "source.json", {"source": source})
        if place.exists():
            place.rename(old)
        partial.rename(place)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    return place


def bring_back(root: Path, name: str) -> None:
    """Undo half an exchange that a kill left."""
    place, old = root / name, root / f"{name}.old"
    if old.exists() and not place.exists():
        old.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def source_of(name: str, root: Path) -> str:
    """Which source gave what is stored under ``name``, as far as that can be read."""
    try:
        found = read_json(root / name / "source.json")
    except BadInput:
        return "unknown"
    return str(found.get("source", "unknown")) if isinstance(found, dict) else "unknown"


def fetch(
    item: Item[C],
    root: Path,
    *,
    folder: Path | None = None,
    unverified: bool = False,
    force: bool = False,
    only: str | None = None,
    say: Say = lambda _: None,
    report: Report = quiet,
) -> Path:
    """Bring an item into its form on disk and say which source gave it.

    A folder that the user names is the only source tried. Otherwise all sources are, in their order.
    """
    require(
        folder is not None or not unverified,
        "--unverified is for files of your own",
        "no --from",
        "name their folder",
    )
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / item.name, wait=False):
        bring_back(root, item.name)
        if not force and is_there(item.name, root):
            try:
                item.verify(root)
                say(f"{item.name}: already there")
                return root / item.name
            except BadInput as error:
                say(f"{item.name}: fetched again, because {error}")
        _require_space(item, root)
        if folder is not None:
            return item.install(
                item.from_folder(folder, not unverified), root, f"folder {folder.name}", not unverified
            )
        return _fetch_from_anywhere(item, root, only, say, report)


def _fetch_from_anywhere(item: Item[C], root: Path, only: str | None, say: Say, report: Report) -> Path:
    cache = root / ".downloads" / item.name
    cache.mkdir(parents=True, exist_ok=True)
    for left in cache.glob("client-*"):
        shutil.rmtree(left, ignore_errors=True)
    sources = item.sources(cache, report)
    if only is not None:
        require(
            only in sources, f"{item.title} has no such source", only, "choose one of " + ", ".join(sources)
        )
        sources = {only: sources[only]}
    problems = []
    for name, get in sources.items():
        try:
            place = item.install(get(), root, name, True)
        except (SourceFailed, BadInput) as error:
            problems.append(f"{name}: {error}")
            say(f"{item.name}: {name} failed, {error}")
            continue
        shutil.rmtree(cache, ignore_errors=True)
        say(f"{item.name}: from {name}")
        return place
    _drop_if_empty(cache)
    raise BadInput(f"no source gave {item.title}", " | ".join(problems), item.hint)


def _drop_if_empty(cache: Path) -> None:
    for folder in (cache, cache.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _require_space(item: Item[C], root: Path) -> None:
    needed, free = 3 * item.bytes, shutil.disk_usage(root).free
    rule = f"fetching {item.title} needs {needed / 1e6:.0f} MB on the disk"
    require(
        free >= needed,
        rule,
        f"{free / 1e6:.0f} MB free at {root}",
        f"free some, or name another folder with --data or {VARIABLE}",
    )
