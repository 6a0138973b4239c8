"""Adversarial training on clusters: perturbations inside their balls, steps that autograd makes, runs that do
not meet."""

import math

import pytest
import torch

from featscope.core.streams import stream
from featscope.dynamics.cluster_adversarial import (
    ClusterRuns,
    Robustly,
    TrainingAttack,
    adversarial_step,
    alignment,
    perturbation,
)
from featscope.dynamics.cluster_descent import binary_step, start_binary
from featscope.laws.clusters import ClusterLaw
from featscope.nets.two_layer import TwoLayer, forward, output_weights

F64 = torch.float64
LAW = ClusterLaw(k=4, d=200)
A = output_weights(3)


def task(*radii: float) -> tuple[ClusterRuns, Robustly]:
    drawn = LAW.draw(16, 6, 5, compact=True)
    count = len(radii)
    data = ClusterRuns(
        drawn.train.x.expand(count, -1, -1),
        drawn.train.y.expand(count, -1),
        torch.tensor(radii, dtype=F64),
        LAW.signs() @ drawn.features,
    )
    return data, Robustly(0.01 * drawn.directions.expand(count, -1, -1), torch.zeros(count, 6, dtype=F64))


@pytest.mark.parametrize("attack", ["proof", "one-step", "pgd", "ramp"])
def test_perturbations_stay_in_their_balls_and_lower_margins(attack: TrainingAttack) -> None:
    data, start = task(0.0, 1.0, 4.0)
    net = TwoLayer(
        start.w + 0.001 * torch.cat([data.direction.expand(3, 3, -1), -data.direction.expand(3, 3, -1)], 1),
        start.b,
        A,
    )
    delta = perturbation(net, data, attack, 0.5, 5, stream(0, "attack"))
    size = torch.linalg.vector_norm(delta, dim=-1)
    assert float(size[0].max()) == 0.0
    assert bool((size <= 0.5 * data.eps[:, None] * (1 + 1e-12)).all())
    before, after = (data.y * forward(net, x) for x in (data.x, data.x + delta))
    assert bool((after.mean(-1)[1:] < before.mean(-1)[1:]).all())


def test_radius_zero_is_plain_descent() -> None:
    drawn = LAW.draw(16, 6, 5, compact=True)
    data, start = task(0.0)
    step = adversarial_step(data, A, 0.01, "pgd", 3, 1, stream(0, "attack"))
    plain = binary_step(drawn.train, A, 0.01)
    one, other = start, start_binary(drawn.directions, 16, 0.01, 0.0, stream(0, "bias"))
    for t in range(5):
        one, other = step(one, t), plain(other, t)
    assert torch.allclose(one.w[0], other.w, rtol=1e-12)
    assert torch.allclose(one.b[0], other.b, rtol=1e-12, atol=1e-15)


def test_a_step_is_the_gradient_at_the_perturbed_points() -> None:
    data, start = task(3.0)
    x = data.x - 3.0 * data.y[..., None] * torch.nn.functional.normalize(data.direction, dim=-1)
    w = start.w[0].clone().requires_grad_(True)
    b = start.b[0].clone().requires_grad_(True)
    loss = torch.nn.functional.softplus(-data.y[0] * forward(TwoLayer(w, b, A), x[0])).mean()
    dw, db = torch.autograd.grad(loss, [w, b])
    moved = adversarial_step(data, A, 0.1, "proof", 1, 1, stream(0, "attack"))(start, 0)
    assert torch.allclose(moved.w[0], start.w[0] - 0.1 * dw, rtol=1e-10)
    assert torch.allclose(moved.b[0], start.b[0] - 0.1 * db, rtol=1e-10)


