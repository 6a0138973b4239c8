"""Exact ℓ2 distance to the decision boundary of a two-layer ReLU network, with a certificate.

Write f = P − Q with P = Σ_r ReLU(p_r), Q = Σ_r ReLU(q_r) over the positive and the negative neurons (output
weights absorbed). A sum of ReLUs is a maximum over subsets, Q = max_S Σ_{r∈S} q_r, so a point of class y = +1
is misclassified exactly on the union of the convex sets

    K_S = {x : P(x) ≤ Σ_{r∈S} q_r(x)},    S ⊆ neurons of the other class (2^m sets),

and K_S is the polyhedron Σ_{r∈U} p_r ≤ Σ_{r∈S} q_r over all U. Its distance is a small convex quadratic
programme in the span of the weights. FA sets sgn(0) = −1: for y = +1 the set {f ≤ 0} counts, S = ∅ included.
For y = −1 (roles of P and Q swapped) it is {f > 0}, the union of the *open* sets P < Σ_S q_r. Where such a
set has a point, its closure is K_S; where it has none, K_S does not count, even if it is not empty: S = ∅, or
a rival neuron parallel to an own one that dominates it, where f ≡ 0.

Certificate of a lower bound: for every S a vector u ∈ [0,1]^m. On K_S, Σ u_r p_r ≤ P ≤ Σ_S q_r, a half-space,
so that every point of K_S is at least (Σ u_r p_r(x) − Σ_S q_r(x)) / ‖Σ u_r ∇p_r − Σ_S ∇q_r‖ away; the
smallest of these numbers bounds the radius. If the normal vanishes, the set is empty for a positive gap, and
for y = −1 for a gap of zero. Such a u exists whenever the set is empty (duality of linear programmes).
Vanishing means: below ``PARALLEL`` of the weights' size. Certificate of the upper bound: the perturbation
itself.

Both are tried on the network as it was given before they are returned; a radius is ``exact`` only if both
hold and agree.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import daqp
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor

from featscope.core.errors import BadInput, require
from featscope.nets.two_layer import TwoLayer, forward, in_span

Array = NDArray[np.float64]

#: Largest number of neurons a class: 2^m pieces with 2^m constraints each.
LIMIT = 10
#: A radius is exact when its perturbation and its certificate agree to this relative accuracy.
AGREE = 1e-6
#: A combination of weights below this share of their size is zero: weights as parallel as that are parallel.
PARALLEL = 1e-12


class BracketedRadii(NamedTuple):
    """For each point the distance bracketed by ``lower`` ≤ radius ≤ ``upper`` = ‖delta‖, and the certificate
    u (n, 2^m, m) of ``lower``.

    ``correct`` says which points are classified correctly (the others have radius 0); the subset S number s
    holds neuron r of the other class exactly when bit r of s is set. ``exact`` says where both bounds were
    verified and agree (or both are infinite).
    """

    lower: Tensor
    upper: Tensor
    delta: Tensor
    certificate: Tensor
    correct: Tensor
    solved: int
    exact: Tensor


class _Pieces(NamedTuple):
    """One point's view of the network: own neurons p, rival neurons q, absorbed output weights, subset sums
    of both."""

    own: Array  # (m, D) ∇p
    own_at: Array  # (m,) p(x)
    own_sums: Array  # (2^m, D)
    own_sums_at: Array
    rival_sums: Array  # (2^m', D)
    rival_sums_at: Array
    table: Array  # (2^m, m) the subsets of the own neurons
    strict: bool  # whether the open sets count (y = −1)
    own_size: Array  # (m,) ‖∇p‖
    rival_size: Array  # (2^m',) Σ_S ‖∇q‖
    own_room: Array  # (m,) ‖∇p‖‖x‖ + |bias|: what p(x) is made of
    rival_room: Array


def subsets(count: int) -> Array:
    """(2^count, count) 0/1 rows: the bits of 0 … 2^count − 1, lowest first."""
    numbers = np.arange(2**count)[:, None]
    return ((numbers >> np.arange(count)) & 1).astype(np.float64)


def exact_radii(net: TwoLayer, x: Tensor, y: Tensor) -> BracketedRadii:
    """The ℓ2 radii of the points x with labels ±1. Points at which the network is wrong have radius 0."""
    net, x = TwoLayer(*(t.double() for t in net)), x.double()
    finite = all(bool(t.isfinite().all()) for t in (*net, x))
    require(
        finite, "the exact radius needs finite weights and points", "NaN or ∞", "remove what is not a number"
    )
    widest = int(max((net.a > 0).sum(), (net.a < 0).sum()))
    if widest > LIMIT:
        raise BadInput(
            "the exact radius enumerates 2^m pieces",
            f"m={widest}",
            f"use at most {LIMIT} neurons a class, or bracket_radii",
        )
    small, points, basis = in_span(net, x)
    solver, whole, lift = _Solver(small), _Halves(net), basis.numpy()
    positive, at = (y > 0).numpy(), x.numpy()
    correct = np.array(
        [(whole.sign(point) == 1) == label for point, label in zip(at, positive, strict=True)], dtype=bool
    )
    lower, delta, certificate = (
        np.zeros(len(y)),
        np.zeros(at.shape),
        np.zeros((len(y), 2**solver.count, solver.count)),
    )
    for i in np.flatnonzero(correct):
        fools = _Fools(whole, at[i], lift, bool(positive[i]))
        delta[i], certificate[i] = solver.radius(points[i].numpy(), bool(positive[i]), fools)
        # From the stored vectors and the weights as given: what is returned is what they prove, whatever the
        # search believed.
        lower[i] = _proved(
            whole.view(at[i], bool(positive[i]), float(np.linalg.norm(at[i]))), certificate[i]
        ).min(initial=np.inf)
    upper = np.linalg.norm(delta, axis=1)
    lower = np.minimum(lower, upper)
    settled = _agree(lower, upper, np.array([whole.length(point) for point in at]))
    bounds, proof = (
        (torch.from_numpy(lower), torch.from_numpy(upper)),
        (torch.from_numpy(delta), torch.from_numpy(certificate)),
    )
    return BracketedRadii(
        *bounds, *proof, torch.from_numpy(correct), solver.solved, torch.from_numpy(settled)
    )


def _agree(lower: Array, upper: Array, length: Array) -> NDArray[np.bool_]:
    """Whether the bounds are one number: to ``AGREE``, or, for points on the boundary, to a thousandth of it
    in units of the data."""
    return np.isinf(lower) | (upper <= lower * (1 + AGREE) + 1e-3 * AGREE * length)


class _Halves:
    """The positive and the negative neurons with the output weights absorbed, their subset sums, and f with
    its rounding."""

    def __init__(self, net: TwoLayer) -> None:
        w, b, a = net.w.numpy(), net.b.numpy(), net.a.numpy()
        self.whole = (w, b, a)
        size = np.abs(a)
        self.halves = [(size[part, None] * w[part], size[part] * b[part]) for part in (a > 0, a < 0)]
        self.tables = [subsets(len(half[1])) for half in self.halves]
        self.sums = [
            (table @ half[0], table @ half[1]) for table, half in zip(self.tables, self.halves, strict=True)
        ]
        self.count = max(len(half[1]) for half in self.halves)
        weights, biases = size @ np.linalg.norm(w, axis=1), size @ np.abs(b)
        self.shift = float(biases / weights) if weights > 0 else 0.0

    def length(self, x: Array) -> float:
        """The unit of length at a point: its norm and the size of the biases in units of the weights; 1 if
        both are 0."""
        return float(np.linalg.norm(x)) + self.shift or 1.0

    def view(self, x: Array, positive: bool, reach: float) -> _Pieces:
        """The network as seen from x, a point of norm ``reach`` before it was projected onto the span."""
        own, rival = (0, 1) if positive else (1, 0)
        (w, b), (own_w, own_b), (rival_w, rival_b) = self.halves[own], self.sums[own], self.sums[rival]
        table, (other_w, other_b) = self.tables[rival], self.halves[rival]
        size = np.linalg.norm(w, axis=1), table @ np.linalg.norm(other_w, axis=1)
        room = size[0] * reach + np.abs(b), size[1] * reach + table @ np.abs(other_b)
        return _Pieces(
            w,
            w @ x + b,
            own_w,
            own_w @ x + own_b,
            rival_w,
            rival_w @ x + rival_b,
            self.tables[own],
            not positive,
            *size,
            *room,
        )

    def enclose(self, x: Array, long: bool = False) -> tuple[float, float, float]:
        """Bounds of f(x) whatever the rounding, and the most that the rounding of the *weights* to float64
        could explain.

        Neurons that are surely off are 0 exactly. ``long`` takes the longest floats there are.
        """
        kind = np.longdouble if long else np.float64
        w, b, a = (part.astype(kind, copy=False) for part in self.whole)
        z, size = w @ x.astype(kind, copy=False) + b, np.abs(w) @ np.abs(x) + np.abs(b)
        slack = (w.shape[1] + 4) * np.finfo(kind).eps * size
        low, high = np.maximum(z - slack, 0), np.maximum(z + slack, 0)
        up, down = np.maximum(a, 0), np.minimum(a, 0)
        sums = (len(a) + 4) * np.finfo(kind).eps * float(np.abs(a) @ high)
        explained = 8 * np.finfo(np.float64).eps * float(np.abs(a) @ size)
        return float(up @ low + down @ high - sums), float(up @ high + down @ low + sums), float(explained)

    def sign(self, x: Array, exactly: bool = True) -> int | None:
        """Whether f(x) > 0 (1) or f(x) ≤ 0 (−1), by rational arithmetic where rounding could decide (None
        there unless ``exactly``)."""
        low, high, _ = self.enclose(x)
        if low > 0 or high <= 0:
            return 1 if low > 0 else -1
        if not exactly:
            return None
        return 1 if _rational(*self.whole, x) > 0 else -1


class _Fools:
    """Whether a step within the span changes the sign, tried on the network as it was given."""

    def __init__(self, whole: _Halves, x: Array, lift: Array, positive: bool) -> None:
        self.whole, self.x, self.lift, self.positive = whole, x, lift, positive

    def raised(self, step: Array) -> Array:
        """The step in the network's own coordinates."""
        lifted: Array = step @ self.lift
        return lifted

    def __call__(self, step: Array, exactly: bool = False) -> bool:
        moved = self.x + self.raised(step)
        if self.positive:
            return self.whole.sign(moved, exactly) == -1
        # An f > 0 that rounding explains is that of neurons which cancel: they are parallel.
        low, _, explained = self.whole.enclose(moved, long=exactly)
        return low > explained


