"""What the judges of FA share: the runs they need, rows along training, and verified radii."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import polars as pl

from featscope.claims.claim import Claim, Finding, Need, Reading, Verdict
from featscope.claims.judging import at_least, at_most, out_of_scope
from featscope.core.rules import BEND
from featscope.core.stats import Interval
from featscope.experiments.run import Run
from featscope.papers.fa.certificates import verify
from featscope.papers.fa.clusters_regimes import RegimeSpec

FIG2 = Need("clusters-fig2")
FIG3 = Need("clusters-fig3")
ABLATIONS = Need("clusters-ablations")
SCALING = Need("clusters-scaling")
BUILT = Need("clusters-built")
ROUTES = Need("clusters-routes")
SMALLER = Need("clusters-assumption")
SMALLER_LITERAL = Need("clusters-assumption", {"init": "literal"})
LARGER = Need("clusters-assumption", {"large": True, "dtype": "float32"})
START = Need("clusters-properties", {"compact": True})


def at_start(init: Literal["literal", "lemma"], data: bool = False) -> Need:
    """The properties at the start for Assumption 4.3 at k = 3, with σ_w literal or as the proofs need it."""
    regime = RegimeSpec(init=init)
    t, law = regime.training, regime.law
    numbers = {"n": t.n, "m": t.m, "learning_rate": t.learning_rate, "init_weight": t.init_weight, "init_bias": t.init_bias}
    shared = {"k": law.k, "d": law.d, **numbers, "compact": True, "dtype": "float32"}
    return Need("clusters-properties", {**shared, "data": data})


START_LITERAL, START_LEMMA, START_DATA = at_start("literal"), at_start("lemma"), at_start("lemma", data=True)


def claim(id_: str, reference: str, statement: str, hypotheses: tuple[str, ...], *readings: Reading) -> Claim:
    """A claim of FA."""
    return Claim(id_, "fa", reference, statement, hypotheses, readings)


def within_assumptions(run: Run, finding: Finding) -> Finding:
    """OUT_OF_SCOPE with the unmet hypotheses of the run's setting, or the finding as it is."""
    missing = run.summary["unmet"]
    return out_of_scope(missing, finding) if missing else finding


def seeds(run: Run) -> list[int]:
    """The run's seeds."""
    return list(run.spec["spec"]["seeds"])


def path(run: Run, name: str) -> pl.DataFrame:
    """The rows along training of one network, over all seeds."""
    return pl.concat([run.part(f"{name}-{seed}") for seed in seeds(run)], how="diagonal_relaxed")


def last(run: Run, name: str) -> list[Mapping[str, Any]]:
    """The last row of each seed."""
    return [run.part(f"{name}-{seed}").to_dicts()[-1] for seed in seeds(run)]


def falls(run: Run, sweep: str, key: str, **evidence: Any) -> Finding:
    """o(1) along a sweep: the interval of the fitted exponent lies below −BEND (flatter curves cannot be told from constants)."""
    return _fit(run, sweep, key, -BEND, True, evidence)


def bounded(run: Run, sweep: str, key: str, **evidence: Any) -> Finding:
    """O(1) along a sweep: the interval of the fitted exponent lies below BEND."""
    return _fit(run, sweep, key, BEND, True, evidence)


def persists(run: Run, sweep: str, key: str, **evidence: Any) -> Finding:
    """Ω(1) along a sweep: the interval of the fitted exponent lies above −BEND."""
    return _fit(run, sweep, key, -BEND, False, evidence)


def _fit(run: Run, sweep: str, key: str, bound: float, upper: bool, evidence: Mapping[str, Any]) -> Finding:
    table = run.summary[sweep]
    found = table["exponents"].get(key)
    values = [row[key] for row in table["rows"]]
    if found is None:
        return Finding(Verdict.FAILS, None, bound, {"reason": f"{key} is not positive along the sweep", "values": values, **evidence})
    fit = Interval(found["exponent"], found["low"], found["high"])
    shown = {"exponent_of": f"{key} in {sweep}", "values": values, "at": [row["value"] for row in table["rows"]], **evidence}
    return at_most(fit, bound, **shown) if upper else at_least(fit, bound, **shown)


def certified(run: Run, part: str) -> dict[str, Any]:
    """Re-verify the certificates of a part and say how many points they settle to 1e-5."""
    names = ("w", "b", "a", "x", "y", "delta", "certificate")
    arrays = [run.tensors[f"{part}/{name}"].double().numpy() for name in names]
    proof = verify(*arrays)
    return {"points": len(proof.lower), "settled": int(proof.settled(1e-5).sum()), "least_lower": float(proof.lower.min())}
