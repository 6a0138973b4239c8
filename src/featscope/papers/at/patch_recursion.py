"""`patch-recursion`: the coefficient recursions of AT's lemmas beside gradient descent on noiseless
population data.

Two routes to one trajectory: descent moves weights in R^d and knows nothing of coefficients, the recursion
moves coefficients and knows nothing of R^d. The descent is run with Lemma D.17's own clip, for which both
must agree, and with the clips of AT §2.5, the algorithm that the lemmas are about. Beside them, the
approximation of Lemma 5.2, one step at a time, against the exact step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from featscope.attacks.patch_training_attack import Clip, Directions, PatchTrainingAttack
from featscope.core.columns import column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.patch_observables import cross_correlations, own_correlations
from featscope.dynamics.trajectory import Recording, Step, seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Spec, refuse_unused
from featscope.laws.patches import PatchLaw, PatchSetting, both_kinds
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec
from featscope.papers.at import printed
from featscope.papers.at.patch_columns import Correlated

BOTH_ROUTES = "dynamics"


class BothRoutes(Correlated):
    """One row for each arm, seed and recorded step; Lemma 5.2's columns in two arms only."""

    gap = column("largest |Δw| between descent and recursion")
    gap_diagonal = column("largest difference of A and B between descent and recursion")
    gap_off = column("largest difference of C and D between descent and recursion")
    gap_x = column("largest |ΔX̃| between Lemma D.17 and the descent's attack, at the recursion's weights")
    outside = column("largest coordinate of the descent's weights that the lemma's decomposition leaves out")
    size = column("largest |w|")
    approximation_A = column("Lemma 5.2's step of each class's largest A")
    exact_A = column("the exact step of the same A")
    approximation_B = column("Lemma 5.2's step of each class's largest B")
    exact_B = column("the exact step of the same B")
    polynomial = column("1 if all neurons are in the polynomial part of the activation, else 0")


#: `adversarial` descends with Lemma D.17's own clip, `patch` and `coordinate` with those of AT §2.5, all
#: beside the same recursion; `features-only` leaves the initial directions alone, as Lemma 5.2 does
RecursionArm = Literal["standard", "adversarial", "patch", "coordinate", "features-only"]
RECURSION_ARMS: tuple[RecursionArm, ...] = ("standard", "adversarial", "patch", "coordinate", "features-only")
ALGORITHM_CLIPS: dict[str, Clip] = {"patch": "patch", "coordinate": "coordinate"}
#: where Lemma 5.2's step is compared with the exact one
APPROXIMATED = ("adversarial", "features-only")

#: the lemma's step and the exact one, of A and of B
APPROXIMATIONS = {
    "A": (BothRoutes.approximation_A, BothRoutes.exact_A),
    "B": (BothRoutes.approximation_B, BothRoutes.exact_B),
}


class PatchRecursion(Spec):
    """A noiseless law with d ≥ km + 2k, so that the initial directions are independent."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"seeds": [0], "steps": 500},
        "paper": {"law.d": 1000, "net.width": 100, "steps": 2000},
    }

    law: PatchLaw = setting(PatchLaw(sigma_n=0.0, k=3, d=120), "the law of the data, without noise")
    #: σ0 = 1/√d and η̃ = d^c0 as Assumption B.3 has them
    net: PatchNetSpec = setting(PatchNetSpec(width=20), "the network")
    learning_rate: float = setting(0.1, "step size of gradient descent", letter="η", gt=0)
    c0: float = setting(0.5, "exponent of the attack's step size, η̃ = d^c0", letter="c_0", gt=0, lt=1)
    eps: float = setting(printed.FIGURE_3_EPS, "radius of the threat", letter="ε", gt=0)
    steps: int = setting(1000, "steps of gradient descent", letter="T", ge=1)
    every: int = setting(10, "steps between two recorded rows", ge=1)
    dtype: Literal["float64"] = "float64"

    def model_post_init(self, context: object) -> None:
        """The recursion is for noiseless laws with both kinds of patches; σ0 follows d."""
        refuse_unused(self, "the recursion is noiseless", "law.sigma_n")
        refuse_unused(self, "σ0 is 1/√d here: set law.d", "net.sigma_0")
        both_kinds(self.law)

    @property
    def step_size(self) -> float:
        """η̃ = d^c0."""
        return float(self.law.d**self.c0)

    def clip(self, features_only: bool) -> co.CoefficientClip:
        """Lemma D.17's clip as printed, or on feature coefficients only and within the ball, as Lemma 5.2 has
        it."""
        return co.CoefficientClip(self.eps, self.step_size, features_only, features_only)


class Both(NamedTuple):
    """Descent and recursion side by side, with the initial weights that tie them together."""

    w: Tensor
    w0: Tensor
    u: Tensor
    v: Tensor
    e: Tensor
    gram: Tensor
    time: Tensor

    def recursion(self) -> co.Coefficients:
        """The recursion's half."""
        return co.Coefficients(self.u, self.v, self.e, self.gram, self.time)


