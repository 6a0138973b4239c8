"""`featscope figures`: files for papers."""

from __future__ import annotations

import shutil
from pathlib import Path

import page_runs
import pytest

from featscope.cli.main import invoke
from featscope.core.store import Store
from featscope.experiments import runner
from featscope.experiments.registry import experiment
from featscope.experiments.run import find_runs
from featscope.experiments.spec import request

BEGINS = {"pdf": b"%PDF", "svg": b"<svg", "png": b"\x89PNG", "json": b'{"$schema"'}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    plan = experiment(page_runs.EXPERIMENT)
    for changes in ({}, {"seeds": [1]}):
        runner.run(request(plan, "quick", changes), Store(folder))
    return folder


@pytest.mark.parametrize("form", BEGINS)
def test_a_file_for_each_figure_of_each_run(form: str, runs: Path, tmp_path: Path) -> None:
    assert invoke(["figures", str(runs), "--format", form, "--out", str(tmp_path / "new" / "out")]) == 0
    written = sorted((tmp_path / "new" / "out").iterdir())
    assert [path.suffix for path in written] == [f".{form}"] * 2
    assert all(path.read_bytes().startswith(BEGINS[form]) for path in written)
    variant = next(run.path.name for run in find_runs(runs) if run.identity["spec"]["seeds"] == [1])
    assert {path.name.startswith(f"patch-minima-{variant[:8]}-") for path in written} == {True, False}


def test_only_some(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (usual,) = (run for run in find_runs(runs) if run.identity["spec"]["seeds"] != [1])
    assert invoke(["figures", str(usual.path), "-f", "svg", "-o", str(tmp_path), "--only", "patch"]) == 0
    assert len(list(tmp_path.iterdir())) == 1
    capsys.readouterr()
    assert invoke(["figures", str(usual.path), "-o", str(tmp_path), "--only", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_bad_input_is_one_line_and_writes_nothing(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, empty = tmp_path / "file", tmp_path / "empty"
    file.write_text("mine")
    empty.mkdir()
    for arguments in (
        [str(runs), "--format", "bmp", "--out", str(tmp_path / "out")],
        [str(runs), "--out", str(file)],
        [str(empty), "--out", str(tmp_path / "out")],
        [str(tmp_path / "gone"), "--out", str(tmp_path / "out")],
    ):
        assert invoke(["figures", *arguments]) == 2
        said = capsys.readouterr().err
        assert said.startswith("error: ")
        assert said.count("\n") == 1
    assert file.read_text() == "mine"
    assert not (tmp_path / "out").exists()


def test_a_damaged_run_is_named_and_the_others_are_written(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = Path(shutil.copytree(runs, tmp_path / "runs"))
    bad = find_runs(copied)[0].path
    (bad / "rows.parquet").write_bytes(b"PAR1")
    assert invoke(["figures", str(copied), "-f", "svg", "--out", str(tmp_path / "out")]) == 0
    assert str(bad) in capsys.readouterr().err
    assert len(list((tmp_path / "out").iterdir())) == 1
