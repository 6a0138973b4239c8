"""Experiment `appendix-lemmas`: CGRO Lemmas A.4, D.2, D.3 and Proposition D.5, by simulation and by building.

A.4: S = Σ_j Σ_r ⟨v_r, ξ_j⟩³ for Gaussian ξ_j and vectors with |Σ_r ⟨v_r, x⟩³| = 1 for a unit x: one
vector, or m random ones scaled so that a coordinate axis is such an x. D.2, D.3: Yarotsky's square and
product as graphs. D.5: linear pieces along a line, by splitting each where a pre-activation changes sign.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.nets.built.blocks import clamp, levels_for
from featscope.nets.built.blocks import product as product_network
from featscope.nets.built.blocks import square as square_network
from featscope.nets.built.graph import Graph

Row = dict[str, Any]
F64 = torch.float64


class AppendixLemmas(Spec):
    """Grids of the four statements."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {"quick": {"draws": 4000, "seeds": [0, 1], "networks": 20}}

    dimensions: tuple[int, ...] = setting((16, 64, 256), "dimensions d of A.4", letter="d")
    patches: int = setting(3, "noise patches of A.4", ge=1)
    width: int = setting(10, "random vectors m of A.4", letter="m", ge=1)
    draws: int = setting(40_000, "Gaussian draws of A.4", ge=1000)
    errors: tuple[float, ...] = setting((1e-1, 1e-2, 1e-4, 1e-6, 1e-8), "ε of D.2 and D.3", letter="ε")
    bounds: tuple[float, ...] = setting((1.0, 2.0, 8.0), "B of D.3", letter="B")
    points: int = setting(1025, "points an axis at which the errors are measured", ge=33)
    shapes: tuple[tuple[int, ...], ...] = setting(
        ((1,), (2,), (4,), (2, 2), (3, 3), (2, 2, 2), (4, 4), (2, 2, 2, 2, 2)),
        "hidden widths of D.5's networks",
    )
    networks: int = setting(100, "random networks of each shape", ge=1)


class CubicNoise(Columns):
    """How often the cubic form of noise is small."""

    vectors = column("one or many")
    d = column("dimension")
    seed = column("seed of vectors and noise")
    small = column("share of draws with |S| < σ³/ln d")
    printed = column("the share that the lemma allows as printed, d/2^(1/d)")
    used = column("the share with 2^d, as the lemma is used")


class SquareNetwork(Columns):
    """Yarotsky's square."""

    error = column("ε asked for")
    measured = column("largest |q − x²| measured on [0, 1]")
    parameters = column("parameters")
    depth = column("depth")
    logarithm = column("log2(1/ε)")


class ProductNetwork(Columns):
    """Yarotsky's product, clamped to [0, B²]."""

    bound = column("bound B of the factors")
    error = column("ε asked for")
    measured = column("largest |x̃y − xy| measured on [0, B]²")
    on_axes = column("largest |x̃y| where a factor is 0")
    outside = column("how far the output leaves [0, B²]")
    parameters = column("parameters")
    logarithm = column("log2(B/ε)")


class Pieces(Columns):
    """The most linear pieces along a line among random networks of one shape, and of the folded tooth."""

    shape = column("hidden widths")
    units = column("hidden units n")
    seed = column("seed of the networks")
    pieces = column("most linear pieces found")


def cubic_rows(spec: AppendixLemmas) -> list[Row]:
    """Draw noise with σ = 1, because both sides of the lemma scale with σ³."""
    c, rows = CubicNoise, list[Row]()
    for d, seed, kind in product(spec.dimensions, spec.seeds, ("one", "many")):
        rng = stream(seed, "cubic", kind, d)
        m = 1 if kind == "one" else spec.width
        v = torch.randn(m, d, generator=rng, dtype=F64)
        along = v[:, 0].pow(3).sum().abs() if kind == "many" else v.norm() ** 3
        v = v / along.pow(1 / 3)
        # ξ has d coordinates, but the products ⟨v_r, ξ⟩ are Gaussian with covariance v vᵀ.
        root = torch.linalg.cholesky(v @ v.mT)
        noise = torch.randn(spec.draws, spec.patches, m, generator=rng, dtype=F64) @ root.mT
        small = (noise.pow(3).sum((1, 2)).abs() < 1 / math.log(d)).double().mean()
        row: Row = {c.vectors: kind, c.d: d, c.seed: seed, c.small: float(small)}
        rows.append(row | {c.printed: d / 2 ** (1 / d), c.used: d * 2.0**-d})
    return rows


def square_rows(spec: AppendixLemmas) -> list[Row]:
    """The square for each ε, measured between the interpolation points too."""
    c, rows = SquareNetwork, list[Row]()
    x = torch.linspace(0, 1, spec.points, dtype=F64)[:, None]
    for error in spec.errors:
        graph, levels = Graph(1), levels_for(error)
        square_network(graph, graph.x, levels)
        # The largest errors lie midway between the multiples of 2^−n.
        middle = (torch.arange(min(2**levels, spec.points), dtype=F64)[:, None] + 0.5) / 2**levels
        at = torch.cat([x, middle])
        worst = float((graph(at) - at.square()).abs().max())
        row: Row = {c.error: error, c.measured: worst, c.parameters: graph.parameters, c.depth: graph.depth}
        rows.append(row | {c.logarithm: math.log2(1 / error)})
    return rows


