"""The true inner maximum of AT §2.5 for the loss −F_y: the least F_y over the ℓ∞ ball, with a duality gap.

σ̃ is convex and non-decreasing, so δ ↦ F_y(X + δ) is convex, and it is a sum over patches, each with its own
δ_p: min over ‖δ_p‖∞ ≤ ε of g(δ_p) = Σ_r σ̃(⟨w_yr, x_p + δ_p⟩). Tangents bound g from below, and over the box
that bound is g(δ) − (⟨∇g, δ⟩ + ε‖∇g‖₁): the bracket is the duality gap, whatever δ came from.

The minimum is found by a primal-dual interior point method on g + (λ/2)‖δ‖², all patches at once. λ falls
with the tolerance; among many minimisers it picks the one of least norm. The Hessian is a diagonal and m
neurons, so a step costs an m × m system.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.errors import require, require_positive
from featscope.core.losses import own
from featscope.nets.activations import smoothed_relu, smoothed_relu_curvature, smoothed_relu_slope
from featscope.nets.patch_cnn import PatchNet

#: how near to the boundary a step may go, and by how much the barrier falls after a good one
TO_THE_BOUNDARY, FALL = 0.99, 0.15
#: a step counts as good from this length on
GOOD_STEP = 0.3
#: the barrier ends at this share of the pull towards 0, so that the pull chooses among minimisers
LAST_BARRIER = 0.01
SUFFICIENT, ROUNDING, HALVINGS = 1e-4, 1e-13, 12


class InnerMinimum(NamedTuple):
    """Δ (…, N, P, d), F_y(X + Δ), a certified lower bound on the minimum, and F_y(X), each (…, N)."""

    delta: Tensor
    value: Tensor
    lower: Tensor
    start: Tensor

    @property
    def relative_gap(self) -> Tensor:
        """(F_y(X + Δ) − lower) ÷ F_y(X); 0 where F_y(X) is 0, which nothing can lower."""
        return relative(self.value - self.lower, self.start)


def relative(amount: Tensor, start: Tensor) -> Tensor:
    """An amount of F_y in units of F_y(X); 0 where that is 0."""
    return torch.where(start > 0, amount / start, torch.zeros_like(start))


class _Patches(NamedTuple):
    """The problems of B points: pre-activations z (B, P, m) at X, weights of the own class on the free
    coordinates (B, m, d), the pull λ (B, 1, 1), and the activation."""

    z: Tensor
    w: Tensor
    pull: Tensor
    eps: float
    q: int
    rho: float

    def take(self, index: Tensor) -> _Patches:
        return self._replace(z=self.z[index], w=self.w[index], pull=self.pull[index])

    def at(self, delta: Tensor) -> Tensor:
        return self.z + delta @ self.w.mT

    def value(self, delta: Tensor) -> Tensor:
        """g of each patch, (B, P)."""
        return smoothed_relu(self.at(delta), self.q, self.rho).sum(-1)

    def gradient(self, delta: Tensor) -> Tensor:
        return smoothed_relu_slope(self.at(delta), self.q, self.rho) @ self.w

    def gap(self, delta: Tensor) -> Tensor:
        """⟨∇g, δ⟩ + ε‖∇g‖₁, at most g itself because 0 is a bound, too; (B, P)."""
        gradient = self.gradient(delta)
        linear = (gradient * delta).sum(-1) + self.eps * gradient.abs().sum(-1)
        return torch.minimum(linear, self.value(delta))

    def merit(self, delta: Tensor, barrier: Tensor) -> Tensor:
        """What a step lowers: g + (λ/2)‖δ‖² − μ Σ log(ε² − δ²), (B, P)."""
        pull = 0.5 * self.pull[..., 0] * delta.square().sum(-1)
        room = torch.log(self.eps - delta) + torch.log(self.eps + delta)
        return self.value(delta) + pull - barrier * room.sum(-1)


class _Path(NamedTuple):
    """Where the method is: δ, multipliers of δ ≤ ε and of δ ≥ −ε (B, P, d), and the barrier μ (B, P)."""

    delta: Tensor
    upper: Tensor
    lower: Tensor
    barrier: Tensor

    def take(self, index: Tensor) -> _Path:
        return _Path(*(part[index] for part in self))


def inner_minimum(
    net: PatchNet,
    x: Tensor,
    y: Tensor,
    eps: float,
    *,
    free: Tensor | None = None,
    tolerance: float = 1e-8,
    iterations: int = 100,
) -> InnerMinimum:
    """Minimise F_y(X + Δ) over ‖Δ‖∞ ≤ eps; ``free`` lists the coordinates of a patch that may move, all if
    None.

    Stops where every point's gap is at most ``tolerance`` times F_y(X), or after ``iterations``: the gap says
    how far it came.
    """
    require_positive("eps", eps)
    require_positive("tolerance", tolerance)
    require(x.dtype == torch.float64, "the inner minimum needs float64", str(x.dtype), "use x.double()")
    z, w = _own_problem(net, x, y)
    start = smoothed_relu(z, net.q, net.rho).sum((-1, -2))
    columns = torch.arange(x.shape[-1], device=x.device) if free is None else free
    share = (tolerance * start / (z.shape[-2] * len(columns) * eps**2))[:, None, None]
    problem = _Patches(z, w[..., columns], share, eps, net.q, net.rho)
    moved = _solve(problem, start, tolerance, iterations)
    gap, value = problem.gap(moved).sum(-1), problem.value(moved).sum(-1)
    delta = torch.zeros_like(x)
    delta[..., columns] = moved.view(*x.shape[:-1], -1)
    return InnerMinimum(delta, *(t.view(y.shape) for t in (value, (value - gap).clamp(min=0), start)))


def own_output(net: PatchNet, x: Tensor, y: Tensor) -> Tensor:
    """F_y(X), (…, N)."""
    return own(net(x), y)


def _own_problem(net: PatchNet, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Pre-activations (B, P, m) and weights (B, m, d) of each point's own class, all runs side by side."""
    width, d = net.w.shape[-2:]
    wide = y[..., None, None].expand(*y.shape, width, d)
    w = net.w.expand(*x.shape[:-3], *net.w.shape[-3:]).gather(-3, wide).reshape(-1, width, d)
    points = x.reshape(-1, *x.shape[-2:])
    return points @ w.mT, w


