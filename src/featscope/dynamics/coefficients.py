"""AT's recursions for the coefficients of the weights, without any vector of dimension d (Lemmas D.2, D.4 and D.16 to D.18).

On noiseless data the weights are w_ir = Σ_j (U_irj u_j + V_irj v_j) + Σ_ys E_irys P_F^⊥ w_ys(0). The diagonals of U and V are the paper's A and
B, the rest its C and D. The only trace of d is the law of the initial coefficients and of the Gram matrix of the P_F^⊥ w_ys(0), both
drawn in law, so d = 10⁹ costs what d = 100 does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.core.losses import CROSS_ENTROPY
from featscope.dynamics.trajectory import Step
from featscope.laws.patches import PatchBatch
from featscope.nets.activations import smoothed_relu, smoothed_relu_slope
from featscope.nets.patch_cnn import PatchNetSpec


class Latents(NamedTuple):
    """Noiseless data as coefficients: label y (n), and for each group of equal patches its kind, amplitude and count (n, g)."""

    y: Tensor
    robust: Tensor
    amplitude: Tensor
    count: Tensor
    classes: int

    def coordinates(self) -> tuple[Tensor, Tensor]:
        """Coordinates along u and along v, each (n, g, k)."""
        own = torch.nn.functional.one_hot(self.y, self.classes).to(self.amplitude)[:, None, :]
        signal = self.amplitude[..., None] * own
        zero = torch.zeros_like(signal)
        kind = self.robust[..., None]
        return torch.where(kind, signal, zero), torch.where(kind, zero, signal)


def latents(batch: PatchBatch, classes: int) -> Latents:
    """Forget the vectors of a noiseless batch; equal patches are merged when every point has the same groups."""
    y, robust, amplitude = batch.y, batch.robust, batch.amplitude
    order = torch.argsort(robust.to(torch.int64), dim=-1, descending=True, stable=True)
    robust, amplitude = robust.gather(-1, order), amplitude.gather(-1, order)
    same = bool((robust == robust[:1]).all()) and all(
        bool((a == a[:, :1]).all()) for a in (amplitude[:, robust[0]], amplitude[:, ~robust[0]]) if a.shape[1]
    )
    if not same:
        return Latents(y, robust, amplitude, torch.ones_like(amplitude), classes)
    first = [int(i) for i in {bool(r): i for i, r in reversed(list(enumerate(robust[0].tolist())))}.values()]
    sizes = [float((robust[0] == robust[0, i]).sum()) for i in first]
    count = torch.tensor(sizes, dtype=amplitude.dtype).expand(len(y), -1)
    return Latents(y, robust[:, first], amplitude[:, first], count, classes)


class Coefficients(NamedTuple):
    """U and V (…, k, m, k), E (…, k·m, k·m), and the Gram matrix of the initial directions (…, k·m, k·m)."""

    u: Tensor
    v: Tensor
    e: Tensor
    gram: Tensor


def from_weights(w: Tensor, u: Tensor, v: Tensor) -> Coefficients:
    """The coefficients of given initial weights (…, k, m, d) for features u, v (k, d); E starts as the identity."""
    along_u, along_v = w @ u.mT, w @ v.mT
    rest = (w - along_u @ u - along_v @ v).flatten(-3, -2)
    gram = rest @ rest.mT
    eye = torch.eye(gram.shape[-1], dtype=w.dtype).expand_as(gram).clone()
    return Coefficients(along_u, along_v, eye, gram)


def draw(runs: int, k: int, m: int, d: int, sigma_0: float, rng: torch.Generator, gram: bool = True) -> Coefficients:
    """Initial coefficients in law for any d: N(0, σ0²) along the features, Wishart with d − 2k degrees of freedom for the rest."""
    size = k * m
    rule = "the directions P_F^⊥ w(0) are independent only for d at least km + 2k"
    require(not gram or d >= size + 2 * k, rule, f"d={d}, km+2k={size + 2 * k}", "raise d or lower the width")
    require(d >= 2 * k, "2k must be at most d for orthogonal features", f"k={k}, d={d}", "raise d or lower k")
    along = sigma_0 * torch.randn(2, runs, k, m, k, generator=rng, dtype=torch.float64)
    eye = torch.eye(size, dtype=torch.float64).expand(runs, -1, -1).clone()
    if not gram:
        return Coefficients(along[0], along[1], eye, torch.zeros(runs, size, size, dtype=torch.float64))
    lower = torch.randn(runs, size, size, generator=rng, dtype=torch.float64).tril(-1)
    shape = (0.5 * (d - 2 * k - torch.arange(size, dtype=torch.float64))).expand(runs, -1)
    diagonal = (2 * torch._standard_gamma(shape.contiguous(), generator=rng)).sqrt()
    factor = sigma_0 * (lower + torch.diag_embed(diagonal))
    return Coefficients(along[0], along[1], eye, factor @ factor.mT)


def reconstruct(state: Coefficients, u: Tensor, v: Tensor, w0: Tensor) -> Tensor:
    """The weights of the coefficients (Lemmas D.2, D.16), given features and initial weights."""
    flat = w0.flatten(-3, -2)
    rest = flat - (flat @ u.mT) @ u - (flat @ v.mT) @ v
    return state.u @ u + state.v @ v + (state.e @ rest).view_as(w0)


class Seen(NamedTuple):
    """One pass over the data: outputs (…, n, k), slopes σ̃' (…, n, g, k, m)."""

    outputs: Tensor
    slope: Tensor


