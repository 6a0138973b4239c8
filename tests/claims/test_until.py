"""More seeds until a verdict is settled: which looks are taken, what stops them, and what is taken over."""

import json
import time

import pytest
from typer.testing import CliRunner

from featscope.claims import until as module
from featscope.claims.claim import Claim, Need, Reading
from featscope.claims.judging import above, reaches
from featscope.claims.until import Deadline, OutOfTime, Wanted, hours, until
from featscope.core.errors import BadInput
from featscope.core.looks import Looks
from featscope.core.progress import Silent
from featscope.core.settings import setting
from featscope.core.stats import mean_interval
from featscope.core.store import Store
from featscope.experiments import registry
from featscope.experiments.runner import run
from featscope.experiments.spec import Experiment, Request, Spec

PLAN = Looks((2, 4, 6))
MADE: list[int] = []


class Draws(Spec):
    level: float = setting(1.0, "what is added to every draw")
    later: float = setting(0.0, "what seeds from 4 on add")


def draw(spec: Draws, folder):
    """One number for each seed; seed 1 is far from seed 0, the others are near to it."""

    def make(seed: int):
        MADE.append(seed)
        noise = {0: 0.0, 1: 0.8}.get(seed, 0.1 + 0.01 * seed)
        return [{"x": spec.level + noise + (spec.later if seed >= 4 else 0.0)}], {}

    for seed in spec.seeds:
        folder.once("drawn", lambda seed=seed: make(seed), seed=seed)
        folder.progress.report("drawn", seed, len(spec.seeds), {})
    return {}


PLAN_OF_DRAWS = Experiment("draws", "at", "draws", Draws, draw, {"cpu": "1 s"}, apart=("drawn",))


def xs(runs):
    return runs["run"].part("drawn")["x"].to_list()


READ = {"run": Need("draws")}
POSITIVE = Reading("positive", "x", READ, lambda runs: above(mean_interval(xs(runs)), 0.0))
#: no interval over seeds: its verdict is not one that seeds settle
RANGE = Reading("range", "x", READ, lambda runs: reaches(min(xs(runs)), 0.0))
OTHER = Reading("other setting", "x", {"run": Need("draws", {"level": 7.0})}, POSITIVE.judge)


@pytest.fixture(autouse=True)
def _draws(monkeypatch):
    MADE.clear()
    known = {**registry.experiments(), "draws": PLAN_OF_DRAWS}
    monkeypatch.setattr(registry, "experiments", lambda: known)
    claim = Claim("T-1", "at", "AT Figure 1", "x > 0", (), (POSITIVE, RANGE, OTHER))
    monkeypatch.setattr(module, "claims", lambda: {"T-1": claim})


def test_it_looks_until_the_interval_clears_the_bound(tmp_path) -> None:
    found = until(Wanted("draws", "cpu"), Store(tmp_path), plan=PLAN)
    # Two seeds, .8 apart, leave an unbounded doubt at 98.3 %; four do not.
    assert [look.seeds for look in found.looks] == [2, 4]
    assert found.why == "settled"
    assert [[judged.line.verdict for judged in look.judged] for look in found.looks] == [
        ["INCONCLUSIVE", "HOLDS"],
        ["HOLDS", "HOLDS"],
    ]
    assert [judged.test for judged in found.looks[0].judged] == [True, False]
    low = found.looks[1].judged[0].line.low
    assert low == pytest.approx(mean_interval(xs({"run": found.looks[1].run}), PLAN.confidence).low)


def test_the_last_look_ends_it(tmp_path) -> None:
    found = until(Wanted("draws", "cpu", {"level": -0.2}), Store(tmp_path), plan=PLAN)
    assert [look.seeds for look in found.looks] == [2, 4, 6]
    assert found.why == "last look"


def test_what_a_look_has_settled_stays_settled(tmp_path, monkeypatch) -> None:
    """Another reading goes on; seeds that come later blur the first, whose intervals held together."""
    both = (POSITIVE, Reading("large", "x", READ, lambda runs: above(mean_interval(xs(runs)), 1.3)))
    monkeypatch.setattr(module, "claims", lambda: {"T-1": Claim("T-1", "at", "AT Figure 1", "x", (), both)})
    found = until(Wanted("draws", "cpu", {"later": -30.0}), Store(tmp_path), plan=PLAN)
    assert [look.judged[0].line.verdict for look in found.looks] == ["INCONCLUSIVE", "HOLDS", "INCONCLUSIVE"]
    assert next((judged.line.verdict, seeds) for judged, seeds in found.verdicts) == ("HOLDS", 4)
    assert found.why == "last look"


def test_where_nothing_is_a_test_one_look_is_enough(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        module, "claims", lambda: {"T-1": Claim("T-1", "at", "AT Figure 1", "x", (), (RANGE,))}
    )
    found = until(Wanted("draws", "cpu"), Store(tmp_path), plan=PLAN)
    assert (len(found.looks), found.why) == (1, "no test")


