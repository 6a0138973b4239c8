"""The coverage page names every numbered statement of the paper, claims that exist, and every failing line."""

import json
import re
from pathlib import Path

from featscope.claims import book
from featscope.claims.registry import claims

ROOT = next(path for path in Path(__file__).parents if (path / "pyproject.toml").exists())
PAGE = (ROOT / "docs" / "coverage-cgro.md").read_text(encoding="utf-8")
COVERED, FAILING = PAGE.split("## Every statement that fails")
MINE = {id_: claim for id_, claim in claims().items() if claim.paper == "cgro"}
NUMBERED = {
    "Parameterization": ["3.1"],
    "Assumption": ["5.1"],
    "Hypothesis": ["C.1"],
    "Definition": ["A.5", "A.6"],
    "Proposition": ["D.5", "E.2"],
    "Figure": ["1", "2", "3"],
    "Theorem": ["4.1", "5.2", "5.3", "C.2", "C.4", "C.6", "C.12", "D.1", "D.4", "E.1", "F.1"],
    "Lemma": ["4.2", "4.3", "4.4"]
    + [f"A.{n}" for n in (1, 2, 3, 4, 7, 8)]
    + [f"C.{n}" for n in (3, 5, 7, 8, 9, 10, 11)]
    + ["D.2", "D.3"],
}


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_numbered_statement_has_a_claim_or_a_reason() -> None:
    found = {name.strip(): row for row in rows(COVERED) for name in row[0].split(",")}
    wanted = [f"{kind} {number}" for kind, numbers in NUMBERED.items() for number in numbers]
    assert [name for name in wanted if name not in found] == []
    assert [row for row in rows(COVERED) if not (row[1] or row[2])] == []


def test_ids_are_claims_and_every_claim_is_there() -> None:
    named = {id_.strip() for row in rows(COVERED) for id_ in row[1].split(",") if id_.strip()}
    assert sorted(named - set(MINE)) == []
    assert sorted(set(MINE) - named) == []


def failing() -> set[tuple[str, str]]:
    return {(id_, name) for row in rows(FAILING) for id_, name in re.findall(r"(CG-\S+) `([^`]+)`", row[0])}


def test_failing_lines_name_readings_that_exist() -> None:
    for id_, name in failing():
        readings = {reading.name for reading in MINE[id_].readings}
        assert any(reading == name or reading.endswith(f"-{name}") for reading in readings), (id_, name)


def test_every_failing_line_of_the_shipped_ledger_is_explained() -> None:
    ledger = json.loads((book.SHIPPED / book.NAME).read_text(encoding="utf-8"))
    bad = {
        (line["id"], line["reading"])
        for line in ledger["lines"]
        if line["paper"] == "cgro" and "FAILS" in (line["verdict"], line.get("would_be"))
    }
    assert bad, "the shipped ledger has failing lines"
    # A reading on images has its data set's name in front.
    told = failing()
    missing = [
        (id_, name) for id_, name in sorted(bad) if not {(id_, name), (id_, name.partition("-")[2])} & told
    ]
    assert missing == []