def side_by_side(descent: Step[Weights], recursion: Step[co.Coefficients]) -> Step[Both]:
    """One step of each."""

    def step(state: Both, t: int) -> Both:
        moved = recursion(state.recursion(), t)
        return Both(descent(Weights(state.w), t).w, state.w0, *moved)

    return step


def lemma_5_2(
    spec: PatchRecursion, state: co.Coefficients, data: co.Latents, residual: Tensor
) -> tuple[Tensor, Tensor]:
    """Lemma 5.2's updates of A and B with its constants written out: η/k (1 − logit) A^{q−1} Σ_p α^q (1 −
    min{ε/α, η̃ α^{q−2} Σ_s A_s^q})^q, ϱ scaled in.

    The bracket is taken as 0 where the printed one is negative (ε > β), since σ̃' is 0 there.
    """
    q, rho = spec.net.q, spec.net.rho
    scale = rho ** (1 - q)
    steps = []
    for part, kind in ((state.u, True), (state.v, False)):
        own = own_correlations(part).clamp(min=0)
        group = data.robust[0] == kind
        amplitude, count = data.amplitude[:, group][:, 0], data.multiplicity[:, group][:, 0]
        total = own.pow(q).sum(-1)
        lowered = (spec.step_size * scale * amplitude ** (q - 2) * total).clamp(max=spec.eps / amplitude)
        growth = count * amplitude**q * (1 - lowered).clamp(min=0) ** q
        steps.append(
            spec.learning_rate / len(data.y) * (residual * growth)[..., None] * scale * own.pow(q - 1)
        )
    return steps[0], steps[1]


def _approximation(
    spec: PatchRecursion, state: co.Coefficients, data: co.Latents, clip: co.CoefficientClip
) -> dict[str, Tensor]:
    """Lemma 5.2's step and the exact one for the largest A and B of each class; whether all neurons are
    polynomial."""
    x = co.perturb(spec.net, state, data, clip)
    seen = co.adversarial_pass(spec.net, state, data, x)
    residual = 1 - torch.diagonal(torch.softmax(seen.outputs, -1), dim1=-2, dim2=-1)
    exact = co.adversarial_velocity(spec.net, data, clip)(state)
    guesses, true, now = lemma_5_2(spec, state, data, residual), (exact.u, exact.v), (state.u, state.v)
    steps: dict[str, Tensor] = {}
    for names, guess, velocity, part in zip(APPROXIMATIONS.values(), guesses, true, now, strict=True):
        lead = own_correlations(part).argmax(-1, keepdim=True)
        steps[names[0]] = guess.gather(-1, lead)[..., 0]
        steps[names[1]] = spec.learning_rate * own_correlations(velocity).gather(-1, lead)[..., 0]
    top = data.amplitude.max() * torch.maximum(
        own_correlations(state.u).amax((-2, -1)), own_correlations(state.v).amax((-2, -1))
    )
    return steps | {BothRoutes.polynomial: (top <= spec.net.rho).double()}


