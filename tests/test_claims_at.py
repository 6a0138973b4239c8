"""Judges must be able to say no: each is given rows that hold and rows that fail. Certificates are tampered with."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from featscope.attacks.model_free import write_robust
from featscope.core.stats import Interval
from featscope.core.store import Run, Store
from featscope.core.streams import stream
from featscope.experiments.patch_summary import phase_switch
from featscope.experiments.registry import EXPERIMENTS, experiment
from featscope.experiments.spec import resolve, run
from featscope.laws.patches import PatchLaw
from featscope.laws.separation import conflict
from featscope.nets.patch_cnn import PatchNet
from featscope.theory import ledger
from featscope.theory.at.training import _dominance, _large, _perfect, _small
from featscope.theory.claim import Verdict, at_least, at_most, exactly, exponent_at_most, out_of_scope
from featscope.theory.verify_at import fooled, matching_bound, network


def test_verdicts_follow_the_interval() -> None:
    assert at_most(Interval(0.01, 0.0, 0.02), 0.05).verdict is Verdict.HOLDS
    assert at_most(Interval(0.06, 0.03, 0.09), 0.05).verdict is Verdict.INCONCLUSIVE
    assert at_most(Interval(0.2, 0.1, 0.3), 0.05).verdict is Verdict.FAILS
    assert at_least(Interval(0.99, 0.96, 1.0), 0.95).verdict is Verdict.HOLDS
    assert at_least(Interval(0.9, 0.8, 0.99), 0.95).verdict is Verdict.INCONCLUSIVE
    assert at_least(Interval(0.2, 0.1, 0.3), 0.95).verdict is Verdict.FAILS
    assert exactly(float("nan"), 1.0).verdict is Verdict.FAILS
    assert exactly(float("nan"), 1.0).value is None
    scope = out_of_scope(["d ≫ k"], exactly(0.0, 1.0))
    assert scope.verdict is Verdict.OUT_OF_SCOPE
    assert scope.evidence["would_be"] == "HOLDS"


def test_exponents_are_judged_with_their_allowance() -> None:
    x = [10.0**i for i in range(2, 8)]
    assert exponent_at_most(x, [v**-0.5 for v in x], -0.5).verdict is Verdict.HOLDS
    assert exponent_at_most(x, [v**-0.2 for v in x], -0.5).verdict is Verdict.FAILS


class FakeRun(Run):
    """A run made of rows alone."""

    def __init__(self, rows: list[dict[str, Any]], spec: dict[str, Any], arm: str) -> None:
        super().__init__(Path("fake"))
        law = [{"part": "law", "name": "x", "text": "t", "value": 1.0, "bound": 2.0, "met": True}]
        frame = pl.concat([pl.DataFrame([{"part": arm, **r} for r in rows]), pl.DataFrame(law)], how="diagonal_relaxed")
        self.__dict__.update(rows=frame, spec={"experiment": "patch-fig3", "spec": spec}, summary={arm: {}}, tensors={})


SPEC = {"train_size": 100, "test_size": 200, "evaluation": {"points": 100}}


def rows(**final: Any) -> list[dict[str, Any]]:
    return [{"step": s, "run": r, **final} for s in (0, 10) for r in (0, 1, 2)]


@pytest.mark.parametrize(("accuracy", "verdict"), [(1.0, "HOLDS"), (0.95, "INCONCLUSIVE"), (0.5, "FAILS")])
def test_small_error_can_hold_and_fail(accuracy: float, verdict: str) -> None:
    fake = FakeRun(rows(clean_test=accuracy), SPEC, "standard")
    assert _small("standard", "clean_test")({"run": fake}).verdict == verdict


def test_large_error_perfect_fit_and_dominance_can_fail() -> None:
    fake = FakeRun(rows(**{"robust_model-free": 0.5, "clean_train": 0.99, "u": [1.0, 2.0], "v": [0.05, 0.5]}), SPEC, "standard")
    assert _large("standard", "robust_model-free")({"run": fake}).verdict == "FAILS"
    assert _perfect("clean_train", "standard")({"run": fake}).verdict == "FAILS"
    found = _dominance("standard", "u")({"run": fake})
    assert found.verdict == "INCONCLUSIVE"
    assert found.value == pytest.approx(4.0)
    good = FakeRun(rows(**{"robust_model-free": 0.0, "clean_train": 1.0, "u": [1.0, 2.0], "v": [0.05, 0.05]}), SPEC, "standard")
    assert _large("standard", "robust_model-free")({"run": good}).verdict == "HOLDS"
    assert _perfect("clean_train", "standard")({"run": good}).verdict == "HOLDS"
    assert _dominance("standard", "u")({"run": good}).verdict == "HOLDS"


def test_phase_switch_is_the_last_overtaking() -> None:
    u = [[0.1, 0.1], [0.3, 0.1], [0.1, 0.1], [0.5, 0.1], [0.9, 0.1]]
    v = [[0.2, 0.2]] * 5
    frame = pl.DataFrame([{"step": 10 * i, "run": 4, "u": a, "v": b} for i, (a, b) in enumerate(zip(u, v, strict=True))])
    assert phase_switch(frame) == {4: [30, None]}


def test_the_verifier_has_its_own_network() -> None:
    w = torch.randn(3, 4, 5, generator=stream(0, "w"), dtype=torch.float64)
    x = torch.randn(6, 2, 5, generator=stream(0, "x"), dtype=torch.float64)
    ours = PatchNet(w, 4, 0.6)(x).numpy()
    assert np.allclose([network(w.numpy(), point, 4, 0.6) for point in x.numpy()], ours, atol=1e-12)


def test_tampered_perturbations_prove_nothing() -> None:
    law = PatchLaw()
    batch = law.sample(30, stream(0, "data"))
    u, _ = law.features()
    w = (3.0 * u[:, None, :]).numpy()
    delta = write_robust(law, batch, 1.2, stream(0, "a"))
    x, y = batch.x.numpy(), batch.y.numpy()
    assert fooled(w, x, y, delta.numpy(), 1.2, 3, 1.0) == 30
    assert fooled(w, x, y, 1.01 * delta.numpy(), 1.2, 3, 1.0) == 0
    assert fooled(w, x, y, 0 * delta.numpy(), 1.2, 3, 1.0) == 0


def test_tampered_matchings_prove_nothing() -> None:
    law = PatchLaw()
    batch = law.sample(60, stream(0, "data"))
    found = conflict(batch.x, batch.y, "Linf", 1.2)
    x, y, left, right = batch.x.numpy(), batch.y.numpy(), found.left.numpy(), found.right.numpy()
    assert matching_bound(x, y, left, right, 1.2) == pytest.approx(found.bound)
    assert matching_bound(x, y, left, right, 0.5) == 1.0
    assert matching_bound(x, y, left, left, 1.2) == 1.0
    twice = right.copy()
    twice[0] = twice[1]
    assert matching_bound(x, y, left, twice, 1.2) == 1.0


def test_every_claim_is_complete_and_names_real_experiments() -> None:
    for claim in ledger.CLAIMS.values():
        assert claim.statement.endswith(".")
        assert claim.readings
        assert len({r.name for r in claim.readings}) == len(claim.readings)
        for reading in claim.readings:
            for need in reading.needs.values():
                for profile in ("quick", "cpu", "paper"):
                    resolve(EXPERIMENTS[need.experiment], profile, need.overrides)


def test_recursion_claims_hold_and_break_with_the_recursion(tmp_path: Path) -> None:
    plan = experiment("patch-recursion")
    done = run(plan, resolve(plan, "quick", {"steps": 500}), Store(tmp_path))
    assert done.summary["standard"]["gap"] < 1e-9
    assert done.summary["adversarial"]["gap"] < 1e-9
    claim = ledger.CLAIMS["AT-LD.18"].readings[0]
    assert claim.judge({"run": done}).verdict == "HOLDS"
    wrong = FakeRun([{"step": s, "run": 0, "gap": 1e-6} for s in (0, 1)], {}, "adversarial")
    assert claim.judge({"run": wrong}).verdict == "FAILS"


def test_scaling_claims_on_a_small_sweep(tmp_path: Path) -> None:
    plan = experiment("patch-scaling")
    done = run(plan, resolve(plan, "quick", {"seeds": [0, 1, 2, 3], "dimensions": [100, 10**4, 10**6, 10**8]}), Store(tmp_path))
    verdict = {r.name: r.judge({"run": done}) for r in ledger.CLAIMS["AT-LD.24"].readings}
    # The non-robust part stalls at d^(−c0/q), not at d^(−c0); with the initial directions the robust part stalls too.
    assert verdict["features-only"].verdict == "FAILS"
    assert verdict["features-only"].evidence["exponent"] == pytest.approx(-1 / 6, abs=0.05)
    assert verdict["two-sided"].verdict == "FAILS"
    assert ledger.CLAIMS["AT-LD.3"].readings[1].judge({"run": done}).verdict == "FAILS"
