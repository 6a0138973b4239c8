"""Training on objective (O) of CGRO §3.3: gradient descent, and the exact recursions of its signal and noise
components.

With ψ(z) = 1/(1 + e^z), s = α³U and ρ = (1−γ)³ descent on (O) with the attack (A) moves

    u_r    ← u_r + 3ηα³ u_r² · mean_i[(1−λ) ψ(s + V_i) + λρ ψ(ρs + V_i)]
    v_ijr  ← v_ijr + (3η/N) Σ_ab y_i y_a ⟨X_i[j], X_a[b]⟩ ψ̃_a v_abr²
    ψ̃_a    = (1−λ) ψ(s + V_a) + λ ψ(ρs + V_a)

where u_r = ⟨w_r, w*⟩, v_ijr = y_i⟨w_r, X_i[j]⟩, U = Σ u_r³ and V_i = Σ_jr v_ijr³ (§4.3; the printed gradient
drops the y_i). The weights are recovered from w_r = w_r(0) + (u_r − u_r(0)) w* + Σ_ij c_ijr y_i X_i[j], where
c sums (3η/N) ψ̃ v².
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.attacks.ascent import Seen, ascend, stepping
from featscope.attacks.threat import Threat
from featscope.dynamics.trajectory import Step
from featscope.laws.signal import Instance, SignalLaw
from featscope.nets.cubic_cnn import input_gradient, output, patch_pullback, weight_pullback

Perturb = Callable[[Tensor, Tensor, Tensor], Tensor]


class Components(NamedTuple):
    """The recursion's state, runs along the first axis: u (R, m), v and c (R, m, N(P−1)).

    ``slack`` sums mean_i ψ(ρs + V_i) over the steps (Lemma C.10). ``signal_at`` is the first step with α³U ≥
    1, ``memorised_at`` (R, N) the first with V_i ≥ 1; −1 stands for not yet.
    """

    u: Tensor
    v: Tensor
    c: Tensor
    slack: Tensor
    signal_at: Tensor
    memorised_at: Tensor


class StepRates(NamedTuple):
    """The numbers of one step: α³U, V_i, ψ of the clean and of the attacked margins, ψ̃."""

    signal: Tensor
    noise: Tensor
    clean: Tensor
    attacked: Tensor
    mixed: Tensor


class Objective(NamedTuple):
    """(O) with the attack (A): α³, ρ = (1−γ)³, η, λ and N; ρ may be one number a run, (R, 1)."""

    cube: float
    rho: float | Tensor
    eta: float
    lam: float
    n: int

    @staticmethod
    def of(law: SignalLaw, n: int, learning_rate: float, tradeoff: float) -> Objective:
        """The objective for a law."""
        return Objective(law.strength**3, law.residual**3, learning_rate, tradeoff, n)

    def rates(self, u: Tensor, v: Tensor, squares: Tensor | None = None) -> StepRates:
        """α³U, V and the ψ's at given components; ``squares`` is v² where it is known already."""
        squares = v * v if squares is None else squares
        signal = self.cube * (u * u * u).sum(-1)
        noise = (squares * v).view(*v.shape[:2], self.n, -1).sum((1, 3))
        clean = torch.sigmoid(-(signal[:, None] + noise))
        attacked = torch.sigmoid(-(self.rho * signal[:, None] + noise))
        return StepRates(signal, noise, clean, attacked, torch.lerp(clean, attacked, self.lam))

    def loss(self, u: Tensor, v: Tensor) -> Tensor:
        """The value of (O)."""
        r = self.rates(u, v)
        plus = torch.nn.functional.softplus
        clean, attacked = (
            plus(-(r.signal[:, None] + r.noise)),
            plus(-(self.rho * r.signal[:, None] + r.noise)),
        )
        return ((1 - self.lam) * clean + self.lam * attacked).mean(-1)

    def growth(self, u: Tensor, squares: Tensor, rates: StepRates) -> tuple[Tensor, Tensor]:
        """The increments of u and c in one step, from v²."""
        pull = ((1 - self.lam) * rates.clean + (self.lam * self.rho) * rates.attacked).mean(-1)
        up = (3 * self.eta * self.cube) * pull[:, None] * (u * u)
        each = squares.view(*squares.shape[:2], self.n, -1)
        return up, ((3 * self.eta / self.n) * rates.mixed[:, None, :, None] * each).view_as(squares)


class Kernel(NamedTuple):
    """What the recursion needs of an instance: K = (y_i y_a ⟨X_i[j], X_a[b]⟩), the initial components and the
    signed noise."""

    gram: Tensor
    u0: Tensor
    v0: Tensor
    noise: Tensor

    @staticmethod
    def of(instance: Instance) -> Kernel:
        """Reduce an instance with a leading axis of runs to its inner products."""
        train, w = instance
        noise = (train.y[..., None, None] * train.noise()).flatten(-3, -2)
        return Kernel(noise @ noise.mT, w[..., 0].contiguous(), w @ noise.mT, noise)

    def start(self, n: int) -> Components:
        """The state at step 0."""
        runs = self.u0.shape[0]
        never = torch.full((runs, n), -1, dtype=torch.long, device=self.u0.device)
        return Components(
            self.u0,
            self.v0,
            torch.zeros_like(self.v0),
            torch.zeros_like(self.u0[:, 0]),
            never[:, 0].clone(),
            never,
        )

    def weights(self, w0: Tensor, state: Components) -> Tensor:
        """w_r = w_r(0) + (u_r − u_r(0)) w* + Σ c_ijr y_i X_i[j]."""
        w = w0 + state.c @ self.noise
        w[..., 0] = state.u
        return w


