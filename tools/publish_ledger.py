"""Write the dated ledger that ships with the package: `claims/ledger.json` and `docs/ledger.md`.

    python tools/publish_ledger.py RUNS [--profile cpu]

Judges every claim from the runs below RUNS and runs nothing; readings without runs are listed with the
reason.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from featscope.claims import book, ledger
from featscope.claims.claim import Claim, Reading
from featscope.claims.ledger import Line
from featscope.claims.registry import claims
from featscope.core.files import write_json
from featscope.core.store import Store
from featscope.experiments.registry import rooms

ROOT = Path(__file__).parents[1]
LEDGER, PAGE = book.SHIPPED / book.NAME, ROOT / "docs" / "ledger.md"


def reason(claim: Claim) -> str:
    """Why a reading has no runs."""
    data = ledger.data_of(claim, "cpu")
    wanted = f"featscope data fetch {' '.join(data)}, then " if data else ""
    return f"no run: {wanted}featscope check {claim.id}"


def left_out(claim: Claim, reading: Reading) -> dict[str, str]:
    """A reading that was not judged."""
    stated = {"id": claim.id, "paper": claim.paper, "kind": claim.kind.value, "reference": claim.reference}
    return {
        **stated,
        "statement": claim.statement,
        "reading": reading.name,
        "reads": reading.text,
        "reason": reason(claim),
    }


def collect(folder: Path, profile: str) -> dict[str, Any]:
    """The ledger's document, with what was not judged."""
    lines: list[Line] = []
    missing: list[dict[str, str]] = []
    for claim in claims().values():
        for reading in claim.readings:
            runs = ledger.found_runs(reading, profile, Store(folder))
            if runs is None:
                missing.append(left_out(claim, reading))
            else:
                lines.append(ledger.judge(claim, reading, runs, profile))
    return {**book.document(lines, profile), "not_judged": missing}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _verdict(line: Mapping[str, Any]) -> str:
    would = f", would be {line['would_be']}" if line["would_be"] else ""
    return f"{line['verdict']}{would}"


def _held(line: Mapping[str, Any]) -> str:
    """The value, the bound and the interval."""
    held = f"{_number(line['value'])} {line['direction']} {_number(line['bound'])}".strip()
    if line["low"] is None and line["high"] is None:
        return held
    return f"{held} [{_number(line['low'])}, {_number(line['high'])}]"


def _claim(
    id_: str, lines: Sequence[Mapping[str, Any]], missing: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    first = (*lines, *missing)[0]
    yield f"\n### {id_}\n"
    yield f"*{first['kind'].capitalize()}, {first['reference']}.* {first['statement']}\n"
    if lines:
        yield "| reading | verdict | value and rule [interval] |\n|---|---|---|"
        yield from (f"| {_cell(x['reading'])} | {_verdict(x)} | {_cell(_held(x))} |" for x in lines)
        unmet = list(dict.fromkeys(text for line in lines for text in line["unmet"]))
        if unmet:
            yield f"\nNot met: {_cell('; '.join(unmet))}."
    if missing:
        names = ", ".join(f"`{line['reading']}`" for line in missing)
        yield f"\nNot judged ({missing[0]['reason']}): {names}."


def page(document: Mapping[str, Any]) -> str:
    """The ledger as a page."""
    lines, missing = document["lines"], document["not_judged"]
    verdicts = [str(verdict) for verdict in book.VERDICTS]
    counts = book.headline(book.lines_of(document) or [])
    out = [
        "# The ledger\n",
        f"Made {document['made'][:10]} by version {document['version']} at the "
        f"`{document['profile']}` profile "
        "by `tools/publish_ledger.py` from finished runs; do not edit. The rules: [claims.md](claims.md). "
        "`featscope check` makes it again; `featscope explain ID` tells more of one claim.\n",
        f"| readings of | {' | '.join(v.replace('_', ' ').lower() for v in verdicts)} |",
        "|---" * (len(verdicts) + 1) + "|",
    ]
    out += [f"| {kind} | {' | '.join(str(n[v] or '') for v in verdicts)} |" for kind, n in counts.items()]
    totals = [str(sum(n[v] for n in counts.values())) for v in verdicts]
    out += [f"| all | {' | '.join(totals)} |", f"\nNot judged, for want of runs: {len(missing)} readings."]
    ids = dict.fromkeys(id_ for id_ in claims() if any(x["id"] == id_ for x in (*lines, *missing)))
    for paper in rooms():
        out.append(f"\n## {paper.upper()}")
        for id_ in (id_ for id_ in ids if claims()[id_].paper == paper):
            own = ([x for x in group if x["id"] == id_] for group in (lines, missing))
            out += _claim(id_, *own)
    return "\n".join(out) + "\n"


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("--profile", default="cpu")
    given = parser.parse_args()
    document = collect(given.runs, given.profile)
    LEDGER.parent.mkdir(exist_ok=True)
    write_json(LEDGER, document)
    PAGE.write_text(page(document), encoding="utf-8")
    print(f"{LEDGER}: {len(document['lines'])} lines, {len(document['not_judged'])} not judged")


if __name__ == "__main__":
    main()
