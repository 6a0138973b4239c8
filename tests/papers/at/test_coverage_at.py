"""The coverage page names every numbered statement of the paper, claims that exist, and every claim with a
failing line."""

import json
import re
from pathlib import Path

from featscope.claims import book
from featscope.claims.registry import claims

ROOT = next(path for path in Path(__file__).parents if (path / "pyproject.toml").exists())
PAGE = (ROOT / "docs" / "coverage-at.md").read_text(encoding="utf-8")
COVERED, REST = PAGE.split("## Inside the assumptions")
FAILING = REST.split("## Every statement that fails")[1]
MINE = {id_: claim for id_, claim in claims().items() if claim.paper == "at"}
NUMBERED = {
    "Definition": ["2.1", "2.2", "4.1", "A.1"],
    "Assumption": ["2.3", "B.3"],
    "Remark": ["2.4", "2.5", "4.2", "A.2"],
    "Proposition": ["3.1", "3.2"],
    "Theorem": ["4.3", "4.4", "C.1", "C.2", "D.1", "D.15", "E.1", "E.8"],
    "Lemma": ["5.1", "5.2", "B.1", "B.2"]
    + [f"D.{n}" for n in range(2, 29) if n != 15]
    + [f"E.{n}" for n in range(2, 12) if n != 8],
    "Figure": ["1", "2", "3", "4", "5"],
    "Table": ["1", "2"],
}


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def ids(cell: str) -> set[str]:
    return set(re.findall(r"(?:AT|PH)-[\w.]+", cell))


def test_every_numbered_statement_has_a_claim_or_a_reason() -> None:
    found = {name.strip(): row for row in rows(COVERED) for name in row[0].split(",")}
    wanted = [f"{kind} {number}" for kind, numbers in NUMBERED.items() for number in numbers]
    assert [name for name in wanted if name not in found] == []
    assert [row for row in rows(COVERED) if not (row[1] or row[2])] == []


def test_ids_are_claims_and_every_claim_is_there() -> None:
    named = {id_ for row in rows(COVERED) for id_ in ids(row[1])}
    assert sorted(named - set(MINE)) == []
    assert sorted(set(MINE) - named) == []
    assert sorted({id_.rstrip(".") for id_ in ids(PAGE)} - set(MINE)) == []


def test_a_lemma_is_judged_by_the_claim_of_its_number() -> None:
    for row in rows(COVERED):
        for kind, number in re.findall(r"(Lemma|Theorem) ([BDE]\.\d+)", row[0]):
            own = f"AT-{kind[0]}{number}"
            assert own not in MINE or own in ids(row[1]), row


def test_every_claim_with_a_failing_line_is_explained() -> None:
    lines = json.loads((book.SHIPPED / book.NAME).read_text(encoding="utf-8"))["lines"]
    bad = {
        line["id"]
        for line in lines
        if line["paper"] == "at" and "FAILS" in (line["verdict"], line.get("would_be"))
    }
    told = {id_ for row in rows(FAILING) for id_ in ids(row[0])}
    assert bad, "the shipped ledger has failing lines"
    assert sorted(bad - told) == []
    assert sorted(told - set(MINE)) == []
