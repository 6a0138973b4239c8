"""The tutorials' code: each block of Python with the output that is printed below it, run in order."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

TUTORIALS = tuple(f"docs/tutorials/{paper}.md" for paper in ("at", "fa", "cgro", "ep"))
FENCE = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<shown>.*?)```)?", re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
#: printed numbers may move in the last digit between machines
SLACK = 0.021


class Block(NamedTuple):
    """A piece of code and the output that the page shows for it, if it shows any."""

    code: str
    shown: str | None


def blocks(text: str) -> list[Block]:
    """All blocks of a page."""
    return [Block(found["code"], found["shown"]) for found in FENCE.finditer(text)]


def run_blocks(page: Path, folder: Path) -> list[str]:
    """Run a page's blocks one after the other in ``folder`` and return what each printed."""
    names: dict[str, Any] = {}
    printed = []
    with contextlib.chdir(folder):
        for block in blocks(page.read_text(encoding="utf-8")):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block.code, str(page), "exec"), names)
            printed.append(out.getvalue())
    return printed


def refreshed(text: str, printed: Sequence[str]) -> str:
    """The page with the outputs replaced by what was printed."""
    outputs = iter(printed)

    def put(found: re.Match[str]) -> str:
        output = next(outputs)
        code = f"```python\n{found['code']}```"
        return f"{code}\n\n```text\n{output}```" if output else code

    return FENCE.sub(put, text)


def differences(shown: str, printed: str) -> list[tuple[str, str]]:
    """Where an output differs from the page: words, or numbers by more than the last digit."""
    left, right = NUMBER.split(shown), NUMBER.split(printed)
    words = [(a, b) for a, b in zip(left, right, strict=False) if a.split() != b.split()]
    if words or len(left) != len(right):
        return words or [(shown, printed)]
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return [(a, b) for a, b in pairs if abs(float(a) - float(b)) > SLACK * max(1.0, abs(float(a)))]