def _look(spec: PatchNetSpec, z: Tensor, count: Tensor) -> Seen:
    value = smoothed_relu(z, spec.q, spec.rho).sum(-1)
    return Seen((value * count[..., None]).sum(-2), smoothed_relu_slope(z, spec.q, spec.rho))


def clean_pass(spec: PatchNetSpec, state: Coefficients, data: Latents) -> Seen:
    """Outputs and slopes at the clean data: ⟨w_ir, x_p⟩ = α_p U_iry or β_p V_iry."""
    xu, xv = data.coordinates()
    z = torch.einsum("ngj,...irj->...ngir", xu, state.u) + torch.einsum("ngj,...irj->...ngir", xv, state.v)
    return _look(spec, z, data.count)


def standard_step(spec: PatchNetSpec, data: Latents, eta: float) -> Step[Coefficients]:
    """Lemma D.4: U_iry ← U_iry + η E[(1{y=i} − logit_i) Σ_{p∈J_R} σ̃'(α_p U_iry) α_p], and V with β on J_NR."""
    xu, xv = data.coordinates()

    def step(state: Coefficients, t: int) -> Coefficients:
        seen = clean_pass(spec, state, data)
        pull = -CROSS_ENTROPY.grad(seen.outputs, data.y.expand(seen.outputs.shape[:-1])) / len(data.y)
        weight = seen.slope * pull[..., None, :, None] * data.count[..., None, None]
        return state._replace(
            u=state.u + eta * torch.einsum("...ngir,ngj->...irj", weight, xu),
            v=state.v + eta * torch.einsum("...ngir,ngj->...irj", weight, xv),
        )

    return step


class Perturbed(NamedTuple):
    """The coefficients of adversarial patches (Lemma D.17): along u and v (…, n, g, k), along the initial directions (…, n, g, k·m)."""

    u: Tensor
    v: Tensor
    gamma: Tensor


def perturb(spec: PatchNetSpec, state: Coefficients, data: Latents, eps: float, step_size: float) -> Perturbed:
    """Lemma D.17: each coefficient of the ascent step is clipped from one side, x̃ = x − min{ε, η̃ Σ_s σ̃'(⟨w_ys, x_p⟩) (·)_ys}."""
    xu, xv = data.coordinates()
    slope = clean_pass(spec, state, data).slope
    index = data.y.view(-1, 1, 1, 1).expand(*slope.shape[:-2], 1, slope.shape[-1])
    own = slope.gather(-2, index)[..., 0, :]
    e = state.e.view(*state.u.shape[:-1], -1)
    lower = [
        torch.einsum("...ngs,...nsj->...ngj", own, part.index_select(-3, data.y)).mul(step_size).clamp(max=eps)
        for part in (state.u, state.v, e)
    ]
    return Perturbed(xu - lower[0], xv - lower[1], -lower[2])


def adversarial_step(spec: PatchNetSpec, data: Latents, eta: float, eps: float, step_size: float) -> Step[Coefficients]:
    """Lemma D.18: the same descent at the perturbed patches, where ⟨w_ir, x̃_p⟩ also meets the initial directions through their Gram."""

    def step(state: Coefficients, t: int) -> Coefficients:
        x = perturb(spec, state, data, eps, step_size)
        seen = adversarial_pass(spec, state, data, x)
        pull = -CROSS_ENTROPY.grad(seen.outputs, data.y.expand(seen.outputs.shape[:-1])) / len(data.y)
        weight = seen.slope * pull[..., None, :, None] * data.count[..., None, None]
        moved = torch.einsum("...ngir,...ngj->...irj", weight, x.gamma).flatten(-3, -2)
        return state._replace(
            u=state.u + eta * torch.einsum("...ngir,...ngj->...irj", weight, x.u),
            v=state.v + eta * torch.einsum("...ngir,...ngj->...irj", weight, x.v),
            e=state.e + eta * moved,
        )

    return step


def adversarial_pass(spec: PatchNetSpec, state: Coefficients, data: Latents, x: Perturbed) -> Seen:
    """Outputs and slopes at the perturbed data."""
    met = (state.e @ state.gram).view(*state.u.shape[:-1], -1)
    z = (
        torch.einsum("...ngj,...irj->...ngir", x.u, state.u)
        + torch.einsum("...ngj,...irj->...ngir", x.v, state.v)
        + torch.einsum("...ngj,...irj->...ngir", x.gamma, met)
    )
    return _look(spec, z, data.count)


def diagonal(t: Tensor) -> Tensor:
    """A from U, or B from V: (…, k, m)."""
    return torch.diagonal(t, dim1=-3, dim2=-1).mT


def off_diagonal_max(t: Tensor) -> Tensor:
    """max over r of C (or D) for each i ≠ y, then over those: (…)."""
    k = t.shape[-1]
    mask = ~torch.eye(k, dtype=torch.bool)[:, None, :]
    return torch.where(mask, t, torch.full_like(t, -torch.inf)).flatten(-3).amax(-1)


class Pair(NamedTuple):
    """The two sequences of the tensor power method, of any shape."""

    x: Tensor
    y: Tensor


def tensor_power_step(q: int, eta: float, ratio: Tensor, constant: float = 1.0) -> Step[Pair]:
    """Lemma B.2 with equality: x ← x + ηC x^{q−1}, y ← y + ηSC y^{q−1}."""

    def step(state: Pair, t: int) -> Pair:
        return Pair(state.x + eta * constant * state.x ** (q - 1), state.y + eta * ratio * constant * state.y ** (q - 1))

    return step
