"""`patch-inner`: adversarial training with one step under each clip, with PGD, and with the true inner
maximum (AT §7's "multi-step").

For the loss −F_y the inner problem of §2.5 is convex, so its optimum is known with a duality gap
(attacks/patch_inner.py). Every arm starts from the same weights and sees the same points. The field defaults
are a reduced run; the full one is the `paper` profile, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import polars as pl
import torch
from pydantic import Field, field_validator
from torch import Tensor

from featscope.attacks.evaluate import evaluate
from featscope.attacks.patch_certificate import certify, is_certified
from featscope.attacks.patch_inner import inner_minimum, own_output, relative
from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.attacks.pgd import ONE_STEP, PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import require, unknown
from featscope.core.losses import OWN_LOGIT
from featscope.core.rows import last_rows
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows, table
from featscope.core.streams import stream
from featscope.dynamics import patch_observables as seen
from featscope.dynamics.patch_descent import by_class, descend
from featscope.dynamics.trajectory import Recording, seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Spec
from featscope.laws.patches import PatchBatch, PatchLaw, PatchSetting, stack
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec
from featscope.papers.at import printed
from featscope.papers.at.fig3_summary import mean_switch, phase_switch
from featscope.papers.at.inner_columns import INNER_DYNAMICS, INNER_RADII, InnerDynamics, InnerRadii

ONE_STEP_ARMS = ("patch", "coordinate", "features-only")
#: the true maximum over the ball, and over its part in the span of the features
EXACT_ARMS = ("exact", "exact-features")
PGD_ARM = "pgd-"
#: what PGD must not beat, everywhere: 50 steps from 10 starts
RIVAL_STEPS, RIVAL_RESTARTS = 50, 10
#: the exact minimum at a checkpoint is asked for this share of F_y(X)
CHECKPOINT_TOLERANCE = 1e-9


class PatchInner(Spec):
    """Figure 3's law and network, smaller: every step of the exact arms solves N·P convex problems."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0],
            "law.d": 16,
            "net.width": 6,
            "train_size": 6,
            "test_size": 40,
            "steps": 12,
            "every": 6,
            "check_every": 6,
            "radii": [0.1, 1.2],
            "curve_points": 10,
        },
        "paper": {
            "seeds": [0, 1, 2, 3, 4],
            "net.width": 20,
            "train_size": 10,
            "steps": 600,
            "check_every": 200,
            "radii": [0.02, 0.05, 0.1, 0.2, 0.5, 1.2],
            "curve_points": 30,
        },
    }
    law: PatchLaw = setting(PatchLaw(d=40, sigma_n=40**-0.5), "the law of the data")
    net: PatchNetSpec = setting(PatchNetSpec(width=10), "the network")
    eps: float = setting(printed.FIGURE_3_EPS, "radius of training and of checkpoints", letter="ε", gt=0)
    train_size: int = setting(8, "training points", letter="N", ge=1)
    test_size: int = setting(200, "test points", ge=1)
    arms: tuple[str, ...] = setting(
        (*ONE_STEP_ARMS, *EXACT_ARMS, "pgd-1", "pgd-3", "pgd-10", "pgd-50"),
        "what finds the perturbations, one training each; pgd-s is PGD with s steps",
    )
    learning_rate: float = setting(1.0, "step size of gradient descent", letter="η", gt=0)
    steps: int = setting(300, "steps of gradient descent", letter="T", ge=1)
    step_size: float = setting(
        printed.FIGURE_3_ATTACK_STEP_SIZE, "step size of the one-step attacks", letter="η̃", gt=0
    )
    tolerance: float = setting(1e-3, "duality gap ÷ F_y(X) that the exact arms train with", gt=0)
    every: int = setting(10, "steps between two recorded rows", ge=1)
    check_every: int = setting(150, "steps between two checkpoints; the end is one, too", ge=1)
    radii: tuple[Annotated[float, Field(gt=0)], ...] = setting(
        (0.02, 0.07, 0.2, 0.5), "radii at which the final networks are attacked and certified"
    )
    curve_points: int = setting(20, "test points at each radius", ge=1)

    @field_validator("arms")
    @classmethod
    def _known(cls, arms: tuple[str, ...]) -> tuple[str, ...]:
        require(0 < len(arms) == len(set(arms)), "arms must be named, each once", f"{arms}", "name each once")
        for arm in arms:
            if arm not in (*ONE_STEP_ARMS, *EXACT_ARMS) and pgd_steps(arm) is None:
                raise unknown("arm", arm, [*ONE_STEP_ARMS, *EXACT_ARMS, "pgd-1", "pgd-10"])
        return arms

    def model_post_init(self, context: object) -> None:
        """Refuse what the exact minimum is not made for."""
        along = self.law.frame == "axes"
        require(along, "the ℓ∞ ball goes with features along the axes (Def. 2.1)", self.law.frame, "use axes")
        require(self.dtype == "float64", "a duality gap needs float64", self.dtype, "use dtype=float64")

    @property
    def span(self) -> Tensor:
        """The coordinates along which the features lie."""
        return torch.arange(2 * self.law.k)

    def free(self, arm: str) -> Tensor | None:
        """The coordinates that an arm may move: those of the features, or all (None)."""
        return self.span if arm in ("features-only", "exact-features") else None

    def threat(self, arm: str) -> Threat:
        """The same as a threat."""
        free = self.free(arm)
        support = None if free is None else torch.zeros(self.law.d).index_fill(0, free, 1.0)
        return Threat("Linf", self.eps, event=2, support=support)


