"""CG-F1, CG-F2, CG-F3, CG-E.1 and CG-E.2: rows for which each reading must hold, fail, and not speak."""

import json
import math

import numpy as np
import pytest
from judging import finding as judged

from featscope.claims.claim import Verdict
from featscope.claims.judging import above, below
from featscope.core.errors import BadInput
from featscope.core.progress import Silent
from featscope.core.stats import Interval, correlations, mean_correlation
from featscope.core.store import Store
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.spec import identity, resolve
from featscope.papers.cgro import claims_landscape, claims_overfitting

CLAIMS = (*claims_overfitting.CLAIMS, *claims_landscape.CLAIMS)
READINGS = {f"{claim.id} {reading.name}": reading for claim in CLAIMS for reading in claim.readings}
EPS = 0.1
STEPS = (0, 2, 4, 6, 8, 10)


def finished(tmp_path, name, parts, **changes):
    """A finished run with these rows."""
    plan = experiment(name)
    body = json.loads(json.dumps(identity(plan, resolve(plan, "cpu", changes))))
    with Store(tmp_path / "runs").write(body, Silent()) as folder:
        for part, rows in parts.items():
            folder.add(part, rows)
        return Run(folder.finish({}, {}).path)


def verdict(reading, run):
    finding = judged(*reading.split(" ", 1), {"run": run})
    json.dumps([finding.value, finding.bound, finding.evidence], allow_nan=False)
    return finding.verdict


def landscape_run(tmp_path, name="image-landscape", **changes):
    """Two seeds, almost alike: sharp outside, training curve falls, test curve rises, gap follows;
    ``changes`` replace columns by functions of (seed, t)."""
    columns = {
        "robust_train": lambda s, t: 0.9,
        "inside_train": lambda s, t: 10 - 0.4 * t + 0.01 * s,
        "inside_test": lambda s, t: 10 + 0.5 * t + 0.01 * s,
        "robust_loss_test": lambda s, t: 0.3 + 0.05 * t + 0.001 * s * t,
        "outside": lambda s, t: 12.0 + 0.1 * s,
        "slope": lambda s, t: 2.0,
        "change": lambda s, t: 0.25 + 0.001 * s,
        **{key: value for key, value in changes.items() if callable(value)},
    }
    spec = {key: value for key, value in changes.items() if not callable(value)}
    parts = {"training": [], "radii": []}
    for seed in (0, 1):
        value = {key: (lambda t, f=f, seed=seed: f(seed, t)) for key, f in columns.items()}
        parts["training"] += [{"seed": seed, **_epoch(value, t)} for t in STEPS]
        parts["radii"] += [
            {"seed": seed, **_radius(value, name, factor)}
            for name in ("train", "test")
            for factor in (1.0, 2.0)
        ]
    radii = {"training.attack.eps": EPS, "radii": [EPS, 2 * EPS], "watched": [EPS, 2 * EPS]}
    return finished(tmp_path, name, parts, **{"seeds": [0, 1], **radii, **spec})


def _epoch(value, t):
    row = {"step": t, "clean_test": 0.95, "robust_test": 0.8, "robust_train": value["robust_train"](t)}
    for name in ("train", "test"):
        row |= {f"gradient_{name}": [value[f"inside_{name}"](t), 90.0], f"repaired_{name}": [0.0, 0.1]}
        row |= {f"mean_value_{name}": [0.8, 0.5], f"robust_loss_{name}": 0.3}
    return row | {"robust_loss_test": value["robust_loss_test"](t)}


def _radius(value, name, factor):
    grown = 1.0 if factor == 1 else value["outside"](0)
    change = value["change"](0) * grown
    return {
        "set": name,
        "radius": factor * EPS,
        "slope": value["slope"](0),
        "change": change,
        "change_free": change,
        "gradient": 5.0 * grown,
        "mean_value": 0.7,
        "repaired": 0.0,
    }


# reading → columns that make it fail
FAILING = {
    "CG-F2 mnist-much-sharper": {"outside": lambda s, t: 4.0 + 0.1 * s},
    "CG-F2 mnist-sharper": {"outside": lambda s, t: 1.9 + 0.001 * s},
    "CG-F2 mnist-train-descends": {"inside_train": lambda s, t: 10 + 0.4 * t + 0.01 * s},
    "CG-F3 mnist-faster": {"inside_test": lambda s, t: 10 - 0.6 * t + 0.01 * s},
    "CG-F3 mnist-gap-follows": {"robust_loss_test": lambda s, t: 0.9 - 0.05 * t + 0.001 * s * t * t},
    "CG-E.2 mnist-ball": {"change": lambda s, t: 0.05 + 0.0001 * s},
    "CG-E.2 mnist-images": {"change": lambda s, t: 0.05 + 0.0001 * s},
}