def _rational(w: Array, b: Array, a: Array, x: Array) -> Fraction:
    """f(x) without rounding."""
    point, total = [Fraction(v) for v in x.tolist()], Fraction(0)
    for row, bias, out in zip(w.tolist(), b.tolist(), a.tolist(), strict=True):
        z = sum((Fraction(v) * at for v, at in zip(row, point, strict=True)), Fraction(bias))
        total += Fraction(out) * max(z, Fraction(0))
    return total


class _Solver(_Halves):
    """The pieces of one network in the span of its weights, shared by all points."""

    def __init__(self, net: TwoLayer) -> None:
        super().__init__(net)
        self.solved = 0

    def radius(self, x: Array, positive: bool, fools: _Fools) -> tuple[Array, Array]:
        """Perturbation (infinite if there is none) and certificate of one correctly classified point."""
        view, length = self.view(x, positive, float(np.linalg.norm(fools.x))), fools.whole.length(fools.x)
        certificate = np.zeros((2**self.count, self.count))
        # P < 0 has no point: for y = −1 the zero vector already excludes S = ∅.
        certificate[int(view.strict) : len(view.rival_sums), : len(view.own_at)] = view.own_at > 0
        bounds = _proved(view, certificate)
        best, delta, doubtful = np.inf, np.full(fools.lift.shape[1], np.inf), []
        for piece in np.argsort(bounds, kind="stable"):
            if bounds[piece] >= best:
                break
            step, weights = self._project(view, int(piece), float(bounds[piece]), length)
            self._improve(view, int(piece), weights, bounds, certificate)
            crossed = None if step is None else self._cross(view, int(piece), step, length, fools)
            if crossed is None:
                doubtful.append(int(piece))
            elif float(np.linalg.norm(crossed)) < best:
                best, delta = float(np.linalg.norm(crossed)), fools.raised(crossed)
        for piece in doubtful:
            if bounds[piece] < best:
                self._improve(view, piece, _emptiness(view, piece), bounds, certificate)
        return delta, certificate

    @staticmethod
    def _improve(view: _Pieces, piece: int, u: Array | None, bounds: Array, certificate: Array) -> None:
        """Keep the vector u of a piece if it proves more."""
        if u is not None:
            vectors = np.zeros_like(certificate)
            vectors[piece, : len(u)] = u
            proved = _proved(view, vectors, piece)[0]
            if proved > bounds[piece]:
                bounds[piece], certificate[piece] = proved, vectors[piece]

    def _project(
        self, view: _Pieces, piece: int, near: float, length: float, inset: float = 0.0
    ) -> tuple[Array | None, Array]:
        """The nearest point of K_S (None if none was found) by a quadratic programme, and the weights u.

        It is solved in units of ``near``, and of ``length`` if the answer turns out to be of another size.
        ``inset`` moves every face of K_S inwards.
        """
        rows = view.own_sums - view.rival_sums[piece]
        right = view.rival_sums_at[piece] - view.own_sums_at
        norm = np.linalg.norm(rows, axis=1)
        size, room = (
            view.table @ view.own_size + view.rival_size[piece],
            view.table @ view.own_room + view.rival_room[piece],
        )
        flat = norm <= PARALLEL * size
        cheap = (view.own_at > 0).astype(np.float64)
        against = np.flatnonzero(flat & (right < -PARALLEL * room))
        if len(against):
            return None, view.table[against[0]]
        if flat.all():
            return np.zeros(rows.shape[1]), cheap
        rows, right, norm = rows[~flat] / norm[~flat, None], right[~flat] / norm[~flat] - inset, norm[~flat]
        step, multipliers = None, np.zeros(len(norm))
        for unit in (near, length) if near > 0 else (length,):
            step, multipliers = self._programme(rows, right / unit)
            if step is not None and np.linalg.norm(step) < 1e4:
                break
        if step is None:
            return None, cheap
        weights = np.maximum(multipliers, 0) / norm
        return unit * step, weights @ view.table[~flat] / weights.sum() if weights.sum() > 0 else cheap

    def _programme(self, rows: Array, right: Array) -> tuple[Array | None, Array]:
        """min ‖δ‖² subject to rows·δ ≤ right, and the multipliers."""
        self.solved += 1
        size, low, kinds = rows.shape[1], np.full(len(right), -1e30), np.zeros(len(right), dtype=np.int32)
        step, _, flag, info = daqp.solve(
            np.eye(size), np.zeros(size), rows, right, low, kinds, primal_tol=1e-11, dual_tol=1e-13
        )
        return (None, np.zeros(len(right))) if flag < 0 else (np.asarray(step), np.asarray(info["lam"]))

    def _cross(self, view: _Pieces, piece: int, delta: Array, length: float, fools: _Fools) -> Array | None:
        """Move the nearest point of K_S by the little that f needs to be on the other side in spite of
        rounding; None if that cannot be had.

        Lengthening does it, unless the nearest point is a corner that the ray leaves again; then the piece is
        shrunk by a hair instead.
        """
        size = float(np.linalg.norm(delta))
        for exactly in (False, True):
            for stretch in (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, AGREE):
                if fools(delta * (1 + stretch), exactly):
                    return delta * (1 + stretch)
            for unit in (size, 1e-3 * length):
                for inset in (1e-11, 1e-10, 1e-9, 1e-8, 1e-7):
                    step = self._project(view, piece, unit, unit, inset * unit)[0] if unit > 0 else None
                    if step is not None and fools(step, exactly):
                        return step
        return None


