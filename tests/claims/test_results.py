"""`results/`: the runs behind published verdicts on real images, as small as rows are, and what they say."""

import importlib.util
import json
import math
from pathlib import Path

import polars as pl
import pytest
import torch
from safetensors import safe_open

from featscope.claims import book, ledger
from featscope.claims.registry import claims
from featscope.core.errors import BadInput
from featscope.core.files import read_json
from featscope.core.progress import Silent
from featscope.core.stats import at_confidence
from featscope.core.store import Store
from featscope.core.stored import LeftOut
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run, find_runs
from featscope.experiments.spec import identity, resolve
from featscope.plots.picture import Picture
from featscope.report import drawing

ROOT = next(path for path in Path(__file__).parents if (path / "pyproject.toml").exists())
_tool = importlib.util.spec_from_file_location("pack_results", ROOT / "tools" / "pack_results.py")
assert _tool is not None
assert _tool.loader is not None
pack_results = importlib.util.module_from_spec(_tool)
_tool.loader.exec_module(pack_results)
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


LOOKED_AT = [run for run in find_runs(RESULTS) if (run.path / "until.json").exists()]


def test_every_run_is_behind_a_line() -> None:
    used = {name for line in LINES for name in line.evidence["runs"].values()}
    assert {run.path.name for run in find_runs(RESULTS)} - {run.path.name for run in LOOKED_AT} <= used
    assert used <= {run.path.name for run in find_runs(RESULTS)}


@pytest.mark.parametrize(
    "run", LOOKED_AT, ids=lambda run: f"{run.experiment} {len(run.settings.seeds)} seeds"
)
def test_every_last_look_is_judged_again_at_its_confidence(run: Run) -> None:
    told = read_json(run.path / "until.json")
    last = told["looks"][-1]
    assert last["seeds"] == len(run.settings.seeds) == told["rule"]["sizes"][len(told["looks"]) - 1]
    for line in last["readings"]:
        claim = claims()[line["id"]]
        reading = next(reading for reading in claim.readings if reading.name == line["reading"])
        with at_confidence(told["rule"]["confidence"]):
            again = ledger.judge(claim, reading, dict.fromkeys(reading.needs, run))
        assert again.verdict == line["verdict"]
        for name in ("value", "low", "high"):
            assert getattr(again, name) == pytest.approx(line[name], rel=1e-9, abs=1e-12)


def test_every_reading_whose_runs_are_there_has_a_line() -> None:
    """Nothing that could be judged here is kept back."""
    told = {(line.id, line.reading) for line in LINES}
    assert {(line.id, line.reading) for line in pack_results.judged(RESULTS, "cpu")} == told


