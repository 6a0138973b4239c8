"""EP's coverage page names what Table 1 cites, claims that exist, and the table's own numbers."""

import math
from pathlib import Path

from featscope.claims.registry import claims
from featscope.papers.ep.bounds import RobustSizes, table
from featscope.papers.ep.claims_bounds import opens_at

ROOT = next(path for path in Path(__file__).parents if (path / "pyproject.toml").exists())
PAGE = (ROOT / "docs" / "coverage-ep.md").read_text(encoding="utf-8")
COVERED, REST = PAGE.split("## What is empty")
EMPTY, CELLS = REST.split("## Table 1 in one setting")
MINE = {id_ for id_, claim in claims().items() if claim.paper == "ep"}


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_theorem_of_table_1_has_a_claim() -> None:
    found = {row[0].split(",")[0]: row for row in rows(COVERED)}
    for number in ("2.2", "2.3", "3.3", "3.4", "4.3", "5.5", "5.8"):
        assert found[f"Theorem {number}"][1]
    assert "Table 1" in found
    assert [row for row in rows(COVERED) if not (row[1] or row[2])] == []


def test_ids_are_claims_and_every_claim_is_there() -> None:
    named = {id_.strip() for row in rows(COVERED) for id_ in row[1].split(",") if id_.strip()}
    assert named == MINE


def test_the_page_has_the_tables_numbers() -> None:
    def shown(value: float) -> str:
        if value < 1e5:
            return f"{value:,.0f}".replace(",", " ")
        power = math.floor(math.log10(value))
        return f"{value / 10**power:.1f}·10" + str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))

    wanted = [
        [
            f"{row['dimension']}",
            f"{shown(row['train_lower'])} … {shown(row['train_upper'])}",
            f"{shown(row['general_lower'])} … 10^{row['general_upper_log10']:.1f}",
            f"{shown(row['manifold_lower'])} … 10^{row['manifold_upper_log10']:.1f}",
        ]
        for row in table(RobustSizes())
    ]
    assert rows(CELLS) == wanted
    spec = RobustSizes()
    assert f"from d = {opens_at(spec)} on" in EMPTY
    assert f"R^{spec.ambient} from k = {opens_at(spec, spec.ambient + 1)} on" in EMPTY
