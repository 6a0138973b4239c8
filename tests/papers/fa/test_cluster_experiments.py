"""The cluster experiments end to end at their quick profile: summaries, figures, the ledger's verdicts, and
resuming."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pictures import checked_figures

from featscope.claims import ledger
from featscope.claims.claim import Verdict
from featscope.claims.ledger import Line
from featscope.core.store import CONDITIONS, Store
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run, find_runs
from featscope.experiments.runner import run
from featscope.experiments.spec import request
from featscope.papers import fa
from featscope.papers.fa.claims_figures import half_radius, mean_curves
from featscope.papers.fa.clusters_ablations import SweptHeatMap
from featscope.papers.fa.clusters_figures import Attacks, Fig3BySeed, Fig3Curve, Fig3Spec, PointRadii
from featscope.papers.fa.runs import recertified

CLAIMS = [claim for claim in fa.CLAIMS if not ledger.data_of(claim, "cpu")]
#: on a grid of numbers: there is no law whose conditions could be asked
WITHOUT_LAW = {"clusters-elementary"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def lines(store: Store) -> list[Line]:
    return list(ledger.check(CLAIMS, "quick", store))


def _run(store: Store, name: str, **overrides: Any) -> Run:
    return run(request(experiment(name), "quick", overrides), store)


def _verdict(lines: list[Line], id_: str, reading: str) -> str:
    (line,) = [line for line in lines if line.id == id_ and line.reading == reading]
    return line.verdict


def test_figure_two_holds_the_promised_keys(store: Store) -> None:
    summary = _run(store, "clusters-fig2").summary
    assert set(summary["binary"]["same_class_cosine"]) >= {"mean", "min", "max"}
    assert {"cross_class_cosine_max", "clean_test"} <= set(summary["binary"])
    assert {"diagonal_cosine_mean", "off_diagonal_cosine_max", "clean_test"} <= set(summary["fine"])
    # Five orthogonal features averaged have cosine 1/√5 with their mean.
    assert summary["binary"]["same_class_cosine"]["mean"] == pytest.approx(1 / math.sqrt(5), abs=0.03)


def test_figure_three_is_a_count_of_radii_in_the_right_order(store: Store) -> None:
    done = _run(store, "clusters-fig3")
    found, spec = mean_curves(done), Fig3Spec.of(done)
    assert found[Fig3Curve.radius].to_list() == list(spec.radii)
    for name in Attacks.all():
        assert all(a >= b for a, b in pairwise(found[name]))
    assert (found[Fig3Curve.binary_own_loss] >= found[Fig3Curve.binary_exact]).all()
    assert (found[Fig3Curve.fine_certified] <= found[Fig3Curve.fine_readout]).all()
    assert done.part("by_seed")[Fig3BySeed.least_attack_over_exact].item() >= 1 - 1e-9
    exact = done.part("radii", seed=0)[PointRadii.binary_exact]
    assert found[Fig3Curve.binary_exact][4] == pytest.approx(float((exact > spec.radii[4]).mean()))  # type: ignore[arg-type]
    proof = recertified(done, "radii", seed=0)
    assert proof["settled"] == proof["points"]


def test_the_summary_of_figure_three_is_its_curve(store: Store) -> None:
    done = _run(store, "clusters-fig3")
    for name in Attacks.all():
        net, _, key = name.partition("_")
        assert done.summary[net][key] == pytest.approx(mean_curves(done)[name].to_list())


def test_a_setting_of_several_sweeps_is_trained_once_and_shown_in_each(store: Store) -> None:
    done = _run(store, "clusters-ablations")
    trained, shown = (done.part(part).select("sweep", "at").unique() for part in ("training", "table"))
    # Five sweeps of three values; the baseline (η = .01 and n = 200 in the quick profile) is in four of them.
    assert (trained.height, shown.height) == (12, 15)
    usual = [("points", 200.0), ("rate", 0.01), ("init", 0.00001), ("snr", 1.0)]
    rows = [done.part("table", sweep=sweep, at=at).drop("sweep", "at") for sweep, at in usual]
    assert all(row.equals(rows[0]) for row in rows)
    tables = [done.tensor("table", "table", sweep=sweep, at=at, seed=0) for sweep, at in usual]
    assert all(table.equal(tables[0]) for table in tables)
    assert (
        done.part("table", sweep="points", at=400.0)[SweptHeatMap.mean].item()
        != rows[0][SweptHeatMap.mean].item()
    )


def test_every_experiment_on_the_law_records_its_conditions(store: Store, lines: list[Line]) -> None:
    for done in find_runs(store.root):
        on_the_law = done.experiment not in WITHOUT_LAW
        assert (done.part(CONDITIONS).height >= 3) == on_the_law, done.experiment


def test_a_finished_run_is_found_and_a_new_one_is_the_same(store: Store, tmp_path: Path) -> None:
    first = _run(store, "clusters-fig3")
    again = _run(Store(tmp_path), "clusters-fig3")
    assert first.summary == again.summary
    assert _run(store, "clusters-fig3").path == first.path


def test_compact_and_direct_runs_give_the_same_picture(store: Store) -> None:
    direct = _run(store, "clusters-fig2").summary
    compact = _run(store, "clusters-fig2", compact=True, d=300, n=200).summary
    assert compact["binary"]["same_class_cosine"]["mean"] == pytest.approx(
        direct["binary"]["same_class_cosine"]["mean"], abs=0.02
    )
    assert compact["fine"]["diagonal_cosine_mean"] == pytest.approx(
        direct["fine"]["diagonal_cosine_mean"], abs=0.01
    )


def test_every_claim_is_judged_and_says_why(lines: list[Line]) -> None:
    assert len(lines) == sum(len(claim.readings) for claim in CLAIMS)
    assert len({(line.id, line.reading) for line in lines}) == len(lines)
    json.dumps([line.as_json() for line in lines], allow_nan=False)
    for line in lines:
        assert line.verdict in set(Verdict)
        if line.verdict == Verdict.OUT_OF_SCOPE:
            assert line.evidence["unmet"]
        if line.verdict == Verdict.VACUOUS:
            assert line.evidence["vacuous"]


def test_verdicts_that_do_not_depend_on_size(lines: list[Line]) -> None:
    assert _verdict(lines, "FA-L5.5", "assumption-lemma") == "HOLDS"
    assert _verdict(lines, "FA-L5.5", "assumption-literal") == "FAILS"
    assert _verdict(lines, "FA-PA.13", "assumption-literal") == "FAILS"
    assert _verdict(lines, "FA-PA.6", "literal") == "FAILS"
    for id_, reading in (
        ("FA-L5.1", "2-class"),
        ("FA-L5.1", "compact"),
        ("FA-L5.2", "k-class"),
        ("FA-CB.4", "2-class"),
    ):
        assert _verdict(lines, id_, reading) == "HOLDS"
    for item in ("clean", "weights", "robust"):
        assert _verdict(lines, "FA-T4.5", f"assumption/{item}") == "VACUOUS"
        assert _verdict(lines, "FA-T4.5", f"paper/{item}") == "OUT_OF_SCOPE"


@pytest.mark.usefixtures("lines")
def test_all_figures_are_as_pictures_must_be(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    drawn = [name for done in find_runs(store.root) for name in checked_figures(done, capfd)]
    assert {"fig2", "fig3", "ablations", "scaling", "flow", "biases"} <= set(drawn)


def test_half_radius_interpolates() -> None:
    assert half_radius([0, 1, 2, 3], [1.0, 0.75, 0.25, 0.0]) == pytest.approx(1.5)
    assert math.isnan(half_radius([0, 1], [1.0, 0.5]))
