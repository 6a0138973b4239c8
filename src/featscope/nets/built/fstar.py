"""EP's robust classifier f*(x) = (d(x,B) − d(x,A))/(d(x,B) + d(x,A)) and its exact ReLU interpolation on a
grid.

The interpolant on the Freudenthal triangulation of a grid with K cells an axis is Σ_g f*(g/K) φ(Kx − g) with
the hat φ(t) = ReLU(1 − max(0, t_1, …, t_d) − max(0, −t_1, …, −t_d)). Inside a cell it is a convex combination
of the cell's corners, so it is within Lip·(1/K) of f* in ℓ∞ and its sign on a set of cells is certified by
the corners alone. It needs (K+1)^d hats: the exponential count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.core.balls import ball
from featscope.core.errors import require
from featscope.core.rules import SAME
from featscope.nets.built.blocks import block_maximum
from featscope.nets.built.graph import F64, Graph
from featscope.nets.built.robust import opposite_distance

#: grid points that fit in memory as a network; beyond, only the count is of interest.
MOST_NODES = 2_000_000


def distance_to(x: Tensor, points: Tensor, norm: str) -> Tensor:
    """d(x, S) for points x (n, d) and a finite set S (s, d)."""
    # Not by differences of squared norms: f* is ±1 on the sets themselves.
    return torch.cdist(x, points, p=ball(norm, 0.0).p, compute_mode="donot_use_mm_for_euclid_dist").amin(-1)


def f_star(x: Tensor, a: Tensor, b: Tensor, norm: str) -> Tensor:
    """f*(x): +1 on A, −1 on B."""
    to_a, to_b = distance_to(x, a, norm), distance_to(x, b, norm)
    return (to_b - to_a) / (to_b + to_a)


def slope_bound(x: Tensor, a: Tensor, b: Tensor, norm: str) -> Tensor:
    """2/(d(x,A) + d(x,B)): the local Lipschitz constant of f*, since |∂f*/∂d_A| + |∂f*/∂d_B| is exactly
    that."""
    return 2 / (distance_to(x, a, norm) + distance_to(x, b, norm))


def cells_needed(eps: float, delta: float) -> int:
    """The least K with 1 − δ/ε − 1/(εK) > 0 in ℓ∞: then the interpolant keeps f*'s sign on all δ-balls of
    2ε-separated sets."""
    require(delta < eps, "f* is robust only for δ < ε", f"δ={delta:.4g}, ε={eps:.4g}", "lower delta")
    # ε − δ = .05 is a little more in binary, and K = 20 would leave nothing.
    return math.floor((1 + SAME) / (eps - delta)) + 1


def nodes(cells: int, dim: int) -> Tensor:
    """All grid indices, ((K+1)^d, d)."""
    count = (cells + 1) ** dim
    require(
        count <= MOST_NODES,
        "the grid is too large to build",
        f"(K+1)^d = {cells + 1}^{dim}",
        "lower d, or δ further below ε",
    )
    return torch.cartesian_prod(*[torch.arange(cells + 1)] * dim).view(-1, dim)


def grid_network(values: Tensor, cells: int, dim: int) -> Graph:
    """The interpolant as a network; ``values`` are f* at :func:`nodes` divided by K."""
    index = nodes(cells, dim)
    count, flat = len(index), index.flatten().double()
    graph = Graph(dim)
    rows, columns, size = (
        torch.arange(count * dim),
        torch.arange(dim).repeat(count),
        torch.full((count * dim,), float(cells), dtype=F64),
    )
    above = graph.entries(count * dim, (graph.x, rows, columns, size), bias=-flat)
    below = graph.entries(count * dim, (graph.x, rows, columns, -size), bias=flat)
    up, down = graph.relu(block_maximum(graph, above, count)), graph.relu(block_maximum(graph, below, count))
    hats = graph.relu(graph.affine((up, -1.0), (down, -1.0), bias=1.0))
    graph.affine((hats, values[None].to(F64)))
    return graph


def grid_parameters(cells: int, dim: int) -> int:
    """Parameters of :func:`grid_network` when no value is 0: 2d weights and 2·(d − d/(K+1)) biases a hat, two
    trees, and 4 for the hat."""
    hats = int((cells + 1) ** dim)
    width, tree = dim, 0
    while width > 1:
        half, kept = width // 2, width - width // 2
        tree += 2 * half + half + kept
        width = kept
    zero = dim * int((cells + 1) ** (dim - 1))
    return hats * (2 * dim + 2 * dim + 2 * tree + 4) - 2 * zero


def cell_certificate(values: Tensor, cells: int, centre: Tensor, delta: float, sign: float) -> float:
    """The least sign·value among the corners of all cells that meet the ℓ∞ ball B(centre, δ) within the cube:
    a bound of the interpolant."""
    dim = len(centre)
    cube = values.view(*[cells + 1] * dim)
    for axis, c in enumerate(centre.tolist()):
        # One extra grid line on either side would only lower the bound; rounding of K(c ± δ) is covered by
        # the tiny widening.
        low = max(0, math.floor(cells * (c - delta) - 1e-9))
        high = min(cells, math.ceil(cells * (c + delta) + 1e-9))
        cube = cube.narrow(axis, low, high - low + 1)
    return float((sign * cube).min())


@dataclass(frozen=True, eq=False)
class GridClassifier:
    """f* of a finite set at the nodes of the coarsest grid that keeps its sign on all δ-balls (ℓ∞)."""

    x: Tensor
    y: Tensor
    delta: float
    eps: float
    cells: int
    values: Tensor

    @staticmethod
    def of(x: Tensor, y: Tensor, delta: float) -> GridClassifier:
        """For points x (n, d) in the cube with labels ±1."""
        eps = opposite_distance(x, y, "Linf") / 2
        cells = cells_needed(eps, delta)
        values = f_star(nodes(cells, x.shape[1]).double() / cells, x[y > 0], x[y < 0], "Linf")
        return GridClassifier(x, y, delta, eps, cells, values)

    @property
    def a(self) -> Tensor:
        """The points of label +1."""
        return self.x[self.y > 0]

    @property
    def b(self) -> Tensor:
        """The points of label −1."""
        return self.x[self.y < 0]

    def network(self) -> Graph:
        """The interpolant."""
        return grid_network(self.values, self.cells, self.x.shape[1])

    def certificate(self) -> float:
        """A proven lower bound of y·interpolant over the δ-balls of all points."""
        points = zip(self.x, self.y.tolist(), strict=True)
        return min(cell_certificate(self.values, self.cells, at, self.delta, sign) for at, sign in points)
