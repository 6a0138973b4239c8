"""EP's packing on a graph: sites, labels and waves written out once more."""

from __future__ import annotations

import math

import pytest
import torch

from featscope.core.errors import BadInput
from featscope.laws.graph_packing import GraphPackingLaw, packing_levels


def test_every_site_is_there_once_with_a_sign_and_its_height() -> None:
    law = GraphPackingLaw(k=3, d=5, eps=0.2, delta=0.15, shift_share=0.5)
    found = law.support()
    assert packing_levels(0.2) == law.levels == 3
    assert found.x.shape == (law.sites, 5) == (9, 5)
    assert set(found.y.tolist()) == {-1.0, 1.0}
    sites = {tuple(row) for row in found.x[:, :2].tolist()}
    assert sites == {(a / 2, b / 2) for a in range(3) for b in range(3)}
    torch.testing.assert_close(found.x[:, 2], 0.5 + 0.075 * found.y)


def test_the_rest_of_the_coordinates_are_waves_over_the_chart() -> None:
    law = GraphPackingLaw(k=3, d=6, eps=0.2, bend=0.8)
    x = law.surface(7)
    for row in x.tolist():
        for i in range(3):
            phase = 2 * math.pi * (row[i % 2] * (law.levels - 1) / 3 + i / 6)
            assert row[3 + i] == pytest.approx(0.5 + 0.4 * math.sin(phase))
    assert GraphPackingLaw(k=3, d=3).surface(4).shape == (4, 3)


def test_opposite_points_are_apart_and_the_manifold_is_curved_only_if_it_bends() -> None:
    law = GraphPackingLaw(k=3, d=6, eps=0.2)
    found = law.support()
    apart = (found.x[:, None] - found.x[None]).abs().amax(-1)
    opposite = found.y[:, None] != found.y[None]
    assert apart[opposite].min() >= 2 * law.eps
    assert law.curvature() > 0.05
    assert GraphPackingLaw(k=3, d=6, bend=0.0).curvature() < 1e-12
    assert GraphPackingLaw(k=3, d=3).curvature() == 0.0
    with pytest.raises(BadInput):
        GraphPackingLaw(k=4, d=3)
