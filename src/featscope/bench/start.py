"""What it costs to begin: help, a mistyped verb and the bare import, each against `import torch`, as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

from featscope.bench.timing import Ratio, compare

HELP = "from featscope.cli.main import invoke; invoke(['--help'])"
MISTYPED = "from featscope.cli.main import invoke; invoke(['chekc'])"


def _process(code: str) -> Callable[[], None]:
    def run() -> None:
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    return run


def measure() -> Iterator[Ratio]:
    """The time of `import torch` over ours: 3 or more for help."""
    torch = _process("import torch")
    for name, code in (("featscope --help", HELP), ("a mistyped verb", MISTYPED), ("import featscope", "import featscope")):
        yield compare(name, _process(code), "import torch", torch, rounds=5, repeats=2)
    yield compare("import featscope", _process("import featscope"), "a bare interpreter", _process("pass"), rounds=9, repeats=5)