def pgd_steps(arm: str) -> int | None:
    """The steps of an arm such as `pgd-10`; None for other names."""
    number = arm.removeprefix(PGD_ARM)
    return int(number) if arm.startswith(PGD_ARM) and number.isdecimal() and int(number) > 0 else None


class Perturbed(NamedTuple):
    """Δ (runs, N, P, d) and, of an exact arm, the largest relative gap of each run; 0 for the others."""

    delta: Tensor
    gap: Tensor


Attack = Callable[[PatchNet, Tensor, Tensor], Perturbed]


def training_attack(spec: PatchInner, arm: str) -> Attack:
    """What an arm trains on."""

    def exact(net: PatchNet, x: Tensor, y: Tensor) -> Perturbed:
        found = inner_minimum(net, x, y, spec.eps, free=spec.free(arm), tolerance=spec.tolerance)
        return Perturbed(found.delta, found.relative_gap.amax(-1))

    if arm in EXACT_ARMS:
        return exact
    find = _pgd(spec, arm) if pgd_steps(arm) is not None else _one_step(spec, arm)
    return lambda net, x, y: Perturbed(find(net, x, y), x.new_zeros(x.shape[0]))


def _pgd(spec: PatchInner, arm: str) -> Callable[[PatchNet, Tensor, Tensor], Tensor]:
    attack = PGD(steps=pgd_steps(arm) or 1, random_start=False, goal=OWN_LOGIT)
    threat, rng = spec.threat(arm), stream(0, "training-attack")
    return lambda net, x, y: attack(net, x, y, threat, rng)


def _one_step(spec: PatchInner, arm: str) -> Callable[[PatchNet, Tensor, Tensor], Tensor]:
    """`features-only` is the coordinate clip of what lies along the features, nothing else moves."""
    step = PatchTrainingAttack(
        step_size=spec.step_size, eps=spec.eps, clip="patch" if arm == "patch" else "coordinate"
    )
    if arm != "features-only":
        return step.perturb
    threat = spec.threat(arm)
    return lambda net, x, y: threat.restrict(step.perturb(net, x, y))


class Watched(NamedTuple):
    """The weights of all runs, and the largest relative gap of what they were trained on, (runs)."""

    w: Tensor
    gap: Tensor


class Data:
    """Train and test samples of all seeds, with initial weights."""

    def __init__(self, spec: PatchInner) -> None:
        self.train = self._samples(spec, "train", spec.train_size)
        self.test = self._samples(spec, "test", spec.test_size)
        self.x, self.y = by_class(self.train.x, self.train.y)
        self.test_noise = seen.noise_of(spec.law, self.test)
        self.w0 = torch.stack([spec.net.init(spec.law.k, spec.law.d, stream(s, "init")) for s in spec.seeds])

    @staticmethod
    def _samples(spec: PatchInner, name: str, size: int) -> PatchBatch:
        return stack([spec.law.sample(size, stream(seed, "data", name)) for seed in spec.seeds])


def observe(spec: PatchInner, data: Data, arm: str) -> Callable[[Watched, int], Mapping[str, Tensor | float]]:
    """Correlations, fit and feature learning accuracy (Def. 4.1)."""

    def look(state: Watched, t: int) -> Mapping[str, Tensor | float]:
        net = spec.net.net(state.w)
        u, v = seen.feature_correlations(state.w, spec.law)
        test, labels = seen.feature_outputs(net, data.test, data.test_noise), data.test.y
        row: dict[str, Tensor | float] = {
            InnerDynamics.u: seen.own_correlations(u).amax(-1),
            InnerDynamics.v: seen.own_correlations(v).amax(-1),
            InnerDynamics.loss: seen.fit(net, data.x, data.y).loss,
            InnerDynamics.clean_test: seen.share_right(test.whole, labels),
            InnerDynamics.feature_robust: seen.share_right(test.robust, labels),
            InnerDynamics.feature_non_robust: seen.share_right(test.non_robust, labels),
        }
        if arm in EXACT_ARMS:
            row[InnerDynamics.training_gap] = state.gap
        return row | (
            compare(spec, data, arm, state.w) if t % spec.check_every == 0 or t == spec.steps else {}
        )

    return look


