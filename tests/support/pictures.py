"""What every picture must be: readable without its page, small, closed in itself, drawn without a complaint."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import vl_convert
from colours import nearest

from featscope.claims.registry import claims
from featscope.experiments.run import Run
from featscope.plots.picture import Picture
from featscope.report.figures import drawings

MOST_ROWS, MOST_BYTES = 4000, 300_000
#: below this two colours of one panel look alike to someone
APART = 18.0


def checked_figures(done: Run, capfd: pytest.CaptureFixture[str]) -> dict[str, Picture]:
    """All figures of a run, each looked at; their claims are judged from runs of this experiment."""
    found = {}
    for name, draw in drawings(done.experiment).items():
        found[name] = draw(done)
        check_picture(found[name], capfd)
        for id_ in found[name].claims:
            needs = {need.experiment for reading in claims()[id_].readings for need in reading.needs.values()}
            assert done.experiment in needs, f"{name}: {id_} does not read {done.experiment}"
    return found


def check_picture(picture: Picture, capfd: pytest.CaptureFixture[str]) -> None:
    """Words, size, data, axes and colours of one picture; then it is drawn."""
    for text in (picture.title, picture.caption, picture.alt):
        assert len(text) > 15, f"says too little: {text!r}"
        assert "HOLDS" not in text, "verdicts are the ledger's"
        assert "FAILS" not in text, "verdicts are the ledger's"
    assert len(json.dumps(picture.spec, ensure_ascii=False, allow_nan=False).encode()) <= MOST_BYTES
    assert (
        sum(len(rows) for rows in _all(picture.spec, "values") if rows and isinstance(rows[0], dict))
        <= MOST_ROWS
    )
    for node in _nodes(picture.spec):
        _check_node(node)
    names = [param["name"] for params in _all(picture.spec, "params") for param in params]
    assert len(set(names)) == len(names)
    for panel in picture.spec["concat"]:
        _check_colours(panel)
    _check_drawing(picture, capfd)


def _nodes(spec: Any) -> Iterator[dict[str, Any]]:
    """All objects of a spec."""
    if isinstance(spec, dict):
        yield spec
        for value in spec.values():
            yield from _nodes(value)
    elif isinstance(spec, (list, tuple)):
        for value in spec:
            yield from _nodes(value)


def _all(spec: Any, key: str) -> list[Any]:
    return [node[key] for node in _nodes(spec) if key in node]


def _check_node(node: dict[str, Any]) -> None:
    """Nothing is loaded from elsewhere, and every axis has a title, or says that it has none."""
    assert not isinstance(node.get("url"), str), "data must be inline"
    for value in node.values():
        assert not (isinstance(value, str) and value.startswith(("http:", "https:", "//", "file:")))
    for channel in ("x", "y"):
        place = node.get("encoding", {}).get(channel, {})
        assert "field" not in place or "title" in place, f"{channel} has no title: {place}"
        assert place.get("title") != "", f"{channel}: an empty title is None"


def _check_colours(panel: dict[str, Any]) -> None:
    """Colours of one panel are told apart by all eyes, and no two names look the same."""
    for node in _nodes(panel):
        scale = node.get("color", {}).get("scale", {}) if isinstance(node.get("color"), dict) else {}
        for one, other in itertools.combinations(sorted(set(scale.get("range", ()))), 2):
            assert nearest(one, other) >= APART, f"{one} and {other} in {panel['title']}"


def _check_drawing(picture: Picture, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    svg = vl_convert.vegalite_to_svg(picture.themed(), show_warnings=True)
    complaints = capfd.readouterr()
    assert "WARN" not in complaints.err + complaints.out, complaints.err
    assert "NaN" not in svg, "something has no place"
    assert ">undefined<" not in svg
    assert ">null<" not in svg
