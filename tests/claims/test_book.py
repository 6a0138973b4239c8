"""The ledger as a file, other settings, and what `explain` gathers."""

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featscope.claims import book, ledger
from featscope.claims.explain import explain
from featscope.claims.ledger import Line
from featscope.claims.registry import claim, claims, rules_history
from featscope.cli.main import invoke
from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.experiments.keys import knows
from featscope.experiments.registry import experiment, rooms

ROOT = Path(__file__).parents[2]


def line(id_: str = "CG-LA.1", reading: str = "as stated", **more: Any) -> Line:
    stated = {"paper": "cgro", "reference": "", "statement": "", "reads": "", "value": 1.0, "bound": 2.0}
    body = {"verdict": "HOLDS", "evidence": {}, "kind": "lemma", "profile": "quick", **stated, **more}
    return Line(id=id_, reading=reading, **body)


def test_a_partial_check_puts_its_lines_among_the_others(tmp_path: Path) -> None:
    book.merge(tmp_path, [line("CG-LA.3"), line("CG-LA.1")], "quick")
    book.merge(tmp_path, [line("CG-LA.1", verdict="FAILS"), line("CG-LA.2")], "quick")
    found = json.loads((tmp_path / "ledger.json").read_text())
    assert (found["format"], found["profile"]) == (2, "quick")
    assert {"made", "version"} <= set(found)
    assert [(x["id"], x["verdict"]) for x in found["lines"]] == [
        ("CG-LA.1", "FAILS"),
        ("CG-LA.2", "HOLDS"),
        ("CG-LA.3", "HOLDS"),
    ]
    book.merge(tmp_path, [line("CG-LA.2", profile="cpu")], "cpu")
    assert json.loads((tmp_path / "ledger.json").read_text())["profile"] == "mixed"
    assert [x.profile for x in book.read(tmp_path)] == ["quick", "cpu", "quick"]


def test_lines_at_other_settings_stand_beside_and_are_not_counted(tmp_path: Path) -> None:
    other = line(settings={"rates": [0.1]}, verdict="FAILS")
    book.merge(tmp_path, [line()], "quick")
    book.merge(tmp_path, [other], "quick")
    book.merge(tmp_path, [replace(other, value=7.0)], "quick")
    found = book.read(tmp_path)
    assert [(x.verdict, x.value) for x in found] == [("HOLDS", 1.0), ("FAILS", 7.0)]
    assert book.headline(found) == {"lemma": {"HOLDS": 1}}


