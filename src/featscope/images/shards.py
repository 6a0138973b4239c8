"""Weights in TensorFlow.js's form: a JSON list of names, shapes and types, and shards of raw numbers.

The numbers of all tensors stand one after the other, in the order of the list, across the shards. Nothing but
numbers is read: the file's description of the network is ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featscope.images.formats import damaged_file, refuse_page

MANIFEST = "weightsManifest"


def shard_names(manifest: bytes, name: str) -> tuple[str, ...]:
    """The shards that a manifest names; plain names beside it, no paths."""
    names = tuple(path for group in _groups(manifest, name) for path in group["paths"])
    if not all(isinstance(path, str) and path == PurePosixPath(path).name for path in names):
        raise damaged_file(name, "shards must be named without folders")
    return names


def read_shards(manifest: bytes, name: str, read: Callable[[str], bytes]) -> dict[str, Tensor]:
    """The tensors of a manifest by name; every number of the shards belongs to one of them."""
    shard_names(manifest, name)
    found: dict[str, Tensor] = {}
    for group in _groups(manifest, name):
        data, start = b"".join(read(path) for path in group["paths"]), 0
        for entry in group["weights"]:
            title, shape = _entry(entry, name)
            size = 4 * math.prod(shape)
            if start + size > len(data) or title in found:
                raise damaged_file(name, f"no {size} bytes for {title}, or it is there twice")
            values = np.frombuffer(data, "<f4", math.prod(shape), start).reshape(shape)
            found[title] = torch.from_numpy(values.astype(np.float32))
            start += size
        if start != len(data):
            raise damaged_file(name, f"{len(data) - start} bytes belong to no tensor")
    return found


def _groups(manifest: bytes, name: str) -> list[dict[str, Any]]:
    refuse_page(manifest, name)
    try:
        groups = json.loads(manifest)[MANIFEST]
        lists = [group[key] for group in groups for key in ("paths", "weights")]
        if not lists or not all(isinstance(some, list) for some in lists):
            raise ValueError("no groups of weights")
    except (ValueError, KeyError, TypeError) as error:
        raise damaged_file(name, f"no list of weights: {str(error)[:80]}") from None
    return list(groups)


def _entry(entry: Any, name: str) -> tuple[str, tuple[int, ...]]:
    """Name and shape of a tensor of 32-bit numbers."""
    known = isinstance(entry, dict) and isinstance(entry.get("name"), str)
    shape = entry.get("shape") if known else None
    whole = isinstance(shape, list) and all(isinstance(n, int) and n >= 0 for n in shape)
    if not whole or entry.get("dtype") != "float32" or "quantization" in entry:
        raise damaged_file(name, f"not a tensor of 32-bit numbers: {str(entry)[:60]}")
    return entry["name"], tuple(entry["shape"])
