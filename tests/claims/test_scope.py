"""The one rule on hypotheses: what a statement assumes decides whether it is in scope, in every paper alike."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from judging import made

from featscope.claims.claim import Claim, Finding, Kind, Need, Reading, Verdict, kind_of
from featscope.claims.judging import scoped, vacuous
from featscope.claims.ledger import judge
from featscope.claims.registry import claims
from featscope.claims.scope import hypotheses, settled
from featscope.core import conditions
from featscope.core.errors import BadInput
from featscope.experiments.run import Run
from featscope.laws.clusters import ClusterLaw, ClusterSetting
from featscope.laws.patches import PatchLaw, PatchSetting
from featscope.laws.signal import SignalLaw, SignalSetting
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at.choices import choices

NEED = {"run": Need("signal-scaling")}
HOLDS = Finding(Verdict.HOLDS, 1.0, 2.0, {"seen": 1}, "at most", 0.5, 1.5)


def at(name: str, met: bool, value: float = 1.0, **labels: Any) -> dict[str, Any]:
    """A condition value ≥ 1 or value ≥ 3, as rows have it."""
    return labels | conditions.asks_at_least(name, f"{name} is large", value, 1.0 if met else 3.0).as_json()


def with_law(*rows: dict[str, Any], experiment: str = "signal-scaling") -> Run:
    return made(experiment, {"conditions": list(rows), "other": [at("elsewhere", False)]})


def claim(reading: Reading, reference: str = "Theorem 1", **more: Any) -> Claim:
    return Claim("X-1", "cgro", reference, "It is so.", ("a", "b"), (reading,), **more)


def read(finding: Finding = HOLDS, **more: Any) -> Reading:
    return Reading("plain", "as stated", NEED, lambda runs: finding, **more)


LAW = (at("a", True), at("b", False), at("c", True))


@pytest.mark.parametrize("verdict", [Verdict.HOLDS, Verdict.FAILS, Verdict.INCONCLUSIVE, Verdict.VACUOUS])
def test_outside_its_hypotheses_a_theorem_is_out_of_scope_whatever_it_would_be(verdict: Verdict) -> None:
    reading = read(replace(HOLDS, verdict=verdict))
    found = settled(claim(reading), reading, {"run": with_law(*LAW)})
    assert (found.verdict, found.unmet) == (Verdict.OUT_OF_SCOPE, ("b is large: 1 against 3",))
    assert (found.value, found.bound, found.direction, found.low, found.high) == (
        1.0,
        2.0,
        "at most",
        0.5,
        1.5,
    )
    assert found.evidence == {"seen": 1, "unmet": ["b is large: 1 against 3"], "would_be": verdict.value}


@pytest.mark.parametrize(
    ("claimed", "reads", "in_scope"),
    [
        ({}, {}, False),
        ({"assumes": ("a", "c")}, {}, True),
        ({"assumes": ("a", "b")}, {}, False),
        ({"assumes": ()}, {}, True),
        ({"assumes": ("b",)}, {"assumes": ("a",)}, True),
        ({"assumes": ()}, {"assumes": ("b",)}, False),
    ],
)
def test_only_what_is_assumed_counts(claimed: Any, reads: Any, in_scope: bool) -> None:
    reading = read(**reads)
    found = settled(claim(reading, **claimed), reading, {"run": with_law(*LAW)})
    assert found.verdict == ("HOLDS" if in_scope else "OUT_OF_SCOPE")
    told = found.evidence.get("unmet_but_not_assumed")
    assert told == (["b is large: 1 against 3"] if in_scope else None)


@pytest.mark.parametrize("reference", ["Figure 3", "Table 1", "Assumption 2.3"])
def test_a_papers_own_experiment_is_judged_where_the_paper_put_it(reference: str) -> None:
    reading = read(replace(HOLDS, verdict=Verdict.FAILS))
    runs = {"run": with_law(*LAW)}
    assert settled(claim(reading, reference), reading, runs).verdict is Verdict.FAILS
    assert settled(claim(reading, reference, assumes=("b",)), reading, runs).verdict is Verdict.OUT_OF_SCOPE
    # What the rows themselves show unmet counts for figures too: networks that have learned nothing show nothing.
    seen = read(scoped(["not learned"], HOLDS))
    found = settled(claim(seen, reference), seen, runs)
    assert (found.verdict, found.unmet) == (Verdict.OUT_OF_SCOPE, ("not learned",))


def test_a_reading_of_one_sweep_is_asked_for_the_conditions_of_that_sweep() -> None:
    law = (at("a", False, sweep="n", n=1), at("a", True, sweep="n", n=2), at("a", True, sweep="d", n=9))
    runs = {"run": with_law(*law)}
    along_n, along_d = read(at={"sweep": "n"}), read(at={"sweep": "d"})
    found = settled(claim(along_n), along_n, runs)
    assert found.unmet == ("a is large: 1 against 3 (1 of 2 settings)",)
    assert settled(claim(along_d), along_d, runs).verdict is Verdict.HOLDS
    assert [str(h) for h in hypotheses(runs["run"], along_d)] == ["a is large: 1 against 1"]
    everywhere = read()
    assert settled(claim(everywhere), everywhere, runs).unmet == (
        "a is large: 1 against 3 (1 of 3 settings)",
    )


def test_a_line_carries_hypotheses_scope_and_what_would_be() -> None:
    reading = read(vacuous("empty", replace(HOLDS, verdict=Verdict.FAILS)))
    runs = {"run": with_law(*LAW), "beside": with_law(*LAW)}
    line = judge(claim(reading, assumes=("a", "b")), reading, runs, "quick", {"eps": 0.5}).as_json()
    assert line["hypotheses"] == ["a is large: 1 against 1", "b is large: 1 against 3"]
    assert (line["verdict"], line["would_be"], line["unmet"]) == (
        "OUT_OF_SCOPE",
        "VACUOUS",
        ["b is large: 1 against 3"],
    )
    assert (line["kind"], line["profile"], line["settings"]) == ("theorem", "quick", {"eps": 0.5})
    assert (line["direction"], line["low"], line["high"]) == ("at most", 0.5, 1.5)
    assert (line["experiments"], line["rules_history"]) == (["signal-scaling"], None)
    assert line["evidence"]["runs"] == {"run": "signal-scaling", "beside": "signal-scaling"}
    assert (line["id"], line["reading"], line["reads"]) == ("X-1", "plain", "as stated")
    inside = judge(claim(reading, assumes=("a",)), reading, runs).as_json()
    assert (inside["verdict"], inside["would_be"], inside["unmet"]) == ("VACUOUS", "FAILS", [])
    assert judge(claim(read(), assumes=()), read(), runs).would_be is None


def test_seeds_that_were_lost_leave_a_verdict_open_also_out_of_scope() -> None:
    run = with_law(*LAW, experiment="signal-stages")
    run.manifest["notes"] = {"part": {"diverged": {"2": 10}}}
    reading = read()
    inside = settled(claim(reading, assumes=()), reading, {"run": run})
    assert (inside.verdict, inside.evidence["verdict_without_them"]) == (Verdict.INCONCLUSIVE, "HOLDS")
    assert inside.evidence["diverged"] == {"run": {"part": ["2"]}}
    outside = settled(claim(reading), reading, {"run": run})
    assert (outside.verdict, outside.evidence["would_be"]) == (Verdict.OUT_OF_SCOPE, "INCONCLUSIVE")


#: of AT's recorded conditions: no proof needs `halfway`, and q ≥ 3 is met by every net that is run
NOT_ASSUMED = {"halfway", "B.3 q"}


def _names() -> dict[str, set[str]]:
    """The conditions that the laws of a paper record."""
    patch, clusters, signal = PatchLaw(), ClusterLaw(), SignalLaw()
    setting = ClusterSetting(n=100, m=5, learning_rate=0.1, init_weight=0.1, init_bias=0.1)
    batch = patch.sample(4, 0)
    law = {
        "at": [*patch.check(PatchSetting(1.2, batch)), *choices(patch, PatchNetSpec(), 1000.0)],
        "fa": clusters.check(setting),
        "cgro": signal.check(SignalSetting(10, 0.1, 0.1, 0.5)),
        "ep": [],
    }
    return {paper: {condition.name for condition in found} for paper, found in law.items()}


def test_every_assumed_condition_is_one_that_the_papers_law_checks() -> None:
    known = _names()
    asked = {
        (claim.id, name)
        for claim in claims().values()
        for reading in claim.readings
        for name in claim.supposed(reading) or ()
    }
    assert {pair for pair in asked if pair[1] not in known[claims()[pair[0]].paper]} == set()
    assert {name for id_, name in asked if id_.startswith("AT")} == known["at"] - NOT_ASSUMED
    assert {name for id_, name in asked if id_.startswith("CG")} <= known["cgro"]


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        # identities and definitions of the dynamics hold for any law
        ("AT-L5.1 AT-LD.2 AT-LD.4 AT-LD.16 AT-LD.17 AT-LD.18 AT-LE.2 AT-LE.9 AT-LD.3 AT-LB.2", ()),
        ("FA-L5.1 FA-L5.2 FA-CB.4 FA-LC.6 FA-LC.7 FA-LC.8 FA-LC.9 FA-PA.10 CG-LA.1 CG-LA.2 CG-LA.3", ()),
        ("AT-F3 AT-A2.3 AT-AB.3 FA-F2 FA-F3 FA-F5 FA-F6 FA-F7 FA-F8 FA-F9 EP-table", ()),
        ("FA-T4.5 FA-T4.6 FA-T4.7 FA-L5.3 FA-L5.5 FA-LB.24 FA-LC.25 FA-PA.13", None),
    ],
)
def test_what_a_statement_stands_on(ids: str, kept: tuple[str, ...] | None) -> None:
    for id_ in ids.split():
        found = claims()[id_]
        plain = [reading for reading in found.readings if reading.assumes is None]
        assert plain
        assert {found.supposed(reading) for reading in plain} == {kept}, id_


def test_noiseless_lemmas_do_not_ask_for_noise_and_the_attack_is_not_asked_of_standard_training() -> None:
    noise = {"B.3 noise", "§2.5 ε = Θ(σ_n√d)"}
    for id_ in ("AT-LD.9", "AT-LD.10", "AT-LD.11", "AT-LD.23", "AT-LD.24", "AT-LD.25", "AT-LD.26"):
        assert not noise & set(claims()[id_].assumes or ()), id_
        assert "A2.3 dense" in (claims()[id_].assumes or ())
    for id_ in ("AT-LD.9", "AT-LE.3", "AT-LE.7"):
        assert "B.3 α ≫ ε" not in (claims()[id_].assumes or ())
    assert set(claims()["AT-T4.4"].assumes or ()) == _names()["at"] - NOT_ASSUMED


def test_the_kind_of_a_statement_is_read_from_its_reference() -> None:
    assert kind_of("AT Lemma 5.2 and Lemma D.22") is Kind.LEMMA
    assert kind_of("Corollaries B.5 and C.9") is Kind.COROLLARY
    assert kind_of("CGRO Theorem E.1, appendix F") is Kind.THEOREM
    assert kind_of("CGRO §6, Figure 2") is Kind.FIGURE
    with pytest.raises(BadInput, match="named_kind"):
        kind_of("CGRO §1, equation (C)")
    kinds = {id_: found.kind.value for id_, found in claims().items()}
    assert (kinds["CG-C"], kinds["EP-train"], kinds["EP-sep"], kinds["CG-HC.1"]) == (
        "construction",
        "theorem",
        "table",
        "lemma",
    )


def test_the_condition_that_says_stronger_asks_for_stronger() -> None:
    """σ√d against α: the paper makes the signal stronger than the noise, not much stronger."""
    law = SignalLaw()
    found = {c.name: c for c in law.check(SignalSetting(10, 0.1, 0.1, 0.5))}["noise"]
    assert "≪" not in found.text
    assert found.value == pytest.approx(law.noise_scale * math.sqrt(law.d) / law.strength)
    assert found.bound == 1.0


def test_no_judge_puts_itself_out_of_scope() -> None:
    rooms = Path(__file__).parents[2] / "src" / "featscope" / "papers"
    assert [path for path in rooms.rglob("*.py") if "OUT_OF_SCOPE" in path.read_text()] == []


def test_a_frame_without_conditions_asks_for_nothing() -> None:
    run = made("packing", {"law": [{"D": 2, "radius": 0.1}]})
    assert hypotheses(run, read()) == []
    assert isinstance(run.rows, pl.DataFrame)


def test_the_setting_that_misses_is_shown_and_every_run_is_asked() -> None:
    law = (at("a", True, 2.0, sweep="n"), at("a", False, 0.5, sweep="n"))
    reading = read()
    found = settled(claim(reading), reading, {"run": with_law(*law)})
    assert found.unmet == ("a is large: 0.5 against 3 (1 of 2 settings)",)
    both = {"run": with_law(at("a", True)), "beside": with_law(at("b", False))}
    found = settled(claim(reading), reading, both)
    assert found.unmet == ("b is large: 1 against 3",)


def test_seeds_that_the_rows_count_as_lost_leave_the_verdict() -> None:
    run = with_law(at("a", True))
    run.manifest["notes"] = {"part": {"diverged": {"2": 10}}}
    assert run.diverged
    found = settled(claim(read()), read(), {"run": run})
    assert (found.verdict, found.evidence) == (Verdict.HOLDS, {"seen": 1})