def test_no_pixels_and_no_weights_are_passed_on() -> None:
    for run in find_runs(RESULTS):
        read = experiment(run.experiment).data
        assert read is not None
        closed = bool(set(read(run.settings)) & {"cifar10", "cifar100", "svhn"})
        with safe_open(str(run.path / "tensors.safetensors"), "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118
                shape = tensors.get_slice(name).get_shape()
                assert "weights" not in name
                assert math.prod(shape) <= 50_000
                assert not closed or not set(shape) & {784, 1024, 3072}
                assert not closed or tuple(shape[-2:]) not in {(28, 28), (32, 32)}
        for column, kind in run.rows.schema.items():
            if isinstance(kind, pl.List):
                assert (run.rows[column].list.len().max() or 0) < 784, column
    assert sum(file.stat().st_size for file in RESULTS.rglob("*") if file.is_file()) < 30e6


def test_what_may_be_an_image_stays_at_home() -> None:
    pixels, small = torch.zeros(2, 3, 32, 32), torch.zeros(10, 10)
    assert pack_results.passed_on("originals[seed=0]/x", pixels, closed=False)
    assert not pack_results.passed_on("originals[seed=0]/x", pixels, closed=True)
    assert not pack_results.passed_on("originals[seed=0]/x", pixels.flatten(1), closed=True)
    assert pack_results.passed_on("table[seed=0]/features", small, closed=True)
    assert not pack_results.passed_on("training[seed=0]/best_weights", small, closed=False)
    assert not pack_results.passed_on("table[seed=0]/features", torch.zeros(50_001), closed=False)
    with pytest.raises(AssertionError, match="pixels"):
        pack_results.require_no_pixels(pl.DataFrame({"x": [[0.0] * 784]}))
    pack_results.require_no_pixels(pl.DataFrame({"x": [[0.0] * 20, None], "y": [1, 2]}))


def made(folder: Path, name: str, **changes: object) -> Run:
    """A finished run of one seed with rows that a judge reads, pixels, weights and a small table."""
    plan = experiment(name)
    body = json.loads(json.dumps(identity(plan, resolve(plan, "cpu", changes))))
    row = {"seed": 0, "gap_last": 0.2, "lost_by_training_on": 0.1, "robust_train_last": 0.9}
    more = {"clean_gap_last": 0.1, "clean_test_last": 0.5, "robust_test_last": 0.3}
    tensors = {"x": torch.zeros(2, 3, 32, 32), "weights": torch.zeros(4), "table": torch.eye(3)}
    with Store(folder).write(body, Silent()) as writing:
        writing.add("compared", [{**row, **more, "seed": seed} for seed in (0, 1, 2)])
        writing.add("shown", [{"a": 1}], tensors, seed=0)
        return Run(writing.finish({}, {}).path)


def test_packing_keeps_what_readings_need_and_says_what_it_left_out(tmp_path: Path) -> None:
    source, into = tmp_path / "runs", tmp_path / "results"
    run = made(source, "image-overfitting-cifar10", train=625)
    made(source, "image-overfitting-cifar10", train=777)
    looked = made(source, "image-overfitting-cifar10", train=778)
    (looked.path / "until.json").write_text("{}")
    chosen = list(pack_results.wanted(find_runs(source), "cpu"))
    assert {one.path.name for one in chosen} == {run.path.name, looked.path.name}
    packed = Run(pack_results.pack(run, into))
    assert packed.rows.equals(run.rows)
    assert set(packed.tensors) == {"shown[seed=0]/table"}
    assert packed.manifest["left_out"] == ["shown[seed=0]/weights", "shown[seed=0]/x"]
    with pytest.raises(LeftOut, match="not passed on"):
        packed.tensor("shown", "x", seed=0)
    with pytest.raises(BadInput, match="no such tensor"):
        packed.tensor("shown", "z", seed=0)
    again = Run(pack_results.pack(packed, tmp_path / "twice"))
    assert again.manifest["left_out"] == packed.manifest["left_out"]
    assert pack_results.pack(packed, into) == packed.path
    lines = pack_results.judged(into, "cpu")
    assert [line.reading for line in lines] == ["cifar10-gap (500 images)", "cifar10-falls (500 images)"]
    pack_results.pack(looked, into)
    pack_results.drop_the_rest(into, lines)
    assert {one.path.name for one in find_runs(into)} == {run.path.name, looked.path.name}
    pack_results.drop_the_rest(into, [])
    assert {one.path.name for one in find_runs(into)} == {looked.path.name}


def test_figures_of_what_was_left_out_are_not_drawn_and_the_others_are(tmp_path: Path, monkeypatch) -> None:
    run = Run(pack_results.pack(made(tmp_path / "runs", "image-overfitting-cifar10"), tmp_path / "results"))

    def with_pixels(run: Run) -> Picture:
        run.tensor("shown", "x", seed=0)
        raise AssertionError

    def bare(run: Run) -> Picture:
        return Picture("t", "c", "a", {"mark": "point", "data": {"values": []}})

    monkeypatch.setattr(drawing, "drawings", lambda name: {"pixels": with_pixels, "bare": bare})
    assert [path.stem for path in drawing.draw_figures(run)] == ["bare"]
    assert drawing.has_figures(run)
