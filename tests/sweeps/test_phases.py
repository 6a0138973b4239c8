"""Phase diagrams: edges, distances, what comes with the package, and what would make a reading hold."""

import json
import math
from pathlib import Path

import polars as pl
import pytest

from featscope.claims.ledger import check as check_ledger
from featscope.claims.registry import claims
from featscope.core.progress import Silent
from featscope.core.stats import Interval
from featscope.core.store import Store
from featscope.experiments.registry import experiments, rooms
from featscope.experiments.run import Run
from featscope.experiments.shipped import HOME, adopt, shipped
from featscope.experiments.spec import request, resolve
from featscope.papers.at.patch_race import PatchRace
from featscope.papers.at.phase_patch import descent_winner, full_ball_line, power_line
from featscope.papers.cgro import phase_signal
from featscope.papers.cgro.phase_signal import PhaseSignal, gap_line
from featscope.papers.fa.phase_clusters import PhaseClusters, noise_line, start_line
from featscope.report.figures import figures
from featscope.sweeps.axes import SweepAxis
from featscope.sweeps.nearest import BoxSearch, distance, known, nearest
from featscope.sweeps.phases import Diagram, crossing, factor_of, run_diagram

BY_NAME = [plan for plan in experiments().values() if plan.by_name]


def test_a_crossing_is_the_last_and_interpolates_on_the_axis_scale() -> None:
    assert crossing([1, 2, 3], [0.0, 1.0, 1.0], 0.25, log=False) == pytest.approx(1.25)
    assert crossing([1, 100], [1.0, 0.0], 0.5, log=True) == pytest.approx(10)
    assert crossing([1, 2, 3, 4], [1.0, 0.0, 0.0, 1.0], 0.5, log=False) == pytest.approx(3.5)
    assert crossing([1, 2, 3], [0.0, math.nan, 1.0], 0.5, log=False) == pytest.approx(2.0)
    assert math.isnan(crossing([1, 2], [0.0, 0.2], 0.5, log=False))


def test_a_signed_distance_is_a_factor_of_at_least_one() -> None:
    assert factor_of(Interval(-0.5, -0.7, 0.2)) == pytest.approx((math.exp(0.5), 1.0, math.exp(0.7)))
    assert factor_of(Interval(0.5, 0.2, 0.7)) == pytest.approx((math.exp(0.5), math.exp(0.2), math.exp(0.7)))
    assert math.isnan(factor_of(Interval(math.nan, 0.0, 1.0)).value)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_a_known_edge_is_found_with_its_distance_and_few_points(tmp_path: Path, shift: float) -> None:
    """The order parameter changes at y = 2x·e^shift, seed s at a factor e^{±.1} around it."""
    box = SweepAxis("x", 1.0, 8.0, 5, log=True), SweepAxis("y", 1.0, 64.0, 5, log=True)
    asked = Diagram("known", *box, 1 / 32, 0.5, lambda x: 2 * x)

    def measure(places: list[tuple[float, float]]) -> list[list[float]]:
        return [[float(y < 2 * x * math.exp(shift + lean)) for lean in (-0.1, 0.0, 0.1)] for x, y in places]

    plan = experiments()["phase-patch"]
    spec = request(plan, "quick").identity
    with Store(tmp_path).write(spec, Silent()) as folder:
        told = run_diagram(asked, [0, 1, 2], measure, folder)
        done = folder.finish({}, {"seeds": [0, 1, 2]})
    assert told["distance"] == pytest.approx(shift, abs=math.log(64) / 32)
    assert told["low"] <= told["distance"] <= told["high"]
    assert told["points"] <= told["grid"] / 4
    assert told["grid"] == 33 * 33
    cells = done.part("cells")
    area = (
        (cells["x_to"].log() - cells["x_from"].log()) * (cells["y_to"].log() - cells["y_from"].log())
    ).sum()
    assert area == pytest.approx(math.log(8) * math.log(64))


@pytest.mark.parametrize("plan", BY_NAME, ids=lambda plan: plan.name)
def test_runs_by_name_come_with_the_package_whole_and_small(plan: object, tmp_path: Path) -> None:
    wanted = request(plan, "cpu")  # type: ignore[arg-type]
    found = shipped(wanted)
    assert found is not None, "make it: featscope run NAME, and put it into src/featscope/shipped"
    run = Run(found)
    assert run.damage() is None
    assert run.settings == resolve(plan, "cpu")  # type: ignore[arg-type]
    assert sum(path.stat().st_size for path in found.iterdir()) < 300_000
    assert figures(run)
    store = Store(tmp_path)
    assert adopt([wanted, wanted], store) == [plan.name]  # type: ignore[attr-defined]
    assert store.find(wanted.identity) is not None


