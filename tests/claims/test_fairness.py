"""No line of AT or CGRO in the shipped ledger fails without a reason, and what is assumed has been recorded."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featscope.claims import book
from featscope.claims.ledger import Line
from featscope.claims.registry import claims

ROOT = Path(__file__).parents[2]


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("fairness", ROOT / "tools" / "fairness.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tool() -> Any:
    return _tool()


@pytest.fixture(scope="module")
def shipped() -> list[Line]:
    return book.read(book.SHIPPED)


def test_every_line_that_fails_has_a_reason(tool: Any, shipped: list[Line]) -> None:
    known = tool.explanations()
    assert tool.unexplained(shipped, known) == [], "enter them in ledger/explanations.toml"
    assert tool.stale(shipped, known) == [], "these do not fail: take them out of ledger/explanations.toml"
    names = {(c.id, r.name) for c in claims().values() for r in c.readings}
    told = {(e["claim"], name) for e in known for name in e.get("readings", [])}
    assert told <= names
    page = (ROOT / "docs" / "fairness.md").read_text(encoding="utf-8")
    assert page == tool.page(shipped, known), "python tools/fairness.py"


def line(**changes: Any) -> Line:
    made = Line("CG-T4.1", "cgro", "Theorem", "It is so.", "ball", "so", "FAILS", 1.0, 0.0, {})
    return replace(made, **changes)


def test_a_line_without_a_reason_is_found(tool: Any) -> None:
    own = [{"claim": "CG-T4.1", "readings": ["ball"], "why": "of the radius"}]
    assert tool.unexplained([line()], []) == ["CG-T4.1 ball"]
    assert tool.unexplained([line(reading="gta")], own) == ["CG-T4.1 gta"]
    assert tool.unexplained([line(id="CG-L4.2")], own) == ["CG-L4.2 ball"]
    outside = line(verdict="OUT_OF_SCOPE", would_be="FAILS")
    assert tool.unexplained([outside], []) == ["CG-T4.1 ball"]
    assert tool.why(line(), own) == "all met. of the radius"
    assert tool.why(replace(outside, unmet=["a: 1 against 2", "b"]), []) == "not met: a: 1 against 2; b"
    assert tool.why(replace(outside, unmet=["a"]), own) == "not met: a. of the radius"
    others = [line(verdict="HOLDS"), line(paper="fa"), line(verdict="OUT_OF_SCOPE", would_be="HOLDS")]
    assert tool.failing(others) == []
    assert tool.stale(others, own) == ["CG-T4.1"]


def test_every_assumed_condition_was_recorded_by_the_runs(shipped: list[Line]) -> None:
    """A condition that no run records would count as met. Lines of readings that are gone are found by the
    test that keeps the ledger in step."""
    asked = 0
    readings = {(claim.id, r.name): r for claim in claims().values() for r in claim.readings}
    for found in (x for x in shipped if x.paper in ("at", "cgro")):
        reading = readings.get((found.id, found.reading))
        names = None if reading is None else claims()[found.id].supposed(reading)
        if names is not None:
            assert len(found.hypotheses) == len(names), (found.id, found.reading)
            asked += len(names)
    assert asked > 200
