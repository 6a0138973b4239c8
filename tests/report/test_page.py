"""The page as text: every line has its anchor, every link its end, nothing comes from elsewhere, no text is
taken for markup."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path

import page_runs
import pytest

from featscope.cli.main import invoke
from featscope.core.errors import BadInput
from featscope.experiments.keys import parse_assignments
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run, find_runs
from featscope.experiments.spec import identity, resolve
from featscope.report import collect as collecting
from featscope.report import drawing, page
from featscope.report.collect import collect, require_page
from featscope.report.entries import entries, kind_or_statement, read_ledger
from featscope.report.overview import MEANINGS, against, by_kind, by_paper, headlines, statements
from featscope.report.page import draw, in_script, render
from featscope.report.settings import Told, distinguished, settings_told


class Seen(HTMLParser):
    """What a browser would find: ids, links, sources, scripts, and text outside of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if found.get("id") else []
        self.links += [found["href"]] if tag == "a" and found.get("href") else []
        self.loaded += [str(found[key]) for key in ("src", "data", "srcset", "poster") if found.get(key)]
        self.loaded += [str(found["href"])] if tag == "link" else []
        self.images += [found] if tag == "img" else []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_runs.make(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return render(collect([folder]))


@pytest.fixture(scope="module")
def seen(text: str) -> Seen:
    return Seen(text)


def test_every_line_has_an_anchor_of_its_own(folder: Path, seen: Seen) -> None:
    found = read_ledger([folder]).entries
    assert len(found) > 10
    assert len({entry.anchor for entry in found}) == len(found)
    assert {entry.anchor for entry in found} <= set(seen.ids)
    assert "AT-P3.2-own-logit-small-noise" in seen.ids
    assert {"FA-X2-one-way-of-two", "FA-X2-one-way-of-two-2"} <= set(seen.ids)


def test_ids_are_unique_and_every_link_leads_to_one(seen: Seen) -> None:
    assert len(set(seen.ids)) == len(seen.ids)
    assert len(seen.links) > 60
    for link in seen.links:
        assert link.startswith("#"), link
        assert link[1:] in seen.ids, link


def test_figures_claims_and_runs_lead_to_each_other(folder: Path, text: str) -> None:
    content = collect([folder])
    usual = next(one for one in content.sections if not one.told.changes)
    figure, line = usual.figures[0], usual.entries[0]
    row = text.split(f'<tr id="{line.anchor}"')[1].split("</tr>\n<tr id")[0]
    assert f'href="#{figure.anchor}"' in row
    assert f'href="#{usual.anchor}"' in row
    drawn = text.split(f'<figure id="{figure.anchor}"')[1].split("</figure>")[0]
    assert f'href="#{line.anchor}"' in drawn
    assert f'href="#{line.id}"' in drawn


def test_nothing_is_loaded_from_elsewhere(text: str, seen: Seen) -> None:
    assert seen.images
    assert all(source.startswith("data:image/png;base64,") for source in seen.loaded)
    assert "default-src 'none'" in text
    assert "@import" not in text.split("</style>")[0]
    assert "url(" not in text.split("</style>")[0]


def test_every_image_says_what_it_shows_and_has_a_size(seen: Seen) -> None:
    for image in seen.images:
        assert len(image["alt"] or "") > 20
        assert int(image["width"] or 0) > 50
        assert int(image["height"] or 0) > 50


def test_text_is_never_markup(text: str, seen: Seen) -> None:
    assert page_runs.HOSTILE not in text
    assert "document.title = &#39;taken&#39;" in text
    assert "b" not in seen.tags
    taken = Seen(text.replace("&lt;", "<").replace("&gt;", ">"))
    assert "b" in taken.tags, "this test would see it"


def test_a_spec_cannot_end_its_script() -> None:
    assert "<" not in in_script({"a": "</script><script>"})
    assert json.loads(in_script({"a": "</script>", "b": [1, "ü"]})) == {"a": "</script>", "b": [1, "ü"]}
    with pytest.raises(ValueError, match="JSON compliant"):
        in_script(float("nan"))


def test_the_bundle_is_there_once_and_only_with_pictures(text: str, folder: Path) -> None:
    assert text.count('id="vega"') == 1
    bare = render(collect([_only_ledger(folder)]))
    assert 'id="vega"' not in bare
    assert len(bare) < len(text) - 800_000


def _only_ledger(folder: Path) -> Path:
    bare = folder.parent / "only-ledger"
    bare.mkdir(exist_ok=True)
    shutil.copy(folder / "ledger.json", bare)
    return bare


def test_the_matrices_count_every_line_once(folder: Path) -> None:
    found = [entry for entry in read_ledger([folder]).entries if not entry.settings]
    for tallies in (by_paper(found), by_kind(found)):
        assert sum(tally.total for tally in tallies) == len(found)
    fa = next(tally for tally in by_paper(found) if tally.name == "fa")
    assert dict(zip(MEANINGS, fa.counts, strict=True)) == {
        "HOLDS": 0,
        "FAILS": 1,
        "INCONCLUSIVE": 0,
        "OUT_OF_SCOPE": 0,
        "VACUOUS": 1,
    }


def test_lines_at_other_settings_are_shown_and_not_counted(text: str) -> None:
    assert "1 line judged at other settings than the profile’s is in the ledger and not counted here" in text
    assert '<span class="badge">eps = 0.5</span>' in text
    fa = text.split('id="statements-fa"')[0].rpartition('id="paper-fa"')[2]
    assert "2 statements, 2 readings: 1 fails, 1 vacuous" in fa


def test_sentences_say_what_the_ledger_says() -> None:
    lines = [
        page_runs.line("AT-T1", "at", verdict, reading=f"r{i}")
        for i, verdict in enumerate(["HOLDS", "HOLDS", "FAILS"])
    ]
    one = headlines(entries(lines))[0]
    assert one.summary == "holds in 2 of 3, fails in 1 of 3"
    assert headlines(entries(lines[:2]))[0].summary == "holds in all 2 readings"
    assert headlines(entries(lines[2:]))[0].summary == "fails in its only reading"
    assert [len(group.entries) for group in one.groups] == [2, 1]
    newer = entries(
        [
            page_runs.line(
                "AT-T1", "at", "OUT_OF_SCOPE", low=0.1, high=0.4, direction="at most", would_be="FAILS"
            )
        ]
    )[0]
    assert against(newer) == "0.25 (0.1 to 0.4), at most 0.5"
    assert statements([newer])[0].groups[0].would == "1 would be “fails”"


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ("AT Lemma 5.2 and Lemma D.22", "lemma"),
        ("Corollaries B.5 and C.9", "corollary"),
        ("AT Assumption 2.3 and §2.5 (small perturbation radius)", "assumption"),
        ("Theorem D.1", "theorem"),
        ("EP, talk: lower bound", "statement"),
        ("CGRO §1, equation (C)", "statement"),
    ],
)
def test_the_kind_is_read_off_the_reference(reference: str, kind: str) -> None:
    assert kind_or_statement(reference) == kind