def test_a_check_of_everything_reads_them_and_runs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("featscope.experiments.runner._make", pytest.fail)
    asked = [claim for name, claim in claims().items() if name.startswith("PH-")]
    lines = list(check_ledger(asked, "cpu", Store(tmp_path)))
    assert {line.kind for line in lines} == {"question"}
    assert {line.verdict for line in lines} <= {"HOLDS", "FAILS", "INCONCLUSIVE"}
    standard = [line for line in lines if line.reading == "standard q=3"]
    assert standard[0].verdict == "HOLDS"


def test_phase_patch_knows_its_edge_to_two_per_cent_with_a_quarter_of_the_grid() -> None:
    (found,) = (HOME / "phase-patch").glob("*/summary.json")
    for q in (3, 4, 5):
        told = json.loads(found.read_text())[f"standard q{q}"]
        assert told["grid"] == 33**2
        assert told["points"] <= told["grid"] / 4


def test_lines_are_the_formulas() -> None:
    assert power_line(3, 2.0) == pytest.approx(8.0)
    assert power_line(5, 5.0) is None
    radius = 1.1
    alpha = full_ball_line(radius)
    assert alpha is not None
    assert (alpha - radius) ** 3 == pytest.approx(16 * radius**3)
    clusters = resolve(experiments()["phase-clusters"], "cpu")
    assert isinstance(clusters, PhaseClusters)
    assert start_line(clusters, 1e-3) == pytest.approx(1e-3 * 100 / (4 * 2**0.5 * 50))
    assert noise_line(0.5) == pytest.approx(4.0)
    signal = resolve(experiments()["phase-signal"], "cpu")
    assert isinstance(signal, PhaseSignal)
    gap = gap_line(signal, 10)
    assert gap is not None
    assert signal.law(gap).critical_samples(signal.d**-0.5) == pytest.approx(10)


def test_several_gaps_at_once_are_the_gaps_one_by_one() -> None:
    spec = PhaseSignal(d=64, seeds=(0, 1), test=50, steps_per_sample=40)
    both = phase_signal.tested(spec, 3, 0.9, [0.05, 0.25])
    assert both == [phase_signal.tested(spec, 3, 0.9, [gap])[0] for gap in (0.05, 0.25)]


def test_full_descent_gives_both_winners() -> None:
    spec = resolve(experiments()["phase-patch"], "quick", {"descent_steps": 400})
    assert descent_winner(spec, (0, 1), 3.0, 1.0) == [1.0, 1.0]
    assert descent_winner(spec, (0, 1), 1.0, 40.0) == [0.0, 0.0]


def test_the_nearest_point_is_nearest_in_ratio_and_says_its_scope() -> None:
    search = BoxSearch("patch-race", {"law.alpha": [1.0, 4.0, 16.0]}, (("X", "r"),))
    rows = pl.DataFrame(
        {"point": [0, 1, 2], "law.alpha": [1.0, 4.0, 16.0], "X r": ["FAILS", "OUT_OF_SCOPE", "HOLDS"]}
    )
    assert nearest(search, rows, "X", "r").startswith("law.alpha = 16; ")
    outside = rows.with_columns(pl.Series("X r (would be)", [None, "HOLDS", None]))
    assert nearest(search, outside, "X", "r").startswith(
        "law.alpha = 4, outside the statement's scope; the nearest of 2"
    )
    none = rows.with_columns(pl.Series("X r", ["FAILS", "INCONCLUSIVE", "FAILS"]))
    assert nearest(search, none, "X", "r").startswith("in none of the 3 points")
    assert nearest(search, none, "X", "r").endswith("1 undecided")
    assert distance(2.0, 8.0) == distance(8.0, 2.0) == pytest.approx(math.log(4))
    assert (distance("a", "a"), distance("a", "b")) == (0.0, 1.0)


def test_every_search_names_readings_that_exist_and_was_made() -> None:
    for room in rooms().values():
        for search in getattr(room, "SEARCHES", ()):
            search.sweep()
            for claim, reading in search.readings:
                assert reading in {one.name for one in claims()[claim].readings}
            assert set(known([search])) == set(search.readings)


def test_a_race_of_another_shape_is_another_batch() -> None:
    plan = experiments()["patch-race"]
    assert plan.batch is not None
    usual = plan.batch.shape(PatchRace())
    assert usual == plan.batch.shape(PatchRace(eps=0.3, step_size=3.0))
    assert usual != plan.batch.shape(PatchRace(training="two-sided"))
    assert usual != plan.batch.shape(PatchRace(seeds=(0,)))
