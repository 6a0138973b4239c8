"""The run folder: found again, resumed, never half-written, and honest about damage."""

import errno
import json
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from featscope.core import files
from featscope.core import store as stores
from featscope.core.errors import BadInput, FeatscopeError
from featscope.core.files import digest
from featscope.core.progress import Silent
from featscope.core.settings import setting
from featscope.core.store import Folder, Store
from featscope.core.stored import StoredRun, find_stored
from featscope.experiments import spec as specs
from featscope.experiments.runner import run
from featscope.experiments.spec import Experiment, Request, Spec

CALLS: list[str] = []


class Toy(Spec):
    profiles: ClassVar = {"quick": {"size": 2}}
    size: int = setting(3, "rows", letter="n")
    eps: float = 0.5


def toy(spec: Toy, folder: Folder) -> dict[str, object]:
    CALLS.append("run")
    folder.add(
        "part",
        [{"step": i, "value": float(i), "pair": [i, i + 1]} for i in range(spec.size)],
        {"t": torch.arange(spec.size)},
    )
    return {"size": spec.size}


TOY = Experiment("toy", "at", "a toy", Toy, toy, {"quick": "0 s"})


def test_a_run_is_found_again_by_its_spec(tmp_path: Path) -> None:
    CALLS.clear()
    store = Store(tmp_path)
    first = run(Request(TOY, specs.resolve(TOY, "cpu")), store)
    again = run(Request(TOY, specs.resolve(TOY, "cpu", {"n": 3})), store)
    assert first.path == again.path
    assert CALLS == ["run"]
    assert run(Request(TOY, specs.resolve(TOY, "quick")), store).path != first.path
    run(Request(TOY, specs.resolve(TOY, "cpu")), store, force=True)
    assert len(CALLS) == 3
    assert first.summary == {"size": 3}
    assert first.part("part")["pair"].to_list() == [[0, 1], [1, 2], [2, 3]]
    assert torch.equal(first.tensors["part/t"], torch.arange(3))
    assert first.manifest["radii"] == {"eps": "0.5"}
    assert {"python", "packages", "seeds", "wall_seconds", "cpu_seconds"} <= set(first.manifest)
    assert [run.path for run in find_stored(tmp_path)] == sorted(
        {first.path, store.place(specs.identity(TOY, specs.resolve(TOY, "quick")))}
    )


def test_a_new_revision_is_a_new_run(tmp_path: Path) -> None:
    later = Experiment("toy", "at", "a toy", Toy, toy, {"quick": "0 s"}, revision=2)
    a, b = (run(Request(e, specs.resolve(e, "cpu")), Store(tmp_path)) for e in (TOY, later))
    assert a.path != b.path


def test_a_failing_run_leaves_no_finished_folder_and_keeps_its_parts(tmp_path: Path) -> None:
    def breaks(spec: Toy, folder: Folder) -> dict[str, object]:
        if folder.part("first").load() is None:
            folder.add("first", [{"a": 1}])
            raise OSError(errno.ENOSPC, "no space left on device")
        return {"kept": folder.part("first").load().rows[0]["a"]}  # type: ignore[union-attr]

    plan = Experiment("breaks", "at", "x", Toy, breaks, {})
    with pytest.raises(OSError, match="space"):
        run(Request(plan, Toy()), Store(tmp_path))
    assert find_stored(tmp_path) == []
    assert run(Request(plan, Toy()), Store(tmp_path)).summary == {"kept": 1}


def test_damage_is_a_one_line_error(tmp_path: Path) -> None:
    done = run(Request(TOY, Toy()), Store(tmp_path))
    (done.path / "rows.parquet").write_bytes(b"PAR1 garbage")
    (done.path / "summary.json").write_text('{"size": ')
    (done.path / "tensors.safetensors").write_bytes(b"\x00" * 20)
    for read in (lambda r: r.rows, lambda r: r.summary, lambda r: r.tensors):
        with pytest.raises(BadInput, match=f"delete the folder {done.path} and make the run again") as caught:
            read(StoredRun(done.path))
        assert "\n" not in str(caught.value)


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    store, who = Store(tmp_path), specs.identity(TOY, Toy())
    with (
        store.write(who, Silent()),
        pytest.raises(FeatscopeError, match="another process"),
        store.write(who, Silent(), wait=False),
    ):
        pass