def compare(spec: PatchInner, data: Data, arm: str, w: Tensor) -> dict[str, Tensor]:
    """A checkpoint: the arm's perturbation, the exact one, and PGD with restarts, on the training points."""
    # A run that left the numbers has no minimum, and no row; the others go on.
    finite = torch.isfinite(w).flatten(1).all(1)[:, None, None, None]
    net, x, y = spec.net.net(torch.where(finite, w, torch.zeros_like(w))), data.x, data.y
    best = inner_minimum(net, x, y, spec.eps, free=spec.free(arm), tolerance=CHECKPOINT_TOLERANCE)
    rival = PGD(steps=RIVAL_STEPS, restarts=RIVAL_RESTARTS, goal=OWN_LOGIT)
    others = own_output(net, x + rival(net, x, y, spec.threat(arm), stream(0, "rival")), y)
    trained = own_output(net, x + training_attack(spec, arm)(net, x, y).delta, y)
    return {
        InnerDynamics.gap: best.relative_gap.amax(-1),
        InnerDynamics.beaten_by: relative(best.value - others, best.start).amax(-1),
        InnerDynamics.least: relative(best.value, best.start).mean(-1),
        InnerDynamics.left: relative(trained - best.value, best.start).mean(-1),
    }


def radius_curves(
    spec: PatchInner, data: Data, trained: Recording[Watched]
) -> tuple[Rows, Mapping[str, Tensor]]:
    """Attacked and certified robust test accuracy of the final networks over the full ball; a run that
    diverged is no network."""
    rows: Rows = []
    for index, seed in enumerate(spec.seeds):
        if str(seed) in trained.diverged:
            continue
        net = spec.net.net(trained.state.w[index])
        x, y = (part[index, : spec.curve_points] for part in (data.test.x, data.test.y))
        for eps in spec.radii:
            threat = Threat("Linf", eps, event=2)
            found = evaluate(net, x, y, threat, [ONE_STEP, PGD("margin")], stream(seed, "attack"))
            sure = is_certified(certify(net, x, y, threat).linear, net(x))
            rows.append(
                {
                    InnerRadii.seed: seed,
                    InnerRadii.eps: eps,
                    InnerRadii.upper: found.accuracy,
                    InnerRadii.lower: float(sure.double().mean()),
                }
            )
    return rows, {}


def train(spec: PatchInner, folder: Folder, data: Data, arm: str) -> Recording[Watched]:
    """Train one arm on all seeds at once."""
    attack = training_attack(spec, arm)

    def step(state: Watched, t: int) -> Watched:
        net = spec.net.net(state.w)
        found = attack(net, data.x, data.y)
        w = descend(net, data.x + found.delta, data.y, spec.learning_rate)
        return Watched(w, torch.maximum(state.gap, found.gap))

    start = Watched(data.w0.clone(), data.w0.new_zeros(len(spec.seeds)))
    part, look = folder.part(INNER_DYNAMICS, arm=arm), observe(spec, data, arm)
    return trajectory(step, start, spec.steps, look, spec.every, runs=seed_labels(spec.seeds), keep=part)


def summarise(trained: Recording[Watched]) -> Json:
    """Where an arm ends, by seed: correlations, switch, accuracies, and how far its attack is from the
    optimum. Seeds that diverged are listed."""
    rows = table(trained.rows)
    alive = rows.filter(~rows[InnerDynamics.seed].cast(pl.String).is_in(list(trained.diverged)))
    last, switches = last_rows(alive), phase_switch(alive)
    shown = [name for name in InnerDynamics.all() if name in last.columns and name != InnerDynamics.step]
    return {
        **{str(name): last[name].to_list() for name in shown},
        "phase_switch": mean_switch(switches),
        "phase_switch_by_seed": list(switches.values()),
        **({"diverged": trained.diverged, "how": trained.how} if trained.diverged else {}),
    }


def run(spec: PatchInner, folder: Folder) -> Json:
    """Train every arm on all seeds, then measure what the final networks withstand."""
    data = Data(spec)
    sample = PatchBatch(*(part[0] for part in data.test))
    folder.conditions(spec.law.check(PatchSetting(spec.eps, sample)))
    summary: Json = {}
    for arm in spec.arms:
        trained = train(spec, folder, data, arm)
        make = partial(radius_curves, spec, data, trained)
        folder.once(INNER_RADII, make, arm=arm)
        summary[arm] = summarise(trained)
    return summary


def size(spec: PatchInner) -> Size:
    """Own-class problems of all points and runs: weights a patch at a time, some tens of passes a step."""
    patches = len(spec.seeds) * spec.train_size * spec.law.patches
    weights = spec.net.width * spec.law.d
    passes = len(spec.arms) * spec.steps * 20
    return Size(4 * patches * weights, passes * patches * weights * spec.net.width)


EXPERIMENTS = (
    Experiment(
        name="patch-inner",
        paper="at",
        shows="AT §2.5's inner maximum: training with one step, PGD and the true maximiser side by side",
        spec=PatchInner,
        run=run,
        takes={"quick": "3 s", "cpu": "40 s", "paper": "10 min"},
        highlights=(
            Highlight("*/u", "max ⟨w, u⟩ of each class by seed, {}"),
            Highlight("*/v", "max ⟨w, v⟩ of each class by seed, {}"),
            Highlight("*/left", "what the perturbation leaves to the optimum ÷ F_y(X) by seed, {}"),
            Highlight("*/phase_switch", "step at which the robust feature takes over, {}"),
        ),
        size=size,
        columns={INNER_DYNAMICS: InnerDynamics, INNER_RADII: InnerRadii},
    ),
)