def test_the_command_makes_the_same_run(folder: Path) -> None:
    plan = experiment(page_runs.EXPERIMENT)
    runs = find_runs(folder)
    assert len(runs) == 2
    for run in runs:
        words = shlex.split(settings_told(run).command)
        changes = parse_assignments([words[i + 1] for i, word in enumerate(words) if word == "--set"])
        again = identity(plan, resolve(plan, words[words.index("--profile") + 1], changes))
        assert again == run.identity
    assert {settings_told(run).title for run in runs} == {"", "seeds = [1]"}


def test_a_title_says_first_what_tells_a_run_from_its_siblings() -> None:
    common = {"law.d": 9, "law.k": 3}
    variants = [
        Told("x", "cpu", {**common, "rate": 0.1}),
        Told("x", "cpu", {**common, "rate": 0.1, "data": False}),
        Told("x", "cpu", {**common, "rate": 0.25, "data": False}),
        Told("y", "cpu", {"data": False}),
    ]
    first, second, third, alone = distinguished(variants)
    assert next(iter(first.changes)) == "rate"
    assert list(second.changes)[:2] == ["rate", "data"]
    assert third.brief == "rate = 0.25, d = 9 …"
    assert alone.title == "data = false"
    assert [one.changes for one in (first, second, third)] == [one.changes for one in variants[:3]]
    assert len({one.brief for one in (first, second, third)}) == 3


def test_a_newer_ledger_is_read_like_an_older_one(tmp_path: Path) -> None:
    lines = page_runs.made_up()
    body = {"format": 2, "profile": "quick", "made": "2026-01-02T03:04:05", "version": "9.9", "lines": lines}
    (tmp_path / "ledger.json").write_text(json.dumps(body))
    found = read_ledger([tmp_path])
    assert found.entries == entries(lines)
    assert (found.profiles, found.made, found.versions) == (("quick",), ("2026-01-02T03:04:05",), ("9.9",))
    page = render(collect([tmp_path]))
    for shown in ("2026-01-02T03:04:05", "profile quick", "would be:", "ε ≪ 1: 1.2 against 0.1", "at least"):
        assert shown in page


