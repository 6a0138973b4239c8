"""Small parts of the core by their contract: what errors cut off, what a field allows, locks, damaged files, bounds of numbers."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Annotated, Literal

import pytest
import torch
from pydantic import Field
from scipy import stats as sps

from featscope.core.columns import column
from featscope.core.errors import (
    MOST_NAMES,
    BadInput,
    known_as,
    nearest,
    require_number,
    require_positive,
    require_whole,
)
from featscope.core.files import Damaged, canonical, damaged, digest, read_json, write_json
from featscope.core.frozen import Value, _shortened, json_form, registered
from featscope.core.health import ailments, bound, told, without_gaps
from featscope.core.locks import Busy, locked
from featscope.core.progress import Silent
from featscope.core.settings import (
    Positives,
    RadiusList,
    Shares,
    Sizes,
    _allowed,
    allowed,
    holds_others,
    is_later,
    kinds,
    letter_of,
    setting,
)
from featscope.core.signs import label_index, two_logits
from featscope.core.stats import Interval, correlations, exact_binomial, exponent
from featscope.core.store import Part, Store, _bring_back
from featscope.core.stored import StoredRun, find_stored, labelled


def said(make: object) -> str:
    with pytest.raises(BadInput) as caught:
        make()  # type: ignore[operator]
    return str(caught.value)


# ---- errors


def test_long_values_are_cut_at_120_characters() -> None:
    long = "x" * 300
    assert said(lambda: require_number("n", long)) == (
        "n must be a number: " + f"n='{long}"[:120] + "; write it as one, for example 8 / 255"
    )
    assert said(lambda: require_whole("n", long, 0)) == (
        "n must be a whole number: " + f"n='{long}"[:120] + "; use int(n)"
    )
    assert said(lambda: known_as("loss", [long], ["a"])) == (
        "loss must be given by name: " + f"['{long}"[:120] + "; write it as text, one loss at a time"
    )
    assert _shortened("y" * 78) == repr("y" * 78)
    assert _shortened("y" * 79) == "'" + "y" * 78 + "…"


def test_numbers_are_finite_and_true_is_none() -> None:
    for wrong in (math.inf, -math.inf, math.nan, True, "1", None):
        with pytest.raises(BadInput):
            require_number("n", wrong)
    assert require_positive("n", 1e-300) == 1e-300
    assert said(lambda: require_positive("n", 0)) == "n must be positive: n=0; raise n"
    assert require_whole("n", 3, 3) == 3
    assert said(lambda: require_whole("n", 2, 3)) == "n must be at least 3: n=2; set n to 3 or more"


def test_names_are_known_in_any_case_and_the_three_nearest_or_the_first_forty_are_told() -> None:
    assert known_as("norm", "LINF", ["L2", "Linf"]) == "Linf"
    assert nearest("patch", ["patch-a", "patch-b", "patch-c", "patch-d", "other"]).count(" or ") == 2
    names = [f"n{i:02d}" for i in range(MOST_NAMES + 1)]
    assert nearest("zzzzzzz", names) == f"choose one of {', '.join(names[:40])}, … (41 in all)"
    assert nearest("zzzzzzz", names[:40]) == f"choose one of {', '.join(names[:40])}"


# ---- files


def test_a_digest_is_of_sorted_keys_and_has_16_digits() -> None:
    assert canonical({"b": [1, 2], "a": None}) == '{"a":null,"b":[1,2]}'
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    assert len(digest(1)) == 16
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(math.nan)


def test_the_remedy_of_a_damaged_file_never_takes_runs_with_it(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    problem = ValueError("first line\nsecond line")
    alone = str(damaged(path, problem))
    assert alone.startswith(f"damaged or missing file: {path} (first line); delete the folder {tmp_path} ")
    assert str(damaged(path, ValueError())).startswith(f"damaged or missing file: {path} (ValueError); ")
    assert f"({'z' * 120});" in str(damaged(path, ValueError("z" * 200)))
    assert str(damaged(path, problem, "do this")).endswith("; do this")
    for below in ("run", "experiment/run"):
        folder = tmp_path / below
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
        assert f"move file.json out of {tmp_path}" in str(damaged(path, problem))
        (folder / "manifest.json").unlink()


def test_json_is_written_whole_and_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"ü": [1.5, None]})
    assert read_json(path) == {"ü": [1.5, None]}
    assert path.read_text().endswith("\n")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    for broken in ("{", ""):
        path.write_text(broken)
        with pytest.raises(Damaged, match="a remedy"):
            read_json(path, "a remedy")
    with pytest.raises(Damaged):
        read_json(tmp_path / "gone.json")


def test_a_second_writer_waits_and_says_so_or_is_told(tmp_path: Path) -> None:
    place, heard, inside = tmp_path / "store" / "run", [], threading.Event()

    def second() -> None:
        def hear(begun: bool) -> None:
            heard.append(begun)
            inside.set()

        with locked(place, waiting=hear):
            heard.append("in")  # type: ignore[arg-type]

    thread = threading.Thread(target=second)
    with locked(place):
        assert (tmp_path / "store" / ".locks" / "run.lock").exists()
        with pytest.raises(Busy, match="another process is writing this"), locked(place, wait=False):
            pass
        thread.start()
        assert inside.wait(30)
        assert heard == [True]
    thread.join(30)
    assert heard == [True, False, "in"]
    quiet = threading.Thread(target=lambda: locked(place).__enter__())
    with locked(place):
        quiet.start()
    quiet.join(30)
    assert not quiet.is_alive()


# ---- the store


def test_an_exchange_that_was_cut_in_half_is_undone_and_one_that_was_done_is_cleared(tmp_path: Path) -> None:
    place, old = tmp_path / "run", tmp_path / "run.old"
    old.mkdir()
    (old / "kept").touch()
    _bring_back(place)
    assert (place / "kept").exists()
    assert not old.exists()
    old.mkdir()
    (old / "older").touch()
    (place / "parts").mkdir()
    _bring_back(place)
    assert [p.name for p in place.iterdir()] == ["kept"]
    assert not old.exists()
    _bring_back(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def finished(root: Path, **identity: object) -> StoredRun:
    with Store(root).write({"experiment": "e", "spec": {}, **identity}, Silent()) as folder:
        folder.add("walk", [{"a": 1.0}, {"a": 2.0}], {"w": torch.ones(2)}, seed=0, method="x")
        folder.add("walk", [{"a": 3.0}], seed=1, method="y")
        folder.add("other", [{"b": 4.0}])
        return folder.finish({"n": 1}, {"seeds": [0]})


def test_parts_and_tensors_are_found_by_their_labels_in_any_order(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert run.part("walk").columns == ["part", "seed", "method", "a"]
    assert run.part("walk", seed=1)["a"].to_list() == [3.0]
    assert run.part("walk", method="x", seed=0)["a"].to_list() == [1.0, 2.0]
    assert run.part("walk", colour="red").height == 0
    assert run.part("other").columns == ["part", "b"]
    for labels in ({"seed": 0, "method": "x"}, {"method": "x", "seed": 0}):
        assert torch.equal(run.tensor("walk", "w", **labels), torch.ones(2))
    with pytest.raises(BadInput, match="no such tensor"):
        run.tensor("walk", "w", seed=0)
    assert labelled("walk", {"seed": 0, "m": "x"}) == "walk[seed=0,m=x]"
    assert labelled("walk", {}) == "walk"
    assert run.experiment == "e"
    assert run.diverged == {}
    assert run.manifest["finished"] is True
    assert 0 <= run.manifest["wall_seconds"] < 600
    assert not (run.path / "parts").exists()


def test_finished_runs_are_found_and_what_is_half_done_or_replaced_is_not(tmp_path: Path) -> None:
    runs = [finished(tmp_path, number=n) for n in (1, 2)]
    for name in ("x.partial", "x.old"):
        (tmp_path / "e" / name).mkdir()
        (tmp_path / "e" / name / "manifest.json").write_text("{}")
    assert {run.path for run in find_stored(tmp_path)} == {run.path for run in runs}
    assert [run.path for run in find_stored(runs[0].path)] == [runs[0].path]
    assert sorted(run.path for run in find_stored(tmp_path)) == [run.path for run in find_stored(tmp_path)]
    with pytest.raises(BadInput, match="not a folder"):
        find_stored(tmp_path / "gone")


@pytest.mark.parametrize(
    "name", ["spec.json", "summary.json", "manifest.json", "rows.parquet", "tensors.safetensors"]
)
def test_damage_of_any_file_is_seen_and_the_run_is_made_again_with_a_note(tmp_path: Path, name: str) -> None:
    run, identity = finished(tmp_path), {"experiment": "e", "spec": {}}
    assert run.damage() is None
    assert Store(tmp_path).find(identity) is not None
    (run.path / name).write_bytes(b"{")
    assert run.damage() is not None
    assert "\n" not in str(run.damage())
    assert Store(tmp_path).find(identity) is None
    if name != "manifest.json":
        assert "folder" in finished(tmp_path).manifest["notes"]


def test_a_part_is_made_once(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> tuple[list[dict[str, float]], dict[str, torch.Tensor]]:
        made.append(1)
        return [{"a": 1.0}], {"t": torch.zeros(1)}

    with Store(tmp_path).write({"experiment": "e"}, Silent()) as folder:
        for _ in range(2):
            saved = folder.once("part", make, seed=0)
            assert (saved.step, saved.done, saved.rows) == (0, True, [{"a": 1.0}])
        assert len(made) == 1
        folder.part("part", seed=0).save(3, False, [], {})
        assert folder.part("part", seed=0).load().done is False
        folder.once("part", make, seed=0)
        assert len(made) == 2
        folder.begin_again()
        assert folder.part("part", seed=0).load() is None


def test_a_damaged_part_is_thrown_away_and_a_pointer_without_its_keys_is_damaged(tmp_path: Path) -> None:
    part = Part(tmp_path, "walk", {"seed": 1})
    assert part.load() is None
    part.save(4, False, [{"a": 1.0}], {"t": torch.ones(1)}, {"note": 1})
    saved = part.load()
    assert saved is not None
    assert (saved.step, saved.done, saved.rows, saved.notes) == (4, False, [{"a": 1.0}], {"note": 1})
    pointer = tmp_path / "walk[seed=1].json"
    whole = read_json(pointer)
    for key in ("folder", "step", "done", "notes"):
        write_json(pointer, {name: value for name, value in whole.items() if name != key})
        with pytest.raises(Damaged):
            part.read()
        assert part.load() is None
        assert not pointer.exists()
    write_json(pointer, [1])
    with pytest.raises(Damaged):
        part.read()
    for text in ("a/b", "a,b", "a[b", "a]b", "a=b", "a\\b"):
        with Store(tmp_path).write({"experiment": "e"}, Silent()) as folder:
            with pytest.raises(BadInput, match="go without"):
                folder.part(text)
            with pytest.raises(BadInput, match="go without"):
                folder.part("part", label=text)
            with pytest.raises(BadInput, match="go without"):
                folder.part("part", **{text: 1})


# ---- settings in words


class Inner(Value):
    d: int = setting(1, "dimension", letter="d", ge=1)


class Some(Value):
    sizes: Sizes = setting((1,), "sizes")
    shares: Shares = setting((0.5,), "shares", min_length=0)
    radii: RadiusList = setting((0.0, 0.1), "radii")
    lengths: Positives = setting((1.0,), "lengths")
    part: Inner = Inner()
    flag: bool = setting(False, "flag", later=True)
    kind: Literal["a", "b"] = setting("a", "kind")
    rate: float = setting(0.1, "rate", letter="η", gt=0, le=1)
    share: float | None = setting(None, "share", ge=0, lt=1)
    free: float = setting(0.0, "free")
    word: str = setting("w", "word")
    count: int = setting(2, "count", ge=2)


class Child(Some, registered="child-of-some"):
    rate: float = 0.2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sizes", "list, each whole, ≥ 1"),
        ("shares", "list, each ≥ 0, ≤ 1"),
        ("part", "inner"),
        ("flag", "true or false"),
        ("kind", "a or b"),
        ("rate", "> 0, ≤ 1"),
        ("share", "≥ 0, < 1 or none"),
        ("free", "number"),
        ("word", "text"),
        ("count", "whole, ≥ 2"),
    ],
)
def test_what_a_field_allows_in_words(name: str, words: str) -> None:
    assert allowed(Some.model_fields[name]) == words


def test_letters_meanings_and_what_came_later() -> None:
    fields = Some.model_fields
    assert [letter_of(fields[n]) for n in ("rate", "free", "flag")] == ["η", "", ""]
    assert [is_later(fields[n]) for n in ("rate", "free", "flag")] == [False, False, True]
    assert [holds_others(fields[n]) for n in ("part", "rate")] == [True, False]
    assert Child.model_fields["rate"].description == "rate"
    assert letter_of(Child.model_fields["rate"]) == "η"
    assert kinds(Annotated[tuple[int, ...] | None, Field()]) >= {int, type(None)}
    assert kinds(Literal["a", 1]) == {str, int}
    assert _allowed(int | None, [Field(ge=1)]) == "whole, ≥ 1 or none"
    assert registered("child-of-some") is Child
    with pytest.raises(BadInput, match="no class has this"):
        registered("nobody")


@pytest.mark.parametrize(
    ("given", "told_so"),
    [
        ({"rate": True}, "rate must be a number: rate=true"),
        ({"rate": "0.1"}, "rate must be a number: rate='0.1'"),
        ({"sizes": (1, True)}, "sizes must be a number: sizes=true"),
        ({"sizes": [1, "2"]}, "sizes must be a number: sizes='2'"),
        ({"sizes": ()}, "sizes must not be empty"),
        ({"radii": (0.1, 0.1)}, "radii must be ascending"),
        ({"radii": (0.2, 0.1)}, "radii must be ascending"),
        ({"radii": (-0.1, 0.1)}, "radii"),
        ({"flg": True}, "unknown key: flg; did you mean flag"),
        ({"rate": math.nan}, "rate"),
        ({"kind": "c"}, "kind"),
        ({"sizes": (1, 0)}, "sizes.1"),
        ({"shares": (0.5, -0.1)}, "shares.1"),
        ({"shares": (0.5, 1.1)}, "shares.1"),
        ({"lengths": (0.0,)}, "lengths.0"),
        ({"part": {"d": 0}}, "d: input should be greater than or equal to 1"),
    ],
)
def test_values_that_pydantic_would_take_are_refused_too(given: dict[str, object], told_so: str) -> None:
    assert said(lambda: Some(**given)).startswith(told_so)


def test_values_that_are_meant_are_taken() -> None:
    Some(shares=(0.0, 1.0), sizes=(1,), lengths=(1e-9,), radii=(0.0,))
    value = Some(shares=(), flag=True, word="1", kind="b", share=None, radii=(0.0, 0.1), sizes=[2, 3])
    assert (value.shares, value.flag, value.word, value.sizes) == ((), True, "1", (2, 3))
    assert value.replace(rate=1.0).rate == 1.0
    assert value.replace(rate=1.0).flag is True
    assert json_form(value)["part"] == {"d": 1}


# ---- numbers


def test_numbers_are_saturated_beyond_one_over_epsilon_and_overflow_goes_first() -> None:
    assert bound(torch.float64) == 2.0**52
    assert bound(torch.float32) == 2.0**23
    edge = torch.tensor([2.0**52, 2.0**52 + 1, -(2.0**53), math.inf, math.nan], dtype=torch.float64)
    assert ailments([edge[:, None]], 5) == [None, "saturated", "saturated", "overflowed", "overflowed"]
    both = torch.tensor([[2.0**60, 1.0], [2.0**60, math.inf]], dtype=torch.float64)
    assert ailments([both, torch.ones(2), torch.tensor([2**60, 1])], 2) == ["saturated", "overflowed"]
    assert ailments([torch.ones(2, 0)], 2) == [None, None]


def test_gaps_are_named_by_their_keys_and_runs_by_when_and_how() -> None:
    value, gaps = without_gaps({"a": [1.0, math.inf], "b": {"c": math.nan, "d": "x"}, "e": (2, math.nan)})
    assert value == {"a": [1.0, None], "b": {"c": None, "d": "x"}, "e": [2, None]}
    assert gaps == ["a.1", "b.c", "e.1"]
    assert told({"diverged": {"1": 7, "": 3}, "how": {"1": "saturated"}, "note": "n"}) == (
        "run 1 saturated at step 7, overflowed at step 3, in no mean; note: n"
    )
    assert told({"note": "n"}) == "note: n"
    assert told({}) == ""


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (3, 20), (1, 1), (17, 40)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_exact_interval_is_scipys(hits: int, n: int, confidence: float) -> None:
    wanted = sps.binomtest(hits, n).proportion_ci(confidence, method="exact")
    found = exact_binomial(hits, n, confidence)
    assert found == (pytest.approx(hits / n), pytest.approx(wanted.low), pytest.approx(wanted.high))
    assert exact_binomial(hits, n) == exact_binomial(hits, n, 0.95)


@pytest.mark.parametrize(("hits", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_a_share_of_nothing_or_beyond_all_is_refused(hits: int, n: int) -> None:
    with pytest.raises(BadInput, match="0 ≤ hits ≤ n"):
        exact_binomial(hits, n)


def test_two_different_numbers_are_enough_for_a_correlation_and_three_pairs() -> None:
    x, y = [0.0, 0.0, 1.0, 1.0], [1.0, 2.0, 2.0, 5.0]
    assert correlations(x, y).pearson == pytest.approx(float(sps.pearsonr(x, y).statistic))
    assert correlations(y, x).spearman == pytest.approx(float(sps.spearmanr(y, x).statistic))
    assert correlations([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]).spearman == pytest.approx(1.0)
    for one, other in (([1.0, 2.0], [1.0, 2.0]), ([1.0] * 3, [1.0, 2.0, 3.0]), ([1.0, 2.0, 3.0], [1.0] * 3)):
        assert all(map(math.isnan, correlations(one, other)))
    with pytest.raises(BadInput, match="needs pairs"):
        correlations([1.0, 2.0, 3.0], [1.0, 2.0])


def test_a_line_without_residual_has_an_interval_of_no_width() -> None:
    found = exponent([1.0, 2.0, 4.0], [3.0, 12.0, 48.0])
    assert found == Interval(pytest.approx(2.0), pytest.approx(2.0, abs=1e-6), pytest.approx(2.0, abs=1e-6))


def test_signs_and_columns() -> None:
    logits = two_logits(torch.tensor([3.0, -2.0]))
    assert logits.tolist() == [[-1.5, 1.5], [1.0, -1.0]]
    assert label_index(torch.tensor([1.0, -1.0])).tolist() == [1, 0]
    found = column("meaning", "name")
    assert (str(found), found.meaning) == ("name", "meaning")