def test_a_crash_while_saving_keeps_the_previous_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = stores.Part(tmp_path, "p")
    part.save(1, False, [{"a": 1}], {"t": torch.ones(2)})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(files, "to_safetensors", full)
    with pytest.raises(OSError, match="full"):
        part.save(2, False, [{"a": 1}, {"a": 2}], {"t": torch.zeros(2)})
    monkeypatch.undo()
    saved = part.load()
    assert saved is not None
    assert saved.step == 1
    assert torch.equal(saved.tensors["t"], torch.ones(2))


@pytest.mark.parametrize("saves", [1, 2, 3])
def test_a_crash_while_saving_a_step_once_more_keeps_its_last_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: int
) -> None:
    part = stores.Part(tmp_path, "p")
    for value in range(saves):
        part.save(2, False, [], {"t": torch.full((2,), value)})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(files, "to_safetensors", full)
    with pytest.raises(OSError, match="full"):
        part.save(2, False, [], {"t": torch.zeros(2)})
    monkeypatch.undo()
    saved = part.load()
    assert saved is not None
    assert saved.tensors["t"].tolist() == [saves - 1] * 2


@pytest.mark.parametrize("left", ["old", "parts"])
def test_what_a_kill_left_beside_a_finished_run_goes_when_it_is_found(tmp_path: Path, left: str) -> None:
    store = Store(tmp_path)
    done = run(Request(TOY, specs.resolve(TOY, "quick")), store)
    rest = done.path.with_name(done.path.name + ".old") if left == "old" else done.path / "parts"
    rest.mkdir()
    found = store.find(done.identity)
    assert found is not None
    assert found.path == done.path
    assert not rest.exists()


def test_a_run_is_finished_although_what_it_leaves_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(path: Path, ignore_errors: bool = False) -> None:
        if path.exists() and not ignore_errors:
            raise PermissionError(errno.EACCES, "held by another program")

    store, request = Store(tmp_path), Request(TOY, specs.resolve(TOY, "quick"))
    run(request, store)
    monkeypatch.setattr(stores.shutil, "rmtree", stuck)
    again = run(request, store, force=True)
    assert (again.path / "parts").exists()
    assert again.path.with_name(again.path.name + ".old").exists()
    assert again.summary == {"size": 2}


def test_digests_do_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    with pytest.raises(ValueError, match="JSON"):
        digest({"a": float("nan")})


def test_keys_can_be_short_letters_or_whole() -> None:
    from featscope.experiments.registry import experiment

    plan = experiment("patch-fig3")
    spec = specs.resolve(plan, "quick", {"d": 50, "P": 8, "adversarial.learning_rate": 0.5})
    assert (spec.law.d, spec.law.patches, spec.adversarial.learning_rate) == (50, 8, 0.5)
    with pytest.raises(BadInput, match=r"standard.learning_rate or adversarial.learning_rate"):
        specs.resolve(plan, "quick", {"learning_rate": 1})
    with pytest.raises(BadInput, match="sigma_n"):
        specs.resolve(plan, "quick", {"sigma_m": 1})
    assert json.loads(spec.model_dump_json())["eps"] == 1.2


def test_nobody_is_told_to_delete_a_folder_that_holds_other_runs(tmp_path: Path) -> None:
    run(Request(TOY, specs.resolve(TOY, "cpu")), Store(tmp_path))
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(BadInput, match=r"move manifest\.json out of") as caught:
        StoredRun(tmp_path).manifest  # noqa: B018 - reading refuses
    assert "delete the folder" not in str(caught.value)


def test_a_forced_run_removes_the_old_one_and_what_a_kill_left_of_an_older(tmp_path: Path) -> None:
    store, request = Store(tmp_path), Request(TOY, specs.resolve(TOY, "quick"))
    done = run(request, store)
    old = done.path.with_name(done.path.name + ".old")
    with store.write(done.identity, Silent()) as folder:
        (old / "deep").mkdir(parents=True)  # the old run cannot take the place of a folder that is not empty
        again = folder.finish({"size": 3}, {})
    assert again.summary == {"size": 3}
    assert not old.exists()