def product_rows(spec: AppendixLemmas) -> list[Row]:
    """The product for each B and ε."""
    c, rows = ProductNetwork, list[Row]()
    side = torch.linspace(0, 1, int(math.sqrt(spec.points)) * 4, dtype=F64)
    for bound, error in product(spec.bounds, spec.errors):
        graph, one, two = Graph(2), torch.tensor([[1.0, 0.0]]).to(F64), torch.tensor([[0.0, 1.0]]).to(F64)
        left, right = graph.affine((graph.x, one)), graph.affine((graph.x, two))
        rough = product_network(graph, left, right, bound, levels_for(error / (4 * bound**2)))
        clamp(graph, rough, 0.0, bound**2)
        at = bound * torch.cartesian_prod(side, side)
        found, exact = graph(at)[:, 0], at[:, 0] * at[:, 1]
        zero = (at == 0).any(-1)
        beyond = torch.maximum(-found, found - bound**2).clamp(min=0).max()
        row: Row = {c.bound: bound, c.error: error, c.measured: float((found - exact).abs().max())}
        row |= {c.on_axes: float(found[zero].abs().max()), c.outside: float(beyond)}
        rows.append(row | {c.parameters: graph.parameters, c.logarithm: math.log2(bound / error)})
    return rows


def line_pieces(weights: list[Tensor], biases: list[Tensor], reach: float = 1e6) -> int:
    """Linear pieces of a ReLU network on the line, by splitting where a pre-activation changes sign.

    Pieces are counted by their pre-activations' signs, so neighbours of equal slope count apart: never fewer
    than the function has.
    """
    cuts = np.array([-reach, reach])
    for depth in range(len(weights)):
        found = [cuts]
        for left, right in pairwise(cuts):
            low, high = (_before(weights, biases, depth, at) for at in (left, right))
            change = low * high < 0
            found.append(left + (right - left) * (low / np.where(change, low - high, 1.0))[change])
        cuts = np.unique(np.concatenate(found))
    return len(cuts) - 1


def _before(weights: list[Tensor], biases: list[Tensor], depth: int, at: float) -> np.ndarray:
    """Pre-activations of a layer at a point of the line."""
    value = torch.tensor([at], dtype=F64)
    for layer in range(depth):
        value = torch.relu(weights[layer] @ value + biases[layer])
    return np.asarray(weights[depth] @ value + biases[depth])


def tooth(layers: int) -> tuple[list[Tensor], list[Tensor]]:
    """The tooth 2ReLU(x) − 4ReLU(x − ½) folded into itself: two units a layer."""
    first, rest = torch.tensor([[1.0], [1.0]]).to(F64), torch.tensor([[2.0, -4.0], [2.0, -4.0]]).to(F64)
    shift = torch.tensor([0.0, -0.5]).to(F64)
    return [first, *[rest] * (layers - 1)], [shift] * layers


def piece_rows(spec: AppendixLemmas) -> list[Row]:
    """Random networks of every shape, and the tooth where all layers have two units."""
    c, rows = Pieces, list[Row]()
    for shape, seed in product(spec.shapes, spec.seeds):
        rng, most = stream(seed, "pieces", *shape), 0
        sizes = (1, *shape)
        for _ in range(spec.networks):
            weights = [
                torch.randn(sizes[i + 1], sizes[i], generator=rng, dtype=F64) for i in range(len(shape))
            ]
            biases = [torch.randn(size, generator=rng, dtype=F64) for size in shape]
            most = max(most, line_pieces(weights, biases))
        if set(shape) == {2}:
            most = max(most, line_pieces(*tooth(len(shape))))
        rows.append({c.shape: "-".join(map(str, shape)), c.units: sum(shape), c.seed: seed, c.pieces: most})
    return rows


def run_lemmas(spec: AppendixLemmas, folder: Folder) -> Json:
    """All four."""
    noise, pieces = cubic_rows(spec), piece_rows(spec)
    folder.add("noise", noise)
    folder.add("square", square_rows(spec))
    folder.add("product", product_rows(spec))
    folder.add("pieces", pieces)
    return {
        "small_cubic_share": max(row[CubicNoise.small] for row in noise),
        "most_pieces": max(row[Pieces.pieces] for row in pieces),
    }


def size(spec: AppendixLemmas) -> Size:
    """Noise of one draw of vectors, the products' grid through a network; pieces are counted one by one."""
    noise = spec.draws * spec.patches * spec.width
    # The square of points has 16 times as many, and a deep product some 250 values at each.
    grid = 16 * spec.points * 250
    seeds = len(spec.seeds)
    cubic = 2 * len(spec.dimensions) * seeds * noise * spec.width
    built = len(spec.errors) * (1 + len(spec.bounds)) * grid
    # Calls on tiny tensors: measured, a unit of a layer takes the time of 10 000 products of large ones.
    pieces = spec.networks * seeds * sum(10_000 * sum(shape) * len(shape) ** 2 for shape in spec.shapes)
    return Size(max(noise, grid), cubic + built + pieces)


EXPERIMENTS = (
    Experiment(
        name="appendix-lemmas",
        paper="cgro",
        shows="CGRO Lemmas A.4, D.2, D.3, Proposition D.5: cubic noise simulated, squares, products and "
        "linear pieces of built networks",
        spec=AppendixLemmas,
        run=run_lemmas,
        columns={
            "noise": CubicNoise,
            "square": SquareNetwork,
            "product": ProductNetwork,
            "pieces": Pieces,
        },
        takes={"quick": "3 s", "cpu": "15 s", "paper": "15 s"},
        highlights=(
            Highlight(
                "small_cubic_share", "Lemma A.4: largest share of draws whose cubic form is small", "share"
            ),
            Highlight("most_pieces", "Proposition D.5: most linear pieces found"),
        ),
        size=size,
    ),
)