def _proved(view: _Pieces, certificate: Array, piece: int | None = None) -> Array:
    """How far each K_S (or the one asked for) is at least, by the half-space of its vector u; infinite if u
    shows that nothing of it counts."""
    which = slice(0, len(view.rival_sums)) if piece is None else slice(piece, piece + 1)
    u = certificate[which, : len(view.own_at)]
    gap, normal = (
        u @ view.own_at - view.rival_sums_at[which],
        np.linalg.norm(u @ view.own - view.rival_sums[which], axis=1),
    )
    flat = normal <= PARALLEL * (u @ view.own_size + view.rival_size[which])
    level = PARALLEL * (u @ view.own_room + view.rival_room[which])
    empty = np.where(gap >= -level if view.strict else gap > level, np.inf, 0.0)
    return np.where(flat, empty, np.maximum(gap, 0.0) / np.where(flat, 1.0, normal))


def _emptiness(view: _Pieces, piece: int) -> Array | None:
    """The u ∈ [0,1]^m with Σ u_r ∇p_r = Σ_S ∇q_r and the largest gap: it decides whether any x has P < Σ_S q.
    None if there is no such u."""
    goal, size = (
        view.rival_sums[piece],
        max(float(view.own_size.max(initial=0.0)), float(view.rival_size[piece])),
    )
    if size == 0 or not len(view.own_at):
        return np.ones(len(view.own_at))
    room = max(float(np.abs(view.own_at).max()), 1e-300)
    found = linprog(
        -view.own_at / room, A_eq=view.own.T / size, b_eq=goal / size, bounds=(0, 1), method="highs-ds"
    )
    if found.x is None:
        return None
    u: Array = np.clip(found.x, 0.0, 1.0)
    free = (u > 1e-6) & (u < 1 - 1e-6)
    u = np.where(free, u, np.round(u))
    if free.any():
        # The solver's equality holds to 1e-7; with the neurons at a bound fixed, least squares makes it hold
        # to rounding.
        u[free] = np.clip(
            np.linalg.lstsq(view.own[free].T, goal - u[~free] @ view.own[~free], rcond=None)[0], 0.0, 1.0
        )
    return u


def lipschitz(net: TwoLayer) -> float:
    """An upper bound of ‖∇f‖ anywhere: ‖Σ c_r a_r w_r‖ with c ∈ [0,1]^N is at most √N · ‖diag(a) W‖₂."""
    scaled = net.a.abs()[:, None] * net.w
    norms = torch.linalg.matrix_norm(scaled, 2) * scaled.shape[0] ** 0.5
    return float(torch.minimum(norms, torch.linalg.vector_norm(scaled, dim=-1).sum()))


def bracket_radii(net: TwoLayer, x: Tensor, y: Tensor, attacked: Tensor) -> tuple[Tensor, Tensor]:
    """For networks beyond the limit: y f(x) / Lipschitz constant from below, the attacked radius from
    above."""
    margin, steepest = (y * forward(net, x)).clamp(min=0), lipschitz(net)
    # A constant f stays what it is: only sgn(0) = −1 is right without a margin.
    flat = torch.where((margin > 0) | ((y < 0) & (forward(net, x) <= 0)), torch.inf, 0.0).to(margin)
    return margin / steepest if steepest > 0 else flat, attacked
