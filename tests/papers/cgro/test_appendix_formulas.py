"""`appendix-lemmas`: cubic noise against its law, squares and products against their errors, pieces against a
dense grid."""

import math

import pytest
import torch
from scipy.stats import norm

from featscope.core.streams import stream
from featscope.nets.built.blocks import levels_for
from featscope.papers.cgro import appendix_lemmas as al
from featscope.papers.cgro.appendix_lemmas import AppendixLemmas

F64 = torch.float64


def test_one_vector_is_a_gaussian_to_the_third() -> None:
    """|g|³ < 1/ln d has probability 2Φ((ln d)^(−1/3)) − 1."""
    rows = al.cubic_rows(AppendixLemmas(dimensions=(16, 64), patches=1, width=1, draws=20_000, seeds=(0, 1)))
    assert [(row["d"], row["seed"], row["vectors"]) for row in rows] == [
        (d, seed, kind) for d in (16, 64) for seed in (0, 1) for kind in ("one", "many")
    ]
    for row in rows:
        d = row["d"]
        assert (row["printed"], row["used"]) == (pytest.approx(d / 2 ** (1 / d)), pytest.approx(d / 2**d))
        # of many vectors, here of one, a coordinate axis has the cubic form 1, so that the norm is larger
        v = torch.randn(1, d, generator=stream(row["seed"], "cubic", row["vectors"], d), dtype=F64)
        size = 1.0 if row["vectors"] == "one" else float(v.norm() / v[0, 0].abs())
        share = 2 * norm.cdf(math.log(d) ** (-1 / 3) / size) - 1
        assert row["small"] == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 20_000))


def test_many_vectors_and_patches_are_those_of_the_noise_itself() -> None:
    """The share by 20 000 draws of ξ in R^d, two patches, three vectors."""
    [_, row] = al.cubic_rows(AppendixLemmas(dimensions=(9,), patches=2, width=3, draws=20_000, seeds=(5,)))
    v = torch.randn(3, 9, generator=stream(5, "cubic", "many", 9), dtype=F64)
    v = v / float(v[:, 0].pow(3).sum().abs()) ** (1 / 3)
    noise = torch.randn(20_000, 2, 9, generator=stream(1, "again"), dtype=F64)
    form = (noise @ v.mT).pow(3).sum((1, 2)).abs()
    share = float((form < 1 / math.log(9)).double().mean())
    assert row["small"] == pytest.approx(share, abs=6 * math.sqrt(share * (1 - share) / 20_000))


def test_squares_have_the_error_of_their_levels() -> None:
    """n levels interpolate x² at multiples of 2^−n: the error is 2^(−2n−2), midway."""
    rows = al.square_rows(AppendixLemmas(errors=(1e-1, 1e-3, 1e-6), points=33))
    for row, error in zip(rows, (1e-1, 1e-3, 1e-6), strict=True):
        assert row["error"] == error
        assert row["measured"] == pytest.approx(4.0 ** -(levels_for(error) + 1))
        assert row["measured"] <= error < 16 * row["measured"]
        assert row["logarithm"] == pytest.approx(-math.log2(error))
    assert [row["parameters"] for row in rows] == sorted({row["parameters"] for row in rows})
    steps = [levels_for(row["error"]) for row in rows]
    assert rows[2]["depth"] - rows[1]["depth"] == steps[2] - steps[1]


def test_products_err_by_less_than_asked_and_are_zero_on_the_axes() -> None:
    rows = al.product_rows(AppendixLemmas(errors=(1e-1, 1e-4), bounds=(1.0, 4.0), points=65))
    assert [(row["bound"], row["error"]) for row in rows] == [
        (1.0, 1e-1),
        (1.0, 1e-4),
        (4.0, 1e-1),
        (4.0, 1e-4),
    ]
    for row in rows:
        assert 0 < row["measured"] <= row["error"]
        assert row["on_axes"] == 0.0
        assert row["outside"] <= 1e-12
        assert row["logarithm"] == pytest.approx(math.log2(row["bound"]) - math.log2(row["error"]))
    assert rows[0]["parameters"] < rows[1]["parameters"]


def patterns(weights: list, biases: list, low: float, high: float, count: int) -> int:
    """How often the signs of all pre-activations change along a dense grid, and one."""
    value, signs = torch.linspace(low, high, count, dtype=F64)[:, None], []
    for weight, bias in zip(weights, biases, strict=True):
        before = value @ weight.mT + bias
        signs.append(before > 0)
        value = torch.relu(before)
    whole = torch.cat(signs, -1)
    return int((whole[1:] != whole[:-1]).any(-1).sum()) + 1


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2), (3, 2), (2, 3, 2)])
def test_pieces_on_a_line_are_those_of_a_dense_grid(shape: tuple[int, ...]) -> None:
    for seed in range(6):
        rng, sizes = stream(seed, "grid", *shape), (1, *shape)
        weights = [torch.randn(sizes[i + 1], sizes[i], generator=rng, dtype=F64) for i in range(len(shape))]
        biases = [torch.randn(size, generator=rng, dtype=F64) for size in shape]
        assert al.line_pieces(weights, biases, 50.0) == patterns(weights, biases, -50.0, 50.0, 400_001)


def test_the_tooth_doubles_its_pieces() -> None:
    """t ↦ 2t below ½ and 2 − 2t above; three fold [0, 1] into eight pieces, two more lie outside."""
    weights, biases = al.tooth(3)
    x = torch.tensor([0.1, 0.3, 0.8], dtype=F64)
    value = x[:, None]
    for weight, bias in zip(weights, biases, strict=True):
        value = torch.relu(value @ weight.mT + bias)
    folded = 2 * value[:, 0] - 4 * value[:, 1]
    wanted = x
    for _ in range(3):
        wanted = 1 - (1 - 2 * wanted).abs()
    assert folded.tolist() == pytest.approx(wanted.tolist())
    assert al.line_pieces(*al.tooth(1)) == 3
    assert al.line_pieces(*al.tooth(2)) == patterns(*al.tooth(2), -0.5, 1.5, 200_003)
    assert al.line_pieces(*al.tooth(3)) == patterns(*al.tooth(3), -0.5, 1.5, 200_003)


def test_rows_of_pieces_take_the_most() -> None:
    spec = AppendixLemmas(shapes=((2,), (2, 2), (3,)), networks=3, seeds=(0, 1))
    rows = al.piece_rows(spec)
    assert [(row["shape"], row["units"], row["seed"]) for row in rows] == [
        (shape, units, seed) for shape, units in (("2", 2), ("2-2", 4), ("3", 3)) for seed in (0, 1)
    ]
    counts = {(row["shape"], row["seed"]): row["pieces"] for row in rows}
    assert counts["2", 0] == 3
    assert counts["2-2", 0] >= al.line_pieces(*al.tooth(2))
    rng, most = stream(0, "pieces", 3), 0
    for _ in range(3):
        weights = [torch.randn(3, 1, generator=rng, dtype=F64)]
        most = max(most, al.line_pieces(weights, [torch.randn(3, generator=rng, dtype=F64)]))
    assert counts["3", 0] == most
