"""The lines of the bench: exponents by a known clock, steps that are the same step, the machine stated."""

from __future__ import annotations

import pytest
import torch
from typer.testing import CliRunner

from featscope.bench import grows, patch, registry, steps
from featscope.bench.timing import FittedGrowth, Ratio, growth, machine, printed_time, threads
from featscope.cli import bench as cli
from featscope.cli.main import app


def test_an_exponent_is_that_of_the_clock() -> None:
    now = [0.0]

    def call(size: int):
        def run() -> None:
            now[0] += 0.5 * size**1.5

        return run

    found = growth("a", "n", {size: call(size) for size in (10, 20, 40)}, clock=lambda: now[0])
    assert found.exponent == pytest.approx(1.5)
    assert found.low == pytest.approx(1.5)
    assert found.high == pytest.approx(1.5)
    assert found.note.startswith("10: 15.8 s, 20: 44.7 s, 40: 126 s")


def test_times_have_three_digits() -> None:
    assert [printed_time(t) for t in (12.345, 0.01234, 2e-6)] == ["12.3 s", "12.3 ms", "2.00 µs"]


def test_threads_are_as_before_afterwards() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("model", steps.CASES)
@pytest.mark.parametrize("dtype", steps.DTYPES.values())
def test_a_case_has_its_type_and_its_seeds(model: str, dtype: torch.dtype) -> None:
    case = steps.CASES[model](dtype, 2)
    state = case.ours()
    assert state.w.dtype == dtype
    assert state.w.shape[0] == 2
    assert bool(state.w.isfinite().all())
    case.autograd()
    case.products()


def test_the_patch_step_is_the_autograd_step() -> None:
    case = steps.patch_case(torch.float64, 2)
    assert torch.allclose(case.ours().w[0], case.autograd(), rtol=1e-10, atol=1e-12)


def test_what_grows_runs() -> None:
    for call in (
        grows.patch_step(n=4, m=3),
        grows.patch_recursion(seeds=2),
        grows.cluster_run(n=20),
        grows.signal_recursion(n=4),
        grows.radii(2, points=2),
    ):
        assert call() is not None


def test_the_command_states_the_machine_and_prints_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [Ratio("a", "b", 2.0, 1.5, 2.5, "same"), FittedGrowth("c", "d", 1.25, 1.0, 1.5, "10: 1 s")]
    monkeypatch.setattr(registry, "measure", lambda name: iter(lines))
    printed = CliRunner().invoke(app, ["bench", "patch"], env={"COLUMNS": "200"}).output
    assert cli.bench.__doc__ is not None
    for word in ("2.00", "1.50 – 2.50", "1.25", "1.00 – 1.50", str(machine()["torch"])):
        assert word in printed
    told = CliRunner().invoke(app, ["bench", "patch", "--json"]).output
    assert '"machine"' in told
    assert '"exponent": 1.25' in told


def test_every_bench_of_the_patch_model_has_a_name() -> None:
    assert registry.BENCHES["patch"] is patch.measure
    assert {"steps", "growth", "points", "store", "sweep", "training", "images", "start"} <= set(
        registry.BENCHES
    )
