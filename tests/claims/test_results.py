"""`results/`: the runs behind published verdicts on real images, as small as rows are, and what they say."""

import math
from pathlib import Path

import pytest
from safetensors import safe_open

from featscope.claims import book, ledger
from featscope.claims.registry import claims
from featscope.core.store import Store
from featscope.experiments.registry import experiment
from featscope.experiments.run import find_runs

ROOT = next(path for path in Path(__file__).parents if (path / "pyproject.toml").exists())
RESULTS = ROOT / "results"
LINES = book.read(RESULTS)


def test_there_are_results() -> None:
    assert len(LINES) > 10
    assert {line.profile for line in LINES} == {"cpu"}


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.id} {line.reading}")
def test_every_published_line_is_judged_again(line: ledger.Line) -> None:
    claim = claims()[line.id]
    reading = next(reading for reading in claim.readings if reading.name == line.reading)
    runs = ledger.found_runs(reading, line.profile, Store(RESULTS))
    assert runs is not None, "its run is not there"
    again = ledger.judge(claim, reading, runs, line.profile)
    assert (again.verdict, again.would_be) == (line.verdict, line.would_be)
    for name in ("value", "bound", "low", "high"):
        mine, theirs = getattr(again, name), getattr(line, name)
        assert (mine is None) == (theirs is None)
        assert mine is None or math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-12)


def test_every_run_is_behind_a_line() -> None:
    used = {name for line in LINES for name in line.evidence["runs"].values()}
    assert {run.path.name for run in find_runs(RESULTS)} == used


def test_no_pixels_and_no_weights_are_passed_on() -> None:
    for run in find_runs(RESULTS):
        assert experiment(run.experiment).data is not None
        with safe_open(str(run.path / "tensors.safetensors"), "pt") as tensors:
            assert list(tensors.keys()) == []
    assert sum(file.stat().st_size for file in RESULTS.rglob("*") if file.is_file()) < 30e6
