"""Experiment `signal-stages`: CGRO's three stages, robustness in every reading, and the exact recursions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from featscope.attacks.gta import transferred
from featscope.core.settings import RadiusList, setting
from featscope.core.signs import share
from featscope.core.store import Folder, Json, Part, Rows
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import (
    Components,
    Kernel,
    Objective,
    RoutePair,
    both_routes,
    descent_step,
    recursion_step,
)
from featscope.dynamics.trajectory import Observe, seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.signal import Instance, SignalBatch, SignalLaw, SignalSetting, stack
from featscope.papers.cgro.overview import STAGES_HIGHLIGHTS
from featscope.papers.cgro.signal_robustness import Conflict, RobustBracket, readings
from featscope.papers.cgro.stages_columns import Outcome, Stages, Training, Verification


class SignalStages(Spec):
    """Training on (O) with the attack (A), by the exact recursions."""

    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {
            "d": 256,
            "n": 10,
            "steps": 3000,
            "test": 500,
            "every": 50,
            "verify_steps": 300,
            "radii": [0.02, 0.06, 0.1, 1.0],
        },
        "paper": {"seeds": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "test": 20000},
    }

    dtype: Literal["float64"] = "float64"
    law: SignalLaw = setting(SignalLaw(), "the law of the data")
    n: int = setting(50, "training points", letter="N", ge=1)
    m: int = setting(10, "width of the network", letter="m", ge=1)
    init_scale: float | None = setting(
        None, "standard deviation of the first weights; 1/√d if not given", letter="σ_0", gt=0
    )
    learning_rate: float = setting(0.1, "step size of gradient descent", letter="η", gt=0)
    tradeoff: float = setting(0.9, "weight of the perturbed loss in (O)", letter="λ", ge=0, le=1)
    steps: int = setting(15000, "steps of gradient descent", letter="T", ge=1)
    every: int = setting(100, "steps between two recorded rows", ge=1)
    test: int = setting(2000, "fresh points on which accuracy is measured", ge=1)
    compact: bool = setting(False, "train the isometric copy in law, n(P−1)+m+1 coordinates")
    noise_ball: float = setting(0.1, "ℓ2 radius on the noise patches around the attacked point", ge=0)
    radii: RadiusList = setting(
        (0.01, 0.02, 0.04, 0.06, 0.1, 0.2, 0.5, 1.0), "radii of `ball` as shares of δ"
    )
    restarts: int = setting(3, "random starts of the attacks", ge=1)
    verify_steps: int = setting(12000, "steps of full descent compared with the recursion, first seed", ge=0)

    @property
    def start_scale(self) -> float:
        """σ0."""
        return self.init_scale if self.init_scale is not None else 1 / math.sqrt(self.law.d)

    def instance(self, seed: int) -> Instance:
        """The training sample and initial weights of one seed."""
        draw = self.law.compact_instance if self.compact else self.law.instance
        return draw(self.n, self.m, self.start_scale, stream(seed, "data", "train"), stream(seed, "init"))

    def fresh(self, seed: int, like: Tensor) -> SignalBatch:
        """The test sample of one seed."""
        return self.law.fresh(self.test, like, stream(seed, "data", "test"))

    @property
    def setting(self) -> SignalSetting:
        """What Theorem 4.1 speaks of besides the law."""
        return SignalSetting(self.n, self.start_scale, self.learning_rate, self.tradeoff)

    @property
    def objective(self) -> Objective:
        """(O) at this setting."""
        return Objective.of(self.law, self.n, self.learning_rate, self.tradeoff)


class Fresh:
    """Fresh noise patches seen from the recursion: products with initial weights and training noise."""

    def __init__(self, spec: SignalStages, instance: Instance, kernel: Kernel) -> None:
        start, cross, labels = [], [], []
        for index, seed in enumerate(spec.seeds):
            batch = spec.fresh(seed, instance.w[index])
            noise = (batch.y[:, None, None] * batch.noise()).flatten(0, 1)
            start.append(instance.w[index] @ noise.mT)
            cross.append(kernel.noise[index] @ noise.mT)
            labels.append(batch.y)
        self.start, self.cross, self.count = torch.stack(start), torch.stack(cross), spec.test

    def noise(self, state: Components) -> Tensor:
        """V of the fresh points, (R, test)."""
        v = self.start + state.c @ self.cross
        return v.pow(3).view(*v.shape[:2], self.count, -1).sum((1, 3))


def observer(spec: SignalStages, kernel: Kernel, fresh: Fresh) -> Observe[Components]:
    """The quantities of §4.1 and §4.3 at a state."""
    c, objective, alpha = Training, spec.objective, spec.law.strength
    own = kernel.gram.diagonal(dim1=-2, dim2=-1)[:, None, :]

    def observe(state: Components, t: int) -> Mapping[str, Tensor | float]:
        squares = state.v * state.v
        r = objective.rates(state.u, state.v, squares)
        up, grown = objective.growth(state.u, squares, r)
        tested = fresh.noise(state)
        s, rho = r.signal[:, None], objective.rho
        slope = (up.square().sum(-1) + (grown * (grown @ kernel.gram)).sum((1, 2))).sqrt() / objective.eta
        # Lemma 4.4: what the other noise patches added or took, against the lemma's P σ² √d / α.
        crosstalk = (state.v - kernel.v0 - own * state.c).flatten(1)
        pulled = ((1 - objective.lam) * r.clean + objective.lam * rho * r.attacked).mean(-1)
        return {
            c.signal: r.signal,
            c.u_max: state.u.amax(-1),
            c.v_max: state.v.flatten(1).abs().amax(-1),
            c.V_min: r.noise.amin(-1),
            c.V_median: r.noise.median(-1).values,
            c.V_max: r.noise.amax(-1),
            c.V_fresh_rms: tested.square().mean(-1).sqrt(),
            c.memorised: share(r.noise >= 1),
            c.clean_train: share(s + r.noise > 0),
            c.gta_train: share(rho * s + r.noise > 0),
            c.clean_test: share(s + tested > 0),
            c.gta_test: share(rho * s + tested > 0),
            c.loss: objective.loss(state.u, state.v),
            c.gradient: slope,
            c.slack: state.slack,
            c.growth_constant: 3 * pulled * (1 + r.signal.exp()),
            c.crosstalk_low: -crosstalk.amin(-1),
            c.crosstalk_high: crosstalk.amax(-1),
            c.alpha_u: alpha * state.u.amax(-1),
            c.signal_at: state.signal_at,
            c.first_memorised: _first(state.memorised_at),
            c.median_memorised: _median(state.memorised_at),
            c.last_memorised: torch.where((state.memorised_at < 0).any(-1), -1, state.memorised_at.amax(-1)),
        }

    return observe


def _first(times: Tensor) -> Tensor:
    late = torch.where(times < 0, torch.iinfo(torch.long).max, times).amin(-1)
    return torch.where((times < 0).all(-1), -1, late)


def _median(times: Tensor) -> Tensor:
    middle = torch.where(times < 0, torch.iinfo(torch.long).max, times).median(-1).values
    return torch.where(middle == torch.iinfo(torch.long).max, -1, middle)


class Foreseen(NamedTuple):
    """Times that one seed's initial components predict."""

    T0: float | None
    T1: float | None
    T1_order: float


