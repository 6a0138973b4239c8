"""Sweeps from end to end: one table, whatever interrupts them, and refinement by what a column says."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import featscope as fs
from featscope.core.errors import BadInput
from featscope.core.store import Rows
from featscope.sweeps import sweep as sweeping
from featscope.sweeps.asked import from_file, of
from featscope.sweeps.engines import Local
from featscope.sweeps.points import Job, work
from featscope.sweeps.sweep import jobs_of, run_sweep, share_of

#: a race that takes a moment
FAST = {"relative": 0.2, "net.width": 3}


def raced(out: Path, vary: dict[str, object], **options: object) -> pl.DataFrame:
    asked = of("patch-race", vary, settings=FAST, seeds=2, **options)  # type: ignore[arg-type]
    return run_sweep(asked, out, Local(1)).rows


def test_a_row_is_a_point_and_a_seed_with_settings_numbers_and_digest(tmp_path: Path) -> None:
    rows = raced(tmp_path, {"law.alpha": "1.5:4:2", "training": ["standard", "features-only"]})
    first = ["point", "relative", "net.width", "law.alpha", "training", "seeds", "seed", "robust_share"]
    assert rows.columns[:8] == first
    assert rows.columns[-2:] == ["digest", "error"]
    assert rows.select("point", "law.alpha", "training", "seed").rows()[:5] == [
        (0, 1.5, "standard", 0),
        (0, 1.5, "standard", 1),
        (1, 1.5, "features-only", 0),
        (1, 1.5, "features-only", 1),
        (2, 4.0, "standard", 0),
    ]
    assert rows.filter((pl.col("law.alpha") == 4) & (pl.col("training") == "standard"))[
        "robust_share"
    ].to_list() == [1, 1]


def test_a_point_is_the_run_that_featscope_run_makes(tmp_path: Path) -> None:
    rows = raced(tmp_path / "a", {"law.alpha": [1.5, 4.0]})
    alone = fs.run("patch-race", out=tmp_path / "b", seeds=2, alpha=4.0, relative=0.2, net__width=3)
    assert alone.path.name == rows["digest"][-1]
    swept = tmp_path / "a" / "patch-race" / alone.path.name
    assert pl.read_parquet(swept / "rows.parquet").rows() == alone.rows.rows()


def test_failed_points_are_recorded_and_stop_nothing(tmp_path: Path) -> None:
    rows = raced(tmp_path, {"law.patches": [1, 16], "law.d": [3, 100]})
    errors = rows.unique("point", maintain_order=True)["error"].to_list()
    assert [error is None for error in errors] == [False, False, False, True]
    assert "robust and non-robust patches" in errors[1]
    assert "2k must be at most d" in errors[2]


def test_a_batch_that_fails_is_tried_point_by_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = of("patch-race", {"law.alpha": [1.5, 2.0, 4.0]}, settings=FAST, seeds=1)
    batch = asked.plan.batch
    assert batch is not None

    def fragile(specs: Sequence[object]) -> object:
        if any(spec.law.alpha.moment(1) == 2.0 for spec in specs):  # type: ignore[attr-defined]
            raise RuntimeError("not this one")
        return batch.run(specs)

    monkeypatch.setitem(asked.plan.__dict__, "batch", type(batch)(batch.shape, fragile))  # type: ignore[arg-type]
    rows = run_sweep(asked, tmp_path, Local(1)).rows
    assert rows["error"].to_list() == [None, "RuntimeError: not this one", None]


def test_what_is_finished_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = raced(tmp_path, {"law.alpha": "1.5:4:3"})
    stamps = {p: p.stat().st_mtime_ns for p in tmp_path.glob("patch-race/*/rows.parquet")}
    monkeypatch.setattr("featscope.papers.at.patch_race.raced", pytest.fail)
    assert_frame_equal(raced(tmp_path, {"law.alpha": "1.5:4:3"}), first)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("patch-race/*/rows.parquet")} == stamps


def test_points_of_one_shape_go_together_and_others_apart(tmp_path: Path) -> None:
    asked = of("patch-race", {"net.q": [3, 4], "law.alpha": "1:4:60"})
    points = list(enumerate(map(asked.changes, sweeping.design("grid", asked.axes))))
    assert [len(job.points) for job in jobs_of(asked, points, tmp_path)] == [50, 10, 50, 10]
    other = of("signal-lemmas", {"rates": [[0.1, 1.0], [0.2, 1.0]]})
    assert (
        len(
            jobs_of(other, list(enumerate(map(other.changes, sweeping.design("grid", other.axes)))), tmp_path)
        )
        == 2
    )


def test_shards_together_are_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "TOGETHER", 2)
    asked = of("patch-race", {"law.alpha": "1.5:4:5"}, settings=FAST, seeds=1)
    parts = [run_sweep(asked, tmp_path, Local(1), shard=share_of(f"{i}/3")).rows for i in (1, 2, 3)]
    assert [part.height for part in parts] == [2, 2, 1]
    assert_frame_equal(pl.concat(parts).sort("point"), run_sweep(asked, tmp_path, Local(1)).rows)
    for text in ("0/3", "4/3", "1", "a/b"):
        with pytest.raises(BadInput, match="shard"):
            share_of(text)


def test_a_file_says_what_the_function_does(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        'experiment = "patch-race"\nseeds = 2\nrefine = "robust_share"\n[vary]\n"law.alpha" = "1:4:3"\n'
        "[vary.law]\npatches = {low = 3, high = 40, count = 4, log = true}\n[set]\nrelative = 0.2\nnet.width = 3\n"
    )
    vary = {"law.alpha": "1:4:3", "law.patches": "3:40:4:log"}
    same = of("patch-race", vary, seeds=2, refine="robust_share", settings=FAST)
    assert from_file(path).identity() == same.identity()
    path.write_text('experiment = "patch-race"\nsedes = 2\n')
    with pytest.raises(BadInput, match="seeds"):
        from_file(path)


def test_verdicts_of_the_claims_that_need_one_run_are_columns(tmp_path: Path) -> None:
    asked = of("signal-lemmas", {"rates": [[0.1, 1.0], [0.2, 1.0]]}, profile="quick")
    rows = run_sweep(asked, tmp_path, Local(1)).rows
    verdicts = [name for name in rows.columns if name.startswith("CG-LA.1 ")]
    assert verdicts
    assert rows[verdicts[0]].to_list() == ["HOLDS", "HOLDS"]


@dataclass
class Pretending:
    """An engine that knows what its points would say."""

    verdict: object
    asked: list[dict[str, object]] = field(default_factory=list)

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, list[Rows]]]:
        for job in jobs:
            rows = []
            for number, changes in job.points:
                self.asked.append(dict(changes))
                seeds = len(changes["seeds"])
                said = self.verdict(changes, seeds)  # type: ignore[operator]
                rows.append(
                    [{"point": number, **changes, "seeds": seeds, "seed": None, **said, "error": None}]
                )
            yield job, rows

    def close(self) -> None:
        """Nothing to end."""


def test_a_boundary_is_known_to_the_width_that_was_asked_for(tmp_path: Path) -> None:
    engine = Pretending(lambda p, _: {"lead": p["law.alpha"] - 1.9})
    asked = of("patch-race", {"law.alpha": "1:5:5"}, seeds=1, refine="lead", level=0.0, width=0.01)
    edge = run_sweep(asked, tmp_path, engine).boundary
    assert edge is not None
    ((low, high),) = edge.rows()
    assert low < 1.9 < high
    assert high - low <= 0.01 * 4
    assert len(engine.asked) == 5 + 5


def test_an_inconclusive_point_gets_more_seeds_until_it_is_decided(tmp_path: Path) -> None:
    def verdict(point: dict[str, float], seeds: int) -> dict[str, str]:
        if abs(point["law.alpha"] - 3) < 0.1 and seeds < 8:
            return {"PH x": "INCONCLUSIVE"}
        return {"PH x": "HOLDS" if point["law.alpha"] < 3.05 else "FAILS"}

    engine = Pretending(verdict)
    asked = of("patch-race", {"law.alpha": "1:5:3"}, seeds=2, refine="PH x", width=0.6)
    rows = run_sweep(asked, tmp_path, engine).rows
    at_3 = [len(p["seeds"]) for p in engine.asked if p["law.alpha"] == 3.0]  # type: ignore[arg-type]
    assert at_3 == [2, 4, 8]
    assert rows.filter(pl.col("law.alpha") == 3).select("seeds", "PH x").rows() == [(8, "HOLDS")]


def test_refusals_come_before_the_work() -> None:
    with pytest.raises(BadInput, match="cuts the cells of a grid"):
        of("patch-race", {"law.alpha": "1:2"}, design="lhs", points=5, refine="robust_share")
    with pytest.raises(BadInput, match="varied and fixed"):
        of("patch-race", {"law.alpha": "1:2:3"}, settings={"alpha": 3.0})
    with pytest.raises(BadInput, match="unknown key"):
        of("patch-race", {"law.alpha": "1:2:3"}, settings={"alhpa": 3.0})


SWEEP = """
import featscope.sweeps.sweep as s, sys
s.TOGETHER = 3
from featscope.sweeps.asked import of
from featscope.sweeps.engines import Local
from pathlib import Path
asked = of("patch-race", {"law.alpha": "1.2:5:24"}, settings={"relative": 0.2, "net.width": 3}, seeds=1)
s.run_sweep(asked, Path(sys.argv[1]), Local(1))
"""


def test_a_killed_sweep_goes_on_to_the_table_of_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "TOGETHER", 3)
    child = subprocess.Popen([sys.executable, "-c", SWEEP, str(tmp_path / "a")], env=os.environ)
    runs = tmp_path / "a" / "patch-race"
    while child.poll() is None and len(list(runs.glob("*/manifest.json"))) < 5:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not list((tmp_path / "a").glob("sweeps/*/points.parquet"))
    made = {path.parent.name: path.stat().st_mtime_ns for path in runs.glob("*/manifest.json")}
    asked = of("patch-race", {"law.alpha": "1.2:5:24"}, settings=FAST, seeds=1)
    resumed, whole = (run_sweep(asked, tmp_path / name, Local(1)) for name in "ab")
    assert 5 <= len(made) < 24
    assert resumed.path.read_bytes() == whole.path.read_bytes()
    assert made.items() <= {p.parent.name: p.stat().st_mtime_ns for p in runs.glob("*/manifest.json")}.items()


def test_a_worker_needs_nothing_but_its_job(tmp_path: Path) -> None:
    job = Job("patch-race", "quick", tmp_path, ((7, {**FAST, "law.alpha": 4.0}),))
    ((row,),) = work(job)
    assert (row["point"], row["law.alpha"], row["robust_share"], row["error"]) == (7, 4.0, 1.0, None)
