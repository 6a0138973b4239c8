"""`clusters-adversarial`: does adversarial training decouple the features that gradient descent averages?

FA leaves open what other trainings do (§8). The 2-class network is trained at perturbed points by four
attacks and several radii ε; its radii on fresh points are exact. A network without useful biases (they learn
d times slower than the weights) can reach √(d/(1 + k/2)) by decoupling, against √(d/k) by averaging.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import RadiusList, setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.cluster_adversarial import (
    ClusterRuns,
    Robustly,
    TrainingAttack,
    adversarial_step,
    alignment,
)
from featscope.dynamics.trajectory import Labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.clusters import ClusterLaw, ClusterSetting
from featscope.nets import two_layer
from featscope.nets.two_layer import TwoLayer

ATTACKS: tuple[TrainingAttack, ...] = ("proof", "one-step", "pgd", "ramp")


class AdversarialSpec(Spec):
    """Radii are in units of √d; all of them and all seeds are trained together."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"radii": [0.0, 0.3], "training_points": 36, "steps": 150, "test_points": 12},
        "paper": {
            "seeds": [0, 1, 2, 3, 4],
            "radii": [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6],
            "training_points": 120,
            "attack_steps": 10,
            "steps": 1000,
            "test_points": 60,
        },
    }
    seeds: tuple[int, ...] = setting((0, 1), "seeds of data, initial weights and attacks")
    law: ClusterLaw = setting(ClusterLaw(k=6), "the law of the data")
    training_points: int = setting(72, "training points", letter="n", ge=2)
    m: int = setting(6, "neurons of each sign", letter="m", ge=1, le=10)
    attacks: tuple[TrainingAttack, ...] = setting(ATTACKS, "what perturbs the training points")
    radii: RadiusList = setting((0.0, 0.1, 0.2, 0.3, 0.4, 0.5), "radii of training ÷ √d", letter="ε")
    attack_steps: int = setting(5, "steps of pgd and ramp", ge=1)
    eta_d: float = setting(3.0, "learning rate times d", letter="ηd", gt=0)
    init_weight: float = setting(1e-5, "standard deviation of the first weights", letter="σ_w", gt=0)
    steps: int = setting(400, "steps of gradient descent", letter="T", ge=2)
    every: int = setting(50, "steps between two recorded rows", ge=1)
    test_points: int = setting(24, "fresh points whose exact radii are measured", ge=1)

    def model_post_init(self, context: object) -> None:
        """Radius 0 is what the others are compared with."""
        require(
            self.radii[0] == 0,
            "the first radius is standard training's",
            f"radii={self.radii}",
            "begin with 0",
        )


class RobustCourse(Columns):
    """One row for each attack, radius, seed and recorded step."""

    attack = column("proof, one-step, pgd or ramp")
    eps = column("radius of training ÷ √d")
    seed = column("the seed")
    step = column("t, steps of descent")
    margin = column("mean margin of the training points as they are")
    single = column("mean over neurons of the largest cosine with one own feature, in the features' span")
    together = column("mean over neurons of the cosine with the sum of the own features, in their span")


class RobustEnd(Columns):
    """One row for each attack, radius and seed: the network at the end of training."""

    attack = column("proof, one-step, pgd or ramp")
    eps = column("radius of training ÷ √d")
    seed = column("the seed")
    clean = column("accuracy on fresh points")
    radius = column("median exact radius ÷ √d; a wrong point has 0, one that nothing fools 4")
    radius_right = column("the same over the points that are classified correctly; −1 if there are none")
    robust = column("share of fresh points with an exact radius of at least the training radius")
    single = column("single, at the end")
    together = column("together, at the end")
    decoupling = column("single − together: positive where neurons are nearer to one feature than to the sum")
    weight = column("largest norm of a weight times √d")


def _drawn(spec: AdversarialSpec) -> tuple[ClusterRuns, Robustly]:
    """Data and initial weights of every (seed, radius)."""
    law, dtype, count = spec.law, spec.torch_dtype, len(spec.radii)
    draws = [
        law.draw(spec.training_points, 2 * spec.m, seed, compact=True, dtype=dtype) for seed in spec.seeds
    ]
    repeated = [torch.stack(parts).repeat_interleave(count, 0) for parts in _columns(draws)]
    x, y, directions = repeated
    eps = math.sqrt(law.d) * torch.tensor(spec.radii, dtype=dtype).repeat(len(spec.seeds))
    ahead = law.signs(dtype) @ draws[0].features
    start = Robustly(spec.init_weight * directions, directions.new_zeros(directions.shape[:2]))
    return ClusterRuns(x, y, eps, ahead), start


