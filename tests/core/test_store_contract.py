"""The run folder by its contract: parts and tensors by their labels, exchanges that were cut, damage of any file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from featscope.core.errors import BadInput
from featscope.core.files import Damaged, read_json, write_json
from featscope.core.progress import Silent
from featscope.core.store import Part, Store, _bring_back
from featscope.core.stored import StoredRun, find_stored, labelled


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
