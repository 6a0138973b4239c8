"""Descent on clusters block by block: the same as on all points at once, for more points than dimensions and for
staircases, whatever the size of a block."""

from __future__ import annotations

import pytest
import torch

from featscope.core.streams import stream
from featscope.dynamics import cluster_descent as cd
from featscope.dynamics import patch_recursion as co
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.nets.two_layer import output_weights

F64 = torch.float64


def sets() -> dict[str, ClusterBatch]:
    many = ClusterLaw(k=4, d=5).sample(23, stream(0, "many"))
    few = ClusterLaw(k=4, d=60).sample(9, stream(0, "few"))
    stairs = ClusterLaw(k=4, d=400).draw(9, 4, 0, compact=True).train
    return {"more points than dimensions": many, "fewer": few, "a staircase": stairs}


@pytest.mark.parametrize("block", [1, 4, 100])
@pytest.mark.parametrize("name", sets())
def test_directions_are_those_of_autograd_whatever_the_blocks(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cd, "BLOCK", block)
    train = sets()[name]
    n, dim = train.x.shape
    rows = [part for part, _ in cd.blocks(train)]
    assert [(part.start, part.stop) for part in rows] == [(i, min(i + block, n)) for i in range(0, n, block)]
    if train.reach:
        assert [x.shape[1] for _, x in cd.blocks(train)] == [min(train.reach + p.stop, dim) for p in rows]
    w = 0.3 * torch.randn(4, dim, generator=stream(1, "w"), dtype=F64)
    b, a = torch.randn(4, generator=stream(1, "b"), dtype=F64), output_weights(2, F64)
    torch.testing.assert_close(cd.hidden_values(w, b, train), train.x @ w.mT + b)
    leaf, bias = w.clone().requires_grad_(True), b.clone().requires_grad_(True)
    f = (train.x @ leaf.mT + bias).clamp(min=0) @ a
    loss = torch.nn.functional.softplus(-train.y * f).mean()
    down_w, down_b = torch.autograd.grad(-loss, [leaf, bias])
    c, move, shift = cd.binary_direction(w, b, a, train)
    torch.testing.assert_close(move, down_w)
    torch.testing.assert_close(shift, down_b)
    torch.testing.assert_close(c @ train.x, move)
    outputs = (train.x @ leaf.mT).clamp(min=0)
    (down,) = torch.autograd.grad(-torch.nn.functional.cross_entropy(outputs, train.cluster), leaf)
    c, move = cd.fine_direction(w, 1, train)
    torch.testing.assert_close(move, down)
    torch.testing.assert_close(c @ train.x, move)


@pytest.mark.parametrize("two_sided", [True, False])
def test_a_clip_with_a_radius_and_a_step_for_each_run(two_sided: bool) -> None:
    ascent = torch.tensor([-3.0, -0.1, 0.1, 3.0], dtype=F64).view(1, 1, 1, 4).expand(2, 1, 1, 4)
    clip = co.CoefficientClip(torch.tensor([0.5, 9.0]).double(), torch.tensor([1.0, 2.0]).double(), two_sided)
    low = [-0.5, -6.0] if two_sided else [-3.0, -6.0]
    found = clip(ascent).flatten(1)
    assert found[0].tolist() == pytest.approx([low[0], -0.1, 0.1, 0.5])
    assert found[1].tolist() == pytest.approx([low[1], -0.2, 0.2, 6.0])
