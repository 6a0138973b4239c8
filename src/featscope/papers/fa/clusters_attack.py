"""`clusters-attack`: the perturbation of the paper's proofs as an attack on trained networks.

Theorem D.2 fools f_FA along ρ ∝ −y(Σ_{J₊} μ − Σ_{J₋} μ), by f(x + ρ) = f(x) + ⟨∇f(x), ρ⟩ and ‖∇f‖ =
Ω(√(kd)); §7 reads the same off trained networks. Here they are trained as in §6.1 and ρ is held against the
exact radius and PGD; along k, with m = k/2, the size of the gradient is followed.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from featscope.attacks.along_ray import flip_along
from featscope.attacks.minimal import MinimalPGD, binary_objective
from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.columns import Columns, column
from featscope.core.settings import Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import binary_step, start_binary
from featscope.dynamics.cluster_observables import ClusterObservables
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.nets import two_layer
from featscope.nets.two_layer import TwoLayer, in_span
from featscope.papers.fa.clusters import Training, right


class AttackSpec(Spec):
    """§6.1's setting, and the numbers of clusters along which the gradient is followed."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {
            "seeds": [0, 1],
            "training.n": 200,
            "clusters": [4, 8, 16],
            "points_a_cluster": 12,
            "test_points": 24,
        },
        "paper": {"seeds": [0, 1, 2, 3, 4], "test_points": 300, "points_a_cluster": 100},
    }
    seeds: tuple[int, ...] = setting((0, 1, 2), "seeds of data and initial weights")
    law: ClusterLaw = setting(ClusterLaw(), "the law of the data")
    training: Training = setting(Training(compact=True), "points, neurons and gradient descent")
    clusters: Sizes = setting((4, 8, 16, 32), "numbers of clusters that are swept", letter="k")
    sweep_dimension: int = setting(10**6, "dimension of the sweep", ge=1000)
    points_a_cluster: int = setting(40, "training points of a cluster in the sweep", ge=2)
    test_points: int = setting(60, "fresh points that are attacked", ge=1)


class ProofAttack(Columns):
    """One row for each test point of §6.1's networks; lengths are ℓ2."""

    seed = column("the seed")
    point = column("index of the test point")
    label = column("the class y of the point, 1 or −1")
    exact = column("exact radius")
    pgd = column("radius of PGD on the margin")
    along = column("radius along −y(Σ_{J₊} μ − Σ_{J₋} μ)")
    ratio = column("radius along the paper's direction ÷ exact radius")
    pgd_ratio = column("radius of PGD ÷ exact radius")
    cosine = column("cosine of the minimal perturbation with the paper's direction")
    bend = column("|f(x+ρ) − f(x) − ⟨∇f(x), ρ⟩| ÷ |f(x)| at the exact radius along the paper's direction")
    bend_active = column("the same with the gradient at x + ρ, where both classes' neurons are active")


class GradientSize(Columns):
    """One row for each number of clusters and seed: gradients in units in which f_FA's is √(kd)."""

    k = column("clusters")
    seed = column("the seed")
    n = column("training points")
    clean = column("test accuracy")
    scale = column("mean λ of own features")
    gradient = column("median ‖∇f(x)‖ d/(λ√d)")
    gradient_moved = column("the same at x + ρ, ρ the paper's perturbation that flips the sign")
    gradient_min = column("least ‖∇f(x)‖ d/(λ√d)")
    bend = column("median departure from linearity along the paper's direction, as in the part `points`")
    bend_active = column("the same with the gradient at x + ρ")
    along_over_root_dk = column("median radius along the paper's direction ÷ √(d/k)")


def trained(law: ClusterLaw, training: Training, seed: int, dtype: torch.dtype) -> tuple[TwoLayer, float]:
    """The 2-class network, and the mean λ of its own features."""
    drawn = law.draw(training.n, 2 * training.m, seed, compact=True, dtype=dtype)
    a = two_layer.output_weights(training.m, dtype)
    bias = stream(seed, "init", "bias")
    state = start_binary(drawn.directions, training.n, training.init_weight, training.init_bias, bias)
    step = binary_step(drawn.train, a, training.learning_rate)
    for t in range(training.steps):
        state = step(state, t)
    found = ClusterObservables(law, drawn.train).coefficients(state).features
    owners = (law.signs(dtype)[None, :] * a[:, None]) > 0
    return TwoLayer(state.w, state.b, a), float(found[owners].mean())


def proof_direction(law: ClusterLaw, batch: ClusterBatch) -> Tensor:
    """(n, D) unit vectors along −y(Σ_{J₊} μ − Σ_{J₋} μ)."""
    mu = law.features(batch.x.shape[1], batch.x.dtype)
    return -batch.y[:, None] * torch.nn.functional.normalize(law.signs(mu.dtype) @ mu, dim=-1)


def _fresh(law: ClusterLaw, net: TwoLayer, points: int, seed: int) -> ClusterBatch:
    return law.sample(points, stream(seed, "data", "test"), net.w.shape[1], net.w.dtype)


def bends(net: TwoLayer, x: Tensor, rho: Tensor) -> tuple[Tensor, Tensor]:
    """|f(x+ρ) − f(x) − ⟨∇f, ρ⟩| ÷ |f(x)| with the gradient at x, and with that at x + ρ."""
    f, slope = two_layer.input_gradient(net, x)
    moved, slope_there = two_layer.input_gradient(net, x + rho)
    here, there = ((moved - f - (s * rho).sum(-1)).abs() / f.abs() for s in (slope, slope_there))
    return here, there


