"""Figures 1 and 4 against geometry, and the simplex law."""

import math

import numpy as np
import pytest
import torch

from featscope.core.errors import BadInput
from featscope.laws.clusters import ClusterLaw
from featscope.papers.fa.clusters_plane import corners, figure_1, figure_4
from featscope.papers.fa.figures_plane import boundary


def test_the_simplex_has_its_cosines_and_adds_up_to_nothing() -> None:
    law = ClusterLaw(k=10, d=200, cosine=-1 / 9)
    mu = law.features()
    cos = torch.nn.functional.normalize(mu) @ torch.nn.functional.normalize(mu).mT
    wanted = torch.full((10, 10), -1 / 9, dtype=torch.float64).fill_diagonal_(1.0)
    assert torch.allclose(cos, wanted, atol=1e-9)
    assert torch.allclose(mu.sum(0), torch.zeros(200, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(mu.norm(dim=-1), torch.full((10,), math.sqrt(200), dtype=torch.float64))
    assert law.simplex
    assert not ClusterLaw().simplex
    assert not next(c for c in law.check() if c.name == "A3.2").met
    with pytest.raises(BadInput, match="simplex"):
        ClusterLaw(k=10, d=200, cosine=-0.12)


def test_figure_1_by_geometry() -> None:
    """f_FA's line passes through 0 at a right angle to the middle positive centre; f_FD is right where one
    neuron alone is active, half a feature away."""
    mu, signs = corners()
    assert torch.allclose(mu.sum(0), torch.zeros(2, dtype=torch.float64), atol=1e-12)
    rows, _ = figure_1()
    across = (mu @ mu[1]).abs()
    assert [row["averaging"] for row in rows] == pytest.approx(across.tolist(), abs=1e-6)
    assert min(row["decoupled"] for row in rows) == pytest.approx(0.5, abs=1e-6)
    assert max(row["bent"] for row in rows) < 1e-12
    assert [row["label"] for row in rows] == signs.tolist()


def test_figure_4_by_geometry() -> None:
    rows, _ = figure_4(6, 0)
    assert {row["label"] for row in rows} == {1.0, -1.0}
    for row in rows:
        other = [r for r in rows if r["label"] != row["label"]]
        near = min(math.hypot(r["x"] - row["x"], r["y"] - row["y"]) for r in other)
        assert row["robust"] == pytest.approx(near / 2)
        assert row["linear"] == pytest.approx(abs(row["y"] - 0.5))


def test_the_boundary_of_a_circle_is_a_circle() -> None:
    line = np.linspace(-1, 1, 81)
    values = 0.25 - line[None, :] ** 2 - line[:, None] ** 2
    x, y = boundary(values, line)
    assert len(x) > 50
    assert np.allclose(np.hypot(x, y), 0.5, atol=2e-3)
