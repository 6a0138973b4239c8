"""The KKT conditions along the flow: closed forms against autograd, a KKT point by hand, homogeneity."""

import math

import pytest
import torch

from featscope.dynamics.cluster_margin import NeuronRows
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.nets.two_layer import output_weights

F64 = torch.float64


def rows_of(both: bool) -> tuple[NeuronRows, torch.Tensor]:
    drawn = ClusterLaw(k=4, d=60).draw(20, 6, 3, compact=True)
    a = output_weights(3)
    rows = NeuronRows(drawn.train, None if both else a)
    return rows, rows.start(drawn.directions, a.sign(), 0.05)


@pytest.mark.parametrize("both", [False, True])
def test_the_direction_is_that_of_autograd(both: bool) -> None:
    rows, start = rows_of(both)
    leaf = start.clone().requires_grad_(True)
    loss = torch.nn.functional.softplus(-rows.margins(leaf)).mean()
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert torch.allclose(rows.direction(start), -gradient, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("both", [False, True])
def test_margins_are_homogeneous_of_the_degree_and_the_normalised_margin_is_not_moved(both: bool) -> None:
    rows, start = rows_of(both)
    assert torch.allclose(rows.margins(3 * start), 3**rows.degree * rows.margins(start), rtol=1e-12)
    assert rows.kkt(3 * start).margin == pytest.approx(rows.kkt(start).margin, rel=1e-12)
    assert rows.degree == (2 if both else 1)


def test_the_start_is_balanced() -> None:
    rows, start = rows_of(True)
    w, a = rows.split(start)
    assert a.abs().tolist() == pytest.approx(torch.linalg.vector_norm(w, dim=-1).tolist())
    assert a.sign().tolist() == [1.0] * 3 + [-1.0] * 3
    assert float(w[:, -1].abs().max()) == 0.0


def one_point() -> NeuronRows:
    x = torch.tensor([[3.0, 4.0]], dtype=F64)
    batch = ClusterBatch(x, torch.ones(1, dtype=F64), torch.zeros(1, dtype=torch.int64))
    return NeuronRows(batch, torch.ones(1, dtype=F64))


def test_a_point_and_one_neuron_have_their_kkt_point_along_the_gradient() -> None:
    # q = ⟨w, x⟩ + b: the KKT point is (x, 1) up to scale, and 90° away the error is √2.
    rows = one_point()
    at = rows.kkt(torch.tensor([[3.0, 4.0, 1.0]], dtype=F64))
    assert at.stationarity == pytest.approx(0.0, abs=1e-12)
    assert at.slackness == pytest.approx(0.0, abs=1e-12)
    assert at.margin == pytest.approx(math.sqrt(26))
    assert at.residual == pytest.approx(0.0, abs=1e-12)
    off = rows.kkt(torch.tensor([[4.0, -3.0, 0.0]], dtype=F64))
    assert off.stationarity == pytest.approx(math.sqrt(2))


def test_slackness_weighs_points_by_the_loss_and_is_infinite_before_all_are_right() -> None:
    x = torch.tensor([[1.0, 0.0], [3.0, 0.0]], dtype=F64)
    batch = ClusterBatch(x, torch.ones(2, dtype=F64), torch.zeros(2, dtype=torch.int64))
    rows = NeuronRows(batch, torch.ones(1, dtype=F64))
    found = rows.kkt(torch.tensor([[2.0, 0.0, 0.0]], dtype=F64))
    slopes = [1 / (1 + math.exp(q)) for q in (2.0, 6.0)]
    assert found.slackness == pytest.approx(slopes[1] * (6 / 2 - 1) / sum(slopes))
    wrong = NeuronRows(batch._replace(y=torch.tensor([1.0, -1.0], dtype=F64)), torch.ones(1, dtype=F64))
    assert wrong.kkt(torch.tensor([[2.0, 0.0, 0.0]], dtype=F64)).slackness == math.inf


def test_averaging_tells_averages_from_single_features_and_forgets_noise() -> None:
    law = ClusterLaw(k=6, d=30)
    mu, signs = law.features(), law.signs()
    rows = NeuronRows(law.sample(10, seed=0), torch.tensor([1.0, -1.0], dtype=F64))
    averages = torch.stack([mu[:3].sum(0), mu[3:].sum(0)])
    noise = torch.zeros_like(averages)
    noise[:, 10] = 50.0
    for shift in (0.0, 1.0):
        w = torch.cat([averages + shift * noise, torch.ones(2, 1, dtype=F64)], 1)
        assert rows.averaging(w, mu, signs) == pytest.approx((1.0, 1.0))
    single = torch.cat([torch.stack([mu[0], mu[4]]), torch.zeros(2, 1, dtype=F64)], 1)
    assert rows.averaging(single, mu, signs) == pytest.approx((1 / math.sqrt(3), 1 / math.sqrt(3)))
    # The first neuron has the rival's features, and three times the weight of the second.
    mixed = torch.cat([torch.stack([3 * averages[1], averages[1]]), torch.zeros(2, 1, dtype=F64)], 1)
    assert rows.averaging(mixed, mu, signs) == pytest.approx((0.25, 0.0), abs=1e-12)
