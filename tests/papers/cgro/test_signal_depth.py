"""`signal-depth`: the objective (O) of deeper networks, its step, and (A) aimed at another network."""

import pytest
import torch
from torch.nn import functional

from featscope.core.signs import label_index
from featscope.core.streams import stream
from featscope.papers.cgro.signal_depth import (
    Parameters,
    SignalDepth,
    aimed,
    objective,
    sampled,
    training_step,
)

SPEC = SignalDepth(seeds=(0, 1), dtype="float64", law={"d": 16}, n=6, width=3, test=40, learning_rate=0.3)


def weights(kind="conv-2"):
    net = SPEC.net(kind)
    return net, torch.stack([net.init(stream(seed, "init", kind)) for seed in SPEC.seeds])


def test_points_of_the_attack_keep_their_noise_and_little_of_their_signal():
    data, law = sampled(SPEC), SPEC.law
    # Only the signal patch has a first coordinate.
    signal, left = data.train[..., 0].sum(-1), data.train_moved[..., 0].sum(-1)
    torch.testing.assert_close(left, law.residual * signal, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(data.train[..., 1:], data.train_moved[..., 1:])
    torch.testing.assert_close(signal.abs(), torch.full_like(signal, law.strength))
    assert torch.equal(data.train_y, label_index(signal))


@pytest.mark.parametrize("lam", [0.0, 0.25, 1.0])
def test_the_objective_and_its_step_by_a_loop_over_runs(lam):
    data, (net, w) = sampled(SPEC), weights()
    moved = training_step(SPEC, net, data, lam)(Parameters(w), 0).w
    for run in range(len(SPEC.seeds)):
        leaf = w[run].clone().requires_grad_(True)
        y = data.train_y[run]
        clean = functional.cross_entropy(net.outputs(leaf, data.train[run]), y)
        attacked = functional.cross_entropy(net.outputs(leaf, data.train_moved[run]), y)
        value = (1 - lam) * clean + lam * attacked
        (slope,) = torch.autograd.grad(value, leaf)
        assert float(objective(net, w, data, lam)[run]) == pytest.approx(value.item())
        torch.testing.assert_close(moved[run], w[run] - 0.3 * slope, rtol=1e-9, atol=1e-12)


def test_aimed_points_are_those_of_the_target_and_of_nobody_else():
    """By hand for one point: X − γ·g/‖∇g‖²·∇g, projected to the ball, read by the other network."""
    data, (net, target) = sampled(SPEC), weights()
    other = target.flip(0)
    rows = aimed(SPEC, net, data, target, other)
    assert [row["seed"] for row in rows] == [0, 1]
    for run, row in enumerate(rows):
        right = {"target_test": 0, "aimed_test": 0}
        for x, y in zip(data.test[run], data.test_y[run], strict=True):
            leaf = x.clone().requires_grad_(True)
            logits = net.outputs(target[run], leaf[None])[0]
            score = logits[1] - logits[0]
            (slope,) = torch.autograd.grad(score, leaf)
            delta = -(1 - SPEC.law.residual) * float(score) / float(slope.square().sum()) * slope
            delta = delta * min(1.0, SPEC.law.radius / float(delta.norm()))
            for key, w in (("target_test", target), ("aimed_test", other)):
                shown = net.outputs(w[run], (x + delta)[None])[0]
                right[key] += int(shown[y] > shown[1 - y])
        for key, count in right.items():
            assert row[key] == pytest.approx(count / SPEC.test)
