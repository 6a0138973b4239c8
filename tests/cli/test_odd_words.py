"""What people and scripts type that is not a number, a module, a table or a probe: one line each, and at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from featscope.certificates.probe import probe_certificates
from featscope.core.errors import BadInput
from featscope.experiments.keys import parse_value
from featscope.experiments.registry import experiment
from featscope.probe.compare import compared
from featscope.probe.plan import seconds
from featscope.probe.sources import _arrays, called, radius
from featscope.sweeps.asked import from_file
from featscope.sweeps.axes import parse_axis
from featscope.sweeps.sweep import Sweep, share_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8/255", 8 / 255),
        ("[1/3, -2/4]", [1 / 3, -0.5]),
        ("1./4", 0.25),
        (".5/.25", 2.0),
        ("1e-3/2", 5e-4),
        ("1 / 2", 0.5),
        ("a/b", "a/b"),
        ("1..5/2", "1..5/2"),
    ],
)
def test_fractions_are_read_and_what_is_none_stays_text(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize("text", ["1" * 3000 + "x", "1e" * 3000, "1 " * 3000, "." * 3000, "1." * 3000 + "/"])
def test_long_values_are_read_once_not_once_for_each_cut(text: str) -> None:
    """A reading that tries every cut of the digits takes minutes for one of these, and hours for all."""
    assert parse_value(text) == text


@pytest.mark.parametrize("text", ["1e400", "1e99999999", "nan", "inf", "1/0", "1/", "/3", "", "1/2/3", "x"])
def test_no_radius(text: str) -> None:
    with pytest.raises(BadInput):
        radius(text)


def test_radii_are_the_fractions_that_are_typed() -> None:
    assert (radius("8/255"), radius("0.3"), radius(" 1 / 4")) == (8 / 255, 0.3, 0.25)


@pytest.mark.parametrize("text", [".:x", "..a:b"])
def test_modules_are_named_from_their_package_on(text: str) -> None:
    with pytest.raises(BadInput, match="package"):
        called(text)


@pytest.mark.parametrize("text", ["9" * 400, "9" * 400 + "h", "0", "."])
def test_no_budget(text: str) -> None:
    with pytest.raises(BadInput):
        seconds(text)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros((40, 8)), y=np.arange(40))
    whole = path.read_bytes()
    for damaged in (
        b"",
        b"no archive",
        whole[:100],
        whole[: len(whole) // 2],
        whole[:200] + b"\xff" * 60 + whole[260:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(BadInput):
            _arrays(path)


@pytest.mark.parametrize(
    "document", [{}, [], 3, {"subject": 3}, {"subject": {}}, {"subject": {}, "robustness": {}}]
)
def test_documents_that_no_probe_writes_are_refused(document: object, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "probe.json").write_text(json.dumps(document))
    with pytest.raises(BadInput):
        compared(tmp_path, tmp_path)
    with pytest.raises(BadInput):
        list(probe_certificates(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "law.alpha=1:" + "9" * 400 + ":3",
        "law.alpha=1:2:99999999999",
        "law.alpha=1:2:true",
        "law.alpha=1:2:-1",
    ],
)
def test_no_axis(text: str) -> None:
    with pytest.raises(BadInput):
        parse_axis(experiment("patch-race"), text)


@pytest.mark.parametrize("text", ["²/3", "1/²", "0/3", "4/3", "1", "/", "1/" + "9" * 60])
def test_no_shard(text: str) -> None:
    with pytest.raises(BadInput):
        share_of(text)
    assert share_of("3/4") == (2, 4)


@pytest.mark.parametrize(
    "how", [{"design_seed": -1}, {"level": float("nan")}, {"points": "x"}, {"width": "x"}]
)
def test_no_design(how: dict[str, object]) -> None:
    axis = parse_axis(experiment("patch-race"), "law.alpha=1:4:2")
    with pytest.raises(BadInput):
        Sweep("patch-race", (axis,), **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [
        "vary = 3",
        "set = 3",
        'points = "x"\n[vary]\n"law.alpha" = [1.5]',
        '[vary."law.alpha"]\nlow = 1\nhigh = 2\ncount = "x"',
        '[vary]\n"law.alpha" = 3',
        '[vary]\n"law.alpha" = [2020-01-01]',
    ],
)
def test_files_of_sweeps_that_are_none(body: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(f'experiment = "patch-race"\n{body}\n')
    with pytest.raises(BadInput):
        from_file(path)
