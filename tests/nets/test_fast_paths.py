"""Where a formula has a faster form, both give the same numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from featscope.attacks import readout_certificate
from featscope.core.losses import own
from featscope.core.streams import stream
from featscope.dynamics import cluster_descent, patch_descent, signal_descent
from featscope.dynamics import patch_observables as seen
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.laws.patches import PatchLaw, stack
from featscope.nets import multiclass, patch_cnn
from featscope.nets.activations import smoothed_relu
from featscope.nets.multiclass import MultiClass
from featscope.nets.patch_cnn import PatchNet
from featscope.nets.products import inner_products
from featscope.nets.two_layer import output_weights

F64 = torch.float64


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=stream(seed, "fast"), dtype=F64)


def close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("q", "rho"), [(2, 1.0), (3, 1.0), (3, 0.4), (5, 2.0)])
@pytest.mark.parametrize("runs", [(), (2,)])
def test_outputs_in_pieces_are_the_outputs(
    q: int, rho: float, runs: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch_cnn, "ROWS", 7)
    w, x = drawn(*runs, 3, 4, 6), drawn(*runs, 5, 8, 6, seed=1)
    net = PatchNet(w, q, rho)
    z = torch.einsum("...npd,...kmd->...npkm", x, w)
    assert close(net.by_patch(x), smoothed_relu(z, q, rho).sum(-1))
    assert close(net(x), PatchNet(w.clone().requires_grad_(True), q, rho)(x).detach())


def test_one_network_on_several_samples_and_several_on_one() -> None:
    w, x = drawn(2, 3, 4, 6), drawn(2, 5, 8, 6, seed=1)
    one = PatchNet(w[0])
    assert close(one(x)[1], one(x[1]))
    assert close(PatchNet(w)(x[0])[1], PatchNet(w[1])(x[0]))


@pytest.mark.parametrize("ordered", [True, False])
def test_own_gradient_of_all_runs_at_once(ordered: bool) -> None:
    w, x = drawn(3, 4, 5, 6), drawn(3, 9, 2, 6, seed=1)
    y = torch.randint(0, 4, (3, 9), generator=stream(2, "labels"))
    y[1] = 2  # a run in which classes are missing
    y = y.sort(-1).values if ordered else y
    leaf = x.clone().requires_grad_(True)
    expected = torch.autograd.grad(own(PatchNet(w)(leaf), y).sum(), leaf)[0]
    assert close(PatchNet(w).own_gradient(x, y), expected)
    assert close(PatchNet(w[0]).own_gradient(x[0], y[0]), expected[0])


def test_features_kept_and_removed_in_two_passes() -> None:
    law = PatchLaw(k=3, d=12, patches=5, robust_patches=2, frame="random")
    batch = stack([law.sample(7, stream(seed, "data")) for seed in range(2)])
    net = PatchNet(drawn(2, 3, 4, 12))
    found = seen.feature_outputs(net, batch, seen.noise_of(law, batch))
    assert close(found.whole, net(batch.x))
    assert close(found.robust, net(law.restrict(batch, "robust").x))
    assert close(found.non_robust, net(law.restrict(batch, "non-robust").x))


def test_points_are_put_in_order_run_by_run() -> None:
    x, y = drawn(3, 6, 2, 4), torch.randint(0, 3, (3, 6), generator=stream(1, "labels"))
    points, labels = patch_descent.shuffled(x, y, [4, 5, 6], 2)
    for run, seed in enumerate([4, 5, 6]):
        alone = patch_descent.shuffled(x[run], y[run], [seed], 2)
        assert torch.equal(points[run], alone[0])
        assert torch.equal(labels[run], alone[1])


@pytest.mark.parametrize(
    ("x", "w"), [((5, 4), (3, 4)), ((5, 4), (2, 3, 4)), ((2, 5, 4), (2, 3, 4)), ((4,), (3, 4))]
)
def test_inner_products_in_either_order(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    points, weights = drawn(*x), drawn(*w, seed=1)
    assert close(inner_products(points, weights), points @ weights.mT)


def test_a_known_attack_is_met_once_where_it_moves_nothing() -> None:
    x, w = drawn(2, 4, 3, 6), drawn(2, 5, 6, seed=1)
    y = torch.tensor([[1.0, -1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, -1.0]], dtype=F64)
    attacked = x.clone()
    attacked[0, :, 1] *= 0.5
    attacked[1, 2, 0] += 1.0  # one patch here, four there
    known = signal_descent.descent_step(x, y, 0.2, 0.7, attacked)
    asked = signal_descent.descent_step(x, y, 0.2, 0.7, lambda w, x, y: attacked)
    state = signal_descent.CubicWeights(w)
    assert close(known(state, 0).w, asked(state, 0).w)
    nothing = signal_descent.descent_step(x, y, 0.2, 0.7, x.clone())
    assert close(nothing(state, 0).w, signal_descent.descent_step(x, y, 0.2, 0.0, attacked)(state, 0).w)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("fine", [True, False])
def test_cluster_runs_in_one_batch_are_the_single_runs(
    shared: bool, fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_descent, "BLOCK", 7)
    law, n = ClusterLaw(k=4, d=200), 20
    draws = [law.draw(n, 4, 0 if shared else seed, compact=True) for seed in range(3)]
    directions = [drawn(*draws[0].directions.shape, seed=seed) for seed in range(3)]
    starts = [cluster_descent.start_fine(w, n, 0.1) for w in directions]
    together = cluster_descent.Descent(*(torch.stack(parts) for parts in zip(*starts, strict=True)))
    fields = [torch.stack([getattr(d.train, f) for d in draws]) for f in ("x", "y", "cluster")]
    train = draws[0].train if shared else ClusterBatch(*fields, draws[0].train.reach)

    def step(batch: ClusterBatch) -> cluster_descent.Step[cluster_descent.Descent]:
        if fine:
            return cluster_descent.fine_step(batch, 1, 0.3)
        return cluster_descent.binary_step(batch, output_weights(2), 0.3)

    found = step(train)(together, 0)
    for run in range(3):
        alone = step(draws[run].train)(starts[run], 0)
        assert all(close(part[run], other) for part, other in zip(found, alone, strict=True))


def test_the_read_out_is_bounded_for_all_clusters_of_a_class_at_once() -> None:
    law = ClusterLaw(k=5, d=60)
    batch = law.sample(40, stream(0, "data"))
    net = MultiClass(law.features(60) / 60 + 0.002 * drawn(5, 60))
    above, signs = 5 + 10 * torch.rand(40, generator=stream(1, "above"), dtype=F64), law.signs()
    cluster = batch.cluster.clone()
    cluster[0] = (cluster[0] + 3) % 5  # a label that is not its cluster's
    found = readout_certificate.certified_radii(net, signs, batch.x, batch.y, cluster, above, bins=40)
    for c in range(5):
        chosen = cluster == c
        parts = (batch.x[chosen], batch.y[chosen], cluster[chosen], above[chosen])
        alone = readout_certificate.certified_radii(net, signs, *parts, bins=40)
        assert torch.allclose(found[chosen], alone, rtol=1e-9)
    right = batch.y * multiclass.readout(multiclass.logits(net, batch.x), signs) > 0
    assert int(((found > 0) & right).sum()) > 20
    assert not bool(found[~right].any())
