"""Files that are written whole or not at all, and locks: one writer, who waits and says so."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest

from featscope.core.files import Damaged, canonical, damaged, digest, read_json, write_bytes, write_json
from featscope.core.locks import Busy, locked


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


def test_a_file_is_whole_when_the_disk_is_asked_to_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    monkeypatch.setattr("os.fsync", lambda number: seen.append(Path(f"/proc/self/fd/{number}").read_bytes()))
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files have no names here")
    write_bytes(tmp_path / "a", b"all of it")
    assert seen == [b"all of it"]