Map = Callable[[PatchNet, Tensor, Tensor], Tensor]


class Place(NamedTuple):
    """What every arm shares: features, population, its latents, and the initial weights of all seeds."""

    u: Tensor
    v: Tensor
    x: Tensor
    y: Tensor
    data: co.Latents
    first: Tensor
    w0: Tensor

    @classmethod
    def of(cls, spec: PatchRecursion) -> Place:
        """Draw it."""
        batch, runs, net = spec.law.population(), len(spec.seeds), spec.net.replace(sigma_0=spec.law.d**-0.5)
        inits = [net.init(spec.law.k, spec.law.d, stream(seed, "init")) for seed in spec.seeds]
        x, y = batch.x.expand(runs, -1, -1, -1), batch.y.expand(runs, -1)
        data = co.latents(batch, spec.law.k)
        return cls(*spec.law.features(), x, y, data, co.first_patches(batch, data), torch.stack(inits))

    @property
    def features(self) -> Tensor:
        """All features, (2k, d)."""
        return torch.cat([self.u, self.v])

    def initial_parts(self) -> Tensor:
        """P_F^⊥ w(0), (runs, k·m, d)."""
        flat = self.w0.flatten(-3, -2)
        return flat - (flat @ self.features.mT) @ self.features


def attack_of(spec: PatchRecursion, place: Place, arm: RecursionArm) -> Map | None:
    """The map (net, X, y) → Δ of an arm's descent."""
    if arm == "standard":
        return None
    if arm == "features-only":
        ascent = PatchTrainingAttack(eps=spec.eps, step_size=spec.step_size)

        def on_features(net: PatchNet, x: Tensor, y: Tensor) -> Tensor:
            along = spec.step_size * ascent.gradient(net, x, y) @ place.features.mT
            return along.clamp(-spec.eps, spec.eps) @ place.features

        return on_features
    clip = ALGORITHM_CLIPS.get(arm, "coefficient")
    ascent = PatchTrainingAttack(clip=clip, eps=spec.eps, step_size=spec.step_size)
    directions = Directions(place.features, place.w0) if clip == "coefficient" else None
    return lambda net, x, y: ascent.perturb(net, x, y, directions)


def outside_span(place: Place, arm: RecursionArm) -> Callable[[Tensor], Tensor]:
    """The largest coordinate of what the lemma's decomposition leaves of the weights, for each run.

    Lemma D.2 lets features alone be added to w(0); Lemma D.16 allows all initial directions.
    """
    if arm == "standard":
        return lambda w: _remainder(w - place.w0, place.features.mT)
    rows = torch.cat([place.features.expand(len(place.w0), -1, -1), place.initial_parts()], -2)
    basis = torch.linalg.qr(rows.mT).Q
    return lambda w: _remainder(w, basis)


def _remainder(w: Tensor, basis: Tensor) -> Tensor:
    flat = w.flatten(-3, -2)
    return (flat - (flat @ basis) @ basis.mT).abs().flatten(-2).amax(-1)


def adversarial_gap(
    spec: PatchRecursion, place: Place, attack: Map, clip: co.CoefficientClip
) -> Callable[[co.Coefficients], Tensor]:
    """The largest |ΔX̃| between Lemma D.17's adversarial example and the attack's, both at the recursion's
    weights."""
    parts = place.initial_parts()[:, None]
    wide = place.first[..., None].expand(*place.first.shape, place.x.shape[-1])

    def gap(c: co.Coefficients) -> Tensor:
        net = spec.net.net(co.reconstruct(c, place.u, place.v, place.w0))
        found = (place.x + attack(net, place.x, place.y)).gather(-2, wide.expand(len(place.x), -1, -1, -1))
        lemma = co.perturb(spec.net, c, place.data, clip)
        told = lemma.u @ place.u + lemma.v @ place.v + lemma.gamma @ parts
        return (told - found).abs().flatten(-3).amax(-1)

    return gap