@pytest.mark.parametrize(
    "body", ["{}", "[1]", '{"lines": 3}', '[{"id": "A", "paper": "at", "verdict": "X"}]', "nul"]
)
def test_a_ledger_of_another_shape_is_one_line(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ledger.json").write_text(body)
    assert invoke(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 2
    said = capsys.readouterr().err
    assert str(tmp_path / "ledger.json") in said
    assert said.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_a_page_is_not_written_onto_folders_devices_or_data(tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    for bad in ("folder.html", "pipe.html", "ledger.json", "gone/page.html"):
        with pytest.raises(BadInput):
            require_page(tmp_path / bad)
    require_page(tmp_path / "page.html")


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "runs"))


def test_a_damaged_run_is_named_and_the_rest_is_shown(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = (run.path for run in find_runs(copied))
    (bad / "summary.json").write_text("[")
    assert invoke(["report", str(copied), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "1 run not shown in full" in page
    remedy = f"delete the folder {bad} and make the run again"
    assert remedy in page
    assert remedy in capsys.readouterr().err
    assert good.name in page.split('id="runs-head"')[1]
    assert bad.name not in page.split('id="runs-head"')[1]
    Seen(page)


def test_a_run_whose_figures_cannot_be_drawn_is_named(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run: Run) -> object:
        raise KeyError("no such column")

    monkeypatch.setattr(drawing, "drawings", lambda name: {"broken": broken})
    content = collect([copied])
    assert len(content.troubles) == 2
    assert "no such column" in content.troubles[0].reason
    assert all(not one.detailed for one in content.sections)


def test_a_run_of_an_older_form_is_shown_and_named(copied: Path) -> None:
    run = find_runs(copied)[0]
    who = json.loads((run.path / "spec.json").read_text())
    (run.path / "spec.json").write_text(json.dumps({**who, "revision": 0}))
    content = collect([copied])
    assert [trouble.place for trouble in content.troubles] == [run.path]
    page = render(content)
    assert "A run of an older form" in page
    assert "featscope run patch-minima --profile quick" in page


def test_what_is_drawn_is_not_drawn_again(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = find_runs(copied)[0]
    draw(run)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()}
    draw(run)
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()} == before
    monkeypatch.setattr(drawing, "_digest", lambda files: "another")
    draw(run)
    figures = [path for path in before if path.parent.name == "figures"]
    assert len(figures) >= 3
    assert all(path.stat().st_mtime_ns > before[path] for path in figures)


@pytest.mark.parametrize("name", ["*.png", "*.json", "../report.html"])
def test_what_is_damaged_is_drawn_again(name: str, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A page says when it was made: a minute may end between the two.
    monkeypatch.setattr(page, "_date", lambda seconds: "one minute")
    run = find_runs(copied)[0]
    (run.path / "report.html").unlink(missing_ok=True)
    draw(run)
    path = sorted((run.path / "figures").glob(name))[0] if "*" in name else run.path / "report.html"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    draw(run)
    assert path.read_bytes() == whole


def test_a_run_has_a_page_of_its_own(copied: Path) -> None:
    run = find_runs(copied)[0]
    draw(run)
    page = Seen((run.path / "report.html").read_text())
    assert all(link[1:] in page.ids for link in page.links)
    assert page.images


def test_a_page_has_a_budget(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MOST_IN_FULL", 1)
    content = collect([copied])
    kept = [one for one in content.sections if one.detailed]
    assert len(content.sections) == 2
    assert [bool(one.entries) for one in kept] == [True], "what the ledger reads goes first"
    page = render(content)
    assert "1 runs are listed without their figures" in page
    assert all(link[1:] in Seen(page).ids for link in Seen(page).links)


def test_lines_at_other_settings_are_told_apart_and_not_counted(folder: Path, tmp_path: Path) -> None:
    lines = json.loads((folder / "ledger.json").read_text())
    line = next(one for one in lines if one["id"] == "AT-P3.2" and not one.get("settings"))
    changed = {**line, "settings": {"eps": 0.5}}
    shutil.copytree(folder, tmp_path / "runs")
    (tmp_path / "runs" / "ledger.json").write_text(json.dumps([line, changed]))
    text = render(collect([tmp_path / "runs"]))
    assert "1 statement in 1 reading, judged from 2 runs" in text
    assert f"{line['reading']}</a>" in text
    assert f"{line['reading']}, eps = 0.5</a>" in text
