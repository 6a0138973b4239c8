"""Judges must be able to say no: each is given rows that hold and rows that fail. Certificates are tampered
with."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from judging import made

from featscope.attacks.patch_model_free import write_robust
from featscope.certificates.at import fooled, matching_bound, network
from featscope.claims.claim import Verdict
from featscope.claims.judging import at_least, at_most, exactly, exponent_at_most
from featscope.claims.registry import claims
from featscope.core.stats import Interval
from featscope.core.store import Store
from featscope.core.streams import stream
from featscope.experiments.registry import experiment, experiments
from featscope.experiments.run import Run
from featscope.experiments.runner import run
from featscope.experiments.spec import request, resolve
from featscope.laws.patches import PatchLaw
from featscope.laws.separation import conflict
from featscope.nets.patch_cnn import PatchNet
from featscope.papers.at.fig3_summary import phase_switch
from featscope.report.page import draw


def test_verdicts_follow_the_interval() -> None:
    assert at_most(Interval(0.01, 0.0, 0.02), 0.05).verdict is Verdict.HOLDS
    assert at_most(Interval(0.06, 0.03, 0.09), 0.05).verdict is Verdict.INCONCLUSIVE
    assert at_most(Interval(0.2, 0.1, 0.3), 0.05).verdict is Verdict.FAILS
    assert at_least(Interval(0.99, 0.96, 1.0), 0.95).verdict is Verdict.HOLDS
    assert at_least(Interval(0.9, 0.8, 0.99), 0.95).verdict is Verdict.INCONCLUSIVE
    assert at_least(Interval(0.2, 0.1, 0.3), 0.95).verdict is Verdict.FAILS
    assert exactly(float("nan"), 1.0).verdict is Verdict.FAILS
    assert exactly(float("nan"), 1.0).value is None


def test_exponents_are_judged_with_their_allowance() -> None:
    x = [10.0**i for i in range(2, 8)]
    assert exponent_at_most(x, [v**-0.5 for v in x], -0.5).verdict is Verdict.HOLDS
    assert exponent_at_most(x, [v**-0.2 for v in x], -0.5).verdict is Verdict.FAILS


def reading(claim: str, name: str) -> Any:
    return next(r.judge for r in claims()[claim].readings if r.name == name)


def verdict_of(claim: str, name: str, run_: Run) -> str:
    return str(reading(claim, name)({"run": run_}).verdict)


def finals(**final: Any) -> Run:
    """Three seeds of standard training that end with these values."""
    rows = [{"arm": "standard", "step": s, "seed": seed, **final} for s in (0, 10) for seed in (0, 1, 2)]
    sizes = {"train_size": 100, "test_size": 200, "evaluation__points": 100}
    return made("patch-fig3", {"dynamics": rows}, seeds=[0, 1, 2], law__d=100, **sizes)


@pytest.mark.parametrize(("accuracy", "verdict"), [(1.0, "HOLDS"), (0.95, "INCONCLUSIVE"), (0.5, "FAILS")])
def test_small_error_can_hold_and_fail(accuracy: float, verdict: str) -> None:
    assert verdict_of("AT-T4.3", "clean", finals(clean_test=accuracy)) == verdict


def test_large_error_perfect_fit_and_dominance_can_fail() -> None:
    bad = finals(**{"robust_model-free": 0.5, "clean_train": 0.99, "u": [0.05, 0.5], "v": [1.0, 2.0]})
    assert verdict_of("AT-T4.3", "robust-bad", bad) == "FAILS"
    assert verdict_of("AT-T4.3", "perfect-fit", bad) == "FAILS"
    found = reading("AT-F3", "standard")({"run": bad})
    assert found.verdict == "INCONCLUSIVE"
    assert found.value == pytest.approx(4.0)
    good = finals(**{"robust_model-free": 0.0, "clean_train": 1.0, "u": [0.05, 0.05], "v": [1.0, 2.0]})
    for claim, name in (("AT-T4.3", "robust-bad"), ("AT-T4.3", "perfect-fit"), ("AT-F3", "standard")):
        assert verdict_of(claim, name, good) == "HOLDS"


@pytest.mark.parametrize(
    ("upper", "lower", "verdict"), [(1.0, 1.0, "HOLDS"), (1.0, 0.0, "INCONCLUSIVE"), (0.5, 0.0, "FAILS")]
)
def test_brackets_hold_only_when_certified(upper: float, lower: float, verdict: str) -> None:
    row = {"arm": "adversarial", "threat": "feature-span", "eps": 1.2, "upper": upper, "lower": lower}
    row["cross_entropy_alone"] = upper
    rows = [{**row, "seed": seed, "points": points} for seed in range(3) for points in ("test", "train")]
    sizes = {"test_size": 200, "train_size": 100, "evaluation__curve_points": 60}
    assert verdict_of("AT-T4.4", "feature-span", made("patch-fig3", {"radii": rows}, **sizes)) == verdict


@pytest.mark.parametrize(("growth", "verdict"), [(1.5, "HOLDS"), (20.0, "FAILS")])
def test_one_growing_pair_fails_the_off_diagonal_lemma(growth: float, verdict: str) -> None:
    """The pair grows from far below the largest one, which hides it from the maximum over all pairs."""
    rows = [
        {"arm": "standard", "step": s, "seed": seed, "C": [1.0, 0.01 * (growth if s else 1)], "D": [1.0, 1.0]}
        for s in (0, 5)
        for seed in (0, 1)
    ]
    assert verdict_of("AT-LD.7", "noiseless", made("patch-recursion", {"dynamics": rows})) == verdict


def test_the_approximation_can_hold_and_does_not_lose_steps_that_stand_still() -> None:
    def run_(guess: float, exact: float) -> Run:
        row = {"arm": "adversarial", "seed": 0, "polynomial": 1.0}
        row |= {
            f"{what}_{kind}": [value]
            for kind in "AB"
            for what, value in (("approximation", guess), ("exact", exact))
        }
        return made("patch-recursion", {"dynamics": [{**row, "step": s} for s in range(5)]})

    for exact, verdict in ((0.08, "HOLDS"), (-0.08, "FAILS"), (0.0, "FAILS")):
        assert verdict_of("AT-L5.2", "as-printed", run_(0.1, exact)) == verdict


def scaling_run(late: float, time_share: float, loser: float) -> Run:
    """Eight dimensions, two runs each: F ends at d^late·log d, A at the event is d^loser, and time reaches a
    share of d²."""
    places = [{"arm": "standard", "d": 10**i, "seed": seed} for i in range(2, 10) for seed in (0, 1)]
    curves, events = [], []
    for place in places:
        d = float(place["d"])
        ends = {"time": time_share * d**2, "F": [d**late * np.log(d)], "u": [0.1], "v": [0.1]}
        curves.append({**place, "step": 9, **ends})
        events += [
            {**place, "class": 0, "event": e, "happened": True, "A": d**loser, "B": 0.1} for e in (0, 1)
        ]
    return made("patch-scaling", {"curves": curves, "events": events}, c0=0.5)


@pytest.mark.parametrize(
    ("late", "share", "verdict"),
    [(0.0, 1.0, "HOLDS"), (0.3, 1.0, "FAILS"), (0.0, 0.5, "INCONCLUSIVE"), (0.3, 0.5, "INCONCLUSIVE")],
)
def test_late_statements_need_the_time_they_speak_of(late: float, share: float, verdict: str) -> None:
    assert verdict_of("AT-LD.11", "until-d²", scaling_run(late, share, -0.5)) == verdict


@pytest.mark.parametrize(("loser", "verdict"), [(-0.5, "HOLDS"), (-0.1, "FAILS")])
def test_losers_can_be_too_large(loser: float, verdict: str) -> None:
    assert verdict_of("AT-LD.9", "median", scaling_run(0.0, 1.0, loser)) == verdict


def test_tensor_power_and_probability_readings_can_fail() -> None:
    grid = [{"q": 3, "S": 1.0, "y0": y, "growth": g} for y, g in ((1e-2, 2.0), (1e-4, 3.0))]
    assert verdict_of("AT-LB.2", "grid", made("patch-scaling", {"power": grid})) == "HOLDS"
    grid[0]["growth"] = 100.0
    assert verdict_of("AT-LB.2", "grid", made("patch-scaling", {"power": grid})) == "FAILS"
    row = {"arm": "standard", "d": 10**6, "class": 0, "event": 0, "happened": True}
    rows = [{**row, "seed": seed, "A": 1e-4 if seed < 300 else 1.0} for seed in range(310)]
    for chosen, verdict in ((rows[:300], "HOLDS"), (rows[290:], "FAILS")):
        assert verdict_of("AT-LD.9", "high-probability", made("patch-scaling", {"events": chosen})) == verdict


@pytest.mark.parametrize(("scale", "verdict"), [(0.1, "HOLDS"), (100.0, "FAILS")])
def test_noise_readings_can_hold_and_fail(scale: float, verdict: str) -> None:
    row = {
        "noise_max": scale,
        "noise_update_rest": scale,
        "u": [0.5 * scale],
        "C": [0.0],
        "D": [0.0],
        "v": [4.6 / scale],
    }
    row |= {"F_max": 10.0, "residual": scale}
    run_ = finals(**row)
    readings = [
        ("AT-LE.3", "figure-3"),
        ("AT-LE.4", "figure-3"),
        ("AT-LE.6", "figure-3"),
    ]
    for claim, name in (*readings, ("AT-LE.7", "losers"), ("AT-LE.7", "winner")):
        assert verdict_of(claim, name, run_) == verdict, claim


@pytest.mark.parametrize(
    ("ratio", "noise", "verdict"),
    [(0.9, 0.1, "HOLDS"), (0.1, 0.1, "FAILS"), (0.1, 50.0, "VACUOUS"), (0.9, 50.0, "VACUOUS")],
)
def test_points_of_a_class_are_compared_while_noise_is_small(
    ratio: float, noise: float, verdict: str
) -> None:
    run_ = finals(F_max=10.0, F_ratio=ratio, u=[0.05], C=[noise], D=[0.0])
    assert verdict_of("AT-LE.5", "figure-3", run_) == verdict


def test_span_and_certificate_readings() -> None:
    for share, verdict in ((1e-13, "HOLDS"), (0.2, "FAILS")):
        rows = [{"training": "standard", "seed": 0, "vectors": 10, "room": 20, "outside_span": share}]
        assert verdict_of("AT-LE.2", "more-dimensions", made("patch-noise", {"spans": rows})) == verdict
    points = {
        "matching/x": torch.zeros(2, 1, 2, dtype=torch.float64),
        "matching/y": torch.tensor([0, 0]),
        "matching/left": torch.tensor([0]),
        "matching/right": torch.tensor([1]),
    }
    broken = made(
        "patch-fig3", {"matching": [{"upper": 0.5, "intersecting_pairs": 1.0}]}, tensors=points, eps=0.1
    )
    assert verdict_of("AT-A2.3", "any-classifier", broken) == "INCONCLUSIVE"


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
    wild = {
        "adversarial.learning_rate": 1e308,
        "arms": ["adversarial"],
        "net.sigma_0": 1.0,
        "every": 1,
        "adversarial.epochs": 6,
    }
    done = run(request(plan, "quick", {**small, **wild}), Store(tmp_path))
    assert done.summary["adversarial"]["diverged"]
    assert done.summary["adversarial"]["robust_test"]["full-ball"]["upper"] is None
    assert len(draw(done)) == 3
    assert reading("AT-T4.4", "full-ball")({"run": done}).verdict == "INCONCLUSIVE"


def test_phase_switch_is_the_last_overtaking() -> None:
    u = [[0.1, 0.1], [0.3, 0.1], [0.1, 0.1], [0.5, 0.1], [0.9, 0.1]]
    v = [[0.2, 0.2]] * 5
    frame = pl.DataFrame(
        [{"step": 10 * i, "seed": 4, "u": a, "v": b} for i, (a, b) in enumerate(zip(u, v, strict=True))]
    )
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
    for claim in claims().values():
        assert claim.statement.endswith(".")
        assert claim.readings
        assert len({r.name for r in claim.readings}) == len(claim.readings)
        for reading in claim.readings:
            for need in reading.needs.values():
                for profile in ("quick", "cpu", "paper"):
                    resolve(experiments()[need.experiment], profile, need.overrides)


def test_recursion_claims_hold_and_break_with_the_recursion(tmp_path: Path) -> None:
    plan = experiment("patch-recursion")
    done = run(request(plan, "quick", {"steps": 500}), Store(tmp_path))
    assert done.summary["standard"]["gap"] < 1e-9
    assert done.summary["adversarial"]["gap"] < 1e-9
    claim = claims()["AT-LD.18"].readings[0]
    assert claim.judge({"run": done}).verdict == "HOLDS"
    rows = [{"arm": "adversarial", "step": s, "seed": 0, "gap": 1e-6} for s in (0, 1)]
    assert claim.judge({"run": made("patch-recursion", {"dynamics": rows})}).verdict == "FAILS"


def test_scaling_claims_on_a_small_sweep(tmp_path: Path) -> None:
    plan = experiment("patch-scaling")
    done = run(
        request(plan, "quick", {"seeds": [0, 1, 2, 3], "dimensions": [100, 10**4, 10**6, 10**8]}),
        Store(tmp_path),
    )
    verdict = {r.name: r.judge({"run": done}) for r in claims()["AT-LD.24"].readings}
    # The non-robust part stalls at d^(−c0/q), not at d^(−c0); with the initial directions the robust part
    # stalls too.
    assert verdict["features-only"].verdict == "FAILS"
    assert verdict["features-only"].evidence["exponent"] == pytest.approx(-1 / 6, abs=0.05)
    assert verdict["two-sided"].verdict == "FAILS"
    assert claims()["AT-LD.3"].readings[1].judge({"run": done}).verdict == "FAILS"
