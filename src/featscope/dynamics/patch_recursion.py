"""AT's recursions for the coefficients of the weights, without any vector of dimension d (Lemmas D.2, D.4 and
D.16 to D.18).

On noiseless data the weights are w_ir = Σ_j (U_irj u_j + V_irj v_j) + Σ_ys E_irys P_F^⊥ w_ys(0). The
diagonals of U and V are the paper's A and B, the rest its C and D. The only trace of d is the law of the
initial coefficients and of the Gram matrix of the P_F^⊥ w_ys(0), both drawn in law, so d = 10⁹ costs what d =
100 does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.dynamics.trajectory import Step
from featscope.laws.compact import bartlett
from featscope.laws.patches import PatchBatch
from featscope.nets.activations import smoothed_relu, smoothed_relu_slope
from featscope.nets.patch_cnn import PatchNetSpec


class Activation(NamedTuple):
    """q and ϱ of σ̃ where runs differ in ϱ: one of each run, (runs, 1, 1, 1, 1)."""

    q: int
    rho: Tensor


#: a network's specification, or its activation alone: the recursions need no more of it
Smoothed = PatchNetSpec | Activation


class Latents(NamedTuple):
    """Noiseless data as coefficients: label y (n), and for each group of equal patches its kind, amplitude
    and count (n, g)."""

    y: Tensor
    robust: Tensor
    amplitude: Tensor
    multiplicity: Tensor
    classes: int

    def coordinates(self) -> tuple[Tensor, Tensor]:
        """Coordinates along u and along v, each (n, g, k)."""
        own = torch.nn.functional.one_hot(self.y, self.classes).to(self.amplitude)[:, None, :]
        signal = self.amplitude[..., None] * own
        zero = torch.zeros_like(signal)
        kind = self.robust[..., None]
        return torch.where(kind, signal, zero), torch.where(kind, zero, signal)


def latents(batch: PatchBatch, classes: int) -> Latents:
    """Forget the vectors of a noiseless batch; equal patches are merged when every point has the same
    groups."""
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


def first_patches(batch: PatchBatch, data: Latents) -> Tensor:
    """The number of a patch of each group of `latents`, (n, g)."""
    if data.robust.shape == batch.robust.shape:  # nothing was merged, only put in order
        return torch.argsort(batch.robust.to(torch.int64), dim=-1, descending=True, stable=True)
    return (batch.robust[:, None, :] == data.robust[..., None]).to(torch.int64).argmax(-1)


class Coefficients(NamedTuple):
    """U and V (…, k, m, k), E (…, k·m, k·m), the Gram matrix of the initial directions (…, k·m, k·m), and the
    time Σ η (…)."""

    u: Tensor
    v: Tensor
    e: Tensor
    gram: Tensor
    time: Tensor


class Motion(NamedTuple):
    """Velocities of U, V and E (None where E does not move), and the speed of the outputs that they cause at
    fixed inputs (…, n, k)."""

    u: Tensor
    v: Tensor
    e: Tensor | None
    outputs: Tensor


Velocity = Callable[[Coefficients], Motion]


def _moved(state: Coefficients, motion: Motion, eta: Tensor) -> Coefficients:
    wide = eta[..., None, None, None]
    e = state.e if motion.e is None else state.e + eta[..., None, None] * motion.e
    return state._replace(
        u=state.u + wide * motion.u, v=state.v + wide * motion.v, e=e, time=state.time + eta
    )


def descent(velocity: Velocity, eta: float) -> Step[Coefficients]:
    """Gradient descent with learning rate η: the recursion of the lemmas."""

    def step(state: Coefficients, t: int) -> Coefficients:
        return _moved(state, velocity(state), torch.full_like(state.time, eta))

    return step


def small_steps(velocity: Velocity, relative: float, horizon: Tensor | None = None) -> Step[Coefficients]:
    """The small-step limit: η is chosen anew each step and for each run so that little changes.

    Neither max|U| nor max|V| moves by more than the share ``relative``, no output by more than
    5·``relative``, and no run goes beyond its ``horizon`` in time. The papers take η = 1/poly(d); this enters
    that limit at a cost that grows with log d only.
    """

    def step(state: Coefficients, t: int) -> Coefficients:
        motion = velocity(state)
        room = 5 * _ratio(torch.ones_like(state.time), motion.outputs.abs().flatten(-2).amax(-1))
        for position, speed in ((state.u, motion.u), (state.v, motion.v)):
            room = torch.minimum(
                room, _ratio(position.abs().flatten(-3).amax(-1), speed.abs().flatten(-3).amax(-1))
            )
        eta = relative * room
        return _moved(
            state, motion, eta if horizon is None else torch.minimum(eta, (horizon - state.time).clamp(min=0))
        )

    return step


def _ratio(top: Tensor, bottom: Tensor) -> Tensor:
    return (top / bottom.clamp(min=1e-290)).clamp(max=1e250)


def from_weights(w: Tensor, u: Tensor, v: Tensor) -> Coefficients:
    """The coefficients of given initial weights (…, k, m, d) for features u, v (k, d); E starts as the
    identity."""
    along_u, along_v = w @ u.mT, w @ v.mT
    rest = (w - along_u @ u - along_v @ v).flatten(-3, -2)
    gram = rest @ rest.mT
    eye = torch.eye(gram.shape[-1], dtype=w.dtype).expand_as(gram).clone()
    return Coefficients(along_u, along_v, eye, gram, torch.zeros(w.shape[:-3], dtype=w.dtype))


def draw(
    runs: int, k: int, m: int, d: int, sigma_0: float, rng: torch.Generator, gram: bool = True
) -> Coefficients:
    """Initial coefficients in law for any d: N(0, σ0²) along the features, Wishart with d − 2k degrees of
    freedom for the rest."""
    size = k * m
    rule = "the directions P_F^⊥ w(0) are independent only for d at least km + 2k"
    require(not gram or d >= size + 2 * k, rule, f"d={d}, km+2k={size + 2 * k}", "raise d or lower the width")
    require(d >= 2 * k, "2k must be at most d for orthogonal features", f"k={k}, d={d}", "raise d or lower k")
    along = sigma_0 * torch.randn(2, runs, k, m, k, generator=rng, dtype=torch.float64)
    eye = torch.eye(size, dtype=torch.float64).expand(runs, -1, -1).clone()
    start = torch.zeros(runs, dtype=torch.float64)
    if not gram:
        return Coefficients(along[0], along[1], eye, torch.zeros_like(eye), start)
    factor = sigma_0 * torch.stack([bartlett(size, d - 2 * k, rng) for _ in range(runs)])
    return Coefficients(along[0], along[1], eye, factor @ factor.mT, start)


def widened(state: Coefficients, width: int) -> Coefficients:
    """The same networks with neurons of zero weight up to a width: they see 0, put out 0 and never move, so
    that runs of several widths fit into one batch."""
    *runs, k, m, _ = state.u.shape
    more = width - m

    def square(t: Tensor) -> Tensor:
        wide = torch.nn.functional.pad(t.view(*runs, k, m, k, m), (0, more, 0, 0, 0, more))
        return wide.reshape(*runs, k * width, k * width)

    u, v = (torch.nn.functional.pad(t, (0, 0, 0, more)) for t in (state.u, state.v))
    return Coefficients(u, v, square(state.e), square(state.gram), state.time)


def reconstruct(state: Coefficients, u: Tensor, v: Tensor, w0: Tensor) -> Tensor:
    """The weights of the coefficients (Lemmas D.2, D.16), given features and initial weights."""
    flat = w0.flatten(-3, -2)
    rest = flat - (flat @ u.mT) @ u - (flat @ v.mT) @ v
    return state.u @ u + state.v @ v + (state.e @ rest).view_as(w0)


class DataPass(NamedTuple):
    """One pass over the data: outputs (…, n, k), slopes σ̃' (…, n, g, k, m)."""

    outputs: Tensor
    slope: Tensor