def test_a_ramp_reaches_the_whole_radius() -> None:
    data, start = task(2.0)
    net = TwoLayer(start.w, start.b, A)
    sizes = []
    for share in (0.25, 1.0):
        delta = perturbation(net, data, "ramp", share, 4, stream(0, "attack"))
        sizes.append(float(torch.linalg.vector_norm(delta, dim=-1).max()))
    assert sizes == pytest.approx([0.5, 2.0])
    early, late = (
        adversarial_step(data, A, 0.1, "ramp", 4, 100, stream(0, "attack"))(start, t) for t in (0, 99)
    )
    whole = adversarial_step(data, A, 0.1, "pgd", 4, 100, stream(0, "attack"))(start, 0)
    assert torch.equal(late.w, whole.w)
    assert not torch.allclose(early.w, whole.w)


def test_runs_do_not_meet() -> None:
    both, start = task(1.0, 3.0)
    alone, first = task(1.0)
    together = adversarial_step(both, A, 0.1, "one-step", 1, 1, stream(0, "attack"))(start, 0)
    single = adversarial_step(alone, A, 0.1, "one-step", 1, 1, stream(0, "attack"))(first, 0)
    assert torch.allclose(together.w[0], single.w[0], rtol=1e-12)
    assert not torch.allclose(together.w[1], single.w[0])


def test_alignment_of_averages_and_of_single_features() -> None:
    law = ClusterLaw(k=6, d=30)
    mu, signs = law.features(), law.signs()
    a = torch.tensor([1.0, -1.0], dtype=F64)
    averages, single = torch.stack([mu[:3].sum(0), mu[3:].sum(0)]), torch.stack([mu[1], mu[3]])
    one, together = alignment(torch.stack([averages, single]), a, mu, signs)
    third = 1 / math.sqrt(3)
    assert one.tolist() == pytest.approx([third, 1.0])
    assert together.tolist() == pytest.approx([1.0, third])


def test_alignment_weighs_neurons_by_their_norms_in_each_run() -> None:
    """Two runs, two neurons of class +1 and one of −1: cosines by hand."""
    features = torch.eye(4, 6, dtype=F64)
    signs = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=F64)
    a = torch.tensor([1.0, 1.0, -1.0], dtype=F64)
    w = torch.zeros(2, 3, 6, dtype=F64)
    w[0, 0, 0], w[0, 1, :2], w[0, 2, 2] = 2.0, 3.0, 1.0
    w[1, 0, 1], w[1, 1, 0], w[1, 2, 2:4] = 1.0, 4.0, -5.0
    root = math.sqrt(2)
    sizes = [[2.0, 3 * root, 1.0], [1.0, 4.0, 5 * root]]
    single = [[1.0, 1 / root, 1.0], [1.0, 1.0, -1 / root]]
    together = [[1 / root, 1.0, 1 / root], [1 / root, 1 / root, -1.0]]
    found = alignment(w, a, features, signs)
    for cosines, got in zip((single, together), found):
        for run in range(2):
            mean = sum(s * c for s, c in zip(sizes[run], cosines[run])) / sum(sizes[run])
            assert float(got[run]) == pytest.approx(mean)


def test_pgds_step_is_two_and_a_half_radii_over_the_number_of_steps() -> None:
    """A linear network: from a start of length ε/2, one of ten steps moves by ε/4 along −y∇f."""
    data, _ = task(2.0)
    w = data.direction.expand(1, 6, -1) * 1e-3
    net = TwoLayer(w, torch.full((1, 6), 100.0, dtype=F64), A.abs())  # every neuron is active everywhere
    rng = stream(0, "attack")
    noise = torch.nn.functional.normalize(torch.randn(data.x.shape, generator=rng, dtype=F64), dim=-1)
    down = -data.y[..., None] * torch.nn.functional.normalize(data.direction, dim=-1)
    wanted = noise.clone()  # ½ · 2
    for _ in range(10):
        wanted = wanted + 0.5 * down
        size = torch.linalg.vector_norm(wanted, dim=-1, keepdim=True)
        wanted = wanted * (2.0 / size).clamp(max=1.0)
    found = perturbation(net, data, "pgd", 1.0, 10, stream(0, "attack"))
    torch.testing.assert_close(found, wanted)
    three = perturbation(net, data, "pgd", 1.0, 3, stream(0, "attack"))
    assert float((three - found).abs().max()) > 1e-3
