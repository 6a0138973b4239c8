"""`patch-inner` and `patch-depth`: what an arm trains on, what a checkpoint measures, one step of descent, and
what is observed, each by a second route."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from featscope.attacks.patch_inner import inner_minimum
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve
from featscope.papers.at import patch_depth, patch_inner
from featscope.papers.at.patch_depth import Parameters
from featscope.papers.at.patch_inner import Watched, training_attack

SMALL = {"law.d": 12, "law.sigma_n": 0.2, "seeds": [0, 1]}
INNER = resolve(
    experiment("patch-inner"),
    "quick",
    {**SMALL, "train_size": 5, "test_size": 30, "net.width": 4, "net.sigma_0": 1.0, "eps": 0.8},
)
DEPTH = resolve(
    experiment("patch-depth"),
    "quick",
    {**SMALL, "train_size": 6, "test_size": 25, "width": 3, "dtype": "float64", "step_size": 30.0},
)


@pytest.fixture(scope="module")
def inner():
    return patch_inner.Data(INNER)


@pytest.fixture(scope="module")
def depth():
    return patch_depth.Data(DEPTH)


def outputs(w: Tensor, x: Tensor, q: int, rho: float) -> Tensor:
    """F_i(X) of one network at points (n, P, d), written out."""
    found = torch.zeros(len(x), len(w), dtype=torch.float64)
    for n, point in enumerate(x):
        for i, neurons in enumerate(w):
            for z in (point @ neurons.mT).flatten().tolist():
                bent = 0.0 if z <= 0 else z**q / (q * rho ** (q - 1)) if z <= rho else z - (1 - 1 / q) * rho
                found[n, i] += bent
    return found


def own(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """F_y of all runs, (runs, n)."""
    return torch.stack(
        [outputs(a, b, INNER.net.q, INNER.net.rho)[range(len(c)), c] for a, b, c in zip(w, x, y, strict=True)]
    )


ARMS = ("patch", "coordinate", "features-only", "pgd-1", "pgd-10", "exact", "exact-features")


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_stays_in_its_ball_and_lowers_its_output(inner, arm: str) -> None:
    net = INNER.net.net(inner.w0)
    found = training_attack(INNER, arm)(net, inner.x, inner.y)
    assert float(found.delta.abs().max()) <= INNER.eps * (1 + 1e-9)
    if arm not in ("coordinate", "features-only"):  # so long a step, clipped by coordinates, may go too far
        before, after = (own(inner.w0, inner.x + move, inner.y) for move in (0.0, found.delta))
        assert bool((after <= before + 1e-12).all())
        assert float((before - after).sum()) > 0.01 * float(before.sum())
    features = 2 * INNER.law.k
    beside = float(found.delta[..., features:].abs().max())
    assert (beside == 0) == arm.endswith(("features", "features-only"))
    assert float(found.gap.max()) <= INNER.tolerance
    assert (float(found.gap.min()) > 0) == arm.startswith("exact")


def test_the_exact_arms_are_beaten_by_none_of_their_threat(inner) -> None:
    net = INNER.net.net(inner.w0)
    value = {
        a: own(inner.w0, inner.x + training_attack(INNER, a)(net, inner.x, inner.y).delta, inner.y)
        for a in ARMS
    }
    start = own(inner.w0, inner.x, inner.y)
    for arm in ARMS:
        best = value["exact-features" if "features" in arm else "exact"]
        assert bool((best <= value[arm] + 2 * INNER.tolerance * start).all()), arm
    assert float(value["pgd-10"].sum()) <= float(value["pgd-1"].sum())


def test_one_step_arms_are_their_formulas(inner) -> None:
    """η̃∇(−F_y) by autograd, each patch rescaled, each coordinate clipped, or clipped along the features alone."""
    leaf = inner.x.clone().requires_grad_(True)
    net = INNER.net.net(inner.w0)
    logits = net(leaf)
    logits.gather(-1, inner.y[..., None]).sum().backward()
    step = -INNER.step_size * leaf.grad
    largest = step.abs().amax(-1, keepdim=True)
    wanted = {
        "patch": torch.where(largest > INNER.eps, step * INNER.eps / largest.clamp(min=1e-300), step),
        "coordinate": step.clamp(-INNER.eps, INNER.eps),
    }
    wanted["features-only"] = torch.cat(
        [wanted["coordinate"][..., : 2 * INNER.law.k], torch.zeros_like(step[..., 2 * INNER.law.k :])], -1
    )
    for arm, delta in wanted.items():
        assert torch.allclose(training_attack(INNER, arm)(net, inner.x, inner.y).delta, delta, atol=1e-10), (
            arm
        )


@pytest.mark.parametrize("arm", ["patch", "exact-features"])
def test_a_checkpoint_measures_what_it_says(inner, arm: str) -> None:
    row = patch_inner.compare(INNER, inner, arm, inner.w0)
    net = INNER.net.net(inner.w0)
    free = torch.arange(2 * INNER.law.k) if arm == "exact-features" else None
    best = inner_minimum(net, inner.x, inner.y, INNER.eps, free=free, tolerance=1e-9)
    start, least = (own(inner.w0, inner.x + move, inner.y) for move in (0.0, best.delta))
    trained = own(inner.w0, inner.x + training_attack(INNER, arm)(net, inner.x, inner.y).delta, inner.y)
    assert row["least"].tolist() == pytest.approx((least / start).mean(-1).tolist(), rel=1e-6)
    assert row["left"].tolist() == pytest.approx(((trained - least) / start).mean(-1).tolist(), abs=1e-8)
    assert row["gap"].tolist() == pytest.approx(((least - best.lower) / start).amax(-1).tolist(), abs=1e-10)
    assert float(row["gap"].max()) <= 1e-8
    assert float(row["beaten_by"].max()) <= 1e-8
    assert float(row["beaten_by"].min()) > -0.5


def test_a_run_that_left_the_numbers_does_not_spoil_the_others(inner) -> None:
    w = inner.w0.clone()
    w[1, 0, 0, 0] = math.nan
    found, whole = (patch_inner.compare(INNER, inner, "patch", part) for part in (w, inner.w0))
    for key in ("gap", "least", "left"):
        assert float(found[key][0]) == pytest.approx(float(whole[key][0]))


def test_what_is_looked_at_in_training(inner) -> None:
    state = Watched(inner.w0, torch.tensor([0.25, 0.5], dtype=torch.float64))
    row = patch_inner.observe(INNER, inner, "exact")(state, 1)
    k = INNER.law.k
    u, v = (part.double() for part in INNER.law.features(torch.float64))
    for run in range(2):
        w = inner.w0[run]
        assert row["u"][run].tolist() == pytest.approx([float((w[i] @ u[i]).max()) for i in range(k)])
        assert row["v"][run].tolist() == pytest.approx([float((w[i] @ v[i]).max()) for i in range(k)])
        for key, x in (
            ("clean_test", inner.test.x),
            ("feature_robust", INNER.law.restrict(inner.test, "robust").x),
            ("feature_non_robust", INNER.law.restrict(inner.test, "non-robust").x),
        ):
            scores = outputs(w, x[run], INNER.net.q, INNER.net.rho)
            label = inner.test.y[run]
            right = [
                bool(s[c] > max(s[j] for j in range(k) if j != c))
                for s, c in zip(scores, label.tolist(), strict=True)
            ]
            assert float(row[key][run]) == pytest.approx(np.mean(right))
        scores = outputs(w, inner.x[run], INNER.net.q, INNER.net.rho)
        loss = torch.nn.functional.cross_entropy(scores, inner.y[run])
        assert float(row["loss"][run]) == pytest.approx(float(loss))
    assert row["training_gap"].tolist() == [0.25, 0.5]
    assert "left" not in row
    assert "training_gap" not in patch_inner.observe(INNER, inner, "patch")(state, 1)
    checked = INNER.replace(check_every=3, steps=7)
    looks = patch_inner.observe(checked, inner, "patch")
    assert ["left" in looks(state, t) for t in (0, 1, 3, 7)] == [True, False, True, True]


def test_which_names_are_steps_of_pgd() -> None:
    names = {"pgd-1": 1, "pgd-50": 50, "pgd-0": None, "pgd-": None, "pgd-x": None, "patch": None, "3": None}
    assert {name: patch_inner.pgd_steps(name) for name in names} == names
    for arms in ((), ("patch", "patch"), ("pgd-0",), ("other",)):
        with pytest.raises(BadInput):
            INNER.replace(arms=arms)


def test_radius_curves_are_brackets_and_leave_out_what_diverged(inner) -> None:
    trained = SimpleNamespace(state=Watched(inner.w0, torch.zeros(2)), diverged={})
    spec = INNER.replace(radii=(1e-6, 0.3), curve_points=8)
    rows, _ = patch_inner.radius_curves(spec, inner, trained)
    assert [(row["seed"], row["eps"]) for row in rows] == [(0, 1e-6), (0, 0.3), (1, 1e-6), (1, 0.3)]
    for row in rows:
        assert 0 <= row["lower"] <= row["upper"] <= 1
        if row["eps"] == 1e-6:
            index = row["seed"]
            net = spec.net.net(inner.w0[index])
            right = net(inner.test.x[index, :8]).argmax(-1) == inner.test.y[index, :8]
            assert row["upper"] == row["lower"] == pytest.approx(float(right.double().mean()))
    trained.diverged = {"0": 3}
    assert {row["seed"] for row in patch_inner.radius_curves(spec, inner, trained)[0]} == {1}


# --- deeper networks


def own_deep(net, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return net.outputs(w, x).gather(-1, y[..., None])[..., 0]


@pytest.mark.parametrize("kind", ["conv-2", "residual"])
def test_the_training_attack_of_deep_networks(depth, kind: str) -> None:
    """Two coordinates of ∇F_y by differences; patches beyond ε are rescaled, others are −η̃∇F_y itself."""
    net = DEPTH.net(kind)
    w = torch.stack([net.init(stream(seed, "w")) for seed in (0, 1)])
    x, y = depth.train.x, depth.train.y
    delta = patch_depth.one_step(DEPTH, net, w, x, y)
    leaf = x.clone().requires_grad_(True)
    own_deep(net, w, leaf, y).sum().backward()
    for run, point, patch, at in ((0, 0, 0, 0), (1, 3, 1, 5)):
        moved = x.clone()
        moved[run, point, patch, at] += 1e-6
        by_difference = (own_deep(net, w, moved, y) - own_deep(net, w, x, y))[run, point] / 1e-6
        assert float(leaf.grad[run, point, patch, at]) == pytest.approx(float(by_difference), abs=1e-4)
    step = -DEPTH.step_size * leaf.grad
    size = step.abs().amax(-1, keepdim=True)
    assert bool((size > DEPTH.eps).any())
    assert torch.allclose(
        delta, torch.where(size > DEPTH.eps, step * DEPTH.eps / size.clamp(min=1e-300), step)
    )


@pytest.mark.parametrize("arm", ["standard", "adversarial"])
def test_a_step_of_deep_training_is_descent_of_each_run(depth, arm: str) -> None:
    net = DEPTH.net("conv-2")
    w = torch.stack([net.init(stream(seed, "w")) for seed in (0, 1)])
    after = patch_depth.training_step(DEPTH, net, depth, arm)(Parameters(w), 0).w
    x, y = depth.train.x, depth.train.y
    if arm == "adversarial":
        x = x + patch_depth.one_step(DEPTH, net, w, x, y)
    for run in range(2):
        leaf = w[run].clone().requires_grad_(True)
        torch.nn.functional.cross_entropy(net.outputs(leaf[None], x[run : run + 1])[0], y[run]).backward()
        assert torch.allclose(after[run], w[run] - DEPTH.learning_rate * leaf.grad, atol=1e-12)


def test_what_is_looked_at_in_deep_networks(depth) -> None:
    net = DEPTH.net("conv-3")
    w = torch.stack([net.init(stream(seed, "w")) for seed in (0, 1)])
    row = patch_depth.observe(DEPTH, net, depth)(Parameters(w), 0)

    def margins(x: Tensor) -> list[list[float]]:
        scores = net.outputs(w, x).tolist()
        return [
            [s[c] - max(v for j, v in enumerate(s) if j != c) for s, c in zip(run, labels, strict=True)]
            for run, labels in zip(scores, depth.y.tolist(), strict=True)
        ]

    attacked = depth.test.x + patch_depth.one_step(DEPTH, net, w, depth.test.x, depth.y)
    clean, robust, other, swapped, trained = map(
        margins, (depth.test.x, depth.robust, depth.non_robust, depth.swapped, attacked)
    )
    for run in range(2):
        share = lambda values: np.mean([v > 0 for v in values])  # noqa: E731
        assert float(row["clean_test"][run]) == share(clean[run])
        assert float(row["feature_robust"][run]) == share(robust[run])
        assert float(row["feature_non_robust"][run]) == share(other[run])
        assert float(row["robust_model_free"][run]) == share(swapped[run])
        assert float(row["robust_training_attack"][run]) == share(map(min, clean[run], trained[run]))
        assert float(row["margin_robust"][run]) == pytest.approx(np.median(robust[run]))
        assert float(row["margin_non_robust"][run]) == pytest.approx(np.median(other[run]))
        scores = net.outputs(w, depth.train.x)[run]
        loss = torch.nn.functional.cross_entropy(scores, depth.train.y[run])
        assert float(row["loss"][run]) == pytest.approx(float(loss))


def test_points_of_deep_training(depth) -> None:
    """Robust and non-robust features alone, and the Δ that looks at no model, are those of the test points."""
    law = DEPTH.law
    u, v = (part.double() for part in law.features(torch.float64))
    for left, gone, kept in ((depth.robust, v, u), (depth.non_robust, u, v)):
        removed = depth.test.x - left
        assert float((removed @ gone.mT).abs().amax()) > 0.01
        assert float((removed @ kept.mT).abs().amax()) < 1e-9
    moved = depth.swapped - depth.test.x
    assert float(moved.abs().max()) <= DEPTH.eps + 1e-9
    own_features = torch.einsum("rnpd,rnd->rnp", depth.swapped, v[depth.y])
    before = torch.einsum("rnpd,rnd->rnp", depth.test.x, v[depth.y])
    assert float((before - own_features).amax()) > 0.01
    assert depth.train.x.shape[:2] == (2, 6)
    assert not torch.equal(depth.train.x[0], depth.train.x[1])


def test_what_deep_training_cannot_do_is_refused() -> None:
    for changes in ({"nets": ()}, {"nets": ("conv-1", "conv-1")}, {"eps": 1e-6}):
        with pytest.raises(BadInput):
            DEPTH.replace(**changes)