def _look(spec: Smoothed, z: Tensor, multiplicity: Tensor) -> DataPass:
    value = smoothed_relu(z, spec.q, spec.rho).sum(-1)
    return DataPass((value * multiplicity[..., None]).sum(-2), smoothed_relu_slope(z, spec.q, spec.rho))


def clean_pass(spec: Smoothed, state: Coefficients, data: Latents) -> DataPass:
    """Outputs and slopes at the clean data: ⟨w_ir, x_p⟩ = α_p U_iry or β_p V_iry."""
    xu, xv = data.coordinates()
    z = torch.einsum("ngj,...irj->...ngir", xu, state.u) + torch.einsum("ngj,...irj->...ngir", xv, state.v)
    return _look(spec, z, data.multiplicity)


def standard_velocity(spec: Smoothed, data: Latents) -> Velocity:
    """Lemma D.4 per unit of η: U_iry' = E[(1{y=i} − logit_i) Σ_{p∈J_R} σ̃'(α_p U_iry) α_p], and V' with β on
    J_NR."""
    xu, xv = data.coordinates()

    def velocity(state: Coefficients) -> Motion:
        seen = clean_pass(spec, state, data)
        weight = _pulled(seen, data)
        du = torch.einsum("...ngir,ngj->...irj", weight, xu)
        dv = torch.einsum("...ngir,ngj->...irj", weight, xv)
        speed = torch.einsum("ngj,...irj->...ngir", xu, du) + torch.einsum("ngj,...irj->...ngir", xv, dv)
        return Motion(du, dv, None, _output_speed(seen, speed, data))

    return velocity


def _output_speed(seen: DataPass, speed: Tensor, data: Latents) -> Tensor:
    """dF/dt = Σ_p Σ_r σ̃'(z) z'."""
    return ((seen.slope * speed).sum(-1) * data.multiplicity[..., None]).sum(-2)


def _pulled(seen: DataPass, data: Latents) -> Tensor:
    """(1{y=i} − logit_i) σ̃' with multiplicities and the mean over points: what every coefficient's update is
    linear in."""
    pull = descent_pull(seen.outputs, data.y.expand(seen.outputs.shape[:-1])) / len(data.y)
    return seen.slope * pull[..., None, :, None] * data.multiplicity[..., None, None]


