"""Embeddings of images, kept in the data folder and found again by what decides them.

The key is the hash of the encoder's weights, the data's hash, the indices, and the preprocessing. Chunks are
written one by one, each moved to its place when it is complete and with the hash of its numbers in its
header; an interrupted embedding goes on after the last chunk, a damaged chunk is made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from featscope.core.errors import require_at_least
from featscope.core.files import digest, write_json
from featscope.images.data_folder import data_folder
from featscope.images.datasets import Images
from featscope.nets.encoders import Encoder

HOME = "embeddings"
#: images a chunk, and images that the network sees at once (small batches stay in cache)
CHUNK, BATCH = 250, 8
Told = Callable[[int, int], None]


def _sha256(t: Tensor) -> str:
    return hashlib.sha256(t.contiguous().numpy().tobytes()).hexdigest()


def embedding_folder(encoder: Encoder, images: Images, index: Tensor, root: Path | None = None) -> Path:
    """The folder of these embeddings."""
    who = {
        "encoder": encoder.name,
        "weights": encoder.sha256,
        "preprocessing": encoder.preprocessing,
        "data": images.sha256,
        "index": _sha256(index.to(torch.int64)),
    }
    folder = data_folder(root) / HOME / f"{encoder.name}-{images.name}-{images.split}-{digest(who)}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "identity.json").exists():
        write_json(
            folder / "identity.json",
            {**who, "dataset": images.name, "split": images.split, "images": len(index)},
        )
    return folder


def _read(path: Path, rows: int, width: int) -> Tensor | None:
    """A chunk, or None where it is missing or damaged."""
    try:
        with safe_open(str(path), "pt") as file:
            found: Tensor = file.get_tensor("embeddings")
            known = (file.metadata() or {}).get("sha256")
    except (OSError, SafetensorError):
        return None
    return found if found.shape == (rows, width) and _sha256(found) == known else None


def embed(
    encoder: Encoder,
    images: Images,
    index: Tensor,
    root: Path | None = None,
    told: Told = lambda done, total: None,
) -> Tensor:
    """(N, width) float32 embeddings of the images of these indices, made where they are not there yet."""
    require_at_least("images", len(index), 1)
    folder = embedding_folder(encoder, images, index, root)
    chunks = []
    for number, part in enumerate(torch.split(index, CHUNK)):
        path = folder / f"chunk-{number:04d}.safetensors"
        found = _read(path, len(part), encoder.width)
        if found is None:
            found = torch.cat([encoder(images.batch(few).x) for few in torch.split(part, BATCH)])
            spare = path.with_suffix(".new")
            save_file({"embeddings": found.contiguous()}, str(spare), metadata={"sha256": _sha256(found)})
            spare.replace(path)
        chunks.append(found)
        told(min((number + 1) * CHUNK, len(index)), len(index))
    return torch.cat(chunks)
