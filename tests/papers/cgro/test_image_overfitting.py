"""`image-overfitting-cifar10` and `image-flatness`: seeds taken over give the rows of a run made at once."""

import polars as pl
import pytest

from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.experiments.registry import experiment
from featscope.experiments.runner import run
from featscope.experiments.spec import Request, resolve
from featscope.papers.cgro.image_flatness import ImageFlatness
from featscope.papers.cgro.image_overfitting import BUDGETS, CifarOverfitting

SMALL = {
    "train": 60,
    "test": 20,
    "attacked": 20,
    "net.width": 2,
    "training.epochs": 2,
    "training.batch_size": 16,
    "training.select_steps": 2,
}


def of(seeds: list[int]) -> Request:
    plan = experiment("image-overfitting-cifar10")
    return Request(plan, resolve(plan, "quick", {**SMALL, "seeds": seeds}))


@pytest.mark.usefixtures("small_cifar")
def test_more_seeds_take_over_what_fewer_have_trained(tmp_path) -> None:
    fewer = run(of([0]), Store(tmp_path / "grown"))
    grown = run(of([0, 1]), Store(tmp_path / "grown"))
    at_once = run(of([0, 1]), Store(tmp_path / "once"))
    assert grown.manifest["notes"]["seeds taken over"] == {fewer.path.name: [0]}
    assert grown.rows.select(sorted(grown.rows.columns)).equals(
        at_once.rows.select(sorted(at_once.rows.columns))
    )
    assert grown.summary == at_once.summary
    assert set(grown.tensors) == set(at_once.tensors)
    assert all(bool((grown.tensors[name] == t).all()) for name, t in at_once.tensors.items())


@pytest.mark.usefixtures("small_cifar")
def test_gap_and_fall_are_differences_of_the_accuracies(tmp_path) -> None:
    rows = run(of([0, 1]), Store(tmp_path)).part("compared")
    assert rows["seed"].to_list() == [0, 1]
    for which in ("best", "last"):
        gap = rows[f"robust_train_{which}"] - rows[f"robust_test_{which}"]
        assert rows[f"gap_{which}"].to_list() == gap.to_list()
    fall = rows["robust_test_best"] - rows["robust_test_last"]
    assert rows["lost_by_training_on"].to_list() == fall.to_list()


def test_budgets_train_on_as_many_images_as_they_say() -> None:
    for kept, drawn in BUDGETS.items():
        spec = CifarOverfitting(train=drawn)
        assert drawn - round(spec.training.held_out * drawn) == int(kept)
    # The rate over the batch is that of .1 for 128 images.
    training = CifarOverfitting().training
    assert training.schedule.peak / training.batch_size == pytest.approx(0.1 / 128)
    assert [training.schedule(share) for share in (0.1, 0.6, 0.9)] == pytest.approx([0.025, 0.0025, 0.00025])


@pytest.mark.usefixtures("small_mnist")
def test_every_size_and_length_is_a_network_of_its_own(tmp_path) -> None:
    plan = experiment("image-flatness")
    changes = {"sizes": [50], "lengths": [1, 2, 3], "measured": 10, "attacked": 10, "test": 20}
    changes |= {"training.batch_size": 16, "seeds": [0], "steps": 2, "training.attack.steps": 1}
    done = run(Request(plan, resolve(plan, "quick", changes)), Store(tmp_path))
    rows = done.part("network")
    assert rows.select("images", "epochs").rows() == [(50, 1), (50, 2), (50, 3)]
    trained = done.part("training").filter(pl.col("step") == pl.col("epochs"))
    assert sorted(trained.select("images", "epochs").rows()) == sorted(rows.select("images", "epochs").rows())
    assert rows["gradient_test"].n_unique() == 3
    assert (rows["robust_loss_test"] >= rows["loss_test"]).all()
    assert done.summary["networks"] == 3
    assert done.summary["pearson"]["mean"] is not None


def test_sizes_and_lengths_stand_in_their_lists() -> None:
    with pytest.raises(BadInput, match="train has no effect"):
        ImageFlatness(train=300)
    with pytest.raises(BadInput, match=r"training\.epochs has no effect"):
        ImageFlatness(training=ImageFlatness().training.replace(epochs=3))
    assert len(ImageFlatness().trainings()) == 8
