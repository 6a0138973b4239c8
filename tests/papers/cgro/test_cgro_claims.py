"""CGRO and EP experiments, judges and certificates: what must fail fails, what must hold holds."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_rows_cgro_training import samples
from judging import finding

from featscope.certificates.cgro import ball_failures, robust_memory
from featscope.claims import packing as packing_claims
from featscope.claims.claim import Verdict
from featscope.claims.judging import (
    at_most,
    every,
    exactly,
    grows_at_most,
    over_seeds,
    reaches,
    smallest,
    soft,
    steepest,
)
from featscope.core.stats import Interval
from featscope.core.store import CONDITIONS, Store
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.runner import run
from featscope.experiments.spec import request
from featscope.papers.cgro import claims_built as cgro_built
from featscope.papers.cgro import claims_stages
from featscope.papers.cgro import claims_training as cgro
from featscope.papers.cgro.signal_lemmas import decay_share, doublings, growth_time, summed_time
from featscope.papers.cgro.signal_stages import SignalStages, plateau
from featscope.papers.ep import claims_bounds
from featscope.papers.ep import claims_built as ep

SMALL_STAGES = {
    "d": 200,
    "n": 6,
    "steps": 1200,
    "test": 300,
    "verify_steps": 200,
    "every": 40,
    "seeds": [0, 1],
    "radii": [0.02, 0.1, 1.0],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


def quick(name: str, store: Store, **changes: Any) -> Run:
    return run(request(experiment(name), "quick", changes), store)


@pytest.fixture(scope="module")
def stages(store: Store) -> Run:
    return quick("signal-stages", store, **SMALL_STAGES)


def test_signal_stages_summary_holds_the_promised_keys(stages: Run) -> None:
    promised = {
        "clean_train",
        "clean_test",
        "gta_train",
        "gta_test",
        "noise_ball_train",
        "noise_ball_test",
        "alpha3_U",
        "T0",
        "T0_predicted",
    }
    assert promised <= stages.summary.keys()
    assert len(stages.summary["T0"]) == len(stages.summary["T0_predicted"]) == 2
    assert stages.summary["recursion_error"] < 1e-10
    assert stages.summary["clean_test"] == 1.0
    assert stages.summary["gta_train"] == 1.0
    assert abs(stages.summary["gta_test"] - 0.5) < 0.1
    assert stages.summary["noise_ball_test"] < 0.2 < stages.summary["noise_ball_train"]


def test_stages_are_what_the_rows_say(stages: Run) -> None:
    rows = stages.part("opening")
    for seed, found in zip((0, 1), stages.summary["T0"], strict=True):
        mine = rows.filter((rows["seed"] == seed) & (rows["signal"] >= 1)).sort("step")
        assert found == mine["step"][0]
    training = stages.part("training")
    for seed, last in zip((0, 1), stages.summary["T1_last"], strict=True):
        mine = training.filter(training["seed"] == seed).sort("step")
        assert mine.filter(mine["step"] > last + 40)["V_min"].min() >= 1
        assert mine.filter(mine["step"] < last)["V_min"].max() < 1


def test_what_judges_and_figures_read_is_in_the_rows(stages: Run) -> None:
    gaps = stages.part("verify").select("gap_u", "gap_v").to_numpy()
    assert stages.summary["recursion_error"] == gaps.max()
    found = stages.part("stages").sort("seed")
    for key in ("T0", "T0_predicted", "T1_first", "T1_last", "plateau_predicted"):
        assert stages.summary[key] == found[key].to_list()
    assert stages.part("conflict")["any_classifier"].to_list() == [stages.summary["any_classifier"]]


def test_the_conditions_of_the_law_are_recorded(stages: Run) -> None:
    spec = SignalStages.of(stages)
    expected = [condition.as_json() for condition in spec.law.check(spec.setting)]
    assert stages.part(CONDITIONS).drop("part").to_dicts() == expected
    assert (spec.setting.n, spec.setting.init_scale) == (6, pytest.approx(200**-0.5))


def test_every_sweep_records_its_conditions(store: Store) -> None:
    few = {
        "samples": [2],
        "dimensions": [64],
        "tradeoffs": [0.5],
        "attacks": ["gta"],
        "starts": 2,
        "seeds": [0],
    }
    short = {"samples_d": 64, "steps_per_sample": 5, "dimension_n": 2, "tradeoff_n": 2, "tradeoff_steps": 5}
    done = quick("signal-scaling", store, **few, **short, start_steps=5, attack_n=2, attack_steps=5, test=5)
    found = done.part(CONDITIONS)
    assert sorted(set(found["sweep"])) == ["attacks", "dimensions", "samples", "starts", "tradeoffs"]
    assert found.height == 5 * 7
    swept = found.filter((found["sweep"] == "tradeoffs") & (found["name"] == "tradeoff"))
    assert swept.select("tradeoff", "value").row(0) == (0.5, 0.5)
    trained = done.part("train")
    assert sorted(set(trained["sweep"])) == sorted(set(found["sweep"]))
    assert set(done.part("attacks")["sample"]) == {"train", "test"}


def test_brackets_are_in_order_and_accuracy_falls_with_the_radius(stages: Run) -> None:
    rows = stages.part("robustness")
    assert (rows["certified"] <= rows["attacked"]).all()
    for seed in (0, 1):
        for name in ("train", "test"):
            mine = rows.filter(
                (rows["seed"] == seed) & (rows["sample"] == name) & (rows["reading"] == "ball")
            ).sort("radius")
            assert (mine["certified"].diff().drop_nulls() <= 0).all()


def test_the_same_seeds_give_the_same_rows(stages: Run, tmp_path: Path) -> None:
    again = quick("signal-stages", Store(tmp_path), **SMALL_STAGES)
    assert again.rows.equals(stages.rows)
    assert again.summary == stages.summary


def test_the_readings_of_theorem_4_1_differ(stages: Run) -> None:
    runs = {"run": stages}
    assert cgro.as_defined(runs).verdict in {Verdict.HOLDS, Verdict.INCONCLUSIVE}
    ball = cgro.over_ball(runs)
    assert ball.verdict is Verdict.FAILS
    assert ball.evidence["certificate"]["failures"] == 6
    assert cgro.features_soft(runs).bound == pytest.approx(math.log(200))
    assert claims_stages.recursion(runs).verdict is Verdict.HOLDS


def test_a_tampered_ball_certificate_is_rejected(stages: Run) -> None:
    w, x, y, delta = (stages.tensor("robustness", key, seed=0).numpy() for key in ("w", "x", "y", "delta"))
    size = float(np.sqrt((delta**2).sum((1, 2))).max())
    assert ball_failures(w, x, y, delta, size)["failures"] == 6
    assert ball_failures(w, x, y, 1.001 * delta, 0.9 * size)["failures"] < 6
    assert ball_failures(w, x, y, 0 * delta, size)["failures"] == 0
    assert ball_failures(w, x, -y, delta, size)["failures"] == 0


def test_the_plateau_solves_its_equation() -> None:
    spec = SignalStages()
    s = plateau(spec, 6000)
    assert s is not None
    a = 9 * 0.1 * (1 - 0.9) * spec.law.strength**2 * 6000
    assert s == pytest.approx(math.log(a) + 4 / 3 * math.log(s), abs=1e-9)
    assert plateau(spec, 0) is None


def test_beyond_the_critical_size_the_literal_reading_fails_and_the_other_is_out_of_scope() -> None:
    beyond, within = samples(1.0, 1.0, 1.0, critical=17.0), samples(0.5, 0.5, 0.5, critical=1e4)
    assert cgro.any_samples(beyond).verdict is Verdict.FAILS
    scope = finding("CG-T4.1", "N≪N*", beyond)
    assert scope.verdict is Verdict.OUT_OF_SCOPE
    assert "N*=17" in scope.unmet[0]
    assert cgro.few_samples(within).verdict is Verdict.HOLDS


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 5), st.floats(0.02, 2), st.floats(1, 5), st.floats(1, 500), st.integers(0, 1000))
def test_lemma_a1_for_any_sequence_between_its_bounds(
    start: float, rate: float, spread: float, goal: float, seed: int
) -> None:
    """z grows by any amount between m z² and M z²: never later than the slowest, which is never later than
    the lemma."""
    rng = np.random.default_rng(seed)
    m = rate / start
    z, t = start, 0
    while z < goal * start:
        z, t = z + m * (1 + (spread - 1) * rng.random()) * z * z, t + 1
    assert t <= growth_time(start, m, goal * start) <= 3 / rate + 8 * spread * doublings(goal)


def test_lemmas_a2_and_a3_at_their_edges() -> None:
    assert summed_time(1.0, 0.1, 0.5, 10.0) <= 8 * doublings(10.0) + 21 / 0.1
    assert summed_time(1.0, 0.1, 0.0, 10.0) < summed_time(1.0, 0.1, 0.5, 10.0)
    assert decay_share(1.0, 1.0, 100) <= 1
    assert 0.9 < decay_share(1.0, 0.5, 10_000) < 1


def test_parts_combine_to_the_weakest() -> None:
    good, bad = exactly(0.0, 1.0), exactly(2.0, 1.0)
    unsure = at_most(Interval(0.5, 0.0, 2.0), 1.0)
    assert every({"a": good, "b": good}).verdict is Verdict.HOLDS
    assert every({"a": good, "b": unsure}).verdict is Verdict.INCONCLUSIVE
    found = every({"a": unsure, "b": bad, "c": good})
    assert (found.verdict, found.value, found.evidence["decided_by"]) == (Verdict.FAILS, 2.0, "b")
    assert reaches(math.nan, 0.0).verdict is Verdict.FAILS
    assert soft(math.e) == pytest.approx(1.0)
    assert at_most(over_seeds([0.5, 2.0]), 1.0).verdict is Verdict.INCONCLUSIVE
    assert at_most(over_seeds([math.nan, 0.1]), 1.0).verdict is not Verdict.HOLDS


def test_exact_growth_is_judged_step_by_step() -> None:
    x = [1.0, 10.0, 100.0]
    assert steepest(x, [1.0, 10.0, 10_000.0]) == pytest.approx(3.0)
    assert grows_at_most(x, [6 * v + 3 for v in x], 1.0).verdict is Verdict.HOLDS
    assert grows_at_most(x, [v**1.5 for v in x], 1.0).verdict is Verdict.FAILS
    assert math.isnan(smallest(pl.Series("x", [], dtype=pl.Float64)))


def test_built_networks_hold_and_a_broken_separation_fails(store: Store) -> None:
    done = quick("built-cgro", store)
    runs = {"run": done}
    assert cgro_built.classifier(runs).verdict is Verdict.HOLDS
    assert cgro_built.counts(runs).verdict is Verdict.HOLDS
    assert done.summary["formula_mismatches"] == 0
    x, y = (done.tensor("memory", name, D=16).numpy() for name in ("x", "y"))
    kept = done.part("memory", D=16).to_dicts()[0]
    delta, separation = kept["delta"], kept["separation"]
    assert robust_memory(x, y, delta, separation)["separated"]
    assert not robust_memory(x, y, separation / 2, separation)["wide_enough"]
    close = x.copy()
    close[int(np.flatnonzero(y > 0)[0])] = x[int(np.flatnonzero(y < 0)[0])]
    assert not robust_memory(close, y, delta, separation)["separated"]


@pytest.mark.parametrize(
    ("name", "judges"),
    [
        ("built-memorise", [ep.training]),
        ("built-fstar", [ep.lipschitz, ep.grid]),
        ("manifold", [ep.on_manifold]),
        (
            "bounds",
            [
                claims_bounds.summary_table,
                claims_bounds.training_lower,
                claims_bounds.grows_exponentially("general"),
                claims_bounds.grows_exponentially("manifold"),
            ],
        ),
        (
            "signal-lemmas",
            [claims_stages.lemma("A.1"), claims_stages.lemma("A.2"), claims_stages.lemma("A.3")],
        ),
    ],
)
def test_quick_profiles_run_and_their_claims_hold(name: str, judges: list, store: Store) -> None:
    done = quick(name, store)
    for judge in judges:
        assert judge({"run": done}).verdict is Verdict.HOLDS


def test_packing_counts_and_illustration(store: Store) -> None:
    done = quick("packing", store, widths=[2, 8], train_dimensions=[2], train_steps=200)
    runs = {"run": done}
    assert packing_claims.law_holds(runs).verdict is Verdict.HOLDS
    needed = (
        done.part("count")
        .filter((done.part("count")["delta"] == 0.2) & (done.part("count")["mu"] == 0.1))
        .sort("D")["needed"]
    )
    assert (needed.diff().drop_nulls() > 0).all()
    assert all(row["width"] in (2, 8) for row in done.part("illustration").to_dicts())
