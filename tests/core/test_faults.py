"""Faults: killed, full disk, folder that cannot be written, truncated files, two at once. Nothing lost, the
same result, errors of one line.

The short form runs with all tests; `make test-faults` sets FEATSCOPE_FAULTS to the number of kills for each
command (docs/testing.md).
"""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import image_files as files
import pytest
import torch
from torch import Tensor

from featscope.claims import book, ledger
from featscope.claims.claim import Claim, Finding, Need, Reading, Verdict
from featscope.cli import run as cli_run
from featscope.cli.main import invoke
from featscope.core import files as written
from featscope.core.progress import Silent
from featscope.core.store import Folder, Part, Store
from featscope.dynamics import trajectory as loop
from featscope.dynamics.trajectory import seed_labels, trajectory
from featscope.experiments import runner
from featscope.experiments import spec as specs
from featscope.experiments.registry import experiments
from featscope.experiments.run import Run, find_runs
from featscope.experiments.spec import Experiment, Request, Spec
from featscope.images import datasets
from featscope.images.catalogue import DATASETS, MNIST
from featscope.papers import at
from featscope.plots.picture import Picture

TRIALS = int(os.environ.get("FEATSCOPE_FAULTS", "0"))
#: the short form takes the cheap commands, two kills each; a killed training is also in test_image_training.py
SHORT = ("fetch again", "check", "report")
ALL = ("fetch", "fetch again", "train", "train again", "invert", "check", "report")


@pytest.mark.parametrize("scenario", ALL if TRIALS else SHORT)
def test_nothing_is_lost_by_kill_9_nor_by_two_at_once(scenario: str, tmp_path: Path) -> None:
    script = [
        sys.executable,
        str(Path(__file__).parents[1] / "support" / "kills.py"),
        str(TRIALS or 2),
        str(tmp_path),
        scenario,
    ]
    done = subprocess.run(
        script, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(
        f"{scenario}: {found['tried']} tried, {found['killed']} killed over {found['moments']} moments, "
        f"{len(found['lost'])} lost"
    )
    assert found["killed"] == found["tried"]
    assert found["lost"] == []
    assert found["together"] == ""


class Point(NamedTuple):
    x: Tensor


def toy(spec: Spec, folder: Folder) -> dict[str, object]:
    """A part that is resumed, and one that is made in one go and not read again."""
    start = Point(torch.ones(2, dtype=torch.float64))
    part = folder.part("walk")
    done = trajectory(
        lambda s, t: Point(s.x * 1.5),
        start,
        4,
        lambda s, t: {"value": s.x},
        runs=seed_labels([0, 1]),
        keep=part,
    )
    folder.add("extra", [{"a": 1.0}], {"t": torch.arange(3)})
    return {"last": done.rows[-1]["value"]}


def nothing(run: Run) -> Picture:
    return Picture("nothing", "a point", "a point", {"data": {"values": [{}]}, "mark": "point"})


TOY = Experiment("toy", "at", "a toy", Spec, toy, {})


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(experiments(), "toy", TOY)
    monkeypatch.setitem(at.FIGURES, "toy", {"nothing": nothing})
    monkeypatch.setattr(cli_run, "known_line", lambda name: {"name": name, "takes": {}})
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)


def command(runs: Path, *more: str) -> list[str]:
    return ["run", "toy", "--out", str(runs), "--json", *more]


def content(run: Run) -> list[object]:
    return [run.rows.rows(), run.summary, {name: t.tolist() for name, t in run.tensors.items()}]


def only(folder: Path) -> Run:
    (run,) = find_runs(folder)
    return run


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    text = capsys.readouterr().err
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    assert errors == text.splitlines()[-1:]
    return errors[0]


@pytest.fixture
def whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """An undisturbed run."""
    assert invoke(command(tmp_path / "whole")) == 0
    capsys.readouterr()
    return only(tmp_path / "whole")


# -- the order of writes
# ----------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here; nothing after it runs but what Python cannot help."""


