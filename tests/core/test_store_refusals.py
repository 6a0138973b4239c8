"""What the store refuses: numbers that JSON has no word for, folders that are not there."""

import json
import math

import pytest

from featscope.core.errors import BadInput
from featscope.core.files import write_json
from featscope.core.progress import Silent
from featscope.core.store import Store
from featscope.core.stored import FORMAT, StoredRun, find_stored


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_never_written(tmp_path, value):
    write_json(tmp_path / "a.json", {"x": 1.5})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": value})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1.5}


def test_runs_are_sought_in_a_folder(tmp_path):
    assert find_stored(tmp_path) == []
    with pytest.raises(BadInput, match="not a folder"):
        find_stored(tmp_path / "absent")


def test_a_run_of_a_later_form_is_refused_and_kept(tmp_path):
    store, identity = Store(tmp_path), {"experiment": "a", "revision": 1, "spec": {}}
    with store.write(identity, Silent()) as folder:
        folder.add("part", [{"x": 1}])
        folder.finish({}, {})
    found = store.find(identity)
    assert found is not None
    manifest = json.loads((found.path / "manifest.json").read_text())
    assert manifest["format"] == FORMAT == 1
    write_json(found.path / "manifest.json", {**manifest, "format": FORMAT + 1})
    for ask in (
        lambda: StoredRun(found.path).manifest,
        lambda: store.find(identity),
        lambda: store.write(identity, Silent(), fresh=True).__enter__(),
    ):
        with pytest.raises(BadInput, match=r"up to form 1: .*form 2; read it with"):
            ask()
    assert json.loads((found.path / "manifest.json").read_text())["format"] == FORMAT + 1
    write_json(found.path / "manifest.json", {k: v for k, v in manifest.items() if k != "format"})
    assert store.find(identity) is not None