def run_arm(spec: PatchRecursion, folder: Folder, place: Place, arm: RecursionArm) -> Recording[Both]:
    """One arm by both routes, all seeds at once."""
    u, v, w0, data = place.u, place.v, place.w0, place.data
    attack, clip = attack_of(spec, place, arm), spec.clip(features_only=arm == "features-only")
    descent = training_step(spec.net, place.x, place.y, spec.learning_rate, attack)
    velocity = (
        co.standard_velocity(spec.net, data)
        if attack is None
        else co.adversarial_velocity(spec.net, data, clip)
    )
    outside = outside_span(place, arm)
    gap_x = None if attack is None else adversarial_gap(spec, place, attack, clip)

    def look(state: Both, t: int) -> Mapping[str, Tensor | float]:
        c = state.recursion()
        seen = co.from_weights(state.w, u, v)
        apart = [(seen.u - c.u), (seen.v - c.v)]
        row: dict[str, Tensor | float] = {
            BothRoutes.gap: (co.reconstruct(c, u, v, w0) - state.w).abs().flatten(-3).amax(-1),
            BothRoutes.gap_diagonal: torch.stack([own_correlations(part.abs()) for part in apart])
            .amax(0)
            .flatten(-2)
            .amax(-1),
            BothRoutes.gap_off: torch.stack([cross_correlations(part.abs()) for part in apart])
            .amax(0)
            .amax(-1),
            BothRoutes.outside: outside(state.w),
            BothRoutes.size: state.w.abs().flatten(-3).amax(-1),
            BothRoutes.u: own_correlations(c.u).amax(-1),
            BothRoutes.v: own_correlations(c.v).amax(-1),
            BothRoutes.C: cross_correlations(c.u),
            BothRoutes.D: cross_correlations(c.v),
        }
        if gap_x is not None:
            row[BothRoutes.gap_x] = gap_x(c)
        return row | (_approximation(spec, c, data, clip) if arm in APPROXIMATED else {})

    step = side_by_side(descent, co.descent(velocity, spec.learning_rate))
    both = Both(w0.clone(), w0, *co.from_weights(w0, u, v))
    part = folder.part(BOTH_ROUTES, arm=arm)
    return trajectory(step, both, spec.steps, look, spec.every, runs=seed_labels(spec.seeds), keep=part)


def run(spec: PatchRecursion, folder: Folder) -> Json:
    """Standard training, then adversarial training with every clip, each by both routes."""
    folder.conditions(spec.law.check(PatchSetting(spec.eps)))
    summary: Json = {}
    place = Place.of(spec)
    for arm in RECURSION_ARMS:
        done = run_arm(spec, folder, place, arm)
        lost = {"diverged": done.diverged, "how": done.how} if done.diverged else {}
        summary[arm] = {"gap": max(row[BothRoutes.gap] for row in done.rows), "steps": spec.steps, **lost}
    return summary


def size(spec: PatchRecursion) -> Size:
    """The coefficients of the recursion, and the weights that they are compared with."""
    neurons = spec.law.k * spec.net.width
    held = len(spec.seeds) * neurons * (neurons + 2 * spec.law.k + spec.law.d)
    return Size(held, held * spec.steps * spec.law.patches)


EXPERIMENTS = (
    Experiment(
        name="patch-recursion",
        paper="at",
        shows="the recursions of AT Lemmas D.4 and D.18 against gradient descent, and Lemma 5.2's "
        "approximation against the exact step",
        spec=PatchRecursion,
        run=run,
        takes={"quick": "3 s", "cpu": "15 s", "paper": "3 min"},
        highlights=(
            Highlight("*/gap", "largest difference of recursion and descent, {} training"),
            Highlight("*/steps", "steps compared, {} training"),
        ),
        size=size,
        revision=3,
        columns={BOTH_ROUTES: BothRoutes},
    ),
)
