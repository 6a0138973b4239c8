"""What the store refuses: numbers that JSON has no word for, folders that are not there."""

import json
import math

import pytest

from featscope.core.errors import BadInput
from featscope.core.files import write_json
from featscope.core.stored import find_stored


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
