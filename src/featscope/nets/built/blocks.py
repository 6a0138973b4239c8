"""Building blocks with exact error bounds: clamp, absolute value, maximum, Yarotsky's square and product.

Yarotsky (2017), Propositions 2 and 3: with the tooth g(x) = 2x on [0, ½], 2 − 2x on [½, 1] and g_s its s-fold
composition, q_n(x) = x − Σ_{s≤n} g_s(x)/4^s interpolates x² at the multiples of 2^−n, hence 0 ≤ q_n(x) − x² ≤
4^−(n+1) on [0, 1].
"""

from __future__ import annotations

import math

import torch

from featscope.core.errors import require_at_least
from featscope.nets.built.graph import F64, Graph, Wire


def clamp(graph: Graph, wire: Wire, low: float, high: float) -> Wire:
    """min(max(wire, low), high) = low + ReLU(x − low) − ReLU(x − high): at most 6 parameters a coordinate,
    fewer where a bound is 0."""
    up = graph.relu(graph.affine((wire, 1.0), bias=-low))
    down = graph.relu(graph.affine((wire, 1.0), bias=-high))
    return graph.affine((up, 1.0), (down, -1.0), bias=low)


def absolute(graph: Graph, wire: Wire) -> Wire:
    """|x| = ReLU(x) + ReLU(−x): 4 parameters a coordinate."""
    return graph.affine(
        (graph.relu(graph.affine((wire, 1.0))), 1.0), (graph.relu(graph.affine((wire, -1.0))), 1.0)
    )


def block_maximum(graph: Graph, wire: Wire, groups: int) -> Wire:
    """The maximum of each of ``groups`` equal blocks of a wire, by a tree of pairs max(a, b) = a + ReLU(b −
    a), 4 parameters a pair."""
    width = wire.size // groups
    while width > 1:
        half, kept = width // 2, width - width // 2
        start = torch.arange(groups)[:, None] * width
        left, right = (start + torch.arange(half)).flatten(), (start + kept + torch.arange(half)).flatten()
        pairs, ones = torch.arange(groups * half), torch.ones(groups * half, dtype=F64)
        rise = graph.relu(
            graph.entries(groups * half, (wire, pairs, right, ones), (wire, pairs, left, -ones))
        )
        places = (torch.arange(groups)[:, None] * kept + torch.arange(half)).flatten()
        all_places, all_left = torch.arange(groups * kept), (start + torch.arange(kept)).flatten()
        unit = torch.ones(groups * kept, dtype=F64)
        wire = graph.entries(groups * kept, (wire, all_places, all_left, unit), (rise, places, pairs, ones))
        width = kept
    return wire


def square(graph: Graph, wire: Wire, levels: int) -> Wire:
    """q_n(x) for x in [0, 1], coordinate by coordinate, off by at most :func:`square_error`."""
    require_at_least("levels", levels, 1)
    tooth, terms = wire, [(wire, 1.0)]
    for s in range(1, levels + 1):
        up = graph.relu(graph.affine((tooth, 1.0)))
        down = graph.relu(graph.affine((tooth, 1.0), bias=-0.5))
        tooth = graph.affine((up, 2.0), (down, -4.0))
        terms.append((tooth, -(4.0**-s)))
    return graph.affine(*terms)


def square_parameters(levels: int) -> int:
    """Parameters of :func:`square` for one coordinate: 5 for each tooth (1 + 2 + 2), one skip for each and
    one for x itself."""
    return 6 * levels + 1


def square_error(levels: int) -> float:
    """0 ≤ q_n(x) − x² ≤ 4^−(n+1) on [0, 1]."""
    return 4.0 ** -(levels + 1)


def levels_for(error: float) -> int:
    """The least n with 4^−(n+1) ≤ error."""
    return max(1, math.ceil(math.log(1 / error, 4) - 1)) if error < 1 else 1


def product(graph: Graph, left: Wire, right: Wire, bound: float, levels: int) -> Wire:
    """xy for |x|, |y| ≤ B as 2B²(q(|x+y|/2B) − q(|x|/2B) − q(|y|/2B)); exactly 0 where a factor is 0.

    Signed factors are covered by the absolute values. The error is at most 4B²·4^−(n+1), see
    :func:`product_error`.
    """
    scale = 1 / (2 * bound)
    total = absolute(graph, graph.affine((left, scale), (right, scale)))
    one, two = absolute(graph, graph.affine((left, scale))), absolute(graph, graph.affine((right, scale)))
    squares = [square(graph, wire, levels) for wire in (total, one, two)]
    both = 2 * bound**2
    return graph.affine((squares[0], both), (squares[1], -both), (squares[2], -both))


def product_error(bound: float, levels: int) -> float:
    """The error e = q(·) − (·)² lies in [0, 4^−(n+1)] for each square, so the product is off by at most
    2B²·2·4^−(n+1)."""
    return 4 * bound**2 * square_error(levels)