def test_a_reading_that_fixes_the_changed_setting_is_judged_too(tmp_path) -> None:
    found = until(Wanted("draws", "cpu", {"level": 7.0}), Store(tmp_path), plan=PLAN)
    assert {judged.line.reading for judged in found.looks[0].judged} == {"positive", "range", "other setting"}
    usual = until(Wanted("draws", "cpu"), Store(tmp_path), plan=PLAN)
    assert {judged.line.reading for judged in usual.looks[0].judged} == {"positive", "range"}


def test_seeds_are_drawn_once_and_the_rows_are_those_of_one_run(tmp_path) -> None:
    found = until(Wanted("draws", "cpu"), Store(tmp_path / "grown"), plan=PLAN)
    assert MADE == [0, 1, 2, 3]
    grown = found.looks[-1].run
    at_once = run(Request(PLAN_OF_DRAWS, Draws(seeds=(0, 1, 2, 3))), Store(tmp_path / "once"))
    assert grown.path.name == at_once.path.name
    assert grown.rows.equals(at_once.rows)
    assert grown.manifest["notes"]["seeds taken over"] == {found.looks[0].run.path.name: [0, 1]}
    assert "seeds taken over" not in at_once.manifest["notes"]


def test_only_parts_that_an_experiment_names_are_taken_over(tmp_path) -> None:
    shy = Experiment("draws", "at", "draws", Draws, draw, {"cpu": "1 s"})
    run(Request(shy, Draws(seeds=(0, 1))), Store(tmp_path))
    run(Request(shy, Draws(seeds=(0, 1, 2))), Store(tmp_path))
    assert MADE == [0, 1, 0, 1, 2]


def test_other_settings_and_forced_runs_take_nothing_over(tmp_path) -> None:
    run(Request(PLAN_OF_DRAWS, Draws(seeds=(0, 1))), Store(tmp_path))
    run(Request(PLAN_OF_DRAWS, Draws(seeds=(0, 1, 2), level=2.0)), Store(tmp_path))
    assert MADE == [0, 1, 0, 1, 2]
    run(Request(PLAN_OF_DRAWS, Draws(seeds=(0, 1, 2))), Store(tmp_path), force=True)
    assert MADE == [0, 1, 0, 1, 2, 0, 1, 2]


def test_when_the_time_is_over_the_work_stays_and_is_gone_on_with(tmp_path, monkeypatch) -> None:
    """The clock stands at the end from the third report on: the second look is left half made."""
    store, calls = Store(tmp_path), []

    def clock():
        calls.append(1)
        return 1e12 if len(calls) > 4 else 0.0

    class Limited(Deadline):
        def __init__(self, inner, end):
            super().__init__(inner, 1.0, clock)

    with monkeypatch.context() as patched:
        patched.setattr(module, "Deadline", Limited)
        found = until(Wanted("draws", "cpu"), store, limit=1.0, plan=PLAN)
    assert (found.why, len(found.looks)) == ("time", 1)
    done = until(Wanted("draws", "cpu"), store, plan=PLAN)
    assert MADE == [0, 1, 2, 3]
    at_once = run(Request(PLAN_OF_DRAWS, Draws(seeds=(0, 1, 2, 3))), Store(tmp_path / "once"))
    assert done.looks[-1].run.rows.equals(at_once.rows)


def test_a_deadline_passes_progress_on_until_it_is_over() -> None:
    Deadline(Silent(), time.monotonic() + 60).report("x", 0, 1, {})
    with pytest.raises(OutOfTime):
        Deadline(Silent(), time.monotonic() - 1).report("x", 0, 1, {})


def test_what_until_understands() -> None:
    assert hours("settled") is None
    assert hours("2.5") == hours("2.5h") == 2.5
    for text in ("soon", "0", "-1", "nan", "inf", "", "1e9"):
        with pytest.raises(BadInput, match="settled"):
            hours(text)


def test_the_looks_decide_the_seeds() -> None:
    with pytest.raises(BadInput, match="the looks decide the seeds"):
        Wanted("draws", "cpu", {"seeds": [0, 1]})


@pytest.mark.parametrize(
    "arguments",
    [
        ["--until", "soon"],
        ["--until", "settled", "--seeds", "3"],
        ["--until", "settled", "--set", "seeds=[0]"],
        ["--until", "1", "--force"],
        ["--until", "1", "--dry-run"],
    ],
)
def test_the_command_refuses_in_one_line(tmp_path, arguments) -> None:
    from featscope.cli.main import app

    told = CliRunner().invoke(app, ["run", "image-overfitting", *arguments, "--out", str(tmp_path / "runs")])
    assert told.exit_code != 0
    assert not (tmp_path / "runs").exists()


def test_the_record_says_rule_looks_and_verdicts(tmp_path) -> None:
    found = until(Wanted("draws", "cpu"), Store(tmp_path), plan=PLAN).as_json()
    json.dumps(found, allow_nan=False)
    assert found["rule"] == {"sizes": [2, 4, 6], "alpha": 0.05, "confidence": 1 - 0.05 / 3}
    assert [look["seeds"] for look in found["looks"]] == [2, 4]
    assert [(line["reading"], line["verdict"], line["seeds"]) for line in found["verdicts"]] == [
        ("positive", "HOLDS", 4),
        ("range", "HOLDS", 4),
    ]
