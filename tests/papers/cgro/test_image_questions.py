"""`image-built` and `image-lambda` on a small data set: what they record, and what must be so."""

import polars as pl
import pytest
from image_runs import finished

from featscope.core.store import Store
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve

pytestmark = pytest.mark.usefixtures("small_mnist")
SMALL = {"test": 20, "attacked": 10, "training.attack.steps": 1, "seeds": [0]}


def made(name, tmp_path, **changes):
    plan = experiment(name)
    return finished(plan, resolve(plan, "quick", {**SMALL, **changes}), Store(tmp_path / "runs"))


def declared(run):
    for part, columns in experiment(run.experiment).columns.items():
        assert set(run.part(part).columns) - {"part"} <= set(columns.all()), part


def test_f_s_is_robust_on_the_training_balls_and_its_network_elsewhere(tmp_path):
    run = made("image-built", tmp_path, sizes=[50], updates=4, measured=5, steps=2)
    declared(run)
    nets = {row["net"]: row for row in run.part("nets").to_dicts()}
    assert nets["built"]["certified_train"] == 1
    assert nets["built"]["clean_train"] == 1
    assert nets["built"]["remembered"] == 36, "a tenth of 40 images is held out"
    assert nets["clean"]["certified_train"] is None
    assert nets["clean"]["clean_train"] < 1, "four updates teach nothing, so all of this is memory"
    inside = run.part("radii").filter((pl.col("net") == "built") & (pl.col("set") == "train"))
    inside = inside.filter(pl.col("radius") <= 0.1)
    assert inside["robust"].to_list() == [1, 1]
    assert inside["change"].max() < 1e-4
    for _, rows in run.part("radii").group_by("net", "set"):
        assert rows.sort("radius")["change"].is_sorted()


def test_the_weight_of_attacked_images_is_what_differs(tmp_path):
    run = made("image-lambda", tmp_path, train=50, **{"training.epochs": 2, "training.batch_size": 16})
    declared(run)
    ends = run.part("ended")
    assert sorted(ends["lam"].to_list()) == [0, 0.9, 1]
    first = run.part("training").filter(pl.col("step") == 0)
    assert first["clean_test"].n_unique() == 1, "the same first weights for every λ"
    assert run.part("training").filter(pl.col("step") == 2)["loss"].n_unique() == 3
