"""What the fuzzing of the command line shares: how a line is called, and the rule that it is held to."""

import contextlib
import io
import os
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from featscope.cli import main as cli
from featscope.core.errors import BadInput

#: how many lines are generated in all
TOTAL = int(os.environ.get("FEATSCOPE_FUZZ", "250"))
COUNTS = {"in process": 0, "refused": 0, "accepted": 0, "must be refused": 0, "work begun": 0, "processes": 0}


def share(part: float) -> Any:
    few = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much]
    return settings(
        max_examples=max(int(TOTAL * part), 5), deadline=None, suppress_health_check=few, database=None
    )


def invoke(arguments: list[str]) -> tuple[int, str, str]:
    """Run a command line in process; whatever escapes is a failure of the test."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.invoke(arguments)
    COUNTS["in process"] += 1
    COUNTS["refused" if code else "accepted"] += 1
    return code, out.getvalue(), err.getvalue()


def hold_to_the_rule(arguments: list[str], code: int, err: str) -> None:
    assert code in (0, 2), (arguments, code, err)
    complaints = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(complaints) == (1 if code else 0), (arguments, err)
    assert "Traceback" not in err, (arguments, err)
    if code:
        assert err.splitlines()[-1] == complaints[0], (arguments, err)
        assert len(complaints[0]) < 3000, (arguments, err)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".locks" not in path.parts
    }


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    here = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


#: where a verb has read all its arguments and the work would begin
WORK = (
    ("featscope.experiments.runner", "run"),
    ("featscope.claims.ledger", "run_all"),
    ("featscope.sweeps.sweep", "_Round.run"),
    ("featscope.sweeps.sweep", "_Refinement.run"),
    ("featscope.probe.run", "_Run.document"),
    ("featscope.lab.server", "serve"),
    ("urllib.request", "urlopen"),
    ("subprocess", "run"),
)


class Begun(BadInput):
    """The arguments were taken."""


def stop_before_the_work(patch: pytest.MonkeyPatch) -> None:
    """The work itself is not what is fuzzed: it is replaced by an error that says it would have begun."""

    def begin(*given: Any, **named: Any) -> Any:
        COUNTS["work begun"] += 1
        raise Begun("the work begins", "all arguments were taken", "none is needed")

    from featscope.bench.registry import BENCHES

    for module, place in WORK:
        *owners, name = place.split(".")
        patch.setattr(reduce(getattr, owners, import_module(module)), name, begin)
    for name in BENCHES:
        patch.setitem(BENCHES, name, begin)
    patch.setattr("webbrowser.open", lambda address: True)


def has_begun(err: str) -> bool:
    return "the work begins" in err