def predictions(spec: SignalStages, kernel: Kernel) -> list[Foreseen]:
    """Times that the initial components predict (docs/cgro.md), one for each seed.

    T0 = 1/(1.5 η(1−λ) α³ max_r u_r(0)); T1 = 2N/(3ηλ max_jr ‖X_i[j]‖² v_ijr(0)), its median over i; and the
    paper's order N/(η σ0 σ³ d^{3/2}).
    """
    o, law = spec.objective, spec.law
    own = kernel.gram.diagonal(dim1=-2, dim2=-1)[:, None, :]
    push = (own * kernel.v0).view(*kernel.v0.shape[:2], spec.n, -1).amax((1, 3)).clamp(min=0)
    lead = kernel.u0.amax(-1)
    scale = spec.n / (o.eta * spec.start_scale * law.noise_scale**3 * law.d**1.5)
    found: list[Foreseen] = []
    for index in range(len(spec.seeds)):
        up, middle = float(lead[index]), float(push[index].median())
        first = 1 / (1.5 * o.eta * (1 - o.lam) * o.cube * up) if up > 0 and o.lam < 1 else None
        second = 2 * spec.n / (3 * o.eta * o.lam * middle) if middle > 0 and o.lam > 0 else None
        found.append(Foreseen(first, second, scale))
    return found