class Moments:
    """Every touch of the disk by the store is a moment; the process ends before the chosen one."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, last: int, raising: Callable[[], BaseException] = Killed
    ) -> None:
        self.seen, self.last, self.raising = 0, last, raising
        for owner, name in (
            (Path, "rename"),
            (Path, "replace"),
            (Path, "mkdir"),
            (Path, "unlink"),
            (shutil, "rmtree"),
            (written, "write_bytes"),
        ):
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, function: Callable[..., object]) -> Callable[..., object]:
        def touch(*arguments: object, **options: object) -> object:
            self.seen += 1
            if self.seen >= self.last:
                raise self.raising()
            return function(*arguments, **options)

        return touch


def until_done(work: Callable[[], object], raising: Callable[[], BaseException] = Killed) -> Iterator[None]:
    """Do the work again and again, ended before its first, second, … moment, until it is not; the body looks
    at what is left."""
    for last in range(1, 200):
        with pytest.MonkeyPatch.context() as patch:
            moments = Moments(patch, last, raising)
            with contextlib.suppress(Killed, OSError):
                work()
            ended = moments.seen < last
        yield
        if ended:
            return
    raise AssertionError("never done")


@pytest.mark.parametrize("step", [3, 4], ids=["same step", "next step"])
def test_a_save_that_is_killed_at_any_moment_leaves_the_old_or_the_new(step: int, tmp_path: Path) -> None:
    part, seen = Part(tmp_path, "p"), set()
    part.save(3, False, [{"a": 1}], {"t": torch.ones(1)})
    for _ in until_done(lambda: part.save(step, False, [{"a": 2}], {"t": torch.zeros(1)})):
        saved = part.read()
        seen.add(saved.rows[0]["a"])
        assert (saved.rows[0]["a"], float(saved.tensors["t"][0])) in {(1, 1.0), (2, 0.0)}
        part.save(3, False, [{"a": 1}], {"t": torch.ones(1)})
    assert seen == {1, 2}
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 1


def test_a_forced_run_that_is_killed_at_any_moment_leaves_a_finished_one(whole: Run, tmp_path: Path) -> None:
    """The finished run is there without making it again, whatever moment its successor was killed at."""

    def never(spec: Spec, folder: Folder) -> dict[str, object]:
        raise AssertionError("made again")

    expected, store = content(whole), Store(whole.path.parent.parent)
    for _ in until_done(lambda: runner.run(Request(TOY, Spec()), store, force=True)):
        kept = runner.run(Request(Experiment("toy", "at", "a toy", Spec, never, {}), Spec()), store)
        assert content(kept) == expected
        assert [p.name for p in kept.path.parent.iterdir() if p.name.endswith(".old")] == []
        assert not (kept.path / "parts").exists()


def test_the_parts_of_a_run_outlive_every_moment_until_it_is_finished(tmp_path: Path) -> None:
    """Killed while it is finished, a run does not do its steps again."""
    store, steps = Store(tmp_path), []

    def counted(spec: Spec, folder: Folder) -> dict[str, object]:
        if folder.part("work").load() is None:
            steps.append("work")
            folder.add("work", [{"a": 1}])
        return {}

    plan = Experiment("toy", "at", "a toy", Spec, counted, {})
    who = specs.identity(plan, Spec())
    with store.write(who, Silent()) as folder:
        counted(Spec(), folder)

        def finish() -> None:
            folder.finish({}, {})

        for _ in until_done(finish):
            finished = (folder.place / "manifest.json").exists()
            assert finished or Part(folder.partial / "parts", "work").load() is not None
    assert steps == ["work"]


# -- full disk, folders that cannot be written
# ------------------------------------------------------------------------------------


def test_a_full_disk_is_one_line_and_the_same_command_goes_on(
    whole: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = 0
    for last in range(1, 200, 1 if TRIALS else 12):
        runs = tmp_path / f"full{last}"
        with pytest.MonkeyPatch.context() as patch:
            moments = Moments(patch, last, lambda: OSError(errno.ENOSPC, "No space left on device"))
            code = invoke(command(runs))
            ended = moments.seen < last
        if ended:
            break
        if code != 0:
            failures += 1
            assert "no space left" in one_line(capsys)
        assert invoke(command(runs)) == 0
        assert content(only(runs)) == content(whole)
        capsys.readouterr()
    assert failures > (10 if TRIALS else 1)


@pytest.mark.skipif(not TRIALS, reason="the long form mounts a small disk")
def test_a_disk_that_is_really_full(whole: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False, capture_output=True
    ).returncode:
        pytest.skip("mounting is not permitted")
    try:
        for taken in range(0, 64, 4):
            (disk / "ballast").write_bytes(b"x" * (1024 * taken))
            code = invoke(command(disk / "runs"))
            assert code == 0 or "no space left" in one_line(capsys)
            (disk / "ballast").unlink()
            assert invoke(command(disk / "runs")) == 0
            assert content(only(disk / "runs")) == content(whole)
            shutil.rmtree(disk / "runs")
            capsys.readouterr()
    finally:
        subprocess.run(["umount", str(disk)], check=False)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_is_one_line(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Moments(patch, 1, lambda: OSError(number, os.strerror(number), str(tmp_path)))
        assert invoke(command(tmp_path / "runs")) == 2
    text = one_line(capsys)
    assert os.strerror(number) in text
    assert str(tmp_path) in text
    assert invoke(command(tmp_path / "runs")) == 0


def test_a_file_in_the_place_of_a_folder_is_one_line(
    whole: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    here = str(tmp_path / "file")
    for arguments in (
        command(Path(here)),
        ["check", "CG-LA.1", "-p", "quick", "-j", "1", "--out", here],
        ["report", here],
        ["report", str(whole.path), "--out", here + "/page.html"],
        ["data", "fetch", "mnist", "--data", here],
        ["data", "verify", "mnist", "--data", here],
    ):
        assert invoke(arguments) == 2, arguments
        assert "file" in one_line(capsys)


# -- truncated files
# --------------------------------------------------------------------------------------------------------------


def truncations(folder: Path, spare: Path) -> Iterator[Path]:
    """Every file below, cut in half, then emptied, then gone; the folder is as it was between."""
    shutil.copytree(folder, spare)
    for name in sorted(str(p.relative_to(spare)) for p in spare.rglob("*") if p.is_file()):
        for keep in (lambda data: data[: len(data) // 2], lambda data: b"", None):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(spare, folder)
            if keep is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(keep((folder / name).read_bytes()))
            yield folder / name


def test_a_damaged_finished_run_is_made_again(
    whole: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, tried = content(whole), 0
    for damaged in truncations(whole.path, tmp_path / "spare"):
        tried += 1
        assert invoke(command(tmp_path / "whole")) == 0, damaged
        assert content(only(tmp_path / "whole")) == expected, damaged
        said = capsys.readouterr().err
        if damaged.name in ("rows.parquet", "spec.json") and damaged.exists():
            assert "made again because" in said, damaged
    assert tried >= 21


def test_a_damaged_part_of_an_unfinished_run_is_made_again(whole: Run, tmp_path: Path) -> None:
    store, who = Store(tmp_path / "runs"), specs.identity(TOY, Spec())
    with store.write(who, Silent()) as folder:
        toy(Spec(), folder)
    tried = 0
    for damaged in truncations(folder.partial, tmp_path / "spare"):
        tried += 1
        assert content(runner.run(Request(TOY, Spec()), store)) == content(whole), damaged
        shutil.rmtree(folder.place)
    assert tried >= 18


def test_a_damaged_part_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Part(tmp_path, name).save(2, True, [{"x": name}], {})
    (tmp_path / "a.2.done" / "rows.parquet").write_bytes(b"PAR1")
    assert Part(tmp_path, "a").load() is None
    assert Part(tmp_path, "b").read().rows == [{"x": "b"}]
    (tmp_path / "b.json").write_text('{"folder": "b.2.done"}')
    assert Part(tmp_path, "b").load() is None


def test_a_damaged_run_among_others_is_named_by_its_own_folder(
    whole: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`report` cannot make it again; its advice must not be to delete what is whole."""
    root, page = tmp_path / "whole", tmp_path / "page.html"
    runner.run(Request(TOY, Spec(seeds=(5,))), Store(root))
    shutil.copytree(root, tmp_path / "spare")
    for name in ("spec.json", "summary.json", "manifest.json", "rows.parquet"):
        (whole.path / name).write_bytes((whole.path / name).read_bytes()[:9])
        assert invoke(["report", str(root), "--out", str(page)]) == 0
        advice = f"delete the folder {whole.path} and make the run again"
        assert advice in capsys.readouterr().err, name
        assert advice in page.read_text(), name
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "spare", root)


