"""`featscope explain`: one claim, from its statement to the test that holds its judge to account."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from featscope.cli.console import JsonOption, OutOption, ProfileOption, out, print_json

if TYPE_CHECKING:
    from featscope.claims.explain import Explanation, ReadingTold


def explain(
    id_: Annotated[
        str, typer.Argument(metavar="CLAIM", help="a claim id, for example AT-T4.4; or a verdict: VACUOUS")
    ],
    profile: ProfileOption = "cpu",
    folder: OutOption = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Say what a claim states, how it is judged and what came out, or what a verdict means; runs nothing."""
    if _verdict(id_, as_json):
        return
    from featscope.claims import explain as claims_explain
    from featscope.claims.registry import claim
    from featscope.core.store import Store

    found = claims_explain.explain(claim(id_), profile, Store(folder))
    if as_json:
        print_json(found.as_json())
        return
    _statement(found)
    _hypotheses(found)
    _heading("Readings")
    for reading in found.readings:
        _reading(reading)
    _rest(found, profile, folder)


def _verdict(word: str, as_json: bool) -> bool:
    """Say what a verdict means; whether the word is one."""
    from featscope.report.overview import MEANINGS

    meaning = MEANINGS.get(word.strip().upper().replace(" ", "_").replace("-", "_"))
    if meaning is None:
        return False
    if as_json:
        print_json({"verdict": meaning.verdict, "means": meaning.text})
        return True
    out.print(Text(meaning.verdict, "bold"))
    _say(meaning.text)
    _say("The rules behind the verdicts: docs/claims.md")
    return True


def _heading(text: str) -> None:
    out.print(Text(f"\n{text}", "bold"))


def _say(text: str, indent: int = 2, style: str = "") -> None:
    out.print(Padding(Text(text, style), (0, 0, 0, indent)))


def _statement(found: Explanation) -> None:
    claim = found.claim
    out.print(Text.assemble((claim.id, "bold"), f"  {claim.kind.value}, {claim.reference}"))
    _say(claim.statement)
    if found.letters:
        _heading("In the paper's letters")
        _say(found.letters)


def _hypotheses(found: Explanation) -> None:
    _heading("Hypotheses")
    for text in found.claim.hypotheses or ("none",):
        _say(text)
    asked = [told for told in found.conditions if told.assumed]
    if asked:
        _say("here:")
    for told in asked:
        _say(f"{'met    ' if told.met else 'NOT MET'}  {told.text}", 4, "" if told.met else "cyan")
    beside = [told.text for told in found.conditions if not told.assumed and not told.met]
    if beside:
        _say("not met, but not assumed by the statement: " + "; ".join(beside), 4, "dim")


def _reading(reading: ReadingTold) -> None:
    from featscope.cli.verdicts import STYLES, interval, rule

    line = reading.line or reading.shipped
    head = Text.assemble((reading.name, "bold"))
    if line is not None:
        head.append("  ").append(line.verdict, STYLES.get(line.verdict, ""))
        head.append(f" (would be {line.would_be})" if line.would_be else "")
        head.append(f"  {rule(line)}  {interval(line)}")
        head.append(f"  shipped, {line.profile}" if reading.line is None else "", "dim")
    out.print(Padding(head, (0, 0, 0, 2)))
    _say(reading.reads, 6)
    if reading.rule:
        _say(f"judged: {reading.rule}", 6, "dim")
    runs = "; ".join(f"{name} ({changes})" if changes else name for name, changes in reading.runs.items())
    _say(f"run: {runs}    code: {reading.code}", 6, "dim")
    if reading.nearest is not None:
        _say(f"would hold: {reading.nearest}", 6)


def _rest(found: Explanation, profile: str, folder: Path) -> None:
    if found.failure:
        _heading("What a failure would mean")
        _say(found.failure)
    _heading("Where to look")
    for experiment, names in found.figures.items():
        _say(f"figures of {experiment}: {', '.join(names)}")
    _say(f"test: {found.test}")
    if found.history is not None:
        _say(f"rules changed after numbers were seen: docs/rules-history.md#{found.history}")
    if not found.judged:
        if found.data:
            _say(f"its data is not there: featscope data fetch {' '.join(found.data)}")
        _heading(f"Not judged here at profile {profile}; a verdict marked shipped is the package's own")
        where = "" if folder == Path("runs") else f" --out {folder}"
        _say(f"featscope check {found.claim.id} --profile {profile}{where}")