def _solve(problem: _Patches, start: Tensor, tolerance: float, iterations: int) -> Tensor:
    """δ of all points; those that are done are left alone."""
    count, patches, d = len(start), problem.z.shape[1], problem.w.shape[-1]
    found = problem.z.new_zeros(count, patches, d)
    index = (start > 0).nonzero()[:, 0]
    now, allowed = problem.take(index), (tolerance * start)[index]
    barrier = (start[index] / (2 * d * patches))[:, None].expand(-1, patches).clone()
    side = (barrier / problem.eps)[..., None].expand(-1, -1, d).clone()
    path = _Path(now.z.new_zeros(len(index), patches, d), side, side.clone(), barrier)
    for _ in range(iterations):
        last = LAST_BARRIER * now.pull[..., 0] * problem.eps**2
        done = (now.gap(path.delta).sum(-1) <= allowed) & (path.barrier <= last).all(-1)
        if bool(done.all()):
            break
        if float(done.double().mean()) > GOOD_STEP:
            found[index[done]] = path.delta[done]
            left = (~done).nonzero()[:, 0]
            index, now, path, allowed = index[left], now.take(left), path.take(left), allowed[left]
            last = last[left]
        path = _advance(now, path, last)
    found[index] = path.delta
    return found


def _advance(problem: _Patches, path: _Path, last: Tensor) -> _Path:
    """One Newton step on the perturbed optimality conditions, shortened until it descends; then a smaller
    barrier."""
    delta, upper, lower, barrier = path
    above, below = problem.eps - delta, problem.eps + delta
    mu = barrier[..., None]
    descent = problem.gradient(delta) + problem.pull * delta + mu / above - mu / below
    step = -_newton(problem, delta, problem.pull + upper / above + lower / below, descent)
    up, down = mu / above - upper + upper / above * step, mu / below - lower - lower / below * step
    length = torch.minimum(_room(above, -step), _room(below, step))
    length = _shortened(problem, delta, barrier, step, (descent * step).sum(-1), length)
    dual = torch.minimum(_room(upper, up), _room(lower, down))[..., None]
    delta = delta + length[..., None] * step
    upper, lower = upper + dual * up, lower + dual * down
    left = (upper * (problem.eps - delta) + lower * (problem.eps + delta)).mean(-1) / 2
    smaller = torch.maximum(torch.minimum(FALL * left, barrier), last)
    return _Path(delta, upper, lower, torch.where(length > GOOD_STEP, smaller, barrier))


def _newton(problem: _Patches, delta: Tensor, diagonal: Tensor, right: Tensor) -> Tensor:
    """(D + Wᵀ S W)⁻¹ right with S = diag σ̃'', by a system of the neurons' size."""
    root = diagonal.sqrt()
    bend = smoothed_relu_curvature(problem.at(delta), problem.q, problem.rho).sqrt()
    rows = problem.w[:, None] * bend[..., None] / root[..., None, :]
    small = rows @ rows.mT
    small.diagonal(dim1=-2, dim2=-1).add_(1)
    scaled = right / root
    inner = torch.cholesky_solve(rows @ scaled[..., None], torch.linalg.cholesky(small))
    return (scaled - (rows.mT @ inner)[..., 0]) / root


def _room(value: Tensor, change: Tensor) -> Tensor:
    """The longest step at most 1 that keeps value + step·change well above 0, (B, P)."""
    longest = torch.where(change < 0, -value / change, torch.full_like(value, torch.inf)).amin(-1)
    return (TO_THE_BOUNDARY * longest).clamp(max=1)


def _shortened(
    problem: _Patches, delta: Tensor, barrier: Tensor, step: Tensor, slope: Tensor, length: Tensor
) -> Tensor:
    """Halve the steps of those patches whose merit does not fall enough."""
    before = problem.merit(delta, barrier)
    for _ in range(HALVINGS):
        after = problem.merit(delta + length[..., None] * step, barrier)
        rises = after > before + SUFFICIENT * length * slope + ROUNDING * before.abs()
        if not bool(rises.any()):
            break
        length = torch.where(rises, 0.5 * length, length)
    return length
