"""`featscope doctor`: what is here, and what is missing for what."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from featscope import __version__
from featscope.cli.console import JsonOption, announce, print_json, tell

#: enough for all runs of the cpu profile with their figures, in bytes
ENOUGH_DISK = 2e9
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")

Line = dict[str, Any]


def _line(what: str, value: str, ok: bool = True, remedy: str = "") -> Line:
    return {"what": what, "value": value, "ok": ok, "remedy": "" if ok else remedy}


def _python() -> list[Line]:
    return [
        _line("featscope", __version__),
        _line(
            "Python",
            f"{sys.version.split()[0]} on {platform.platform()}",
            sys.version_info >= (3, 11),
            "use Python 3.11 or newer",
        ),
    ]


def _packages() -> list[Line]:
    lines = []
    for text in requires("featscope") or []:
        name = "".join(sign if sign.isalnum() or sign in "-_." else " " for sign in text).split()[0]
        if "extra ==" in text:
            continue
        try:
            lines.append(_line(name, version(name)))
        except PackageNotFoundError:
            lines.append(_line(name, "missing", False, f"pip install {name}"))
    return lines


def _torch() -> list[Line]:
    try:
        import torch
    except ImportError as error:
        return [_line("torch", f"cannot be imported: {error}", False, "install it again: pip install torch")]
    device = f"CUDA {torch.version.cuda}" if torch.cuda.is_available() else "CPU only"
    return [
        _line(
            "torch build",
            f"{torch.__version__}, {device}, {torch.get_num_threads()} threads, {os.cpu_count()} cores",
        )
    ]


def _machine() -> list[Line]:
    from featscope.experiments.cost import in_bytes, machine_memory

    memory, free = machine_memory(), shutil.disk_usage(Path.cwd()).free
    return [
        _line("memory", in_bytes(memory) if memory else "unknown"),
        _line(
            "disk here",
            f"{in_bytes(free)} free",
            free > ENOUGH_DISK,
            "free some space, or use --out elsewhere",
        ),
    ]


def _data() -> list[Line]:
    from featscope.images.data_folder import data_folder, is_there
    from featscope.images.weights import items

    root = data_folder(None)
    lines = [_line("data folder", str(root))]
    for name in items():
        there = is_there(name, root)
        lines.append(
            _line(
                f"data {name}",
                "there" if there else "not fetched",
                there,
                f"only if needed: featscope data fetch {name}",
            )
        )
    return lines


def _browser() -> list[Line]:
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    return [_line("chromium", found or "not found", found is not None, "only the tests of the page need it")]


PARTS: tuple[Callable[[], list[Line]], ...] = (_python, _packages, _torch, _machine, _data, _browser)


def doctor(as_json: JsonOption = False) -> None:
    """Say what is installed here, and what is missing for what."""
    announce("looking around")
    lines = [line for part in PARTS for line in part()]
    if as_json:
        print_json(lines)
        return
    width = max(len(line["what"]) for line in lines)
    for line in lines:
        sign = "ok" if line["ok"] else "--"
        remedy = f"; {line['remedy']}" if line["remedy"] else ""
        tell(f"{sign} {line['what']:<{width}} {line['value']}{remedy}")
