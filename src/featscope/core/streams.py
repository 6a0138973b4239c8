"""Named random streams from one seed.

The generator of a stream depends on the seed and the names alone, so that adding a stream, a run or an
observable changes no other draw. Draws are made on the CPU and moved, which makes them the same whatever
device computes.
"""

from __future__ import annotations

import hashlib

import torch

from featscope.core.errors import require_whole


def derive(seed: int, *names: str | int) -> int:
    """Return a 63-bit integer that is a fixed function of ``seed`` and ``names`` (SHA-256)."""
    text = "/".join([str(int(seed)), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: str | int) -> torch.Generator:
    """Return the CPU generator of the stream ``names`` under ``seed``; the same names give the same draws.

    >>> import torch, featscope as fs
    >>> draws = [torch.rand(1, generator=fs.stream(0, "data", part)) for part in ("train", "train", "test")]
    >>> bool(draws[0] == draws[1]), bool(draws[0] == draws[2])
    (True, False)
    """
    return torch.Generator().manual_seed(derive(require_whole("seed", seed, 0), *names))