@pytest.mark.parametrize("reading", FAILING)
def test_every_reading_can_hold_and_can_fail(reading, tmp_path):
    assert verdict(reading, landscape_run(tmp_path / "good")) is Verdict.HOLDS
    assert verdict(reading, landscape_run(tmp_path / "bad", **FAILING[reading])) is Verdict.FAILS


OF_TRAINED = [name for name in FAILING if not name.startswith("CG-E")]


@pytest.mark.parametrize("reading", OF_TRAINED)
def test_a_network_that_does_not_withstand_its_own_training_attack_is_out_of_scope(reading, tmp_path):
    finding = judged(*reading.split(" ", 1), {"run": landscape_run(tmp_path, robust_train=lambda s, t: 0.25)})
    assert finding.verdict is Verdict.OUT_OF_SCOPE
    assert finding.evidence["would_be"] == "HOLDS"
    assert "0.300" in finding.evidence["unmet"][0]


def test_seeds_that_disagree_settle_nothing(tmp_path):
    run = landscape_run(
        tmp_path, outside=lambda s, t: 1.0 + 11 * s, inside_train=lambda s, t: 10 + (s - 0.5) * t
    )
    for reading in ("CG-F2 mnist-much-sharper", "CG-F2 mnist-sharper", "CG-F2 mnist-train-descends"):
        assert verdict(reading, run) is Verdict.INCONCLUSIVE


def test_the_test_curve_of_cifar_may_rise_or_fall(tmp_path):
    reading, name = "CG-F2 cifar10-test-ascends", "image-landscape-cifar10"
    assert verdict(reading, landscape_run(tmp_path / "up", name)) is Verdict.HOLDS
    down = landscape_run(tmp_path / "down", name, inside_test=lambda s, t: 10 - 0.1 * t + 0.01 * s)
    assert verdict(reading, down) is Verdict.FAILS


def test_much_faster_needs_a_factor_of_ten(tmp_path):
    reading = "CG-F3 mnist-much-faster"
    assert verdict(reading, landscape_run(tmp_path / "little")) is Verdict.FAILS
    steep = landscape_run(tmp_path / "much", inside_test=lambda s, t: 10.0 ** (t / 4) + 0.001 * s)
    assert verdict(reading, steep) is Verdict.HOLDS


def test_only_epochs_at_full_radius_are_compared(tmp_path):
    """At the first epoch the network is untrained: a curve that falls from there but rises from the ramp's
    end rises."""
    run = landscape_run(tmp_path, inside_train=lambda s, t: 50.0 if t == 0 else 10 + 0.1 * t + 0.01 * s)
    assert verdict("CG-F2 mnist-train-descends", run) is Verdict.FAILS


def test_the_printed_rate_is_empty_for_images_and_judged_where_it_is_not(tmp_path):
    reading = READINGS["CG-E.1 mnist-printed"]
    finding = reading.judge({"run": landscape_run(tmp_path / "images")})
    assert finding.verdict is Verdict.VACUOUS
    # N = 4500, D = 784: the rate is 4500^(−1/786), and the proof's term (II) at ε = .1 is 4500^(−½)·10^392.
    assert finding.evidence["rate"] == pytest.approx(math.exp(-math.log(4500) / 786))
    assert finding.evidence["log10_of_term_II_at_this_radius"] == pytest.approx(392 - 0.5 * math.log10(4500))
    assert finding.evidence["would_be"] == "HOLDS"
    small = {"net.side": 4, "train": 1_000_000}
    few = landscape_run(tmp_path / "few", **small)
    assert reading.judge({"run": few}).verdict is Verdict.HOLDS
    large = landscape_run(
        tmp_path / "gap", **small, robust_loss_test=lambda s, t: 0.3 + 5 * t + 0.001 * s * t
    )
    assert reading.judge({"run": large}).verdict is Verdict.FAILS


def test_a_dead_network_proves_nothing(tmp_path):
    run = landscape_run(
        tmp_path,
        **{
            key: lambda s, t: 0.0
            for key in ("inside_train", "inside_test", "slope", "change", "robust_train")
        },
    )
    for reading in OF_TRAINED:
        assert verdict(reading, run) is Verdict.OUT_OF_SCOPE
    for reading in ("ball", "images"):
        assert verdict(f"CG-E.2 mnist-{reading}", run) is Verdict.INCONCLUSIVE


