"""What it costs to begin: help, a mistyped verb and the bare import against `import torch`, as processes of
their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

from featscope.bench.timing import Ratio, compare, seconds

CALL = "from featscope.cli.main import invoke; invoke({!r})"
COMMANDS = {
    "featscope --help": CALL.format(["--help"]),
    "featscope run --help": CALL.format(["run", "--help"]),
    "featscope chekc, a mistyped verb": CALL.format(["chekc"]),
    "import featscope": "import featscope",
}


def process(code: str) -> Callable[[], None]:
    """A call that runs code in a fresh interpreter."""

    def run() -> None:
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    return run


def measure(rounds: int = 5) -> Iterator[Ratio]:
    """The time of `import torch` over ours, at least 3 for help; and what the bare import adds to an
    interpreter's start."""
    for name, code in COMMANDS.items():
        yield compare(name, process(code), "import torch", process("import torch"), rounds=rounds, repeats=1)
    ours, bare = process("import featscope"), process("pass")
    found = compare("import featscope", ours, "a bare interpreter", bare, rounds=rounds, repeats=5)
    more = median(seconds(ours, 5) - seconds(bare, 5) for _ in range(rounds))
    yield replace(found, note=f"{1000 * more:.0f} ms more")
