"""`clusters-kkt`: does averaging precede the KKT point (FA §2 against Frei et al. 2024)?

FA says that features are averaged soon after the start, far from any KKT point of the margin problem; Min
and Vidal conjecture averaging with both layers trained. Gradient flow on the compact copy, with one and with
both layers trained, over many decades of time: the averaging of neurons beside the errors of the KKT
conditions and the normalised margin.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json
from featscope.dynamics.cluster_flow import Flow, begin, finished, flow_step
from featscope.dynamics.cluster_margin import NeuronRows
from featscope.dynamics.trajectory import Recording, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.clusters import ClusterLaw, ClusterSetting
from featscope.nets.two_layer import output_weights
from featscope.papers.fa.clusters import right
from featscope.papers.fa.clusters_regimes import CLOCKS

#: which layers are trained
LAYERS = ("first", "both")
#: accepted steps of the flow at most; the time ends it
MOST = 20_000


class KktSpec(Spec):
    """A law, a small start, and the times in units of 1/d, in which λ grows by one."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"seeds": [0, 1], "training_points": 120, "law.d": 10_000},
        "paper": {"seeds": [0, 1, 2, 3, 4], "training_points": 1000, "last": 1e9},
    }
    seeds: tuple[int, ...] = setting((0, 1, 2), "seeds of data and initial weights")
    law: ClusterLaw = setting(ClusterLaw(k=6, d=100_000), "the law of the data")
    training_points: int = setting(300, "training points", letter="n", ge=2)
    m: int = setting(6, "neurons of each sign", letter="m", ge=1)
    init_weight: float = setting(1e-6, "standard deviation of the first weights", letter="σ_w", gt=0)
    first: float = setting(1e-2, "first recorded time τ, times d", gt=0)
    last: float = setting(1e7, "last time τ, times d", gt=0)
    tolerance: float = setting(5e-3, "largest relative error of a step of the gradient flow", gt=0, lt=1)
    every: int = setting(1, "accepted steps between two recorded rows", ge=1)


class KktCourse(Columns):
    """One row for each choice of layers, seed and recorded step of the flow."""

    layers = column("first (the second is fixed) or both: what is trained")
    seed = column("the seed")
    step = column("accepted steps of the flow")
    time = column("τ d: time in units of 1/d")
    calls = column("evaluations of the field")
    train = column("training accuracy")
    margin_min = column("least margin q_i of a training point")
    margin_max = column("largest margin of a training point")
    stationarity = column("‖θ/‖θ‖ + ∇L/‖∇L‖‖")
    slackness = column("Σ λ_i (q_i/q_min − 1)/Σ λ_i with λ_i = −ℓ'(q_i); −1 before all points are right")
    normalised_margin = column("q_min ÷ (‖θ‖^L d^½): L = 1 with one layer trained, 2 with both")
    averaging = column("mean cosine of neurons with the sum of their class's features, in the features' span")
    averaging_min = column("the same, least over neurons")


def observe(rows: NeuronRows, law: ClusterLaw, features: Tensor, state: Flow) -> dict[str, float]:
    """What is recorded of a state."""
    q, kkt = rows.margins(state.w), rows.kkt(state.w)
    mean, least = rows.averaging(state.w, features, law.signs(state.w.dtype))
    c = KktCourse
    return {
        c.time: float(state.time) * law.d,
        c.calls: float(state.calls),
        c.train: right(q, torch.ones_like(q)),
        c.margin_min: float(q.min()),
        c.margin_max: float(q.max()),
        c.stationarity: kkt.stationarity,
        c.slackness: kkt.slackness if math.isfinite(kkt.slackness) else -1.0,
        c.normalised_margin: kkt.margin / math.sqrt(law.d),
        c.averaging: mean,
        c.averaging_min: least,
    }


def flow(spec: KktSpec, folder: Folder, layers: str, seed: int) -> Recording[Flow]:
    """One network's flow from a small start to the last time."""
    law, dtype = spec.law, spec.torch_dtype
    drawn = law.draw(spec.training_points, 2 * spec.m, seed, compact=True, dtype=dtype)
    fixed = output_weights(spec.m, dtype)
    rows = NeuronRows(drawn.train, fixed if layers == "first" else None)
    start = rows.start(drawn.directions, fixed.sign(), spec.init_weight)
    nothing, end = start.new_zeros(1), spec.last / law.d
    return trajectory(
        flow_step(rows.field, end, spec.tolerance),
        begin(start, nothing, nothing, 0.0, spec.first / law.d),
        MOST,
        lambda state, t: observe(rows, law, drawn.features, state),
        spec.every,
        keep=folder.part("course", layers=layers, seed=seed),
        stop=finished(end),
        clocks=CLOCKS,
    ).healthy(f"{layers} layers, seed {seed}", "lower tolerance")


def run_kkt(spec: KktSpec, folder: Folder) -> Json:
    """Both choices of layers with every seed."""
    hyper = ClusterSetting(spec.training_points, spec.m, 0.0, spec.init_weight, 0.0)
    folder.conditions(spec.law.check(hyper))
    last: Json = {}
    for layers in LAYERS:
        ends = [flow(spec, folder, layers, seed).rows[-1] for seed in spec.seeds]
        last[layers] = {key: sum(row[key] for row in ends) / len(ends) for key in ends[0]}
    return last


def size(spec: KktSpec) -> Size:
    """A compact copy, met at every evaluation of the field."""
    held = spec.training_points * (spec.training_points + spec.law.k + 2 * spec.m)
    decades = math.log10(max(spec.last / spec.first, 10))
    return Size(held, 2 * len(spec.seeds) * held * 2 * spec.m * 200 * decades)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-kkt",
        "fa",
        "gradient flow with one and with both layers trained: averaging, the KKT conditions and the "
        "normalised margin over nine decades of time",
        KktSpec,
        run_kkt,
        {"quick": "2 s", "cpu": "6 s", "paper": "2 min"},
        highlights=(
            Highlight("*/averaging", "averaging at the end, {} layer(s) trained"),
            Highlight("*/stationarity", "error of stationarity at the end, {} layer(s) trained"),
            Highlight("*/slackness", "error of slackness at the end, {} layer(s) trained"),
        ),
        size=size,
        columns={"course": KktCourse},
    ),
)