def _columns(draws: list[Any]) -> list[list[Tensor]]:
    return [
        [draw.train.x for draw in draws],
        [draw.train.y for draw in draws],
        [draw.directions for draw in draws],
    ]


def run_adversarial(spec: AdversarialSpec, folder: Folder) -> Json:
    """Every attack at every radius."""
    law, dtype = spec.law, spec.torch_dtype
    eta = spec.eta_d / law.d
    folder.conditions(law.check(ClusterSetting(spec.training_points, spec.m, eta, spec.init_weight, 0.0)))
    data, start = _drawn(spec)
    a, runs = two_layer.output_weights(spec.m, dtype), [(seed, r) for seed in spec.seeds for r in spec.radii]
    mu, signs = law.features(data.x.shape[-1], dtype), law.signs(dtype)

    def observe(state: Robustly, t: int) -> dict[str, Tensor]:
        margin = data.y * two_layer.forward(TwoLayer(state.w, state.b, a), data.x)
        single, together = alignment(state.w, a, mu, signs)
        c = RobustCourse
        return {c.margin: margin.mean(-1), c.single: single, c.together: together}

    summary: Json = {}
    for attack in spec.attacks:
        rng = stream(spec.seeds[0], "attack", attack)
        step = adversarial_step(data, a, eta, attack, spec.attack_steps, max(spec.steps // 2, 1), rng)
        labels: list[Labels] = [{"seed": seed, "eps": r} for seed, r in runs]
        part = folder.part("course", attack=attack)
        done = trajectory(step, start, spec.steps, observe, spec.every, runs=labels, keep=part)
        ends = folder.once("end", partial(_ends, spec, done.state, a, runs), attack=attack).rows
        summary[attack] = {
            f"{r:g}": _means([row for row in ends if row[RobustEnd.eps] == r]) for r in spec.radii
        }
    return summary


def _means(rows: Rows) -> Json:
    return {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}


def _ends(
    spec: AdversarialSpec, state: Robustly, a: Tensor, runs: list[tuple[int, float]]
) -> tuple[Rows, dict[str, Tensor]]:
    law, root = spec.law, math.sqrt(spec.law.d)
    mu, signs = law.features(state.w.shape[-1], a.dtype), law.signs(a.dtype)
    single, together = alignment(state.w, a, mu, signs)
    rows: Rows = []
    c = RobustEnd
    for i, (seed, eps) in enumerate(runs):
        batch = law.sample(spec.test_points, stream(seed, "data", "test"), state.w.shape[-1], a.dtype)
        exact = exact_radii(TwoLayer(state.w[i], state.b[i], a), batch.x, batch.y)
        radii = exact.upper.clamp(max=4 * root) / root
        mine = radii[exact.correct]
        rows.append(
            {
                c.eps: eps,
                c.seed: seed,
                c.clean: float(exact.correct.double().mean()),
                c.radius: float(radii.median()),
                c.radius_right: float(mine.median()) if len(mine) else -1.0,
                c.robust: float(((radii >= eps) & exact.correct).double().mean()),
                c.single: float(single[i]),
                c.together: float(together[i]),
                c.decoupling: float(single[i] - together[i]),
                c.weight: root * float(torch.linalg.vector_norm(state.w[i], dim=-1).max()),
            }
        )
    return rows, {}


def size(spec: AdversarialSpec) -> Size:
    """Compact copies for all runs at once, met at every step of the attacks."""
    coordinates = spec.law.k + spec.training_points + 2 * spec.m
    held = len(spec.seeds) * len(spec.radii) * spec.training_points * coordinates
    looks = sum(spec.attack_steps if attack in ("pgd", "ramp") else 1 for attack in spec.attacks)
    return Size(6 * held, spec.steps * held * 2 * spec.m * 4 * (looks + len(spec.attacks)))


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-adversarial",
        "fa",
        "adversarial training of the 2-class network by four attacks and several radii: exact radii, and "
        "whether neurons average or decouple",
        AdversarialSpec,
        run_adversarial,
        {"quick": "3 s", "cpu": "12 s", "paper": "10 min"},
        highlights=(
            Highlight("*/*/radius", "median exact radius ÷ √d, {} at ε = {}√d"),
            Highlight("*/*/decoupling", "decoupling, {} at ε = {}√d"),
        ),
        size=size,
        columns={"course": RobustCourse, "end": RobustEnd},
    ),
)
