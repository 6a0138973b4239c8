"""The orthogonal-noise recursion where its assumption is true: noises of norm √d, orthogonal to one another, first
weights orthogonal. Then it is descent itself, and norms, cosines and radii are those of explicit weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.dynamics.cluster_reduced import ClusterReduction, ReducedClusters, group_of_cluster
from featscope.laws.clusters import ClusterBatch, ClusterLaw

K, D, POINTS, H = 4, 40, 9, 2
F64 = torch.float64


def case(meets: bool, scale: float) -> tuple[ClusterLaw, ClusterReduction, Tensor, Tensor, Tensor]:
    """The model, its features, its points and its first weights; with ``meets`` noises have parts along μ."""
    law = ClusterLaw(k=K, d=D, positive=2, alpha=1.3, sigma=0.6, cosine=0.0 if meets else 0.2)
    features = law.features()
    draw = torch.randn(D, D, generator=stream(0, "frame"), dtype=F64)
    if not meets:
        draw[:, :K] = 0
    noise = math.sqrt(D) * torch.linalg.qr(draw.mT[:, :POINTS]).Q.mT
    cluster = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0])
    x = law.alpha * features[cluster] + law.sigma * noise
    first = torch.linalg.qr(torch.randn(D, 2 * H, generator=stream(0, "w"), dtype=F64)).Q.mT
    w = scale * math.sqrt(D) * first
    train = ClusterBatch(x, law.signs()[cluster], cluster)
    groups = group_of_cluster(K, 2, 2)
    model = ClusterReduction(law, ReducedClusters.of(law, train, features, w), groups, H)
    return law, model, features, x, w


def descended(x: Tensor, w: Tensor, labels: Tensor, eta: float, steps: int) -> Tensor:
    """Descent on the mean cross-entropy of F_s = (1/h)Σ ReLU⟨w_r, x⟩, by autograd."""
    for _ in range(steps):
        leaf = w.clone().requires_grad_(True)
        outputs = (x @ leaf.mT).clamp(min=0).reshape(len(x), 2, H).mean(-1)
        loss = torch.nn.functional.cross_entropy(outputs, labels)
        w = w - eta * torch.autograd.grad(loss, leaf)[0]
    return w


@pytest.mark.parametrize("scale", [1e-4, 0.3])
@pytest.mark.parametrize("meets", [True, False])
def test_where_noises_are_orthogonal_the_recursion_is_descent(meets: bool, scale: float) -> None:
    _, model, features, x, w = case(meets, scale)
    eta, steps = 0.8 / D, 7
    state, step = model.begin(), model.step(eta)
    for t in range(steps):
        state = step(state, t)
    true = descended(x, w, model.groups[model.start.cluster], eta, steps)
    torch.testing.assert_close(model.hidden(state), x @ true.mT)
    torch.testing.assert_close(model.at_centres(state), true @ features.mT)
    outputs = (x @ true.mT).clamp(min=0).reshape(POINTS, 2, H).mean(-1)
    torch.testing.assert_close(model.outputs(state), outputs)


@pytest.mark.parametrize("scale", [1e-4, 0.3])
def test_norms_cosines_and_radii_are_those_of_the_weights(scale: float) -> None:
    """Small steps, so that no weight is of length 1."""
    law, model, features, x, w = case(False, scale)
    eta, steps = 0.05 / D, 4
    state, step = model.begin(), model.step(eta)
    for t in range(steps):
        state = step(state, t)
    true = descended(x, w, model.groups[model.start.cluster], eta, steps)
    mixed = torch.randn(5, 2 * H, generator=stream(0, "mix"), dtype=F64)
    torch.testing.assert_close(
        model.squared_norm(state, mixed, scale), (mixed @ true).square().sum(-1), rtol=1e-6, atol=1e-12
    )
    wanted = (features @ true.mT) / (features.norm(dim=-1)[:, None] * true.norm(dim=-1))
    torch.testing.assert_close(model.feature_cosines(state, scale), wanted, rtol=1e-6, atol=1e-8)
    found = model.radii(state, scale)
    for c in range(K):
        centre, group = law.alpha * features[c], int(model.groups[c])
        own = [r for r in range(2 * H) if r // H == group and float(true[r] @ centre) > 0]
        rival = [r for r in range(2 * H) if r // H != group]
        plane = (true[own].sum(0) - true[rival].sum(0)) / H
        distance = max(float(plane @ centre), 0.0) / float(plane.norm())
        assert float(found[c]) == pytest.approx(distance, rel=1e-5)


def test_nothing_learnt_from_nothing_has_cosine_and_radius_zero() -> None:
    _, model, *_ = case(False, 0.0)
    state = model.begin()
    assert torch.equal(model.feature_cosines(state, 0.0), torch.zeros(K, 2 * H, dtype=F64))
    assert torch.equal(model.radii(state, 0.0), torch.zeros(K, dtype=F64))


@pytest.mark.parametrize(
    ("k", "plus", "groups", "wanted"),
    [
        (4, 2, 2, [0, 0, 1, 1]),
        (4, 2, 4, [0, 1, 2, 3]),
        (4, 1, 2, [0, 1, 1, 1]),
        (4, 3, 3, [0, 0, 1, 2]),
        (5, 3, 4, [0, 0, 1, 2, 3]),
        (6, 1, 5, [0, 1, 1, 2, 3, 4]),
        (6, 5, 5, [0, 0, 1, 2, 3, 4]),
    ],
)
def test_groups_are_even_and_of_one_sign(k: int, plus: int, groups: int, wanted: list[int]) -> None:
    assert group_of_cluster(k, plus, groups).tolist() == wanted


def test_fewer_than_two_groups_or_more_than_clusters_are_refused() -> None:
    for groups in (1, 5):
        with pytest.raises(BadInput, match="label groups"):
            group_of_cluster(4, 2, groups)
