"""Help, the version and mistyped verbs come without torch; `featscope bench start` measures what that
saves."""

import subprocess
import sys

import pytest

from featscope.bench import start
from featscope.bench.registry import BENCHES

# typer loads pydantic by itself
HEAVY = ["torch", "numpy", "scipy", "polars", "vl_convert", "jinja2", "safetensors"]
LIGHT = {
    "--help": "Usage: featscope [OPTIONS] COMMAND",
    "--version": "0.",
    "run --help": "--profile",
    "check --help": "--jobs",
    "report --help": "--out",
    "figures --help": "--format",
    "list --help": "--json",
    "list": "patch-fig3, patch-batches",
    "list at": "AT-P3.2",
    "list --paper FA --json": '"FA-T4.5"',
    "list zzz": "error: nothing is about this: zzz",
    "show --help": "--json",
    "runs --help": "export",
    "runs clean --help": "--yes",
    "run patch-fgi3": "error: unknown experiment: patch-fgi3; did you mean patch-fig3",
    "show patch-fgi3": "error: unknown experiment: patch-fgi3",
    "bench --help": "--json",
    "data fetch --help": "--source",
    "chekc": "error: unknown verb: chekc; did you mean check?",
    "rnu": "error: unknown verb: rnu; did you mean run or runs?",
    "nonsense": "choose one of bench, check, data, doctor, explain, figures, lab, list, probe, report, run",
    "run": "error: Missing argument",
    "run patch-fig3 --profil quick": "error: No such option",
}


@pytest.mark.parametrize("command", LIGHT)
def test_nothing_heavy_is_loaded_before_a_verb_runs(command: str) -> None:
    code = f"""
import sys
from featscope.cli.main import invoke
code = invoke({command.split()!r})
loaded = [name for name in {HEAVY} if name in sys.modules]
sys.exit(f"loaded: {{loaded}}" if loaded else code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert LIGHT[command] in said
    assert "loaded:" not in said
    assert done.returncode == (2 if "error" in said else 0)


def test_the_check_for_heavy_modules_can_fail() -> None:
    code = f"import sys, torch; print([name for name in {HEAVY} if name in sys.modules])"
    assert (
        "torch"
        in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    )


def test_as_a_module_and_as_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "featscope", "chekc"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "error: unknown verb: chekc; did you mean check?\n"


def test_the_bench_measures_these_commands_against_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """With processes whose length is known: torch takes 12, help 3, the bare import 2 and an interpreter
    1."""
    clock = [0.0]
    lengths = {"import torch": 12.0, "import featscope": 2.0, "pass": 1.0}

    def process(code: str):
        def run() -> None:
            clock[0] += lengths.get(code, 3.0)

        return run

    monkeypatch.setattr(start, "process", process)
    for name in ("compare", "seconds"):
        timed = getattr(start, name)
        monkeypatch.setattr(start, name, lambda *a, timed=timed, **k: timed(*a, **k, clock=lambda: clock[0]))
    found = [(line.name, line.against, line.ratio, line.note) for line in start.measure()]
    assert found == [
        ("featscope --help", "import torch", 4.0, ""),
        ("featscope run --help", "import torch", 4.0, ""),
        ("featscope chekc, a mistyped verb", "import torch", 4.0, ""),
        ("import featscope", "import torch", 6.0, ""),
        ("import featscope", "a bare interpreter", 0.5, "1000 ms more"),
    ]
    assert BENCHES["start"] is start.measure


@pytest.mark.parametrize("code", start.COMMANDS.values())
def test_the_measured_commands_run(code: str) -> None:
    start.process(code)()
