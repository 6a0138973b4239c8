"""The classifier f_S of CGRO equation (C) and EP's memorising network as ReLU graphs, for ℓ∞ and ℓ2.

With local indicators I_i, S = Σ I_i and a clean classifier f clamped to [−1, 1],

    f_S = ReLU(f − S) − ReLU(−f − S) + Σ y_i I_i.

On B(X_i, δ) the opposite indicators vanish and S ≥ 1, so y_i f_S = S ≥ 1; where S = 0 it is f. No product
network is needed. Indicators are 1 within δ' and 0 from R − δ' on, with δ' = δ + (R − 2δ)/8, so that rounding
cannot spoil them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from featscope.core.balls import ball
from featscope.core.errors import require
from featscope.nets.built.blocks import clamp, levels_for, square, square_error, square_parameters
from featscope.nets.built.graph import F64, Enclosures, Graph, Wire, append

Indicator = Literal["Linf", "L2-shared", "L2-each"]
KINDS: tuple[Indicator, ...] = ("Linf", "L2-shared", "L2-each")
#: wider than all rounding of stored weights in these networks (D·2^−52·few), far narrower than the margins
#: they keep.
WEIGHT_ROUNDING = 1e-9
#: the default takes differences of squared norms for many points, off by 1e-8 where points are close
EXACT_DISTANCES = "donot_use_mm_for_euclid_dist"


@dataclass(frozen=True, eq=False)
class Local:
    """The local indicators of a training set: the wire of I_i, the wire of the measured distance, and what
    was used to build them."""

    indicators: Wire
    distance: Wire
    levels: int
    low: float
    high: float


def norm_of(kind: Indicator) -> str:
    """The norm of an indicator kind."""
    return "Linf" if kind == "Linf" else "L2"


def opposite_distance(x: Tensor, y: Tensor, norm: str) -> float:
    """The least distance between points of opposite label."""
    first, second = x[y > 0], x[y < 0]
    if len(first) == 0 or len(second) == 0:
        return float("inf")
    p = ball(norm, 0.0).p
    return float(torch.cdist(first, second, p=p, compute_mode=EXACT_DISTANCES).min())


def indicators(graph: Graph, x: Tensor, delta: float, separation: float, kind: Indicator) -> Local:
    """Add the indicators of the balls B(X_i, δ) to a graph whose input is the point."""
    require(
        separation > 2 * delta,
        "indicators need a separation above 2δ",
        f"R={separation:.4g}, δ={delta:.4g}",
        "lower delta",
    )
    wide = delta + (separation - 2 * delta) / 8
    if kind == "Linf":
        return _box_indicators(graph, x, wide, separation)
    inside = bool(((x >= 0) & (x <= 1)).all())
    require(
        inside,
        "ℓ2 indicators clamp to the cube, so points lie in [0, 1]",
        f"{float(x.min()):.4g} … {float(x.max()):.4g}",
        "rescale them",
    )
    box = clamp(graph, graph.x, 0.0, 1.0)
    gap = separation**2 - 2 * separation * wide
    levels = levels_for(gap / (2 * x.shape[1]))
    low, high = wide**2 + x.shape[1] * square_error(levels), (separation - wide) ** 2
    build = _shared_squares if kind == "L2-shared" else _own_squares
    over = build(graph, box, x, levels, low)
    near = graph.relu(graph.affine((graph.relu(over), -1 / (high - low)), bias=1.0))
    return Local(near, over, levels, low, high)


def _box_indicators(graph: Graph, x: Tensor, wide: float, separation: float) -> Local:
    """I = ReLU(1 − Σ_j [ReLU(x_j − X_ij − δ') + ReLU(X_ij − x_j − δ')]/(R − 2δ')): 6D + 1 parameters a
    point."""
    n, dim = x.shape
    flat, count = x.flatten(), n * dim
    rows, columns, ones = torch.arange(count), torch.arange(dim).repeat(n), torch.ones(count, dtype=F64)
    right = graph.relu(graph.entries(count, (graph.x, rows, columns, ones), bias=-flat - wide))
    left = graph.relu(graph.entries(count, (graph.x, rows, columns, -ones), bias=flat - wide))
    owner, slope = torch.arange(n).repeat_interleave(dim), -ones / (separation - 2 * wide)
    shown = graph.entries(n, (right, owner, rows, slope), (left, owner, rows, slope), bias=1.0)
    return Local(graph.relu(shown), shown, 0, wide, separation - wide)


def _shared_squares(graph: Graph, box: Wire, x: Tensor, levels: int, low: float) -> Wire:
    """‖x − X_i‖² − low with one square network a coordinate: Σ_j q(x_j) − 2⟨x, X_i⟩ + ‖X_i‖² − low."""
    n, dim = x.shape
    total = graph.affine((square(graph, box, levels), torch.ones(1, dim, dtype=F64)))
    return graph.affine((total, torch.ones(n, 1, dtype=F64)), (box, -2 * x), bias=x.square().sum(-1) - low)


def _own_squares(graph: Graph, box: Wire, x: Tensor, levels: int, low: float) -> Wire:
    """Σ_j q(|x_j − X_ij|) − low with a square network for every point and coordinate, as the paper's proof
    has it."""
    n, dim = x.shape
    flat, count = x.flatten(), n * dim
    rows, columns, ones = torch.arange(count), torch.arange(dim).repeat(n), torch.ones(count, dtype=F64)
    right = graph.relu(graph.entries(count, (box, rows, columns, ones), bias=-flat))
    left = graph.relu(graph.entries(count, (box, rows, columns, -ones), bias=flat))
    far = graph.affine((right, 1.0), (left, 1.0))
    owner = torch.arange(n).repeat_interleave(dim)
    return graph.entries(n, (square(graph, far, levels), owner, rows, ones), bias=-low)


@dataclass(frozen=True, eq=False)
class Robust:
    """A built classifier with what its certificate needs."""

    graph: Graph
    local: Local
    x: Tensor
    y: Tensor
    delta: float
    separation: float
    kind: Indicator
    clamped: Wire | None = None

    def certificate(self, chunk: int = 20) -> Tensor:
        """A proven lower bound of y_i·f over B(X_i, δ) for every training point."""
        index = torch.arange(len(self.y))
        return torch.cat(
            [self._bounds(index[start : start + chunk]) for start in range(0, len(index), chunk)]
        )

    def _bounds(self, chosen: Tensor) -> Tensor:
        centre = self.x[chosen]
        known = {} if self.kind == "Linf" else dict(self._distances(centre))
        if self.clamped is not None:
            # A clamp's two ReLUs are correlated, which intervals forget; its range is [−1, 1] whatever
            # enters.
            one = torch.ones(len(chosen), 1, dtype=F64)
            known[self.clamped] = (-one, one)
        low, high = self.graph.enclose(centre - self.delta, centre + self.delta, known)
        return torch.where(self.y[chosen] > 0, low[:, 0], -high[:, 0])

    def _distances(self, centre: Tensor) -> Enclosures:
        """On B(X_i, δ), clamped to the cube, ‖x − X_k‖ is within δ of ‖X_i − X_k‖, and the square networks
        add 0 … D·4^−(n+1)."""
        apart = torch.cdist(centre, self.x, compute_mode=EXACT_DISTANCES)
        low = (apart - self.delta).clamp(min=0).square() - self.local.low - WEIGHT_ROUNDING
        error = self.x.shape[1] * square_error(self.local.levels)
        return {
            self.local.distance: (
                low,
                (apart + self.delta).square() + error - self.local.low + WEIGHT_ROUNDING,
            )
        }


def cgro_classifier(
    x: Tensor, y: Tensor, clean: Graph, delta: float, separation: float, kind: Indicator
) -> Robust:
    """f_S for a training set, a clean classifier given as a network, and the separation R of the classes."""
    graph = Graph(x.shape[1])
    local = indicators(graph, x, delta, separation, kind)
    f = clamp(graph, append(graph, clean, graph.x), -1.0, 1.0)
    total = graph.affine((local.indicators, torch.ones(1, len(y), dtype=F64)))
    up = graph.relu(graph.affine((f, 1.0), (total, -1.0)))
    down = graph.relu(graph.affine((f, -1.0), (total, -1.0)))
    graph.affine((up, 1.0), (down, -1.0), (local.indicators, y[None].to(F64)))
    return Robust(graph, local, x, y, delta, separation, kind, f)


def memorising_network(x: Tensor, y: Tensor, delta: float, separation: float, kind: Indicator) -> Robust:
    """EP: f = Σ y_i I_i has zero robust training error on any separated set."""
    graph = Graph(x.shape[1])
    local = indicators(graph, x, delta, separation, kind)
    graph.affine((local.indicators, y[None].to(F64)))
    return Robust(graph, local, x, y, delta, separation, kind)


#: stored numbers of a half-space: one weight and one bias
HALFSPACE_PARAMETERS = 2


def halfspace(dim: int, axis: int, threshold: float, scale: float) -> Graph:
    """The clean classifier (x_axis − threshold)/scale as a network: two parameters."""
    graph = Graph(dim)
    row = torch.zeros(1, dim, dtype=F64)
    row[0, axis] = 1 / scale
    graph.affine((graph.x, row), bias=-threshold / scale)
    return graph


def indicator_parameters(n: int, dim: int, levels: int, kind: Indicator) -> int:
    """Parameters of the indicators for data without zero coordinates (docs/ep.md)."""
    if kind == "Linf":
        return n * (6 * dim + 1)
    if kind == "L2-shared":
        return n * (dim + 4) + dim * (square_parameters(levels) + 6)
    return n * (dim * (square_parameters(levels) + 7) + 3) + 5 * dim


def cgro_parameters(n: int, dim: int, levels: int, kind: Indicator, clean: int) -> int:
    """Parameters of f_S: indicators, 2 a point for S and the labels, the clean network, and 13 for clamp and
    read-out."""
    return indicator_parameters(n, dim, levels, kind) + 2 * n + clean + 13


def memorising_parameters(n: int, dim: int, levels: int, kind: Indicator) -> int:
    """Parameters of the memorising network: indicators and one label weight a point."""
    return indicator_parameters(n, dim, levels, kind) + n
