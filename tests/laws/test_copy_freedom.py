"""Degrees of freedom of the compact copies: in small dimensions one too many or too few is a different law,
and is noticed.

Row i of a copy of i.i.d. N(0, I_dim) vectors has √χ²_{dim−i} on its diagonal, i from 0. With some thousand
draws the Kolmogorov–Smirnov distance
between neighbouring χ² laws is far beyond chance for the few degrees of freedom used here, which each test
confirms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats as sps

from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.laws import compact
from featscope.laws.clusters import ClusterLaw
from featscope.laws.compact import bartlett
from featscope.laws.patch_copy import compact_patches
from featscope.laws.patches import PatchLaw
from featscope.laws.signal import SignalLaw

DRAWS = 2000


def is_chi_square(values: list[float] | np.ndarray, freedom: int) -> None:
    """The values have that χ² law, and would not pass for its neighbours'."""
    assert sps.kstest(values, sps.chi2(freedom).cdf).pvalue > 1e-3
    for other in {max(freedom - 1, 0), freedom + 1} - {0}:
        assert sps.kstest(values, sps.chi2(other).cdf).pvalue < 1e-9, "too few draws to tell"


def gather(draw: Callable[[int], torch.Tensor]) -> np.ndarray:
    return torch.stack([draw(seed) for seed in range(DRAWS)]).numpy()


@pytest.mark.parametrize(("count", "dim"), [(3, 3), (2, 4)])
def test_rows_of_the_factor(count: int, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # A block of one row: what lies left of the diagonal must be there whatever the block.
    monkeypatch.setattr(compact, "BLOCK", 1)
    rows = gather(lambda s: bartlett(count, dim, stream(s, "rows")))
    for i in range(count):
        is_chi_square(rows[:, i, i] ** 2, dim - i)
        for j in range(i):
            assert sps.kstest(rows[:, i, j], "norm").pvalue > 1e-3
        assert not rows[:, i, i + 1 :].any()


def test_clusters_keep_their_noise_and_weights() -> None:
    law, n, weights = ClusterLaw(k=2, d=7, sigma=0.5), 2, 2
    drawn = [law.draw(n, weights, seed, compact=True) for seed in range(DRAWS)]
    for i in range(n):
        is_chi_square([float(d.train.x[i, 2 + i] / 0.5) ** 2 for d in drawn], 7 - 2 - i)
        is_chi_square([float(d.directions[i, 4 + i]) ** 2 for d in drawn], 7 - 2 - n - i)
        is_chi_square([float(d.directions[i].square().sum()) for d in drawn], 7)
        is_chi_square([float(law.noise_norms(d.train)[i]) for d in drawn], 7)
    for column in range(4):
        assert sps.kstest([float(d.directions[0, column]) for d in drawn], "norm").pvalue > 1e-3
    # Noise along a feature, seen through the point: x − αμ.
    along = [float((d.train.x[0, 0] - d.features[d.train.cluster[0], 0]) / 0.5) for d in drawn]
    assert sps.kstest(along, "norm").pvalue > 1e-3


def test_patches_keep_their_noise_and_vectors() -> None:
    law = PatchLaw(k=2, d=8, patches=1, robust_patches=1, sigma_n=0.3)
    found = [compact_patches(law, 1, 2, stream(seed, "copy")) for seed in range(DRAWS)]
    assert found[0][0].d == 7
    noise = [
        (batch.x - copy.signal(batch.y, batch.robust, batch.amplitude))[0, 0] / 0.3
        for copy, batch, _ in found
    ]
    is_chi_square([float(v[4]) ** 2 for v in noise], 4)
    is_chi_square([float(v.square().sum()) for v in noise], 8)
    for i in range(2):
        is_chi_square([float(vectors[i, 5 + i]) ** 2 for _, _, vectors in found], 4 - 1 - i)
        is_chi_square([float(vectors[i].square().sum()) for _, _, vectors in found], 8)


def test_signals_keep_their_noise_and_weights() -> None:
    law, scale = SignalLaw(d=4, patches=2, alpha=1.0, sigma=0.2, gap=0.5), 0.1
    found = [
        law.compact_instance(1, 1, scale, stream(seed, "data"), stream(seed, "init")) for seed in range(DRAWS)
    ]
    is_chi_square([float(i.train.noise()[0, 0].square().sum()) / 0.04 for i in found], 3)
    is_chi_square([float(i.w[0, 2] / scale) ** 2 for i in found], 2)
    is_chi_square([float((i.w[0] / scale).square().sum()) for i in found], 4)
    assert sps.kstest([float(i.w[0, 0] / scale) for i in found], "norm").pvalue > 1e-3


def test_initial_coefficients_keep_their_gram() -> None:
    drawn = co.draw(DRAWS, 2, 1, 7, 0.3, stream(0, "draw"))
    gram = (drawn.gram / 0.09).numpy()
    is_chi_square(gram[:, 0, 0], 3)
    is_chi_square(gram[:, 1, 1], 3)
    is_chi_square(np.linalg.det(gram) / gram[:, 0, 0], 2)
    for part in (drawn.u, drawn.v):
        assert sps.kstest((part[:, 0, 0, 1] / 0.3).numpy(), "norm").pvalue > 1e-3
    assert not torch.equal(drawn.u, drawn.v)
    bare = co.draw(2, 2, 1, 4, 0.3, stream(0, "draw"), gram=False)
    assert not bare.gram.any()
    assert torch.equal(bare.e, torch.eye(2, dtype=torch.float64).expand(2, 2, 2))