def descent_pull(outputs: Tensor, y: Tensor) -> Tensor:
    """1{y=i} − logit_i (…, n, k), with 1 − logit_y as the sum of the other logits: the difference is lost to
    rounding where F_y exceeds the others by more than 36, and over polynomial time it does."""
    others = torch.softmax(outputs, -1).scatter(-1, y[..., None], 0.0)
    return (-others).scatter(-1, y[..., None], others.sum(-1, keepdim=True))


class Perturbed(NamedTuple):
    """The coefficients of adversarial patches (Lemma D.17): along u and v (…, n, g, k), along the initial
    directions (…, n, g, k·m)."""

    u: Tensor
    v: Tensor
    gamma: Tensor


class CoefficientClip(NamedTuple):
    """Lemma D.17's clip: radius ε and step η̃ (numbers, or tensors of one value a run).

    As printed it is one-sided, −min{ε, ·}, and acts on the initial directions too. ``two_sided`` clips to
    [−ε, ε], which keeps the result in the ball; ``features_only`` leaves the initial directions alone, as the
    approximation of Lemma 5.2 does.
    """

    eps: float
    step_size: float | Tensor
    two_sided: bool = False
    features_only: bool = False

    def __call__(self, ascent: Tensor) -> Tensor:
        """What is subtracted from a coefficient whose ascent direction is ``ascent`` (…, n, g, j)."""
        size = self.step_size
        scaled = ascent * (size.view(-1, 1, 1, 1) if isinstance(size, Tensor) else size)
        return scaled.clamp(-self.eps if self.two_sided else None, self.eps)


def perturb(spec: Smoothed, state: Coefficients, data: Latents, clip: CoefficientClip) -> Perturbed:
    """Lemma D.17: x̃ = x − min{ε, η̃ Σ_s σ̃'(⟨w_ys, x_p⟩) (·)_ys}, coefficient by coefficient."""
    xu, xv = data.coordinates()
    slope = clean_pass(spec, state, data).slope
    index = data.y.view(-1, 1, 1, 1).expand(*slope.shape[:-2], 1, slope.shape[-1])
    own = slope.gather(-2, index)[..., 0, :]
    parts = (
        [state.u, state.v]
        if clip.features_only
        else [state.u, state.v, state.e.view(*state.u.shape[:-1], -1)]
    )
    lower = [
        clip(torch.einsum("...ngs,...nsj->...ngj", own, part.index_select(-3, data.y))) for part in parts
    ]
    gamma = own.new_zeros(*own.shape[:-1], state.e.shape[-1]) if clip.features_only else -lower[2]
    return Perturbed(xu - lower[0], xv - lower[1], gamma)


def adversarial_velocity(spec: Smoothed, data: Latents, clip: CoefficientClip) -> Velocity:
    """Lemma D.18 per unit of η: the same descent at the perturbed patches, which meet the initial directions
    through their Gram."""

    def velocity(state: Coefficients) -> Motion:
        x = perturb(spec, state, data, clip)
        seen = adversarial_pass(spec, state, data, x)
        weight = _pulled(seen, data)
        du = torch.einsum("...ngir,...ngj->...irj", weight, x.u)
        dv = torch.einsum("...ngir,...ngj->...irj", weight, x.v)
        speed = torch.einsum("...ngj,...irj->...ngir", x.u, du) + torch.einsum(
            "...ngj,...irj->...ngir", x.v, dv
        )
        if clip.features_only:
            return Motion(du, dv, None, _output_speed(seen, speed, data))
        de = torch.einsum("...ngir,...ngj->...irj", weight, x.gamma)
        met = (de.flatten(-3, -2) @ state.gram).view(*state.u.shape[:-1], -1)
        speed = speed + torch.einsum("...ngj,...irj->...ngir", x.gamma, met)
        return Motion(du, dv, de.flatten(-3, -2), _output_speed(seen, speed, data))

    return velocity


def adversarial_pass(spec: Smoothed, state: Coefficients, data: Latents, x: Perturbed) -> DataPass:
    """Outputs and slopes at the perturbed data."""
    z = torch.einsum("...ngj,...irj->...ngir", x.u, state.u) + torch.einsum(
        "...ngj,...irj->...ngir", x.v, state.v
    )
    if bool(x.gamma.any()):
        met = (state.e @ state.gram).view(*state.u.shape[:-1], -1)
        z = z + torch.einsum("...ngj,...irj->...ngir", x.gamma, met)
    return _look(spec, z, data.multiplicity)


class PowerPair(NamedTuple):
    """The two sequences of the tensor power method, of any shape."""

    x: Tensor
    y: Tensor


def tensor_power_step(q: int, eta: float | Tensor, ratio: Tensor, constant: float = 1.0) -> Step[PowerPair]:
    """Lemma B.2 with equality: x ← x + ηC x^{q−1}, y ← y + ηSC y^{q−1}."""

    def step(state: PowerPair, t: int) -> PowerPair:
        return PowerPair(
            state.x + eta * constant * state.x ** (q - 1),
            state.y + eta * ratio * constant * state.y ** (q - 1),
        )

    return step
