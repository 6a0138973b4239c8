"""Exact ℓ2 distance to the decision boundary of a two-layer ReLU network, with a certificate.

Write f = P − Q with P = Σ_r ReLU(p_r), Q = Σ_r ReLU(q_r) over the positive and the negative neurons (output weights absorbed). A sum of
ReLUs is a maximum over subsets, Q = max_S Σ_{r∈S} q_r, so a point of class y = +1 is misclassified exactly on the union of the convex sets

    K_S = {x : P(x) ≤ Σ_{r∈S} q_r(x)},    S ⊆ neurons of the other class (2^m sets),

and K_S is the polyhedron Σ_{r∈U} p_r ≤ Σ_{r∈S} q_r over all U. Its distance is a small convex quadratic programme in the span of the
weights. FA sets sgn(0) = −1: for y = +1 the set {f ≤ 0} counts, S = ∅ included; for y = −1 (roles of P and Q swapped) the
closure of {f > 0}, S = ∅ excluded.

Certificate of a lower bound: for every S a vector u ∈ [0,1]^m. On K_S, Σ u_r p_r ≤ P ≤ Σ_S q_r, a half-space, so that every
point of K_S is at least (Σ u_r p_r(x) − Σ_S q_r(x)) / ‖Σ u_r ∇p_r − Σ_S ∇q_r‖ away; the smallest of these numbers bounds the radius.
Certificate of the upper bound: the perturbation itself.
"""

from __future__ import annotations

from typing import NamedTuple

import daqp
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from featscope.core.errors import BadInput
from featscope.nets.two_layer import TwoLayer, forward, in_span

Array = NDArray[np.float64]

#: Largest number of neurons a class: 2^m pieces with 2^m constraints each.
LIMIT = 10
#: A quadratic programme is accepted when its perturbation and its certificate agree to this relative accuracy.
AGREE = 1e-6


class Radii(NamedTuple):
    """For each point the distance bracketed by ``lower`` ≤ radius ≤ ``upper`` = ‖delta‖, and the certificate u (n, 2^m, m) of ``lower``.

    ``correct`` says which points are classified correctly (the others have radius 0); the subset S number s holds neuron r
    of the other class exactly when bit r of s is set.
    """

    lower: Tensor
    upper: Tensor
    delta: Tensor
    certificate: Tensor
    correct: Tensor
    solved: int


class _Pieces(NamedTuple):
    """One point's view of the network: own neurons p, rival neurons q, absorbed output weights, subset sums of both."""

    own: Array  # (m, D) ∇p
    own_at: Array  # (m,) p(x)
    own_sums: Array  # (2^m, D)
    own_sums_at: Array
    rival_sums: Array  # (2^m', D)
    rival_sums_at: Array


def subsets(count: int) -> Array:
    """(2^count, count) 0/1 rows: the bits of 0 … 2^count − 1, lowest first."""
    numbers = np.arange(2**count)[:, None]
    return ((numbers >> np.arange(count)) & 1).astype(np.float64)


def exact_radii(net: TwoLayer, x: Tensor, y: Tensor) -> Radii:
    """The ℓ2 radii of the points x with labels ±1. Points at which the network is wrong have radius 0."""
    widest = int(max(net.positive.sum(), (~net.positive).sum()))
    if widest > LIMIT:
        raise BadInput("the exact radius enumerates 2^m pieces", f"m={widest}", f"use at most {LIMIT} neurons a class, or bracket_radii")
    small, points, basis = in_span(TwoLayer(*(t.double() for t in net)), x.double())
    f = forward(small, points)
    correct = torch.where(y > 0, f > 0, f <= 0)
    solver = _Solver(small)
    lower, upper = np.zeros(len(y)), np.zeros(len(y))
    delta, certificate = np.zeros(points.shape), np.zeros((len(y), 2**solver.count, solver.count))
    for i in np.flatnonzero(correct.numpy()):
        lower[i], delta[i], certificate[i] = solver.radius(points[i].numpy(), bool(y[i] > 0))
        upper[i] = float(np.linalg.norm(delta[i]))
    found = torch.from_numpy(delta) @ basis
    back = (torch.from_numpy(lower), torch.from_numpy(upper), found, torch.from_numpy(certificate))
    return Radii(*back, correct, solver.solved)