def plateau(spec: SignalStages, median_memorised: int) -> float | None:
    """s = ln(9η(1−λ)α²T1) + (4/3) ln s: α³U after T1 steps of ds/dt = 9ηα²(1−λ) s^{4/3} e^{−s}."""
    a = 9 * spec.learning_rate * (1 - spec.tradeoff) * spec.law.strength**2 * median_memorised
    if median_memorised <= 0 or a <= math.e:
        return None
    s = math.log(a)
    for _ in range(200):
        s = math.log(a) + 4 / 3 * math.log(s)
    return s


def descent_gap(spec: SignalStages, instance: Instance, folder: Folder) -> float:
    """Run full descent on the first seed beside the recursion; return the largest difference in u and v.

    Descent is given the points of (A) by its own formula; the recursion knows only what (A) leaves.
    """
    one = Instance(SignalBatch(*(t[:1] for t in instance.train)), instance.w[:1])
    kernel = Kernel.of(one)
    x, y = one.train.x, one.train.y
    recursion = recursion_step(kernel, spec.objective)
    descent = descent_step(x, y, spec.learning_rate, spec.tradeoff, transferred(x, y, spec.law))

    def gaps(state: RoutePair, t: int) -> Mapping[str, Tensor | float]:
        gap_v = (state.w @ kernel.noise.mT - state.v).abs().amax((1, 2))
        return {Verification.gap_u: (state.w[..., 0] - state.u).abs().amax(-1), Verification.gap_v: gap_v}

    first, every = kernel.start(spec.n), max(1, spec.verify_steps // 40)
    start, step = RoutePair(first.u, first.v, first.c, one.w), both_routes(recursion, first, descent)
    runs, keep = seed_labels(spec.seeds[:1]), folder.part("verify")
    done = trajectory(step, start, spec.verify_steps, gaps, every, runs=runs, keep=keep)
    done.healthy("descent beside the recursion", "lower learning_rate")
    return max(float(max(row[Verification.gap_u], row[Verification.gap_v])) for row in done.rows)


ACCURACIES = (Outcome.clean_train, Outcome.clean_test, Outcome.gta_train, Outcome.gta_test)


def _time(step: int) -> int | None:
    """A time of the stages; none for −1, not yet."""
    return None if step < 0 else int(step)


def stages(spec: SignalStages, last: Rows, kernel: Kernel) -> Rows:
    """The stages by their rules: T0 (α³U ≥ 1), T1 (V_i ≥ 1, first/median/last i), the plateau of α³U."""
    c = Outcome
    return [
        {
            Stages.seed: row[c.seed],
            Stages.T0: _time(row[c.signal_at]),
            Stages.T0_predicted: foreseen.T0,
            Stages.T1_first: _time(row[c.first_memorised]),
            Stages.T1_median: _time(row[c.median_memorised]),
            Stages.T1_last: _time(row[c.last_memorised]),
            Stages.T1_median_predicted: foreseen.T1,
            Stages.T1_order: foreseen.T1_order,
            Stages.plateau_predicted: plateau(spec, int(row[c.median_memorised])),
        }
        for row, foreseen in zip(last, predictions(spec, kernel), strict=True)
    ]


class FinishedTraining(NamedTuple):
    """A finished training: what it started from, its kernel, the last row of every run, the last state."""

    instance: Instance
    kernel: Kernel
    last: Rows
    state: Components


def train(
    spec: SignalStages,
    keep: Part,
    stop: Callable[[Components, int], bool] | None = None,
    opening: Part | None = None,
) -> FinishedTraining:
    """Run the recursions for all seeds at once; ``opening`` keeps all of the first steps."""
    instance = stack([spec.instance(seed) for seed in spec.seeds])
    kernel = Kernel.of(instance)
    observe = observer(spec, kernel, Fresh(spec, instance, kernel))
    step, start = recursion_step(kernel, spec.objective), kernel.start(spec.n)
    if opening is not None:
        trajectory(
            step, start, min(spec.every, spec.steps), observe, 1, runs=seed_labels(spec.seeds), keep=opening
        )
    done = trajectory(
        step, start, spec.steps, observe, spec.every, runs=seed_labels(spec.seeds), keep=keep, stop=stop
    )
    done.healthy("the recursions", "lower learning_rate")
    end = done.rows[-1][Training.step]
    return FinishedTraining(
        instance, kernel, [row for row in done.rows if row[Training.step] == end], done.state
    )


def _mean(rows: Rows, key: str) -> float:
    return float(sum(row[key] for row in rows) / len(rows))


def run_stages(spec: SignalStages, folder: Folder) -> Json:
    """Train, find the stages, and read robustness in every way."""
    folder.conditions(spec.law.check(spec.setting))
    instance, kernel, last, state = train(spec, folder.part("training"), opening=folder.part("opening"))
    found = stages(spec, last, kernel)
    folder.add("stages", found)
    summary: Json = {key: _mean(last, key) for key in ACCURACIES}
    summary |= {
        "alpha3_U": _mean(last, Training.signal),
        "alpha3_U_each": [row[Training.signal] for row in last],
    }
    summary |= {
        key: [row[key] for row in found] for key in Stages.all() if key not in (Stages.seed, Stages.T1_order)
    }
    summary["T1_order"] = found[0][Stages.T1_order]
    spread = (Training.V_min, Training.V_median, Training.V_max, Training.V_fresh_rms)
    summary |= {key: [row[key] for row in last] for key in spread}
    summary |= readings(spec, instance, kernel.weights(instance.w, state), folder)
    if spec.verify_steps:
        summary["recursion_error"] = descent_gap(spec, instance, folder)
    summary["critical_samples"] = spec.law.critical_samples(spec.start_scale)
    return summary


def size(spec: SignalStages) -> Size:
    """Training and fresh points; the recursion meets every noise patch with every neuron."""
    law, patches = spec.law, spec.n * (spec.law.patches - 1)
    coordinates = patches + spec.m + 1 if spec.compact else law.d
    held = (spec.n + spec.test) * law.patches * coordinates + patches * patches
    products = spec.steps * patches * spec.m + spec.verify_steps * spec.n * law.patches * law.d * spec.m
    return Size(held, len(spec.seeds) * products)


EXPERIMENTS = (
    Experiment(
        name="signal-stages",
        paper="cgro",
        shows="CGRO §4: signal first, plateau, then memorised noise; clean and robust-train fine, "
        "robust-test not, by reading",
        spec=SignalStages,
        run=run_stages,
        revision=3,
        columns={
            "training": Training,
            "opening": Training,
            "stages": Stages,
            "robustness": RobustBracket,
            "conflict": Conflict,
            "verify": Verification,
        },
        takes={"quick": "8 s", "cpu": "50 s", "paper": "4 min"},
        highlights=STAGES_HIGHLIGHTS,
        size=size,
    ),
)
