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
from featscope.report.page import draw
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


def reading(claim: str, name: str) -> Any:
    return next(r.judge for r in ledger.CLAIMS[claim].readings if r.name == name)


def fake(parts: dict[str, list[dict[str, Any]]], spec: dict[str, Any], summary: dict[str, Any] | None = None) -> FakeRun:
    made = FakeRun([{"step": 0, "run": 0}], spec, "nothing")
    frames = [pl.DataFrame([{"part": part, **r} for r in listed]) for part, listed in parts.items()]
    made.__dict__.update(rows=pl.concat(frames, how="diagonal_relaxed"), summary=summary or {})
    return made


@pytest.mark.parametrize(("upper", "lower", "verdict"), [(1.0, 1.0, "HOLDS"), (1.0, 0.0, "INCONCLUSIVE"), (0.5, 0.0, "FAILS")])
def test_brackets_hold_only_when_certified(upper: float, lower: float, verdict: str) -> None:
    row = {"threat": "feature-span", "eps": 1.2, "upper": upper, "lower": lower, "cross_entropy_alone": upper}
    rows_ = [{**row, "run": r, "points": p} for r in range(3) for p in ("test", "train")]
    body = {"eps": 1.2, "test_size": 200, "train_size": 100, "evaluation": {"curve_points": 60}}
    assert reading("AT-T4.4", "feature-span")({"run": fake({"adversarial-radii": rows_}, body)}).verdict == verdict


@pytest.mark.parametrize(("growth", "verdict"), [(1.5, "HOLDS"), (20.0, "FAILS")])
def test_one_growing_pair_fails_the_off_diagonal_lemma(growth: float, verdict: str) -> None:
    """The pair grows from far below the largest one, which hides it from the maximum over all pairs."""
    listed = [{"step": s, "run": r, "C": [1.0, 0.01 * (growth if s else 1)], "D": [1.0, 1.0]} for s in (0, 5) for r in (0, 1)]
    assert reading("AT-LD.7", "noiseless")({"run": fake({"standard": listed}, {})}).verdict == verdict


def test_the_approximation_can_hold_and_does_not_lose_steps_that_stand_still() -> None:
    def run_(guess: float, exact: float) -> FakeRun:
        row = {"polynomial": 1.0, "approximation_A": [guess], "exact_A": [exact], "approximation_B": [guess], "exact_B": [exact]}
        return fake({"adversarial": [{"step": s, "run": 0, **row} for s in range(5)]}, {})

    judge = reading("AT-L5.2", "within-a-constant")
    assert judge({"run": run_(0.1, 0.08)}).verdict == "HOLDS"
    assert judge({"run": run_(0.1, -0.08)}).verdict == "FAILS"
    assert judge({"run": run_(0.1, 0.0)}).verdict == "FAILS"


def scaling_run(late: float, time_share: float, loser: float) -> FakeRun:
    """Eight dimensions, two runs each: F ends at d^late·log d, A at the event is d^loser, and time reaches a share of d²."""
    dims = [10.0**i for i in range(2, 10)]
    curves = [
        {"step": 9, "run": 2 * i + j, "d": d, "time": time_share * d**2, "F": [d**late * np.log(d)], "u": [0.1], "v": [0.1]}
        for i, d in enumerate(dims)
        for j in (0, 1)
    ]
    events = [
        {"d": d, "run": j, "class": 0, "event": e, "happened": True, "A": d**loser, "B": 0.1} for d in dims for j in (0, 1) for e in (0, 1)
    ]
    return fake({"standard": curves, "standard-events": events}, {"c0": 0.5, "horizon_power": 2.0, "net": {"q": 3}})


@pytest.mark.parametrize(
    ("late", "share", "verdict"), [(0.0, 1.0, "HOLDS"), (0.3, 1.0, "FAILS"), (0.0, 0.5, "INCONCLUSIVE"), (0.3, 0.5, "INCONCLUSIVE")]
)
def test_late_statements_need_the_time_they_speak_of(late: float, share: float, verdict: str) -> None:
    assert reading("AT-LD.11", "until-d²")({"run": scaling_run(late, share, -0.5)}).verdict == verdict


@pytest.mark.parametrize(("loser", "verdict"), [(-0.5, "HOLDS"), (-0.1, "FAILS")])
def test_losers_can_be_too_large(loser: float, verdict: str) -> None:
    assert reading("AT-LD.9", "median")({"run": scaling_run(0.0, 1.0, loser)}).verdict == verdict