class _Solver:
    """The pieces of one network, shared by all points."""

    def __init__(self, net: TwoLayer) -> None:
        w, b = (net.a.abs()[:, None] * net.w).numpy(), (net.a.abs() * net.b).numpy()
        plus = net.positive.numpy()
        self.halves = [(w[plus], b[plus]), (w[~plus], b[~plus])]
        self.tables = [subsets(len(half[1])) for half in self.halves]
        self.sums = [(table @ half[0], table @ half[1]) for table, half in zip(self.tables, self.halves)]
        self.count = max(len(half[1]) for half in self.halves)
        self.solved = 0

    def _view(self, x: Array, positive: bool) -> _Pieces:
        own, rival = (0, 1) if positive else (1, 0)
        (w, b), (own_w, own_b), (rival_w, rival_b) = self.halves[own], self.sums[own], self.sums[rival]
        return _Pieces(w, w @ x + b, own_w, own_w @ x + own_b, rival_w, rival_w @ x + rival_b)

    def radius(self, x: Array, positive: bool) -> tuple[float, Array, Array]:
        """Lower bound, perturbation and certificate of one correctly classified point."""
        view = self._view(x, positive)
        first = 0 if positive else 1
        cheap = (view.own_at > 0).astype(np.float64)
        bounds = _halfspace(cheap @ view.own_at - view.rival_sums_at, cheap @ view.own - view.rival_sums)
        bounds[:first] = np.inf
        certificate = np.zeros((2**self.count, self.count))
        certificate[:, : len(cheap)] = cheap
        best, delta, nearest = np.inf, np.zeros_like(x), 0
        for piece in np.argsort(bounds):
            if bounds[piece] >= best:
                break
            step, weights = self._project(view, int(piece), float(bounds[piece]) or 1.0 + float(np.linalg.norm(x)))
            gap = weights @ view.own_at - view.rival_sums_at[piece]
            proved = _halfspace(np.array([gap]), (weights @ view.own - view.rival_sums[piece])[None])[0]
            if proved > bounds[piece]:
                bounds[piece], certificate[piece, : len(weights)] = proved, weights
            size = float(np.linalg.norm(step)) if step is not None else np.inf
            if step is not None and size < best:
                best, delta, nearest = size, step, int(piece)
        if not np.isfinite(best):
            return np.inf, np.full_like(x, np.inf), certificate
        return float(min(bounds.min(), best)), self._cross(view, nearest, x, delta, positive), certificate

    def _project(self, view: _Pieces, piece: int, scale: float, inset: float = 0.0) -> tuple[Array | None, Array]:
        """The nearest point of K_S (None if K_S is empty) by a quadratic programme in units of ``scale``, and the weights u.

        ``inset`` moves every face of K_S inwards by that many units.
        """
        rows = view.own_sums - view.rival_sums[piece]
        right = view.rival_sums_at[piece] - view.own_sums_at
        norm = np.linalg.norm(rows, axis=1)
        flat = norm <= 1e-14 * max(float(norm.max()), 1e-300)
        table = self.tables[0 if view.own is self.halves[0][0] else 1]
        if (flat & (right < 0)).any():
            return None, table[int(np.flatnonzero(flat & (right < 0))[0])]
        rows, right, kept = rows[~flat] / norm[~flat, None], right[~flat] / norm[~flat] / scale - inset, np.flatnonzero(~flat)
        self.solved += 1
        size = rows.shape[1]
        step, _, flag, info = daqp.solve(
            np.eye(size), np.zeros(size), rows, right, np.full(len(right), -1e30), np.zeros(len(right), dtype=np.int32),
            primal_tol=1e-11, dual_tol=1e-13,
        )  # fmt: skip
        cheap = (view.own_at > 0).astype(np.float64)
        if flag < 0:
            return None, cheap
        multipliers = np.zeros(len(norm))
        multipliers[kept] = np.maximum(info["lam"], 0) / norm[~flat]
        total = multipliers.sum()
        return scale * np.asarray(step), multipliers @ table / total if total > 0 else cheap

    def _cross(self, view: _Pieces, piece: int, x: Array, delta: Array, positive: bool) -> Array:
        """Move the nearest point of K_S by the little that f needs to be on the other side in spite of rounding.

        Lengthening does it, unless the nearest point is a corner that the ray leaves again; then the piece is shrunk by a hair instead.
        """
        for stretch in (1e-13, 1e-12, 1e-11, 1e-10, 1e-9):
            if self._flipped(x + delta * (1 + stretch), positive):
                return delta * (1 + stretch)
        for inset in (1e-11, 1e-10, 1e-9, 1e-8, 1e-7):
            step, _ = self._project(view, piece, float(np.linalg.norm(delta)), inset)
            if step is not None and self._flipped(x + step, positive):
                return step
        return delta * (1 + AGREE)

    def _flipped(self, x: Array, positive: bool) -> bool:
        """Whether f(x) is on the other side by more than rounding."""
        z = [w @ x + b for w, b in self.halves]
        f, noise = np.maximum(z[0], 0).sum() - np.maximum(z[1], 0).sum(), 1e-14 * sum(float(np.abs(part).sum()) for part in z)
        if not positive:
            return bool(f > noise)
        # f = 0 counts as well where no positive neuron is active: there P is 0 without rounding.
        return bool(f <= -noise) or bool(z[0].max() <= -noise)


def _halfspace(gap: Array, normal: Array) -> Array:
    """Distance to {⟨normal, δ⟩ ≤ −gap}: gap₊/‖normal‖, infinite where the half-space is empty."""
    size = np.linalg.norm(normal, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap <= 0, 0.0, np.where(size > 0, gap / size, np.inf))


def lipschitz(net: TwoLayer) -> float:
    """An upper bound of ‖∇f‖ anywhere: ‖Σ c_r a_r w_r‖ with c ∈ [0,1]^N is at most √N · ‖diag(a) W‖₂."""
    scaled = net.a.abs()[:, None] * net.w
    norms = torch.linalg.matrix_norm(scaled, 2) * scaled.shape[0] ** 0.5
    return float(torch.minimum(norms, torch.linalg.vector_norm(scaled, dim=-1).sum()))


def bracket_radii(net: TwoLayer, x: Tensor, y: Tensor, attacked: Tensor) -> tuple[Tensor, Tensor]:
    """For networks beyond the limit: y f(x) / Lipschitz constant from below, the attacked radius from above."""
    margin = (y * forward(net, x)).clamp(min=0)
    return margin / lipschitz(net), attacked
