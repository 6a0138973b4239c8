"""The one loop: recording, resuming, diverging."""

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from featscope.core.errors import BadInput
from featscope.core.store import Part
from featscope.core.streams import stream
from featscope.dynamics import trajectory as loop
from featscope.dynamics.trajectory import seed_labels, trajectory


class Point(NamedTuple):
    x: Tensor


def noisy(state: Point, t: int) -> Point:
    """A step with randomness that is a function of the step, as mini-batches are."""
    return Point(
        0.9 * state.x + torch.randn(state.x.shape, generator=stream(0, "step", t), dtype=torch.float64)
    )


def look(state: Point, t: int) -> dict[str, Tensor]:
    return {"value": state.x, "square": state.x**2}


START = Point(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))


def test_rows_are_one_for_each_run_and_recorded_step() -> None:
    record = trajectory(noisy, START, 10, look, every=4, runs=seed_labels([5, 6, 7]))
    assert [(r["step"], r["seed"]) for r in record.rows] == [
        (t, run) for t in (0, 4, 8, 10) for run in (5, 6, 7)
    ]
    assert record.rows[0]["value"] == 1.0


def test_two_parts_equal_the_whole() -> None:
    whole = trajectory(noisy, START, 20, look)
    first = trajectory(noisy, START, 8, look)
    second = trajectory(lambda s, t: noisy(s, t + 8), first.state, 12, look)
    assert torch.equal(second.state.x, whole.state.x)


class Killed(Exception):
    pass


@pytest.mark.parametrize("kill_at", [3, 7, 12])
def test_a_killed_run_resumes_to_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill_at: int
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    whole = trajectory(noisy, START, 15, look, every=4, runs=seed_labels([0, 1, 2]))

    def fragile(state: Point, t: int) -> Point:
        if t == kill_at and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            raise Killed
        return noisy(state, t)

    part = Part(tmp_path, "part")
    with pytest.raises(Killed):
        trajectory(fragile, START, 15, look, every=4, runs=seed_labels([0, 1, 2]), keep=part)
    saved = part.load()
    assert saved is not None
    assert not saved.done
    assert saved.step == kill_at
    again = trajectory(fragile, START, 15, look, every=4, runs=seed_labels([0, 1, 2]), keep=part)
    assert again.rows == whole.rows
    assert torch.equal(again.state.x, whole.state.x)


def test_a_finished_part_is_not_run_again(tmp_path: Path) -> None:
    part = Part(tmp_path, "part")
    first = trajectory(noisy, START, 5, look, keep=part)

    def never(state: Point, t: int) -> Point:
        raise AssertionError("ran again")

    assert trajectory(never, START, 5, look, keep=part).rows == first.rows


def test_observing_more_changes_nothing() -> None:
    less = trajectory(noisy, START, 9, lambda s, t: {"value": s.x})
    more = trajectory(
        noisy, START, 9, lambda s, t: {"value": s.x, "noise": torch.rand(3, generator=stream(1, t))}, every=2
    )
    assert torch.equal(less.state.x, more.state.x)


def test_a_diverging_run_is_recorded_until_then_and_the_others_go_on() -> None:
    def explode(state: Point, t: int) -> Point:
        return Point(state.x * torch.tensor([1e200, 1.0, 1.0], dtype=torch.float64))

    record = trajectory(explode, START, 6, look, runs=seed_labels([0, 1, 2]))
    assert record.diverged == {"0": 1}
    assert [r["step"] for r in record.rows if r["seed"] == 0] == [0]
    assert [r["step"] for r in record.rows if r["seed"] == 2] == list(range(7))
    alone = trajectory(lambda s, t: Point(s.x * 1e200), START, 50, look, runs=seed_labels([0, 1, 2]))
    assert set(alone.diverged) == {"0", "1", "2"}
    assert max(r["step"] for r in alone.rows) == 0


def test_stop_ends_early_at_a_recorded_step() -> None:
    record = trajectory(noisy, START, 100, look, every=5, stop=lambda s, t: t >= 20)
    assert record.rows[-1]["step"] == 20


@pytest.mark.parametrize("bad", [{"steps": -1}, {"steps": 3, "every": 0}, {"steps": 3, "runs": []}])
def test_bad_trajectories_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        trajectory(noisy, START, observe=look, **bad)