def test_a_truncated_figure_is_drawn_again(whole: Run, tmp_path: Path) -> None:
    picture = whole.path / "figures" / "nothing.png"
    before = picture.read_bytes()
    picture.write_bytes(before[:50])
    assert invoke(["report", str(whole.path), "--out", str(tmp_path / "page.html")]) == 0
    assert picture.read_bytes() == before


def test_a_damaged_ledger_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = Reading("r", "reads", {"run": Need("toy")}, lambda runs: Finding(Verdict.HOLDS, 1.0, 2.0))
    mine = {"X": Claim("X", "at", "Lemma 1", "text", (), (reading,))}
    monkeypatch.setattr(ledger, "all_claims", lambda: mine)
    monkeypatch.setattr(book, "claims", lambda: mine)
    check = ["check", "-p", "quick", "-j", "1", "--out", str(tmp_path)]
    assert invoke(check) == 0
    path = tmp_path / "ledger.json"
    before = path.read_text()
    lines = book.read(tmp_path)
    assert [line.id for line in lines] == ["X"]
    report = ["report", str(tmp_path), "--out", str(tmp_path / "page.html")]
    for text in (before[: len(before) // 2], "", "{}", '[{"a": 1}]'):
        path.write_text(text)
        capsys.readouterr()
        assert invoke(report) == 2
        said = one_line(capsys)
        assert str(path) in said
        assert "delete this file" in said
        path.unlink()
        assert invoke(report) == 0
        assert invoke(check) == 0
        assert book.read(tmp_path) == lines


def test_damaged_data_names_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    described, arrays = files.small(MNIST)
    monkeypatch.setitem(DATASETS, "mnist", described)
    source = files.write_files(tmp_path / "official", files.official_files(MNIST, arrays))
    fetch = ["data", "fetch", "mnist", "--data", str(tmp_path / "data"), "--from", str(source)]
    assert invoke(fetch) == 0
    place = tmp_path / "data" / "mnist"
    whole = {p.name: p.read_bytes() for p in place.iterdir()}
    tried = 0
    for damaged in truncations(place, tmp_path / "spare"):
        tried += 1
        capsys.readouterr()
        code = invoke(["data", "verify", "mnist", "--data", str(tmp_path / "data")])
        if damaged.name == "source.json":
            assert code == 0  # who gave the data is no part of it
        else:
            assert code == 2, damaged
            assert "data fetch mnist" in one_line(capsys), damaged
            assert invoke(fetch) == 0, damaged
            assert {p.name: p.read_bytes() for p in place.iterdir()} == whole
    assert tried == 18
    assert datasets.verify(described, tmp_path / "data")["published"]


def test_a_worker_that_is_killed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> "Broken":
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, *_: object) -> object:
            raise runner.BrokenProcessPool("terminated abruptly")

        def shutdown(self, **_: object) -> None: ...

    monkeypatch.setattr(runner, "ProcessPoolExecutor", Broken)
    assert invoke(["check", "CG-LA.1", "CG-T5.3", "-p", "quick", "-j", "2", "--out", str(tmp_path)]) == 2
    assert "worker process was killed" in one_line(capsys)
