"""The nearest flip of a read-out: exact where the boundary is known, never above ascent by much, never below
the certificate."""

import math

import pytest
import torch

from featscope.attacks.minimal import MinimalPGD, readout_objective
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.readout_nearest import nearest_flip
from featscope.core.streams import stream
from featscope.nets import multiclass
from featscope.nets.multiclass import MultiClass


def test_two_active_outputs_meet_on_a_plane() -> None:
    # One class a side: the read-out is F_0 − F_1, and its boundary the plane ⟨w_0 − w_1, x⟩ = 0.
    w = torch.tensor([[3.0, 0.0, 1.0], [1.0, 2.0, 0.0]], dtype=torch.float64)
    x = torch.tensor([[4.0, 1.0, 0.5], [1.0, 5.0, 0.0]], dtype=torch.float64)
    y = torch.tensor([1.0, -1.0], dtype=torch.float64)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
    found = nearest_flip(MultiClass(w), signs, x, y, torch.tensor([0, 1]))
    wanted = ((w[0] - w[1]) @ x.T).abs() / torch.linalg.vector_norm(w[0] - w[1])
    assert found.radius.tolist() == pytest.approx(wanted.tolist(), rel=1e-9)


def network() -> tuple[MultiClass, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = stream(3, "test")
    w = 4 * torch.eye(6, dtype=torch.float64) + 0.2 * torch.randn(6, 6, generator=rng, dtype=torch.float64)
    signs = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0], dtype=torch.float64)
    own = torch.arange(6).repeat(3)
    x = 1.5 * torch.eye(6, dtype=torch.float64)[own] + 0.1 * torch.randn(
        18, 6, generator=rng, dtype=torch.float64
    )
    return MultiClass(w), signs, x, signs[own], own


def test_it_lies_between_the_certificate_and_ascent() -> None:
    net, signs, x, y, own = network()
    found = nearest_flip(net, signs, x, y, own)
    moved = multiclass.readout(multiclass.logits(net, x + found.delta), signs)
    assert bool((y * moved <= 0).all()), "every perturbation fools"
    assert torch.linalg.vector_norm(found.delta, dim=-1).tolist() == pytest.approx(found.radius.tolist())
    pgd = MinimalPGD(steps=60, restarts=3, rounds=10, reach=10.0)
    attacked = pgd(readout_objective(net, signs, y), x, stream(0, "attack")).radius
    assert bool((found.radius <= 1.002 * attacked).all())
    assert bool((found.radius >= certified_radii(net, signs, x, y, own, found.radius)).all())


def test_a_point_that_is_wrong_already_has_radius_zero() -> None:
    net, signs, x, y, own = network()
    assert nearest_flip(net, signs, x, -y, own).radius.tolist() == [0.0] * len(y)


def test_scaling_the_points_scales_the_radii_of_large_outputs() -> None:
    # Far out only the largest outputs count: the read-out becomes a maximum, which is homogeneous.
    net, signs, x, y, own = network()
    near, far = (nearest_flip(net, signs, scale * x, y, own).radius / scale for scale in (50.0, 100.0))
    assert far.tolist() == pytest.approx(near.tolist(), rel=2e-3)
    assert math.isfinite(float(near.max()))
