"""A folder of small runs with a ledger, for tests of the page: real runs and their lines, and made-up lines
that a page must bear."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from featscope.claims import ledger
from featscope.claims.registry import claims
from featscope.core.store import Store
from featscope.experiments import runner
from featscope.experiments.registry import experiment
from featscope.experiments.spec import request

#: quick, and its figures are drawn in a moment
EXPERIMENT = "patch-minima"
#: what a page must show as it is written
HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=alert(1)> & “<b>”"


def line(id_: str, paper: str, verdict: str, **more: Any) -> dict[str, Any]:
    """A ledger line of the older form."""
    return {
        "id": id_,
        "paper": paper,
        "reference": "Theorem 9.9",
        "statement": "A made-up statement.",
        "reading": "one way (of two)",
        "reads": "how it is read",
        "verdict": verdict,
        "value": 0.25,
        "bound": 0.5,
        "evidence": {"runs": {}},
        **more,
    }


def made_up() -> list[dict[str, Any]]:
    """Lines of every verdict, of the newer form too, with texts and evidence that try a page."""
    nested = {
        "by_seed": [[1, 2], [3, 4]],
        "parts": {"a": {"value": 1.5, "met": True}, "b": {"value": None, "met": False}},
        "rows": [{"d": 16, "n": 1e-9}, {"d": 32, "n": 123456789.0}],
        "long": list(range(100)),
        HOSTILE: HOSTILE,
        "runs": {"run": "no-such-run"},
    }
    newer = {
        "kind": "lemma",
        "direction": "at least",
        "low": 0.2,
        "high": 0.3,
        "profile": "quick",
        "hypotheses": ["d ≥ k: 8 against 4"],
        "unmet": ["ε ≪ 1: 1.2 against 0.1"],
        "would_be": "HOLDS",
        "settings": {"eps": 0.5},
        "experiments": [EXPERIMENT],
        "rules_history": "at-t4.4",
    }
    return [
        line("FA-X1", "fa", "FAILS", evidence=nested, statement=HOSTILE),
        line("FA-X2", "fa", "OUT_OF_SCOPE", **newer),
        line("FA-X2", "fa", "VACUOUS", **{**newer, "settings": {}}),
        line("CG-X3", "cgro", "INCONCLUSIVE", value=None, bound=None, reference="CGRO Lemma C.1"),
        line("EP-X4", "ep", "HOLDS", reference="EP, talk: Table 1"),
    ]


def make(root: Path) -> Path:
    """Two variants of a run below ``root`` and a ledger beside them."""
    store, plan = Store(root), experiment(EXPERIMENT)
    runner.run(request(plan, "quick"), store)
    runner.run(request(plan, "quick", {"seeds": [1]}), store)
    mine = [
        claim
        for claim in claims().values()
        if all(need.experiment == EXPERIMENT for reading in claim.readings for need in reading.needs.values())
    ]
    lines = [one.as_json() for one in ledger.check(mine, "quick", store)]
    (root / "ledger.json").write_text(json.dumps(lines + made_up()), encoding="utf-8")
    return root
