"""Numbers that are no longer numbers: recorded as such, in no mean, and said."""

import json
import math
import re
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from image_task import SPEC, task
from torch import Tensor

from featscope.claims import ledger, scope
from featscope.claims.claim import Claim, Finding, Need, Reading, Verdict
from featscope.cli.main import invoke
from featscope.core.health import Diverged, ailments, bound, told, without_gaps
from featscope.core.store import Folder, Part, Store
from featscope.core.streams import stream
from featscope.dynamics import trajectory as loop
from featscope.dynamics.image_training import Trainer, TrainingSpec
from featscope.dynamics.schedules import Schedule
from featscope.dynamics.trajectory import seed_labels, trajectory
from featscope.experiments import spec as specs
from featscope.experiments.keys import parse_assignments
from featscope.experiments.registry import experiment
from featscope.experiments.run import find_runs
from featscope.experiments.runner import run
from featscope.experiments.spec import Experiment, Spec
from featscope.images.datasets import ImageBatch
from featscope.papers.fa import clusters


class Point(NamedTuple):
    x: Tensor
    time: Tensor


def start(*values: float, dtype: torch.dtype = torch.float64) -> Point:
    return Point(torch.tensor(values, dtype=dtype), torch.zeros(len(values), dtype=dtype))


def grow(factor: float):
    return lambda state, t: Point(state.x * factor, state.time + 1e30)


def look(state: Point, t: int) -> dict[str, Tensor]:
    return {"value": state.x}


@pytest.mark.parametrize(("dtype", "largest"), [(torch.float64, 2.0**52), (torch.float32, 2.0**23)])
def test_saturation_begins_where_a_difference_of_one_is_lost(dtype: torch.dtype, largest: float) -> None:
    assert bound(dtype) == largest
    at = torch.tensor([largest, 2 * largest, math.inf, math.nan, -2 * largest, 0.0], dtype=dtype)
    assert ailments([at, torch.arange(6)], 6) == [
        None,
        "saturated",
        "overflowed",
        "overflowed",
        "saturated",
        None,
    ]
    assert float(at[1] * 2 + 1 - at[1] * 2) == 0.0


def test_an_overflow_in_one_tensor_outweighs_saturation_in_another() -> None:
    much, nothing = torch.full((1, 2), 1e200, dtype=torch.float64), torch.tensor([[0.0, math.nan]])
    for tensors in ([much, nothing], [nothing, much]):
        assert ailments(tensors, 1) == ["overflowed"]


def test_saturated_runs_are_recorded_until_then_as_saturated() -> None:
    state, runs = start(1.0, 1e-30, 1e300), seed_labels([7, 8, 9])
    record = trajectory(grow(1e10), state, 4, look, runs=runs, clocks=("time",))
    assert record.diverged == {"9": 0, "7": 2}
    assert record.how == {"9": "saturated", "7": "saturated"}
    assert [(r["step"], r["seed"]) for r in record.rows if r["seed"] != 8] == [(0, 7), (1, 7)]
    assert [r["step"] for r in record.rows if r["seed"] == 8] == list(range(5))
    with pytest.raises(Diverged, match=r"run 9 saturated at step 0, run 7 saturated at step 2; lower it"):
        record.healthy("x", "lower it")


def test_how_is_kept_over_a_resumption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    part = Part(tmp_path, "p")

    def dies(state: Point, t: int) -> Point:
        if t == 3:
            raise KeyboardInterrupt
        return grow(1e10)(state, t)

    arguments = {"runs": seed_labels([0, 1]), "keep": part, "clocks": ("time",)}
    with pytest.raises(KeyboardInterrupt):
        trajectory(dies, start(1.0, 0.0), 6, look, **arguments)
    for _ in range(2):
        again = trajectory(grow(1e10), start(1.0, 0.0), 6, look, **arguments)
        assert (again.diverged, again.how) == ({"0": 2}, {"0": "saturated"})


def test_a_clock_may_be_large_and_only_a_clock() -> None:
    assert trajectory(grow(1.0), start(1.0), 3, look, clocks=("time",)).diverged == {}
    assert trajectory(grow(1.0), start(1.0), 3, look).diverged == {"": 1}


@pytest.mark.parametrize(
    ("labels", "name", "said"),
    [
        ({"seed": 4}, "4", "x, run 4 saturated at step 1;"),
        ({"net": "fine", "seed": 4}, "net=fine,seed=4", "x, run net=fine,seed=4 saturated at step 1;"),
        ({}, "", "x, saturated at step 1;"),
    ],
)
def test_an_only_run_is_called_by_the_labels_of_its_part(
    labels: dict[str, int | str], name: str, said: str, tmp_path: Path
) -> None:
    part = Part(tmp_path, "p", labels)
    record = trajectory(grow(1.0), start(1.0), 3, look, keep=part)
    assert record.diverged == {name: 1}
    assert part.read().notes["diverged"] == {name: 1}
    with pytest.raises(Diverged, match=re.escape(said)):
        record.healthy("x")
    assert told(part.read().notes) == said.removeprefix("x, ").removesuffix(";") + ", in no mean"


SMALL = [
    "d=12",
    "m=4",
    "N=10",
    "test_size=12",
    "standard.epochs=6",
    "every=3",
    "evaluation.points=3",
    "evaluation.curve_points=3",
]
FAST = [*SMALL, "evaluation.steps=2", "evaluation.radii=[]", "evaluation.every=6", 'arms=["standard"]']