def test_tensor_power_and_probability_readings_can_fail() -> None:
    grid = [{"q": 3, "S": 1.0, "y0": y, "growth": g} for y, g in ((1e-2, 2.0), (1e-4, 3.0))]
    assert reading("AT-LB.2", "grid")({"run": fake({"power": grid}, {})}).verdict == "HOLDS"
    grid[0]["growth"] = 100.0
    assert reading("AT-LB.2", "grid")({"run": fake({"power": grid}, {})}).verdict == "FAILS"
    rows_ = [{"d": 1e6, "run": r, "class": 0, "event": 0, "happened": True, "A": 1e-4 if r < 300 else 1.0} for r in range(310)]
    judge = reading("AT-LD.9", "high-probability")
    assert judge({"run": fake({"standard-events": rows_[:300]}, {})}).verdict == "HOLDS"
    assert judge({"run": fake({"standard-events": rows_[290:]}, {})}).verdict == "FAILS"


@pytest.mark.parametrize(("scale", "verdict"), [(0.1, "HOLDS"), (100.0, "FAILS")])
def test_noise_readings_can_hold_and_fail(scale: float, verdict: str) -> None:
    body = {"law": {"d": 100, "patches": 16, "k": 2}, "train_size": 100, "standard": {"learning_rate": 0.1}}
    row = {"noise_max": scale, "noise_update_rest": scale, "u": [0.5 * scale], "C": [0.0], "D": [0.0], "v": [4.6 / scale]}
    row |= {"F_max": 10.0, "F_ratio": 0.1 / scale if scale > 1 else 0.9, "residual": scale}
    made = fake({"standard": [{"step": s, "run": r, **row} for s in (0, 100) for r in (0, 1, 2)]}, body)
    claims = [("AT-LE.3", "figure-3"), ("AT-LE.4", "figure-3"), ("AT-LE.5", "figure-3"), ("AT-LE.6", "figure-3"), ("AT-LE.7", "losers")]
    for claim, name in (*claims, ("AT-LE.7", "winner")):
        assert reading(claim, name)({"run": made}).verdict == verdict, claim


def test_span_and_certificate_readings() -> None:
    inside = fake({"x": [{"step": 0}]}, {}, {"d=1000": {"outside_span": 1e-13}})
    outside = fake({"x": [{"step": 0}]}, {}, {"d=1000": {"outside_span": 0.2}})
    assert reading("AT-LE.2", "large-d")({"run": inside}).verdict == "HOLDS"
    assert reading("AT-LE.2", "large-d")({"run": outside}).verdict == "FAILS"
    broken = fake({"law": [{"name": "x", "met": True}]}, {"eps": 0.1}, {"any_classifier": {"intersecting_pairs": 1.0}})
    points = {
        "x": torch.zeros(2, 1, 2, dtype=torch.float64),
        "y": torch.tensor([0, 0]),
        "left": torch.tensor([0]),
        "right": torch.tensor([1]),
    }
    broken.__dict__["tensors"] = {f"law/{k}": v for k, v in points.items()}
    assert reading("AT-A2.3", "any-classifier")({"run": broken}).verdict == "INCONCLUSIVE"


def test_a_diverged_run_is_no_network_and_breaks_nothing(tmp_path: Path) -> None:
    plan = experiment("patch-fig3")
    small = {
        "seeds": [0, 1],
        "net.width": 5,
        "law.d": 12,
        "train_size": 10,
        "test_size": 20,
        "evaluation.points": 10,
        "evaluation.curve_points": 10,
    }
    wild = {"adversarial.learning_rate": 1e308, "arms": ["adversarial"], "net.sigma_0": 1.0, "every": 1, "adversarial.steps": 6}
    done = run(plan, resolve(plan, "quick", {**small, **wild}), Store(tmp_path))
    assert done.summary["adversarial"]["diverged"]
    assert done.summary["adversarial"]["robust_test"]["full-ball"]["upper"] is None
    assert len(draw(done)) == 3
    assert reading("AT-T4.4", "full-ball")({"run": done}).verdict == "INCONCLUSIVE"


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
    assert matching_bound(x, y, left, right, 0.5) is None
    assert matching_bound(x, y, left, left, 1.2) is None
    twice = right.copy()
    twice[0] = twice[1]
    assert matching_bound(x, y, left, twice, 1.2) is None


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