def test_readings_that_are_no_more_leave_the_ledger(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text(
        json.dumps([line("CG-LA.1", "old name").as_json(), line("X-9").as_json(), line().as_json()])
    )
    book.merge(tmp_path, [], "quick")
    assert [(x.id, x.reading) for x in book.read(tmp_path)] == [("CG-LA.1", "as stated")]


def test_a_ledger_of_the_first_form_is_read(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text(
        json.dumps([{"id": "CG-LA.1", "reading": "as stated", "verdict": "HOLDS", "value": 0.5}])
    )
    [found] = book.read(tmp_path)
    assert (found.verdict, found.value, found.kind, found.settings) == ("HOLDS", 0.5, "", {})
    assert book.read(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    "text", ["{", '{"lines": 3}', "[1]", '[{"id": "a"}]', '{"lines": [{"id": 1}]}', "null"]
)
def test_what_is_no_ledger_is_refused_before_the_work(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ledger.json").write_text(text)
    with pytest.raises(BadInput, match="delete this file"):
        book.read(tmp_path)
    assert invoke(["check", "CG-LA.1", "--profile", "quick", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "signal-lemmas").exists()


def test_the_headline_counts_by_kind_in_one_order() -> None:
    lines = [line(kind="figure"), line(kind="theorem", verdict="FAILS"), line(kind="figure")]
    assert list(book.headline(lines).items()) == [("theorem", {"FAILS": 1}), ("figure", {"HOLDS": 2})]


# --- other settings


def test_settings_go_to_the_experiments_that_have_them() -> None:
    reading = claims()["AT-P3.1"].readings[0]
    changed = ledger.requests(reading, "quick", {"eps": 0.5, "seeds": [0]})["run"].spec
    assert (changed.eps, changed.seeds) == (0.5, (0,))
    assert ledger.requests(reading, "quick")["run"].spec.eps != 0.5
    assert knows(experiment("patch-minima").spec, "eps")
    assert not knows(experiment("patch-minima").spec, "epps")


def _why(id_: str, settings: dict[str, Any]) -> dict[str, str]:
    return ledger.concerned([claims()[id_]], settings)[1]


def test_readings_that_fix_a_setting_or_lack_it_are_left_out_and_told() -> None:
    left = _why("AT-T4.4", {"seeds": [0, 1]})
    # Readings of other settings, named in brackets, are of seeds of their own; patch-dense has no other setting.
    own = [r.name for r in claims()["AT-T4.4"].readings if "(" in r.name and "all met" not in r.name]
    assert set(left) == {f"AT-T4.4 {name}" for name in own}
    assert set(left.values()) == {"it fixes seeds itself"}
    assert _why("AT-F3", {"adversarial.learning_rate": 2.0}) == {
        f"AT-F3 {name} (full batch, η = 1)": "it fixes adversarial.learning_rate itself"
        for name in ("adversarial", "switch-epoch")
    }
    assert _why("AT-LE.3", {"norm": "L2"}) == {"AT-LE.3 N-grows-with-d": "patch-noise has no setting norm"}


@pytest.mark.parametrize(
    ("ids", "settings", "message"),
    [
        (("AT-P3.1",), {"epps": 0.5}, "did you mean eps"),
        (("CG-LA.1",), {"eps": 0.5}, "unknown setting of signal-lemmas: eps"),
    ],
)
def test_settings_that_nobody_has_are_refused(
    ids: Sequence[str], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        ledger.concerned(ledger.select(ids, None, "cpu"), settings)


def test_check_judges_another_setting_and_keeps_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["check", "cg-la.1", "--profile", "quick", "--out", str(tmp_path), "--jobs", "1"]
    assert invoke(common) == 0
    told = capsys.readouterr().out
    assert all(len(text) <= 80 for text in told.splitlines())
    for part in ("CG-LA.1  lemma, CGRO Lemma A.1, profile quick", "at most 1", "A sequence", "readings of"):
        assert part in told
    assert invoke([*common, "--set", "rates=[0.1, 1.0]", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["settings"] == {"rates": [0.1, 1.0]}
    kept = book.read(tmp_path)
    assert [dict(x.settings) for x in kept] == [{}, {"rates": [0.1, 1.0]}]
    assert len({json.dumps(dict(x.evidence["runs"])) for x in kept}) == 2
    assert invoke([*common, "--set", "rats=[0.1]"]) == 2
    assert "did you mean rates" in capsys.readouterr().err


# --- explain


def test_explain_works_without_runs_and_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--profile", "quick", "--out", str(tmp_path)]
    assert invoke(["explain", "cg-la.1", *where]) == 0
    told = capsys.readouterr().out
    assert "featscope check CG-LA.1 --profile quick" in told
    assert "shipped, cpu" in told
    assert not (tmp_path / "signal-lemmas").exists(), "explain runs nothing"
    assert invoke(["check", "CG-LA.1", *where, "--jobs", "1"]) == 0
    capsys.readouterr()
    assert invoke(["explain", "CG-LA.1", *where, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    [reading] = found["readings"]
    assert reading["line"]["verdict"] == "HOLDS"
    assert reading["line"]["profile"] == "quick"
    assert reading["shipped"] == next(x.as_json() for x in book.read(book.SHIPPED) if x.id == "CG-LA.1")
    assert (found["kind"], found["test"]) == ("lemma", "tests/papers/cgro/judge_rows_cgro_training.py")
    assert reading["code"].startswith("featscope.papers.cgro.claims_")
    assert invoke(["explain", "CG-LA.9"]) == 2
    assert "did you mean" in capsys.readouterr().err


@pytest.mark.parametrize("id_", list(claims()))
def test_every_claim_can_be_explained(id_: str, tmp_path: Path) -> None:
    found = explain(claim(id_.lower()), "quick", Store(tmp_path))
    assert found.letters
    assert found.failure.endswith(".")
    assert all(reading.rule and reading.runs for reading in found.readings)
    assert (ROOT / found.test).is_file(), found.test
    assert not found.judged
    json.dumps(found.as_json(), allow_nan=False)


def test_glossaries_speak_of_claims_and_histories_of_headings() -> None:
    page = ROOT / "docs" / "rules-history.md"
    for paper, room in rooms().items():
        ids = {found.id for found in claims().values() if found.paper == paper}
        assert set(room.GLOSSARY) == ids
        assert set(room.RULES_HISTORY) <= ids
        if page.exists():
            headings = {text[4:].strip() for text in page.read_text().splitlines() if text.startswith("### ")}
            assert headings & ids == set(room.RULES_HISTORY)
    assert rules_history(claims()["AT-P3.2"]) == "at-p3-2"
    assert rules_history(claims()["EP-f*"]) == "ep-f"
    assert rules_history(claims()["CG-LA.1"]) is None


# --- the ledger that ships


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("publish_ledger", ROOT / "tools" / "publish_ledger.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shipped_ledger_is_in_step_with_the_claims() -> None:
    found = json.loads((book.SHIPPED / book.NAME).read_text(encoding="utf-8"))
    keys = ("id", "reading", "statement", "kind", "reference", "reads")
    shipped = [tuple(x[key] for key in keys) for x in (*found["lines"], *found["not_judged"])]
    wanted = [
        (c.id, r.name, c.statement, c.kind.value, c.reference, r.text)
        for c in claims().values()
        for r in c.readings
    ]
    again = "python tools/publish_ledger.py RUNS"
    assert sorted(shipped) == sorted(wanted), f"claims have changed: {again}"
    assert all(x["reason"] for x in found["not_judged"])
    assert {x["id"] for x in found["not_judged"]} <= {
        c.id for c in claims().values() if ledger.data_of(c, "cpu")
    }
    for judged in found["lines"]:
        outside = judged["verdict"] == "OUT_OF_SCOPE"
        assert bool(judged["unmet"]) == outside
        assert not outside or judged["would_be"]
    page = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    assert page == _tool().page(found), f"the page is not the ledger's: {again}"
