"""Epochs and batches of `patch-fig3` and `patch-batches`, balls of each patch, and the recursions' X̃."""

from pathlib import Path

import polars as pl
import pytest
import torch

from featscope.attacks.patch_model_free import model_free
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.runner import run
from featscope.experiments.spec import request
from featscope.laws.patches import PatchLaw
from featscope.laws.separation import distances, patch_distances
from featscope.papers.at.fig3_settings import Training
from featscope.papers.at.patch_batches import PatchBatches, median_switch, switch_rows
from featscope.papers.at.patch_fig3 import PatchFig3

SMALL = {"law.d": 16, "net.width": 4, "train_size": 12, "seeds": [0, 1]}


def made(name: str, folder: Path, **changes: object) -> Run:
    wanted = {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}}
    return run(request(experiment(name), "quick", wanted), Store(folder))


def test_the_default_is_the_printed_setting_in_batches_of_five() -> None:
    for plan in (PatchFig3().standard, PatchFig3().adversarial):
        assert (plan.learning_rate, plan.epochs, plan.batch_size) == (0.1, 1000, 5)
    assert len(PatchFig3().seeds) >= 5


@pytest.mark.parametrize(("size", "steps"), [(None, 1), (100, 1), (30, 4), (25, 4), (1, 100)])
def test_steps_an_epoch(size: int | None, steps: int) -> None:
    assert Training(batch_size=size).steps_an_epoch(100) == steps


def test_rows_count_epochs_whatever_the_batch(tmp_path: Path) -> None:
    brief = {
        "standard__epochs": 6,
        "adversarial__epochs": 6,
        "every": 2,
        "test_size": 10,
        "evaluation__every": 6,
        "evaluation__points": 4,
        "evaluation__curve_points": 4,
        "evaluation__radii": [],
    }
    small, whole = (
        made("patch-fig3", tmp_path, standard__batch_size=size, adversarial__batch_size=size, **brief)
        for size in (5, None)
    )
    for done in (small, whole):
        rows = done.part("dynamics", arm="adversarial", seed=0)
        assert rows["step"].to_list() == [0, 2, 4, 6]
        assert rows["robust_training-attack"].null_count() == 0
        assert rows["robust_full-ball"].null_count() == 2
    ends = [pl.Series(done.summary["standard"]["v"]).max() for done in (small, whole)]
    assert ends[0] > ends[1]  # three steps an epoch move more than one


def test_sizes_of_batches_end_when_learned_or_with_the_epochs(tmp_path: Path) -> None:
    def ends(rho: float) -> pl.DataFrame:
        sizes = {"batch_sizes": [1, 12], "training__epochs": 20, "every": 1, "net__rho": rho}
        return made("patch-batches", tmp_path, **sizes).part("switches")

    soon, late = ends(1e-4), ends(1.0)
    assert late["epochs"].to_list() == [20] * 8
    assert late["u_end"].max() < 1.0
    whole = soon.filter(pl.col("batch_size") == 12)
    assert whole["epochs"].to_list() == [1] * 4
    assert whole["u_end"].min() >= 1e-4


def test_who_never_switches_comes_after_all_who_do() -> None:
    rows = [
        {"seed": 3, "step": step, "u": [0.0 if step < 4 else 2.0, 0.1], "v": [1.0, 0.5]}
        for step in (0, 2, 4, 6)
    ]
    found = switch_rows(rows)
    assert [(row["class"], row["switch"], row["epochs"]) for row in found] == [(0, 4, 6), (1, None, 6)]
    assert median_switch([10, None, 20]) == 20
    assert median_switch([None, None, 20]) == float("inf")


@pytest.mark.parametrize("sizes", [[0, 5], [5, 5], [101], []])
def test_sizes_that_are_no_batches_are_refused(sizes: list[int]) -> None:
    with pytest.raises((BadInput, ValueError)):
        PatchBatches(batch_sizes=tuple(sizes))


def test_a_ball_of_each_patch() -> None:
    x = torch.randn(3, 4, 5, generator=stream(0, "x"), dtype=torch.float64)
    apart, whole = Threat("L2", 0.5, event=2, apart=1), Threat("L2", 0.5, event=2)
    far = 10 * torch.ones_like(x)
    assert torch.allclose(apart.project(far, x).norm(dim=-1), torch.full((3, 4), 0.5, dtype=torch.float64))
    assert torch.allclose(whole.project(far, x).flatten(1).norm(dim=-1), torch.full((3,), 0.5).double())
    delta = apart.sample(x, stream(0, "draw"))
    assert bool(apart.contains(delta, x).all())
    assert delta.norm(dim=-1).max() <= 0.5 + 1e-12
    assert apart.contains(delta, x).shape == (3,)
    delta[1, 2] *= 10 / delta[1, 2].norm()
    assert apart.contains(delta, x).tolist() == [True, False, True]
    assert apart.with_radius(0.1).apart == 1
    with pytest.raises(BadInput):
        Threat("L2", 0.5, event=2, apart=2)
    same = Threat("Linf", 0.5, event=2, apart=1), Threat("Linf", 0.5, event=2)
    assert torch.equal(*(threat.project(far * x, x) for threat in same))


def test_the_model_free_perturbation_fills_the_ball_of_a_patch() -> None:
    law = PatchLaw()
    batch = law.sample(20, stream(0, "data"))
    _, v = law.features()
    for norm, rest in (("Linf", 1.2), ("L2", (1.2**2 - 1) ** 0.5)):
        delta = model_free(law, batch, 1.2, stream(0, "a"), norm)
        order = float("inf") if norm == "Linf" else 2
        assert torch.linalg.vector_norm(delta, order, -1).max() == pytest.approx(1.2)
        along = (delta @ v.mT)[~batch.robust]
        assert along.amax(-1).min() == pytest.approx(rest)
        assert along.amin(-1).max() == pytest.approx(-1.0)


def test_patches_apart_are_apart_in_one_patch() -> None:
    x = torch.zeros(2, 3, 4, dtype=torch.float64)
    x[1, :, 0] = torch.tensor([1.0, 2.0, 3.0])
    assert patch_distances(x, "L2")[0, 1] == pytest.approx(3.0)
    assert distances(x, "L2")[0, 1] == pytest.approx(14**0.5)
    assert patch_distances(x, "Linf")[0, 1] == distances(x, "Linf")[0, 1]


def test_groups_of_equal_patches_are_found_again() -> None:
    batch = PatchLaw(sigma_n=0.0, k=3, d=20).population()
    data = co.latents(batch, 3)
    first = co.first_patches(batch, data)
    assert first.shape == data.robust.shape
    assert torch.equal(batch.robust.gather(-1, first), data.robust)
    assert torch.equal(batch.amplitude.gather(-1, first), data.amplitude)
    assert torch.equal(first[:, data.robust[0]], batch.robust.to(torch.int64).argmax(-1, keepdim=True))


def test_the_lemmas_clip_is_not_the_algorithms(tmp_path: Path) -> None:
    done = run(request(experiment("patch-recursion"), "quick", {"steps": 20}), Store(tmp_path))
    arms = {
        arm: done.part("dynamics", arm=arm) for arm in ("adversarial", "features-only", "patch", "coordinate")
    }
    for arm in ("adversarial", "features-only"):
        for column in ("gap", "gap_x", "outside"):
            assert arms[arm][column].max() < 1e-12, (arm, column)
    for arm in ("patch", "coordinate"):
        assert arms[arm]["gap"].max() > 1e-3
        assert arms[arm]["gap_x"].max() > 1e-3
        assert arms[arm]["outside"].max() < 1e-12