def recursion_step(kernel: Kernel, objective: Objective) -> Step[Components]:
    """One step of both recursions; crossing times are noted as they happen."""

    def step(state: Components, t: int) -> Components:
        squares = state.v * state.v
        rates = objective.rates(state.u, state.v, squares)
        up, grown = objective.growth(state.u, squares, rates)
        return Components(
            state.u + up,
            torch.baddbmm(state.v, grown, kernel.gram),
            state.c + grown,
            state.slack + rates.attacked.mean(-1),
            torch.where((state.signal_at < 0) & (rates.signal >= 1), t, state.signal_at),
            torch.where((state.memorised_at < 0) & (rates.noise >= 1), t, state.memorised_at),
        )

    return step


class CubicWeights(NamedTuple):
    """Descent's state: the weights (…, m, d)."""

    w: Tensor


def descent_step(
    x: Tensor, y: Tensor, eta: float, lam: float, perturb: Perturb | Tensor
) -> Step[CubicWeights]:
    """w ← w − η ∇(O) in closed form. ``perturb(w, x, y)`` gives the attacked points; a fixed attack such as
    (A) may give them as a tensor."""
    if isinstance(perturb, Tensor):
        return _fixed_descent(x, y, eta, lam, perturb)
    n, labels = y.shape[-1], torch.cat([y, y], -1)
    scale = torch.tensor([1 - lam, lam], dtype=x.dtype, device=x.device).repeat_interleave(n) / n

    def step(state: CubicWeights, t: int) -> CubicWeights:
        f, pull = weight_pullback(state.w, torch.cat([x, perturb(state.w, x, y)], -3))
        return CubicWeights(state.w - eta * pull(_slope(f, labels) * scale))

    return step


def _slope(f: Tensor, y: Tensor) -> Tensor:
    """∂ log(1 + e^{−yf}) / ∂f."""
    return -y * torch.sigmoid(-y * f)


def _fixed_descent(x: Tensor, y: Tensor, eta: float, lam: float, attacked: Tensor) -> Step[CubicWeights]:
    """The same where the attacked points are known: a patch that the attack leaves alone is met once, and
    weighs in both losses."""
    n, (points, patches) = y.shape[-1], x.shape[-3:-1]
    count, shape = points * patches, (*y.shape[:-1], points, patches)
    moved = (x != attacked).any(-1).flatten(-2)
    # All runs hold as many rows as the run with the most moved patches; where one has fewer, the rest are
    # patches that stay, told twice with the same numbers.
    most = int(moved.sum(-1).max())
    chosen = torch.argsort(moved.to(torch.int8), dim=-1, descending=True, stable=True)[..., :most]
    moved = torch.zeros_like(moved).scatter(-1, chosen, True)
    wide = chosen[..., None].expand(*chosen.shape, x.shape[-1])
    rows = torch.cat([x.flatten(-3, -2), attacked.flatten(-3, -2).gather(-2, wide)], -2)

    def step(state: CubicWeights, t: int) -> CubicWeights:
        values, pull = patch_pullback(state.w, rows)
        own, other = values.narrow(-1, 0, count), values.narrow(-1, count, most)
        at_x = own.reshape(shape).sum(-1)
        at_attacked = own.scatter(-1, chosen, other).view(shape).sum(-1)
        clean = (_slope(at_x, y) * ((1 - lam) / n)).repeat_interleave(patches, -1)
        worse = (_slope(at_attacked, y) * (lam / n)).repeat_interleave(patches, -1)
        weights = torch.cat([clean + worse.masked_fill(moved, 0.0), worse.gather(-1, chosen)], -1)
        return CubicWeights(state.w - eta * pull(weights))

    return step


class RoutePair(NamedTuple):
    """The recursion's components and descent's weights, side by side."""

    u: Tensor
    v: Tensor
    c: Tensor
    w: Tensor


def both_routes(
    recursion: Step[Components], start: Components, descent: Step[CubicWeights]
) -> Step[RoutePair]:
    """Step both dynamics, so that one trajectory compares them; the recursion's sums and times, of which its
    steps do not depend, stay those of ``start``."""

    def step(state: RoutePair, t: int) -> RoutePair:
        stepped = recursion(start._replace(u=state.u, v=state.v, c=state.c), t)
        return RoutePair(stepped.u, stepped.v, stepped.c, descent(CubicWeights(state.w), t).w)

    return step


def weakened(batch_x: Tensor, residual: float) -> Tensor:
    """The points after the attack (A) with the linear target: the component along w* shrinks to its
    (1−γ)-fold."""
    shrunk = batch_x.clone()
    shrunk[..., 0] *= residual
    return shrunk


def steepest_ball(radius: float, steps: int) -> Perturb:
    """FGSM (one step) or PGD over the ℓ2 ball against the current network: what §7 leaves as future work.

    Ascent on the logistic loss from the point itself with normalised gradient steps of 2.5·δ/steps (δ for one
    step).
    """

    size = radius if steps == 1 else 2.5 * radius / steps
    move = stepping(Threat("L2", radius, event=2), lambda _: size)

    def perturb(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        def look(points: Tensor, labels: Tensor) -> Seen:
            # The loss falls with y·f, so ascent follows −y ∇f; its length does not matter for a normalised
            # step.
            score = -labels * output(w, points)
            return Seen(score, lambda: score, lambda: input_gradient(w, points, -labels))

        return x + ascend(look, move, torch.zeros_like(x), steps, None, x, y)

    return perturb
