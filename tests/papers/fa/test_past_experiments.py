"""Questions past FA, run small: what a reader would check of each by hand."""

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from pictures import checked_figures

from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.runner import run
from featscope.experiments.spec import request
from featscope.laws.clusters import ClusterLaw
from featscope.nets.two_layer import averaging
from featscope.papers.fa.claims_past import settled_from
from featscope.papers.fa.clusters_adversarial import AdversarialSpec
from featscope.papers.fa.clusters_attack import AttackSpec, bends, proof_direction, swept_training
from featscope.papers.fa.clusters_granularity import GranularitySpec, arms
from featscope.papers.fa.clusters_limit import LimitSpec, setting_at
from featscope.papers.fa.clusters_width import WidthSpec, laws


def _run(place: Path, name: str, **overrides: Any) -> Run:
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    return run(request(experiment(name), "quick", changes), Store(place))


def test_groups_are_run_at_every_dimension_and_spoilt_at_the_first() -> None:
    found = arms(GranularitySpec())
    assert [arm.d for arm in found if arm.labels == "groups"] == [10_000] * 5 + [10**9] * 5 + [10_000] * 2
    assert {arm.points for arm in found if arm.labels != "groups"} == {600}
    assert {(arm.labels, arm.wrong) for arm in found if arm.labels != "groups"} == {
        ("noisy", 0.1),
        ("noisy", 0.3),
        ("k-means", 0.0),
    }
    with pytest.raises(BadInput, match="groups are written as sizes"):
        GranularitySpec(equal=("4 against 4",))


def test_more_groups_give_larger_radii_near_the_formula(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    groups = ["2 v 2", "1+1 v 1+1"]
    found = _run(
        tmp_path,
        "clusters-granularity",
        seeds=[0],
        equal=groups,
        unequal=["2 v 1+1"],
        spoilt=["1+1 v 1+1"],
        dimensions=[10_000],
        n=600,
        test_points=40,
    )
    rows = {row["groups"]: row for row in found.part("net", labels="groups").to_dicts()}
    for text, wanted in zip(groups, (0.5, math.sqrt(0.5)), strict=True):
        assert rows[text]["predicted"] == pytest.approx(wanted)
        assert rows[text]["found"] == pytest.approx(wanted, rel=0.06)
        assert rows[text]["certified"] <= rows[text]["found"]
    points = found.part("points")
    assert set(points.select("own", "rival").unique().rows()) == {(2, 1.0), (1, 2.0)}
    assert set(points["groups"]) == {"2 v 1+1"}
    checked_figures(found, capfd)


def test_the_papers_direction_is_the_minimal_perturbation_of_the_averaging_network() -> None:
    law = ClusterLaw(k=4, d=400)
    batch = law.sample(20, seed=0)
    net = averaging(law.features(), law.signs())
    exact = exact_radii(net, batch.x, batch.y)
    cosine = (exact.delta * proof_direction(law, batch)).sum(-1) / exact.upper
    assert cosine.tolist() == pytest.approx([1.0] * 20, abs=1e-6)
    # With both neurons active f is linear, so that only the gradient at the moved point predicts it.
    assert float(bends(net, batch.x, exact.delta)[0].median()) < 0.6


def test_the_sweep_keeps_the_rate_at_which_coefficients_grow() -> None:
    spec = AttackSpec()
    for k in spec.clusters:
        t = swept_training(spec, k)
        rate = t.learning_rate * spec.sweep_dimension / (t.m * k)
        assert rate == pytest.approx(
            spec.training.learning_rate * spec.law.d / (spec.training.m * spec.law.k)
        )
        assert (t.m, t.n) == (k // 2, spec.points_a_cluster * k)


def test_attack_and_flow_run_small(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    attacked = _run(tmp_path, "clusters-attack", seeds=[0], test_points=8, clusters=[4, 6, 8])
    points = attacked.part("points")
    assert (points["along"] >= points["exact"] * (1 - 1e-6)).all()
    assert (points["pgd"] >= points["exact"] * (1 - 1e-6)).all()
    checked_figures(attacked, capfd)
    flows = _run(tmp_path, "clusters-kkt", seeds=[0], training_points=40, last=1e4)
    for layers in ("first", "both"):
        rows = flows.part("course", layers=layers).sort("time")
        assert rows["time"][-1] == pytest.approx(1e4)
        assert rows["normalised_margin"][-1] > 0 > rows["normalised_margin"][0]
        assert rows["averaging"][-1] > 0.9
    checked_figures(flows, capfd)


def test_times_count_from_when_a_condition_stays() -> None:
    rows = pl.DataFrame({"time": [1.0, 2.0, 3.0, 4.0]})
    assert settled_from(rows, [True, False, True, True]) == 3.0
    assert settled_from(rows, [True] * 4) == 1.0
    assert settled_from(rows, [True, True, True, False]) == math.inf


def test_adversarial_training_begins_with_standard_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match="begin with 0"):
        AdversarialSpec(radii=(0.1, 0.2))
    found = _run(tmp_path, "clusters-adversarial", seeds=[0], steps=60, test_points=6)
    ends = found.part("end")
    standard = ends.filter(pl.col("eps") == 0.0)
    # Without a radius there is nothing that the attacks could differ in.
    assert standard["radius"].n_unique() == 1
    assert standard["decoupling"].n_unique() == 1
    assert ends.filter(pl.col("eps") > 0)["decoupling"].n_unique() > 1
    checked_figures(found, capfd)


def test_widths_are_those_of_the_laws(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert len(laws(WidthSpec())) == 8
    with pytest.raises(BadInput, match="lower clusters"):
        WidthSpec(clusters=(24,))
    small: dict[str, Any] = {"clusters": [4], "searched": [4], "ascent_steps": 20}
    found = _run(tmp_path, "clusters-width", **small)
    rows = found.part("width").sort("width")
    assert rows["built"].to_list() == pytest.approx([0.5, 1 / math.sqrt(3), math.sqrt(0.5)], rel=1e-6)
    assert (rows["best"] <= rows["bound"] * (1 + 1e-9)).all()
    checked_figures(found, capfd)


def test_the_limit_uses_the_compact_copy_only_where_it_has_room(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = LimitSpec()
    law, training = setting_at(spec, 3.0, 2.0, 4)
    assert (law.d, training.n, training.compact) == (16, 64, False)
    assert setting_at(spec, 3.0, 10.0, 4)[1].compact
    assert training.learning_rate * law.d / (training.m * law.k) == pytest.approx(spec.growth)
    found = _run(tmp_path, "clusters-limit", points_powers=[3.0], dimension_powers=[6.0])
    rows = found.part("net").sort("k")
    # What memorised noise gives, k/√(2n), within a factor of two: the rest is the largest of several neurons.
    assert ((rows["deviation"] / rows["memorised"]).is_between(0.8, 2.0)).all()
    assert torch.tensor(rows["n"].to_list()).tolist() == [64, 216, 512]
    checked_figures(found, capfd)
