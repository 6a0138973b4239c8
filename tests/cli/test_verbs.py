"""What a person reads: list, show, run, runs, doctor, shell completion and progress."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from featscope.claims.registry import claims
from featscope.cli import catalogue, console, doctor
from featscope.cli import main as cli
from featscope.cli import runs as runs_verb
from featscope.experiments.run import find_runs

Captured = pytest.CaptureFixture[str]


def said(arguments: list[str], capsys: Captured, code: int = 0) -> str:
    assert cli.invoke(arguments) == code
    found = capsys.readouterr()
    return found.err if code else found.out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verbs") / "runs"
    for change in ([], ["--set", "rates=[0.5]"]):
        arguments = ["run", "signal-lemmas", "--profile", "quick", *change, "--out", str(folder), "--json"]
        assert cli.invoke(arguments) == 0
    return folder


def test_the_catalogue_is_in_step() -> None:
    assert json.loads(catalogue.FILE.read_text(encoding="utf-8")) == catalogue.made(), "run `make catalogue`"


def test_the_overview_fits_a_screen_and_names_all(capsys: Captured) -> None:
    text = said(["list"], capsys)
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in catalogue.experiment_names())


def test_lists_are_filtered_by_paper_and_word(capsys: Captured) -> None:
    by_word = said(["list", "fa"], capsys)
    assert by_word == said(["list", "--paper", "FA"], capsys)
    assert "FA-T4.5" in by_word
    assert "AT-" not in by_word
    assert all(
        "Lemma" in line for line in said(["list", "cgro", "lemma a."], capsys).splitlines() if "CG-" in line
    )


def test_show_says_everything_of_a_setting(capsys: Captured) -> None:
    rows = {row["key"]: row for row in json.loads(said(["show", "patch-fig3", "--json"], capsys))["settings"]}
    assert rows["law.d"] == {
        "key": "law.d", "letter": "d", "meaning": "dimension of a patch", "range": "whole, ≥ 1",
        "quick": "40", "cpu": "100", "long": "100", "paper": "100",
    }  # fmt: skip
    text = said(["show", "PATCH-FIG3"], capsys)
    assert "law.d (d): dimension of a patch\n    quick 40, cpu 100, paper 100  [whole, ≥ 1]" in text
    assert "quick  10 s, about" in text


def test_run_tells_key_numbers_verdicts_and_the_page(runs: Path, capsys: Captured) -> None:
    text = said(["run", "signal-lemmas", "--profile", "quick", "--out", str(runs)], capsys)
    assert "Lemma A.1: the slowest sequence as a share of its bound" in text
    assert "HOLDS         CG-LA.1 as stated" in text
    assert "{" not in text
    place = text.splitlines()[-1].removeprefix("page with figures: ")
    assert Path(place).is_file()
    assert text.splitlines()[-2].startswith("found, made before: ")
    changed = ["run", "signal-lemmas", "--profile", "quick", "--set", "rates=[0.5]", "--out", str(runs)]
    assert "HOLDS" not in said(changed, capsys), "claims are about their own settings"


def test_a_dry_run_costs_nothing(tmp_path: Path, capsys: Captured) -> None:
    arguments = ["run", "patch-fig3", "--profile", "quick", "--out", str(tmp_path / "runs"), "--dry-run"]
    text = said(arguments, capsys)
    assert text == "patch-fig3: about 10 s on two cores, about 405 MB of memory\n"
    assert json.loads(said([*arguments, "--set", "eps=8/255", "--json"], capsys))["spec"]["eps"] == 8 / 255
    assert not (tmp_path / "runs").exists()
    refused = said([*arguments, "--set", "d=100000000"], capsys, code=2)
    assert "more memory than the machine has" in refused


def test_runs_are_listed_shown_and_compared(runs: Path, capsys: Captured) -> None:
    lines = json.loads(said(["runs", "list", str(runs), "--json"], capsys))
    assert [line["state"] for line in lines] == ["ok", "ok"]
    changed = {line["run"]: line["changed"] for line in lines}
    assert sorted(map(str, changed.values())) == ["{'rates': [0.5]}", "{}"]
    names = sorted(changed, key=lambda name: len(changed[name]))
    assert "Lemma A.1" in said(["runs", "show", names[0][:8], "--out", str(runs)], capsys)
    found = json.loads(said(["runs", "diff", *names, "--out", str(runs), "--json"], capsys))
    assert found["settings"] == {"rates": [[0.01, 0.1, 1.0], [0.5]]}
    assert "A.1" in found["summary"]
    assert "no such run" in said(["runs", "show", "zzzz", "--out", str(runs)], capsys, code=2)
    assert "must be named" in said(["runs", "show", "", "--out", str(runs)], capsys, code=2)


def test_exports_hold_the_numbers(runs: Path, capsys: Captured) -> None:
    run = find_runs(runs)[0]
    name = ["runs", "export", run.path.name, "--out", str(runs)]
    table = list(csv.reader(io.StringIO(said([*name], capsys))))
    assert table[0] == ["quantity", "value"]
    assert table[1][1] == f"{run.summary['A.1']:.4g}"
    part = run.rows["part"][0]
    rows = list(csv.DictReader(io.StringIO(said([*name, "--part", part], capsys))))
    assert len(rows) == run.part(part).height
    assert float(rows[0]["share"]) == run.part(part)["share"][0]
    tex = said([*name, "--format", "latex"], capsys)
    assert tex.count(r"\\") == 1 + 3
    assert tex.startswith("\\begin{tabular}{ll}\n\\toprule\n")
    target = runs / "table.tex"
    said([*name, "--format", "latex", "--to", str(target)], capsys)
    assert target.read_text() == tex
    target.unlink()


def test_latex_is_escaped() -> None:
    from featscope.cli.runs import as_latex

    assert r"50 \% of a\_b \& \{c\}" in as_latex(["x"], [["50 % of a_b & {c}"]])


def test_clean_names_first_and_takes_only_what_is_broken(
    runs: Path, tmp_path: Path, capsys: Captured
) -> None:
    import shutil

    folder = tmp_path / "runs"
    shutil.copytree(runs, folder)
    broken, well = (run.path for run in find_runs(folder))
    (broken / "rows.parquet").write_bytes(b"")
    half = folder / "signal-lemmas" / "0123456789abcdef.partial"
    half.mkdir()
    before = sorted(folder.rglob("*"))
    found = json.loads(said(["runs", "clean", str(folder), "--json"], capsys))
    assert found == {str(broken): "damaged", str(half): "unfinished"}
    assert [path for path in sorted(folder.rglob("*")) if ".locks" not in path.parts] == [
        path for path in before if ".locks" not in path.parts
    ]
    said(["runs", "clean", str(folder), "--yes"], capsys)
    assert not broken.exists()
    assert not half.exists()
    assert (well / "manifest.json").exists()


def test_the_doctor_says_what_is_here_and_what_is_missing(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEATSCOPE_DATA", str(tmp_path))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    lines = {line["what"]: line for line in json.loads(said(["doctor", "--json"], capsys))}
    assert lines["chromium"]["ok"] is False
    assert lines["data mnist"]["remedy"].endswith("featscope data fetch mnist")
    assert lines["torch"]["ok"]
    assert "threads" in lines["torch build"]["value"]
    assert "-- chromium" in said(["doctor"], capsys)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("featscope ru", "runs"),
        ("featscope run patch-f", "patch-fig3"),
        ("featscope show clusters-ab", "clusters-ablations"),
    ],
)
def test_shells_complete_verbs_and_names(words: str, offered: str) -> None:
    count = str(len(words.split()) - 1)
    given = {"_FEATSCOPE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}
    code = "import sys; from featscope.cli.main import main; sys.argv = ['featscope']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **given}, capture_output=True, text=True, check=False
    )
    assert offered in done.stdout.split()


def test_progress_fits_80_columns_and_says_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80, legacy_windows=False)
    monkeypatch.setattr(console, "err", terminal)
    with console.ShownProgress() as shown:
        facts = {"loss": 0.123456, "clean": 0.98, "robust": 0.5}
        for step in (3, 6):
            shown.report("runs", 100 * step, 1000, {"done": 4 * step, "all": 48})
            shown.report("training[seed=0,method=adversarial]", step, 60, facts)
        drawn = Console(file=io.StringIO(), width=200, record=True)
        drawn.print(shown._bars.get_renderable())
    lines = [line.rstrip() for line in drawn.export_text().splitlines() if line.strip()]
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("all ")
    assert lines[0].endswith("24 of 48 runs")
    assert lines[1].startswith("training[seed=0,method=advers…")
    assert lines[1].endswith("loss 0.123  clean 0.98")
    assert "12 of 48 runs found, 36 to make" in screen.getvalue()
    assert screen.getvalue().count("to make") == 1


def test_time_left_is_counted_from_where_the_bar_began() -> None:
    bars = console.Progress(console._TimeLeft(), get_time=lambda: clock[0])
    clock = [0.0]
    task = bars.add_task("x", total=100, completed=40, begun_at=40)
    assert str(bars.columns[0].render(bars.tasks[0])).strip() == "-:--"
    clock[0] = 60.0
    bars.update(task, completed=60)
    assert str(bars.columns[0].render(bars.tasks[0])).strip() == "2:00"


def test_a_verdict_is_explained_in_any_spelling(capsys: Captured) -> None:
    told = said(["explain", "VACUOUS"], capsys)
    assert told.startswith("VACUOUS\n  The statement's own constants leave it empty")
    assert said(["explain", "vacuous"], capsys) == told
    assert said(["explain", "out of scope"], capsys).startswith("OUT_OF_SCOPE\n  A hypothesis")
    assert json.loads(said(["explain", "HOLDS", "--json"], capsys))["verdict"] == "HOLDS"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run"], "error: Missing argument 'name'; see `featscope run --help`\n"),
        (["check", "--zzz"], "error: No such option: --zzz; see `featscope check --help`\n"),
        (["runs", "list", "--zzz"], "error: No such option: --zzz; see `featscope runs list --help`\n"),
    ],
)
def test_a_wrong_option_leads_to_the_help_of_its_verb(
    arguments: list[str], told: str, capsys: Captured
) -> None:
    assert said(arguments, capsys, code=2) == told


def test_no_paper_is_cut_in_the_overview(capsys: Captured) -> None:
    assert "…" not in said(["list"], capsys)


def test_a_difference_shows_numbers_and_the_ends_of_long_lists() -> None:
    assert runs_verb._brief(0.123456) == "0.1235"
    assert runs_verb._brief([1.0, 0.5]) == "1, 0.5"
    assert runs_verb._brief([1 / 3, 0.25, 3, 4, 5, None]) == "0.3333, 0.25, … – (6)"
    assert runs_verb._brief("x" * 50) == "x" * 39 + "…"


def test_only_lines_of_one_verdict_are_printed_and_all_are_kept(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check = ["check", "CG-LA.1", "CG-LA.3", "--profile", "quick", "--json"]
    every = json.loads(said(check, capsys))
    verdicts = {line["verdict"] for line in every}
    assert "HOLDS" in verdicts
    held = json.loads(said([*check, "--only", "holds"], capsys))
    assert held == [line for line in every if line["verdict"] == "HOLDS"]
    assert json.loads(said([*check, "--only", "out of scope"], capsys)) == [
        line for line in every if line["verdict"] == "OUT_OF_SCOPE"
    ]
    assert len(json.loads(Path("runs/ledger.json").read_text())["lines"]) == len(every)
    assert "did you mean HOLDS" in said([*check, "--only", "hold"], capsys, code=2)


def test_at_other_settings_no_empty_table_of_counts(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check = ["check", "CG-LA.1", "--profile", "quick"]
    assert "readings of" in said(check, capsys)
    changed = said([*check, "--set", "rates=[0.5]"], capsys)
    assert "CG-LA.1" in changed
    assert "readings of" not in changed


def test_the_nearest_names_come_whatever_the_case_and_long_lists_are_cut(capsys: Captured) -> None:
    assert "did you mean AT-T4.4" in said(["explain", "at-t4.4x"], capsys, code=2)
    told = said(["explain", "QQQQQQ"], capsys, code=2)
    assert "choose one of AT-A2.3, " in told
    assert told.endswith(f"({len(claims())} in all)\n")
