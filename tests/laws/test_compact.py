"""The compact copy has the inner products of the vectors it stands for: exactly when given, in law when
drawn."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.laws.compact import bartlett, fresh, rotate


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 12), extra=st.integers(0, 20), seed=st.integers(0, 10**6))
def test_rotated_vectors_keep_every_inner_product(count: int, extra: int, seed: int) -> None:
    vectors = torch.randn(count, count + extra, generator=stream(seed, "vectors"), dtype=torch.float64)
    copy = rotate(vectors)
    assert torch.allclose(copy.coordinates @ copy.coordinates.mT, vectors @ vectors.mT, atol=1e-11)
    assert torch.allclose(copy.coordinates @ copy.basis, vectors, atol=1e-12)
    assert torch.allclose(copy.basis @ copy.basis.mT, torch.eye(count, dtype=torch.float64), atol=1e-12)
    assert (copy.coordinates.diagonal() >= 0).all()
    assert torch.equal(copy.coordinates, copy.coordinates.tril())


def test_gram_entries_have_the_law_of_direct_sampling() -> None:
    count, dim, draws = 4, 9, 3000
    rng = stream(0, "law")
    direct = torch.randn(draws, count, dim, generator=rng, dtype=torch.float64)
    copies = torch.stack([bartlett(count, dim, rng) for _ in range(draws)])
    gram, drawn = direct @ direct.mT, copies @ copies.mT
    for i in range(count):
        for j in range(i + 1):
            assert sps.ks_2samp(gram[:, i, j].numpy(), drawn[:, i, j].numpy()).pvalue > 1e-3, (i, j)
    # A joint statistic: three inner products at once, which equal marginals alone would not fix.
    triple = [g[:, 0, 1] * g[:, 1, 2] * g[:, 2, 0] for g in (gram, drawn)]
    assert sps.ks_2samp(triple[0].numpy(), triple[1].numpy()).pvalue > 1e-3
    assert sps.ks_2samp(torch.logdet(gram).numpy(), torch.logdet(drawn).numpy()).pvalue > 1e-3


def test_moments_match_the_wishart_law() -> None:
    count, dim, draws = 3, 5, 20000
    rng = stream(1, "moments")
    copies = torch.stack([bartlett(count, dim, rng) for _ in range(draws)])
    gram = copies @ copies.mT
    # E G = dim·I, Var G_ii = 2·dim, Var G_ij = dim; five standard errors.
    error = 5 * (2 * dim / draws) ** 0.5
    assert torch.allclose(gram.mean(0), dim * torch.eye(count, dtype=torch.float64), atol=error)
    assert abs(float(gram[:, 0, 0].var()) - 2 * dim) < 2.0
    assert abs(float(gram[:, 1, 0].var()) - dim) < 1.0


def test_given_gaussian_vectors_and_drawn_copies_have_the_same_coordinates_in_law() -> None:
    count, dim, draws = 3, 6, 2000
    rng = stream(2, "coordinates")
    given_ = torch.stack(
        [
            rotate(torch.randn(count, dim, generator=rng, dtype=torch.float64)).coordinates
            for _ in range(draws)
        ]
    )
    drawn = torch.stack([bartlett(count, dim, rng) for _ in range(draws)])
    for i in range(count):
        for j in range(i + 1):
            assert sps.ks_2samp(given_[:, i, j].numpy(), drawn[:, i, j].numpy()).pvalue > 1e-3


def test_fresh_vectors_see_the_copy_as_new_vectors_see_the_data() -> None:
    count, dim, draws = 5, 40, 4000
    rng = stream(3, "fresh")
    vectors = torch.randn(count, dim, generator=rng, dtype=torch.float64)
    copy = rotate(vectors).coordinates
    direct = torch.randn(draws, dim, generator=rng, dtype=torch.float64) @ vectors.mT
    seen = fresh(draws, copy, rng) @ copy.mT
    for i in range(count):
        assert sps.ks_2samp(direct[:, i].numpy(), seen[:, i].numpy()).pvalue > 1e-3
    assert sps.ks_2samp(direct.amax(-1).numpy(), seen.amax(-1).numpy()).pvalue > 1e-3


def test_a_billion_dimensions_keep_their_spread() -> None:
    dim = 10**9
    norms = torch.stack([bartlett(1, dim, stream(s, "norm"))[0, 0] for s in range(400)])
    # √χ²_d is √d within a standard deviation of 1/√2.
    standard = ((norms - dim**0.5) * 2**0.5).numpy()
    assert sps.kstest(standard, "norm").pvalue > 1e-3


def test_a_copy_needs_room() -> None:
    with pytest.raises(BadInput, match="dim=4, vectors=5"):
        bartlett(5, 4, stream(0))
    with pytest.raises(BadInput, match="as many dimensions"):
        rotate(torch.zeros(3, 2))
    assert bartlett(5, 5, stream(0), torch.float32).dtype == torch.float32
