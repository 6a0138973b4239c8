"""The cluster experiments end to end at their quick profile: summaries, figures, the ledger's verdicts, and resuming."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from featscope.claims import ledger
from featscope.claims.claim import Verdict
from featscope.core.store import Run, Store
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve, run
from featscope.papers import fa
from featscope.papers.fa.claims_figures import half_radius
from featscope.papers.fa.runs import certified
from featscope.report.figures import figures

CLAIMS = [claim for claim in fa.CLAIMS if not ledger.data_of(claim)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def lines(store: Store) -> list[dict[str, Any]]:
    return list(ledger.check(CLAIMS, "quick", store))


def _run(store: Store, name: str, **overrides: Any) -> Run:
    plan = experiment(name)
    return run(plan, resolve(plan, "quick", overrides), store)


def _verdict(lines: list[dict[str, Any]], id_: str, reading: str) -> str:
    (line,) = [line for line in lines if line["id"] == id_ and line["reading"] == reading]
    return str(line["verdict"])


def test_figure_two_holds_the_promised_keys(store: Store) -> None:
    summary = _run(store, "clusters-fig2").summary
    assert set(summary["binary"]["same_class_cosine"]) >= {"mean", "min", "max"}
    assert {"cross_class_cosine_max", "clean_test"} <= set(summary["binary"])
    assert {"diagonal_cosine_mean", "off_diagonal_cosine_max", "clean_test"} <= set(summary["fine"])
    # Five orthogonal features averaged have cosine 1/√5 with their mean.
    assert summary["binary"]["same_class_cosine"]["mean"] == pytest.approx(1 / math.sqrt(5), abs=0.03)


def test_figure_three_is_a_count_of_radii_in_the_right_order(store: Store) -> None:
    done = _run(store, "clusters-fig3")
    s = done.summary
    curves = {f"{net}_{key}": s[net][key] for net, key in (("binary", "exact"), ("binary", "own_loss"), ("fine", "own_loss"))}
    curves |= {"fine_readout": s["fine"]["readout"], "fine_certified": s["fine"]["certified"]}
    for curve in curves.values():
        assert len(curve) == len(s["radii"])
        assert all(a >= b for a, b in pairwise(curve))
    assert all(a >= e for a, e in zip(curves["binary_own_loss"], curves["binary_exact"], strict=True))
    assert all(c <= a for c, a in zip(curves["fine_certified"], curves["fine_readout"], strict=True))
    assert s["by_seed"][0]["least_attack_over_exact"] >= 1 - 1e-9
    rows = done.part("radii-0")
    assert s["binary"]["exact"][4] == pytest.approx(float((rows["binary_exact"] > s["radii"][4]).mean()))  # type: ignore[arg-type]
    proof = certified(done, "radii-0")
    assert proof["settled"] == proof["points"]


def test_a_finished_run_is_found_and_a_new_one_is_the_same(store: Store, tmp_path: Path) -> None:
    first = _run(store, "clusters-fig3")
    again = _run(Store(tmp_path), "clusters-fig3")
    assert first.summary == again.summary
    assert _run(store, "clusters-fig3").path == first.path


def test_compact_and_direct_runs_give_the_same_picture(store: Store) -> None:
    direct = _run(store, "clusters-fig2").summary
    compact = _run(store, "clusters-fig2", compact=True, d=300, n=200).summary
    assert compact["binary"]["same_class_cosine"]["mean"] == pytest.approx(direct["binary"]["same_class_cosine"]["mean"], abs=0.02)
    assert compact["fine"]["diagonal_cosine_mean"] == pytest.approx(direct["fine"]["diagonal_cosine_mean"], abs=0.01)


def test_every_claim_is_judged_and_says_why(lines: list[dict[str, Any]]) -> None:
    assert len(lines) == sum(len(claim.readings) for claim in CLAIMS)
    assert len({(line["id"], line["reading"]) for line in lines}) == len(lines)
    json.dumps(lines, allow_nan=False)
    for line in lines:
        assert line["verdict"] in set(Verdict)
        if line["verdict"] == Verdict.OUT_OF_SCOPE:
            assert line["evidence"]["unmet"]
        if line["verdict"] == Verdict.VACUOUS:
            assert line["evidence"]["vacuous"]


def test_verdicts_that_do_not_depend_on_size(lines: list[dict[str, Any]]) -> None:
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


def test_all_figures_draw(store: Store, lines: list[dict[str, Any]]) -> None:
    for done in store.runs():
        for name, figure in figures(done).items():
            assert figure.axes, (done.experiment, name)


def test_half_radius_interpolates() -> None:
    assert half_radius([0, 1, 2, 3], [1.0, 0.75, 0.25, 0.0]) == pytest.approx(1.5)