def test_a_huge_learning_rate_is_said_and_gives_no_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [f"--set={text}" for text in [*FAST, "standard.learning_rate=1e300"]]
    assert (
        invoke(["run", "patch-fig3", "-p", "quick", "--seeds", "2", *sets, "--out", str(tmp_path), "--json"])
        == 0
    )
    shown = capsys.readouterr()
    summary = json.loads(shown.out)["standard"]
    assert summary["diverged"] == {"0": 3, "1": 3}
    assert set(summary["how"].values()) <= {"saturated", "overflowed"}
    assert summary["clean_test"] is summary["u"] is summary["robust_train"]["training-attack"] is None
    assert "run 0" in shown.err
    assert "in no mean" in shown.err
    assert "in no mean" in (find_runs(tmp_path)[0].path / "report.html").read_text()


def test_a_mean_over_seeds_leaves_out_the_diverged_and_lists_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from featscope.papers.at import patch_fig3

    plan = experiment("patch-fig3")
    changes = parse_assignments(FAST) | {"seeds": [0, 1]}
    alone = run(specs.request(plan, "quick", changes | {"seeds": [1]}), Store(tmp_path / "alone"))
    step_of = patch_fig3.training_epoch

    def first_seed_blows_up(*arguments: object, **options: object):
        step = step_of(*arguments, **options)
        return lambda state, t: state._replace(
            w=step(state, t).w * torch.tensor([1e200, 1.0], dtype=torch.float64).view(2, 1, 1, 1)
        )

    monkeypatch.setattr(patch_fig3, "training_epoch", first_seed_blows_up)
    both = run(specs.request(plan, "quick", changes), Store(tmp_path / "both"))
    mixed, clean = both.summary["standard"], alone.summary["standard"]
    assert mixed.pop("diverged") == {"0": 3}
    assert mixed.pop("how") == {"0": "overflowed"}
    for key in ("u", "v", "clean_test", "clean_train", "noise_correlation"):
        assert mixed[key] == pytest.approx(clean[key], rel=1e-9), key
    assert mixed["robust_test"]["full-ball"] == clean["robust_test"]["full-ball"]
    assert both.diverged == {"dynamics[arm=standard]": ["0"]}
    assert both.part("radii", arm="standard")["seed"].unique().to_list() == [1]


def test_clusters_leave_out_a_diverged_seed_and_refuse_when_none_is_left() -> None:
    def measure(seed: int) -> int:
        if seed in bad:
            raise Diverged(f"seed {seed}")
        return seed

    bad = {1}
    assert clusters.each_healthy([0, 1, 2], measure) == ([0, 2], {"diverged": {"1": "seed 1"}})
    bad = set()
    assert clusters.each_healthy([0, 1], measure) == ([0, 1], {})
    bad = {0, 1}
    with pytest.raises(Diverged):
        clusters.each_healthy([0, 1], measure)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("clusters-fig2", "training.learning_rate"),
        ("signal-stages", "learning_rate"),
        ("patch-noise", "learning_rate"),
    ],
)
def test_other_experiments_refuse_in_one_line(
    name: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"clusters-fig2": ["n=20", "d=40"], "signal-stages": ["steps=100"], "patch-noise": ["steps=20"]}[
        name
    ]
    sets = [f"--set={text}" for text in [*small, f"{key}=1e300"]]
    assert invoke(["run", name, "-p", "quick", "--seeds", "1", *sets, "--out", str(tmp_path)]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "training left the numbers" in shown
    assert "learning_rate" in shown
    assert find_runs(tmp_path) == []


def test_a_diverged_image_training_is_refused() -> None:
    wild = TrainingSpec(epochs=3, batch_size=32, schedule=Schedule(shape="constant", peak=1e30))
    with pytest.raises(Diverged, match="peak"):
        Trainer(SPEC.build(stream(0, "init")), ImageBatch(*task(160)), wild, 0).run()


def test_a_summary_holds_null_where_a_number_is_not_finite(tmp_path: Path) -> None:
    assert without_gaps({"a": [1.0, math.nan], "b": {"c": math.inf, "d": "x"}}) == (
        {"a": [1.0, None], "b": {"c": None, "d": "x"}},
        ["a.1", "b.c"],
    )
    plan = Experiment("odd", "at", "x", Spec, lambda spec, folder: {"mean": math.nan, "good": 1.0}, {})
    done = run(specs.Request(plan, Spec()), Store(tmp_path))
    assert done.summary == {"mean": None, "good": 1.0}
    assert "mean" in told(done.manifest["notes"]["summary"])


def _claim(verdict: Verdict) -> Claim:
    reading = Reading("r", "reads", {"run": Need("x")}, lambda runs: Finding(verdict, 1.0, 0.0))
    return Claim("X-1", "at", "Lemma 1", "text", (), (reading,))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_over_what_is_left_of_the_seeds_is_inconclusive(
    verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some_diverge(spec: Spec, folder: Folder) -> dict[str, object]:
        notes = {"diverged": {"1": 5}, "how": {"1": "saturated"}}
        folder.part("p").save(0, True, [{"step": 0, "seed": 0}], {}, notes)
        return {}

    plan = Experiment("odd", "at", "x", Spec, some_diverge, {})
    monkeypatch.setattr(scope, "experiment", {"odd": plan}.__getitem__)
    done = run(specs.Request(plan, Spec()), Store(tmp_path))
    claim = _claim(verdict)
    line = ledger.judge(claim, claim.readings[0], {"run": done})
    assert line.verdict == ("INCONCLUSIVE" if verdict in (Verdict.HOLDS, Verdict.FAILS) else verdict.value)
    assert line.evidence["diverged"] == {"run": {"p": ["1"]}}
    assert line.evidence["verdict_without_them"] == verdict.value
