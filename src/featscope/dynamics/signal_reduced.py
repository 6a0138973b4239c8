"""The strided recursion of CGRO's signal/noise model: its stages at any d, N and T in some hundred steps.

It is the exact recursion of `signal_descent` with two reductions.

*Strides.* Where little happens, one step stands for s steps of descent: a midpoint step of length s. s is
chosen so that neither max|u| nor max|v| moves by more than a share ``relative`` and no output by more than
five times that; where they move faster s is 1, and the step is descent's own.

*Followed points.* Points differ in their draw alone, so f of the N points are carried along, each standing
for N/f. The mean over points becomes the mean over these, and the products ⟨X_i[j], X_a[b]⟩ of different
patches, whose signs are independent, sum up to the root of that number: they enter as √(N/f) of them. With f
= N nothing is changed.

`tests/dynamics/test_reduced.py` measures the error of both against the exact recursion, which is descent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.dynamics.signal_descent import Objective
from featscope.dynamics.trajectory import Step
from featscope.laws.signal import SignalLaw


class StridedComponents(NamedTuple):
    """The state: u (m,), v and c (m, f(P−1)) of the f followed points, and the steps of descent made."""

    u: Tensor
    v: Tensor
    c: Tensor
    time: Tensor


class SignalReduction(NamedTuple):
    """(O) at a law: signed products K of the followed noise patches (f(P−1), f(P−1)), how many points are
    followed, and the stride's ``relative``."""

    law: SignalLaw
    objective: Objective
    gram: Tensor
    followed: int
    relative: float

    @property
    def share(self) -> float:
        """N/f, for how many points a followed one stands."""
        return self.objective.n / self.followed

    def met(self) -> Tensor:
        """K with its entries off the diagonal, patch against patch, times √(N/f)."""
        own = torch.diag(self.gram.diagonal())
        return own + math.sqrt(self.share) * (self.gram - own)

    def begin(self, u: Tensor, v: Tensor) -> StridedComponents:
        """The state at step 0."""
        return StridedComponents(u, v, torch.zeros_like(v), torch.zeros((), dtype=torch.float64))

    def _by_point(self, t: Tensor) -> Tensor:
        return t.view(len(t), self.followed, -1)

    def outputs(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """α³U and V_i (f,)."""
        return self.objective.cube * (u**3).sum(), self._by_point(v**3).sum((0, 2))

    def velocity(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The increments of u and c in one step of descent."""
        o = self.objective
        signal, noise = self.outputs(u, v)
        clean, attacked = torch.sigmoid(-(signal + noise)), torch.sigmoid(-(o.rho * signal + noise))
        pull = ((1 - o.lam) * clean + o.lam * o.rho * attacked).mean()
        mixed = (1 - o.lam) * clean + o.lam * attacked
        grown = 3 * o.eta / o.n * mixed[None, :, None] * self._by_point(v**2)
        return 3 * o.eta * o.cube * pull * u**2, grown.view_as(v)

    def stride(self, u: Tensor, v: Tensor, up: Tensor, moved: Tensor) -> float:
        """How many steps of descent one step may stand for, where u and v move by ``up`` and ``moved`` in
        one."""
        output = torch.maximum(
            3 * self.objective.cube * (u**2 * up).sum().abs(),
            3 * self._by_point(v**2 * moved).sum((0, 2)).abs().max(),
        )
        rate = max(
            float(up.abs().max() / u.abs().max()),
            float(moved.abs().max() / v.abs().max()),
            float(output) / 5,
        )
        return max(1.0, math.floor(self.relative / max(rate, 1e-300)))

    def step(self, horizon: float) -> Step[StridedComponents]:
        """One strided step; none goes beyond ``horizon`` steps of descent, after which the state rests."""
        met = self.met()

        def step(state: StridedComponents, t: int) -> StridedComponents:
            u, v, c, time = state
            up, grown = self.velocity(u, v)
            moved = grown @ met
            s = min(self.stride(u, v, up, moved), horizon - float(time))
            if s > 1:
                up, grown = self.velocity(u + s / 2 * up, v + s / 2 * moved)
                moved = grown @ met
            return StridedComponents(u + s * up, v + s * moved, c + s * grown, time + s)

        return step

    def weight_gram(self, state: StridedComponents, first: Tensor, init_scale: float) -> Tensor:
        """(m, m): ⟨w_r, w_r'⟩ off the signal, where ``first`` is v at the start; sums over points, and those
        over pairs of points with independent signs, are N/f of those over the followed ones."""
        half = state.c @ (first + state.c @ self.gram / 2).mT
        eye = torch.eye(len(state.u), dtype=state.u.dtype)
        return init_scale**2 * self.law.d * eye + self.share * (half + half.mT)

    def fresh_noise(self, gram: Tensor, normals: Tensor) -> Tensor:
        """V of fresh points (t,): the products of their noise with the weights are ``normals`` (t, P−1, m) of
        covariance σ²·gram."""
        seen = normals @ lower_factor(gram).mT
        return self.law.noise_scale**3 * (seen**3).sum((-2, -1))


def lower_factor(gram: Tensor) -> Tensor:
    """L with L Lᵀ = gram, column by column; a pivot that rounding has made negative counts as 0."""
    size, factor = len(gram), torch.zeros_like(gram)
    for j in range(size):
        rest = gram[j:, j] - factor[j:, :j] @ factor[j, :j]
        pivot = math.sqrt(max(float(rest[0]), 0.0))
        factor[j:, j] = rest / pivot if pivot > 0 else 0.0
    return factor


def radius_along_signal(signal: Tensor, noise: Tensor, alpha: float) -> Tensor:
    """How far each point must move along w* until α³(1−s)³U + V = 0: α s = α (1 + (V/α³U)^⅓); needs U > 0."""
    ratio = noise / signal
    return alpha * (1 + ratio.sign() * ratio.abs() ** (1 / 3))