def _points(spec: AttackSpec, seed: int) -> tuple[Rows, dict[str, Tensor]]:
    law = spec.law
    net, _ = trained(law, spec.training, seed, spec.torch_dtype)
    batch = _fresh(law, net, spec.test_points, seed)
    direction = proof_direction(law, batch)
    exact = exact_radii(net, batch.x, batch.y)
    small, inner, _ = in_span(net, batch.x)
    pgd = MinimalPGD(steps=60, restarts=2, rounds=10, reach=2 * math.sqrt(law.d))
    attacked = pgd(binary_objective(small, batch.y), inner, stream(seed, "attack")).radius
    along = flip_along(net, batch.x, batch.y, direction)
    bend = bends(net, batch.x, along[:, None] * direction)
    radius = exact.upper
    c = ProofAttack
    columns: dict[str, Tensor] = {
        c.label: batch.y,
        c.exact: radius,
        c.pgd: attacked,
        c.along: along,
        c.ratio: along / radius,
        c.pgd_ratio: attacked / radius,
        c.cosine: (exact.delta * direction).sum(-1) / radius,
        c.bend: bend[0],
        c.bend_active: bend[1],
    }
    lists = {name: values.tolist() for name, values in columns.items()}
    rows = [{c.point: i, **{name: values[i] for name, values in lists.items()}} for i in range(len(radius))]
    return rows, {}


def swept_training(spec: AttackSpec, k: int) -> Training:
    """§6.1's training at another k: η d/(mk) and σ_w d stay, m = k/2."""
    factor, m = spec.law.d / spec.sweep_dimension, k // 2
    base = spec.training
    return base.replace(
        n=spec.points_a_cluster * k,
        m=m,
        learning_rate=base.learning_rate * factor * m * k / (base.m * spec.law.k),
        init_weight=base.init_weight * factor,
        init_bias=base.init_bias * factor,
    )


def _gradient(spec: AttackSpec, k: int, seed: int) -> tuple[Rows, dict[str, Tensor]]:
    law, training = ClusterLaw(k=k, d=spec.sweep_dimension), swept_training(spec, k)
    net, scale = trained(law, training, seed, spec.torch_dtype)
    batch = _fresh(law, net, spec.test_points, seed)
    direction = proof_direction(law, batch)
    along = flip_along(net, batch.x, batch.y, direction)
    unit = math.sqrt(law.d) / scale
    f, slope = two_layer.input_gradient(net, batch.x)
    rho = along[:, None] * direction
    there = two_layer.input_gradient(net, batch.x + rho)[1]
    bend, bend_active = bends(net, batch.x, rho)
    sizes, moved = (unit * torch.linalg.vector_norm(s, dim=-1) for s in (slope, there))
    c = GradientSize
    row: dict[str, float] = {
        c.n: training.n,
        c.clean: right(f, batch.y),
        c.scale: scale,
        c.gradient: float(sizes.median()),
        c.gradient_moved: float(moved.median()),
        c.gradient_min: float(sizes.min()),
        c.bend: float(bend.median()),
        c.bend_active: float(bend_active.median()),
        c.along_over_root_dk: float(along.median()) / math.sqrt(law.d / k),
    }
    return [row], {}


def run_attack(spec: AttackSpec, folder: Folder) -> Json:
    """§6.1's networks point by point, then the sweep."""
    folder.conditions(spec.law.check(spec.training.hyper), sweep="none")
    points: Rows = []
    for seed in spec.seeds:
        points += folder.once("points", partial(_points, spec, seed), seed=seed).rows
    sizes: dict[str, Json] = {}
    for k in spec.clusters:
        law = ClusterLaw(k=k, d=spec.sweep_dimension)
        folder.conditions(law.check(swept_training(spec, k).hyper), sweep="k", k=k)
        rows: Rows = []
        for seed in spec.seeds:
            rows += folder.once("gradient", partial(_gradient, spec, k, seed), k=k, seed=seed).rows
        sizes[str(k)] = {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}
    shown = (ProofAttack.ratio, ProofAttack.pgd_ratio, ProofAttack.cosine, ProofAttack.bend)
    medians = {str(key): float(torch.tensor([row[key] for row in points]).median()) for key in shown}
    return {"points": medians, "along_k": sizes}


def size(spec: AttackSpec) -> Size:
    """Compact copies of §6.1's sample and of each of the sweep's."""
    t, largest = spec.training, spec.points_a_cluster * max(spec.clusters)
    first = t.n * (t.n + 2 * t.m) * 2 * t.m
    swept = sum((spec.points_a_cluster * k) ** 2 * k for k in spec.clusters)
    pieces = spec.test_points * 4**t.m * t.m
    return Size(max(t.n, largest) ** 2, len(spec.seeds) * (t.steps * (first + swept) + 100 * pieces))


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-attack",
        "fa",
        "the perturbation of the paper's proofs, −y(Σ₊μ − Σ₋μ), on trained 2-class networks: against exact "
        "radii and PGD, how linear f is along it, and the size of ∇f along k",
        AttackSpec,
        run_attack,
        {"quick": "3 s", "cpu": "12 s", "paper": "2 min"},
        highlights=(
            Highlight("points/ratio", "median radius along the paper's direction ÷ exact radius"),
            Highlight("points/cosine", "median cosine of the minimal perturbation with it"),
            Highlight("points/bend", "median departure from linearity along it"),
        ),
        size=size,
        columns={"points": ProofAttack, "gradient": GradientSize},
    ),
)
