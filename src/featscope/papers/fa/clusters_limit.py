"""`clusters-limit`: along which joint limits n = k^p, d = k^q does training average?

Assumption 4.3 asks for p ≥ 7 and q ≥ 10. At each (p, q) several k are trained, with the rate at which λ grows
kept, and the exponents in k of what the theorems call o(1) are fitted. The noise that a neuron memorises
alone gives √d ‖w − λΣμ/‖μ‖²‖ = λ k/√(2n): that distance falls for p > 2, whatever d.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.settings import Positives, Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import binary_step, start_binary
from featscope.dynamics.cluster_observables import ClusterObservables
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.clusters import ClusterLaw
from featscope.nets import two_layer
from featscope.papers.fa.clusters import Training


class LimitSpec(Spec):
    """The grid of powers, and the numbers of clusters along which exponents are fitted."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"seeds": [0], "points_powers": [2.0, 3.0], "dimension_powers": [3.0, 10.0]},
        "paper": {"clusters": [4, 6, 8, 10, 12]},
    }
    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4, 5), "seeds of data and initial weights")
    clusters: Sizes = setting((4, 6, 8), "even numbers of clusters", letter="k")
    points_powers: Positives = setting((1.5, 2.0, 2.5, 3.0, 3.5), "p of n = k^p training points", letter="p")
    dimension_powers: Positives = setting((2.0, 3.0, 4.0, 10.0), "q of d = k^q", letter="q")
    growth: float = setting(0.06, "learning rate times d ÷ (m k)", gt=0)
    init_d: float = setting(0.003, "standard deviation of the first weights times d", gt=0)
    steps: int = setting(100, "steps of gradient descent", letter="T", ge=1)


class LimitRow(Columns):
    """One row for each (p, q), number of clusters and seed: the 2-class network at the end of training.

    Everything is in units of the mean own λ.
    """

    p = column("power of k that n is")
    q = column("power of k that d is")
    k = column("clusters")
    seed = column("the seed")
    n = column("training points")
    d = column("dimension")
    scale = column("mean λ of own features")
    deviation = column("√d · ‖w − λΣμ/‖μ‖²‖ ÷ λ, largest over neurons")
    memorised = column("k/√(2n), what memorised noise gives for it")
    margin_gap = column("(largest − least margin of a training point) ÷ λ")
    sphere_gap = column("proved bound of inf_C sup |C f_FA − f| on the sphere ‖x‖ = √d, ÷ λ")
    lambda_ratio = column("largest ÷ least λ of an own feature; −1 where the least is not positive")


def setting_at(spec: LimitSpec, p: float, q: float, k: int) -> tuple[ClusterLaw, Training]:
    """Law and training at one point of the grid; the compact copy where it has room."""
    law, n, m = ClusterLaw(k=k, d=max(round(k**q), k)), max(round(k**p), k), max(k // 2, 1)
    training = Training(
        n=n,
        m=m,
        learning_rate=spec.growth * m * k / law.d,
        init_weight=spec.init_d / law.d,
        init_bias=spec.init_d / law.d,
        steps=spec.steps,
        compact=n + 2 * m <= law.d - k,
    )
    return law, training


def _measured(spec: LimitSpec, law: ClusterLaw, t: Training, seed: int) -> tuple[Rows, dict[str, Tensor]]:
    drawn = law.draw(t.n, 2 * t.m, seed, compact=t.compact, dtype=spec.torch_dtype)
    a = two_layer.output_weights(t.m, spec.torch_dtype)
    bias = stream(seed, "init", "bias")
    state = start_binary(drawn.directions, t.n, t.init_weight, t.init_bias, bias)
    step = binary_step(drawn.train, a, t.learning_rate)
    for time in range(t.steps):
        state = step(state, time)
    watch = ClusterObservables(law, drawn.train)
    seen = watch.binary(state, a)
    scale = float(seen["lambda_mean"])
    owners = (law.signs(a.dtype)[None, :] * a[:, None]) > 0
    # Theorem 4.6 by the proof's bound: each neuron contributes |a_r| (√d ‖w_r − …‖ + |b_r|).
    sphere = float((a.abs() * (watch.deviation(state.w, scale, owners) + state.b.abs())).sum())
    c = LimitRow
    row: dict[str, float] = {
        c.n: t.n,
        c.d: law.d,
        c.scale: scale,
        c.deviation: float(seen["deviation"]) / scale,
        c.memorised: law.k / math.sqrt(2 * t.n),
        c.margin_gap: (float(seen["margin_max"]) - float(seen["margin_min"])) / scale,
        c.sphere_gap: sphere / scale,
        c.lambda_ratio: float(seen["lambda_ratio"]),
    }
    return [row], {}


def run_limit(spec: LimitSpec, folder: Folder) -> Json:
    """Every point of the grid at every k."""
    summary: Json = {}
    for p in spec.points_powers:
        for q in spec.dimension_powers:
            rows: Rows = []
            for k in spec.clusters:
                law, training = setting_at(spec, p, q, k)
                folder.conditions(law.check(training.hyper), p=p, q=q, k=k)
                for seed in spec.seeds:
                    make = partial(_measured, spec, law, training, seed)
                    rows += folder.once("net", make, p=p, q=q, k=k, seed=seed).rows
            last = rows[-len(spec.seeds) :]
            means = {key: sum(row[key] for row in last) / len(last) for key in last[0]}
            summary[f"n = k^{p:g}, d = k^{q:g}"] = means
    return summary


def size(spec: LimitSpec) -> Size:
    """A sample of n = k^p points for each point of the grid, in its compact copy or in R^d."""
    work, largest = 0.0, 0.0
    for p in spec.points_powers:
        for q in spec.dimension_powers:
            for k in spec.clusters:
                n = float(k) ** p
                held = n * min(n + 2 * k, float(k) ** q)
                work, largest = work + held * k, max(largest, held)
    return Size(largest, len(spec.seeds) * spec.steps * work)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-limit",
        "fa",
        "the joint limit n = k^p, d = k^q: exponents in k of the distance to averaging, of the margins' gap "
        "and of the gap on the sphere",
        LimitSpec,
        run_limit,
        {"quick": "2 s", "cpu": "15 s", "paper": "10 min"},
        highlights=(
            Highlight("*/deviation", "distance to averaging ÷ λ at the largest k, {}"),
            Highlight("*/margin_gap", "gap of margins ÷ λ at the largest k, {}"),
        ),
        size=size,
        columns={"net": LimitRow},
    ),
)
