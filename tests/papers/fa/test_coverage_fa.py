"""FA's coverage page names every numbered statement, claims that exist, every opening, and every failing line."""

import json
import re
from pathlib import Path

from featscope.claims.registry import claims
from featscope.papers.fa.openings import (
    activation_opens,
    bound_opens,
    fine_activation_opens,
    radii_part,
    radius_opens,
    window_opens,
)
from featscope.papers.fa.printed import PROOF

ROOT = next(path for path in Path(__file__).parents if (path / "pyproject.toml").exists())
PAGE = (ROOT / "docs" / "coverage-fa.md").read_text(encoding="utf-8")
COVERED, REST = PAGE.split("## What is empty")
EMPTY, FAILING = REST.split("## Every statement that fails")
LEDGER = json.loads((ROOT / "src" / "featscope" / "claims" / "ledger.json").read_text(encoding="utf-8"))
MINE = {id_: claim for id_, claim in claims().items() if claim.paper == "fa"}
NUMBERED = {
    "Definition": ["3.1", "4.1", "A.1", "A.11", "C.2"],
    "Assumption": ["3.2", "3.3", "4.3", "A.2", "A.3", "A.4"],
    "Remark": ["4.2", "4.4", "5.4", "5.6", "A.5", "A.7", "B.8"],
    "Theorem": ["4.5", "4.6", "4.7", "B.22", "B.27", "C.22", "D.1", "D.2", "D.3", "D.4"],
    "Proposition": ["4.8", "A.6", "A.10", "A.12", "C.1", "C.3"],
    "Corollary": ["B.3", "B.4", "B.5", "B.15", "C.7", "C.8", "C.9", "C.15"],
    "Figure": [str(n) for n in range(1, 11)],
    "Lemma": ["5.1", "5.2", "5.3", "5.5"]
    + [f"A.{n}" for n in (8, 9, 13, 14, 15)]
    + [f"B.{n}" for n in (1, 2, 6, 7, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26)]
    + [f"C.{n}" for n in (4, 5, 6, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26)],
}
#: claims that ask beyond the paper have pages of their own
QUESTIONS = {id_ for id_, claim in MINE.items() if claim.kind.value == "question"}


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
    assert sorted(set(MINE) - named - QUESTIONS) == []


def test_the_openings_are_those_that_are_computed() -> None:
    told = [int(number.replace(" ", "")) for row in rows(EMPTY) for number in re.findall(r"\d[\d ]*", row[2])]
    binary = [bound_opens(*m) for m in PROOF["binary"][:5]]
    fine = [bound_opens(*m) for m in PROOF["fine"][:5]]
    wanted = [
        window_opens(False),
        window_opens(True),
        radius_opens(4),
        radius_opens(6),
        radii_part(4, 0.1),
        *binary,
        bound_opens(*PROOF["binary"].lambda_ratio),
        *fine,
        bound_opens(*PROOF["fine"].lambda_ratio),
        bound_opens(1 / 6),
        *(bound_opens(c) for c in (1 / 3, 1.0, 2.0)),
        window_opens(False),
        activation_opens(),
        fine_activation_opens(),
    ]
    assert told == wanted


def failing() -> set[tuple[str, str]]:
    return {(id_, name) for row in rows(FAILING) for id_, name in re.findall(r"(FA-\S+) `([^`]+)`", row[0])}


def test_failing_lines_name_readings_that_exist() -> None:
    known = {(claim.id, reading.name) for claim in MINE.values() for reading in claim.readings}
    assert sorted(failing() - known) == []


def test_every_failing_line_of_the_shipped_ledger_is_explained() -> None:
    known = {(claim.id, reading.name) for claim in MINE.values() for reading in claim.readings}
    bad = {
        (line["id"], line["reading"])
        for line in LEDGER["lines"]
        if line["paper"] == "fa" and "FAILS" in (line["verdict"], line.get("would_be"))
    }
    assert bad & known, "the shipped ledger has failing lines"
    synthetic = {pair for pair in bad & known if not pair[0].endswith(("cd", "mc", "F10"))}
    assert sorted((id_, name) for id_, name in synthetic - failing() if id_ not in QUESTIONS) == []