def test_theorems_about_any_network_ask_for_no_training(tmp_path):
    run = landscape_run(tmp_path, robust_train=lambda s, t: 0.25)
    for reading in FAILING:
        if reading not in OF_TRAINED:
            assert verdict(reading, run) is Verdict.HOLDS


def overfitting_run(tmp_path, gap=0.2, lost=0.03, clean_gap=0.01, fitted=0.9):
    wobble = (0.0, 0.001, -0.001)
    rows = [
        {
            "seed": s,
            "gap_last": gap + e,
            "lost_by_training_on": lost + e,
            "clean_gap_last": clean_gap + e / 20,
            "robust_train_last": fitted,
        }
        for s, e in enumerate(wobble)
    ]
    return finished(tmp_path, "image-overfitting", {"compared": rows})


@pytest.mark.parametrize(
    ("reading", "bad", "unsettled"),
    [
        ("gap", {"gap": 0.04}, {"gap": 0.05}),
        ("falls", {"lost": -0.01}, {"lost": 0.0}),
        ("clean-gap-smaller", {"clean_gap": 0.3}, {"clean_gap": 0.2}),
        ("clean-gap-much-smaller", {"clean_gap": 0.05}, {"clean_gap": 0.02}),
    ],
)
def test_overfitting_holds_fails_and_stays_open(reading, bad, unsettled, tmp_path):
    assert verdict(f"CG-F1 {reading}", overfitting_run(tmp_path / "good")) is Verdict.HOLDS
    assert verdict(f"CG-F1 {reading}", overfitting_run(tmp_path / "bad", **bad)) is Verdict.FAILS
    assert (
        verdict(f"CG-F1 {reading}", overfitting_run(tmp_path / "open", **unsettled)) is Verdict.INCONCLUSIVE
    )
    assert verdict(f"CG-F1 {reading}", overfitting_run(tmp_path / "weak", fitted=0.2)) is Verdict.OUT_OF_SCOPE


def test_strict_comparisons_do_not_take_equality():
    still = Interval(0.0, 0.0, 0.0)
    assert above(still, 0.0).verdict is below(still, 0.0).verdict is Verdict.FAILS
    assert (
        above(Interval(1, 0.5, 1.5), 0.0).verdict
        is below(Interval(-1, -1.5, -0.5), 0.0).verdict
        is Verdict.HOLDS
    )
    nothing = Interval(math.nan, math.nan, math.nan)
    assert above(nothing, 0.0).verdict is below(nothing, 0.0).verdict is Verdict.INCONCLUSIVE
    assert below(Interval(1, -math.inf, math.inf), 0.0).evidence["interval"] == [None, None]


def test_correlations_by_value_and_by_rank():
    x = np.arange(1.0, 9.0)
    assert correlations(x, 3 * x - 1) == pytest.approx((1, 1))
    assert correlations(x, -x) == pytest.approx((-1, -1))
    bent = correlations(x, np.exp(x))
    assert bent.spearman == pytest.approx(1)
    assert 0 < bent.pearson < 0.95
    # By hand: x = (1,2,3), y = (1,3,2): covariance ½, variances 1 and 1.
    assert correlations([1, 2, 3], [1, 3, 2]) == pytest.approx((0.5, 0.5))
    for empty in (([1, 1, 1], [1, 2, 3]), ([1, 2], [1, 2])):
        assert all(math.isnan(r) for r in correlations(*empty))
    with pytest.raises(BadInput):
        correlations([1, 2, 3], [1, 2])


def test_the_mean_of_correlations_is_taken_on_fishers_scale():
    assert mean_correlation([0.6, 0.6, 0.6]) == pytest.approx((0.6, 0.6, 0.6))
    found = mean_correlation([0.2, 0.8, 0.5])
    assert found.value == pytest.approx(math.tanh((math.atanh(0.2) + math.atanh(0.8) + math.atanh(0.5)) / 3))
    assert -1 < found.low < found.value < found.high < 1
    mirrored = mean_correlation([-0.2, -0.8, -0.5])
    assert mirrored == pytest.approx((-found.value, -found.high, -found.low))
    assert mean_correlation([0.9])[1:] == (-1, 1)
    assert math.isnan(mean_correlation([0.9, math.nan]).value)
