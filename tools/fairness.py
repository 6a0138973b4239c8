"""Write `docs/fairness.md`: why each line of AT and CGRO in the shipped ledger fails, or would fail.

    python tools/fairness.py

A line has a hypothesis that is not met, with its number, or an explanation in `ledger/explanations.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from featscope.claims import book
from featscope.claims.claim import Verdict
from featscope.claims.ledger import Line

ROOT = Path(__file__).parents[1]
EXPLANATIONS, PAGE = ROOT / "ledger" / "explanations.toml", ROOT / "docs" / "fairness.md"
PAPERS = ("at", "cgro")
Explanation = dict[str, str | list[str]]


def explanations() -> list[Explanation]:
    """What is written by hand, a claim or some of its readings each."""
    return list(tomllib.loads(EXPLANATIONS.read_text(encoding="utf-8"))["because"])


def failing(lines: Sequence[Line]) -> list[Line]:
    """The lines of the two papers that fail, or would."""
    return [line for line in lines if line.paper in PAPERS and Verdict.FAILS in (line.verdict, line.would_be)]


def concerns(explanation: Explanation, line: Line) -> bool:
    """Whether an explanation is about a line."""
    return explanation["claim"] == line.id and line.reading in explanation.get("readings", [line.reading])


def why(line: Line, known: Sequence[Explanation]) -> str:
    """The unmet hypotheses and the explanation; empty where there is neither."""
    told = [str(explanation["why"]) for explanation in known if concerns(explanation, line)]
    unmet = [f"not met: {'; '.join(line.unmet)}"] if line.unmet else ["all met"] if told else []
    return ". ".join([*unmet, *told])


def unexplained(lines: Sequence[Line], known: Sequence[Explanation]) -> list[str]:
    """Lines that fail without a reason."""
    return [f"{line.id} {line.reading}" for line in failing(lines) if not why(line, known)]


def stale(lines: Sequence[Line], known: Sequence[Explanation]) -> list[str]:
    """Explanations of what does not fail."""
    return [str(e["claim"]) for e in known if not any(concerns(e, line) for line in failing(lines))]


def _rows(lines: Sequence[Line], known: Sequence[Explanation]) -> Iterator[str]:
    for line in failing(lines):
        cells = (line.id, line.reading, line.verdict, line.would_be or "", why(line, known))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def page(lines: Sequence[Line], known: Sequence[Explanation]) -> str:
    """The table, and the commands of the runs that it speaks of."""
    commands = dict.fromkeys(str(e["inside"]) for e in known if "inside" in e)
    head = (
        "# Fair to the papers?\n\n"
        "Every line of AT and CGRO in the [ledger](ledger.md) that FAILS, or is OUT_OF_SCOPE and would fail: "
        "which hypothesis is unmet, with its number, or why the statement fails although all are met. "
        "Made by `tools/fairness.py` from the shipped `ledger.json` and `ledger/explanations.toml`; "
        "do not edit.\n\n"
        "| claim | reading | verdict | would be | why |\n|---|---|---|---|---|\n"
    )
    tail = "\n\nRuns inside the hypotheses, made by hand and not part of the ledger:\n\n```\n"
    return head + "\n".join(_rows(lines, known)) + tail + "\n".join(commands) + "\n```\n"


def main() -> None:
    """Write the page; refuse to leave a line without a reason."""
    lines, known = book.read(book.SHIPPED), explanations()
    open_ = unexplained(lines, known)
    if open_:
        raise SystemExit(f"{EXPLANATIONS.name} says nothing of {', '.join(open_)}")
    PAGE.write_text(page(lines, known), encoding="utf-8")
    print(f"{PAGE}: {len(failing(lines))} lines")


if __name__ == "__main__":
    main()
