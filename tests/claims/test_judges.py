"""Every judge can say yes and no, knows its bound, is not carried by good seeds over a bad one, and never
takes NaN for a success. Where a judge has a second reading, every number of its findings is computed twice."""

import importlib
from pathlib import Path

import pytest
from judging import TABLES, Cannot, Case, Table, expect
from second_reading import agree, entry_of, irregular

from featscope.claims.claim import Claim
from featscope.claims.registry import claims
from featscope.experiments.registry import experiment, rooms
from featscope.experiments.spec import PROFILES, resolve

for kind in ("judge_rows", "second"):
    for module in sorted(Path(__file__).parents[1].glob(f"papers/*/{kind}_*.py")):
        importlib.import_module(module.stem)

READINGS = [(claim.id, reading.name) for claim in claims().values() for reading in claim.readings]
FAILED = {"FAILS", "INCONCLUSIVE", "OUT_OF_SCOPE"}


@pytest.mark.parametrize("claim", claims().values(), ids=lambda claim: claim.id)
def test_a_claim_is_made_of_what_it_should_be(claim: Claim) -> None:
    assert claim.paper in rooms()
    assert claim.statement.endswith(".")
    assert len({reading.name for reading in claim.readings}) == len(claim.readings) > 0
    texts = [claim.reference, claim.statement, *claim.hypotheses, *(r.text for r in claim.readings)]
    assert all(isinstance(text, str) and text for text in texts)
    for need in (need for reading in claim.readings for need in reading.needs.values()):
        for profile in PROFILES:
            resolve(experiment(need.experiment), profile, need.overrides)


def test_every_reading_has_its_rows() -> None:
    assert sorted(set(READINGS) - set(TABLES)) == []
    assert sorted(set(TABLES) - set(READINGS)) == []


@pytest.mark.parametrize(
    ("claim", "name"), [pair for pair in READINGS if pair in TABLES], ids=lambda text: text
)
def test_judge(claim: str, name: str) -> None:
    entry = TABLES[claim, name]()
    if isinstance(entry, Cannot):
        assert len(entry.reason) > 20
        verdicts = {case.verdict for case in entry.cases}
        assert not {"HOLDS", "FAILS"} <= verdicts, "it can say both: give it a table"
        for case in entry.cases:
            expect(claim, name, case)
            read_again(claim, name, case, roughened=True)
        return
    assert isinstance(entry, Table)
    assert entry.holds.verdict == "HOLDS"
    assert entry.fails.verdict == "FAILS"
    for kind in ("bad_seed", "nan"):
        case = getattr(entry, kind)
        assert isinstance(case, str) or case.verdict in FAILED, kind
    for case in (entry.holds, entry.fails, entry.at_bound, entry.bad_seed, entry.nan, *entry.more):
        if isinstance(case, Case):
            expect(claim, name, case)
            read_again(claim, name, case, roughened=case is entry.holds or case is entry.fails)
        else:
            assert len(case) > 20, "say why this kind of rows makes no sense"


def read_again(claim: str, name: str, case: Case, roughened: bool) -> None:
    """The finding is that of the second reading, on the case's rows and on the same rows made irregular."""
    entry = entry_of(claim, name)
    if entry is None:
        return
    reading = next(r for r in claims()[claim].readings if r.name == name)
    matched = entry.pattern.fullmatch(name)
    agree(reading.judge(case.runs), entry.second(case.runs, matched), f"{claim} {name}")
    if roughened:
        rough = {label: irregular(run, entry.places) for label, run in case.runs.items()}
        agree(reading.judge(rough), entry.second(rough, matched), f"{claim} {name}, irregular")
