"""What a manifest says of the machine and the packages that made a run."""

from __future__ import annotations

import platform
import sys
from functools import cache
from importlib.metadata import version
from typing import Any

import torch

from featscope.core.stored import FORMAT


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    packages = ("featscope", "torch", "numpy", "scipy", "polars", "safetensors")
    return tuple((name, version(name)) for name in packages)


def environment() -> dict[str, Any]:
    """Versions, platform, threads and device."""
    return {
        "format": FORMAT,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": dict(_versions()),
        "threads": torch.get_num_threads(),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
    }
