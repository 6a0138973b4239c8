"""`phase-clusters`: where FA's 2-class network averages its clusters, with lines that the model's own sizes
draw; the exact radius beside it.

- (η, σ_w): all own features get one coefficient as long as the first step outweighs the initial weights. A
  cluster's pre-activation starts at σ_w√(2d) and gains about ηd/(4mk) in the first step, so the line is σ_w =
  η√d/(4√2·mk). Assumption 4.3 asks σ_w² ≤ ηk⁻⁵.
- (α/σ, n/k): a weight is the sum of its class's features and of its points' noise, whose squared norms are as
  (n/k)(α/σ)² to 1: the line is n/k = (σ/α)².
- (k, cosine): with features of cosine c the averaged network's radius is √(d(1−c)/k), half of
  √(d/k) at c = ¾.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.columns import column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import binary_step, start_binary
from featscope.dynamics.cluster_observables import ClusterObservables
from featscope.dynamics.trajectory import trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.clusters import ClusterLaw
from featscope.nets import two_layer
from featscope.nets.two_layer import TwoLayer
from featscope.papers.fa.clusters import Training
from featscope.sweeps.axes import SweepAxis
from featscope.sweeps.phases import (
    PHASE_COLUMNS,
    PHASE_POINTS,
    Diagram,
    PhasePoints,
    SeedValue,
    SeedValues,
    run_diagram,
)

INIT, NOISE, COSINE = "start and step", "points and signal", "cosine and clusters"
PHASE_PANELS = (INIT, NOISE, COSINE)


class ClusterPhasePoints(PhasePoints):
    """One row for each panel, place and seed, with the radius beside the order parameter."""

    radius = column("the median exact radius ÷ √(d/k), at most 4; null where there is none")


class PhaseClusters(Spec):
    """Sizes that the panels share, and how finely their boxes are cut."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"seeds": [0], "width": 0.3, "test_points": 10, "steps": 40, "panels": [NOISE]},
        "paper": {"seeds": list(range(10)), "width": 0.02, "test_points": 200},
    }
    seeds: tuple[int, ...] = (0, 1, 2)
    panels: tuple[str, ...] = setting(PHASE_PANELS, "the panels that are made")
    k: int = setting(10, "clusters, where they are not swept", letter="k", ge=2)
    d: int = setting(10_000, "dimension", letter="d", ge=100)
    m: int = setting(5, "neurons of each class", letter="m", ge=1)
    n: int = setting(200, "training points, where they are not swept", letter="n", ge=4)
    steps: int = setting(100, "steps of gradient descent", letter="T", ge=1)
    learning_rate: float = setting(3e-4, "step size, where it is not swept", letter="η", gt=0)
    init_weight: float = setting(
        3e-6, "scale of the first weights, where it is not swept", letter="σ_w", gt=0
    )
    width: float = setting(0.1, "the edge is known to this share of each axis", gt=0, lt=1)
    test_points: int = setting(20, "fresh points whose exact radius is taken", ge=1)


def measured(spec: PhaseClusters, law: ClusterLaw, training: Training, seed: int) -> dict[str, float]:
    """Train the 2-class network once on a compact copy: the least own coefficient ÷ the largest, the mean
    cosine with own features ÷ its value in the averaging solution, and the median exact radius ÷ √(d/k)."""
    drawn = law.draw(training.n, 2 * training.m, seed, compact=True, dtype=spec.torch_dtype)
    a = two_layer.output_weights(training.m, spec.torch_dtype)
    bias = stream(seed, "init", "bias")
    start = start_binary(drawn.directions, training.n, training.init_weight, training.init_bias, bias)
    step = binary_step(drawn.train, a, training.learning_rate)
    state = trajectory(step, start, training.steps, lambda state, t: {}, training.steps).state
    seen = ClusterObservables(law, drawn.train).binary(state, a)
    test = law.sample(
        spec.test_points, stream(seed, "data", "test"), drawn.features.shape[1], spec.torch_dtype
    )
    radius = exact_radii(TwoLayer(state.w, state.b, a), test.x, test.y).upper.median()
    low, high = float(seen["lambda_min"]), float(seen["lambda_max"])
    return {
        "even": max(low, 0.0) / high if high > 0 else math.nan,
        "aligned": float(seen["cosine_mean"]) * math.sqrt(law.k / 2),
        ClusterPhasePoints.radius: min(float(radius) / math.sqrt(law.d / law.k), 4.0),
    }


#: panel → order parameter, and the law and training at a place
AtPlace = Callable[[Any, Any], tuple[ClusterLaw, Training]]


def _panel(spec: PhaseClusters, name: str) -> tuple[Diagram, str, AtPlace]:
    k, d, m = spec.k, spec.d, spec.m
    base = Training(
        n=spec.n, m=m, steps=spec.steps, learning_rate=spec.learning_rate,
        init_weight=spec.init_weight, init_bias=spec.init_weight, compact=True,
    )  # fmt: skip
    if name == INIT:
        x, y = SweepAxis("η", 1e-5, 1e-2, 4, log=True), SweepAxis("σ_w", 1e-7, 1e-2, 6, log=True)
        diagram = Diagram(name, x, y, spec.width, 0.5, lambda eta: start_line(spec, eta))
        return (
            diagram,
            "even",
            lambda eta, scale: (
                ClusterLaw(k=k, d=d),
                base.replace(learning_rate=eta, init_weight=scale, init_bias=scale),
            ),
        )
    if name == NOISE:
        x, y = SweepAxis("α ÷ σ", 0.15, 1.5, 4, log=True), SweepAxis("n ÷ k", 1.0, 64.0, 4, log=True)
        diagram = Diagram(name, x, y, spec.width, math.sqrt(0.5), noise_line)
        return (
            diagram,
            "aligned",
            lambda snr, points: (
                ClusterLaw(k=k, d=d, alpha=snr),
                base.replace(n=max(k, round(points * k))),
            ),
        )
    x = SweepAxis("k", 4, 16, 4, whole=True)
    diagram = Diagram(
        name, x, SweepAxis("cosine", 0.05, 0.95, 4), spec.width, 0.5, lambda k: 0.75, columns_only=True
    )
    return (
        diagram,
        ClusterPhasePoints.radius,
        lambda clusters, cosine: (
            ClusterLaw(k=clusters, d=d, cosine=cosine),
            base.replace(n=20 * clusters),
        ),
    )


def start_line(spec: PhaseClusters, eta: float) -> float | None:
    """σ_w = η√d/(4√2·mk), within the box."""
    line = eta * math.sqrt(spec.d) / (4 * math.sqrt(2) * spec.m * spec.k)
    return line if 1e-7 <= line <= 1e-2 else None


def noise_line(snr: float) -> float | None:
    """n/k = (σ/α)², within the box."""
    return snr**-2 if 1.0 <= snr**-2 <= 64.0 else None


def run(spec: PhaseClusters, folder: Folder) -> Json:
    """All panels."""
    folder.conditions(ClusterLaw(k=spec.k, d=spec.d).check())
    summary: Json = {}
    for name in spec.panels:
        diagram, order, place = _panel(spec, name)

        def measure(
            places: Sequence[tuple[Any, Any]], order: str = order, at: AtPlace = place
        ) -> list[SeedValues]:
            return [
                [_value(measured(spec, *at(x, y), seed), order) for seed in spec.seeds] for x, y in places
            ]

        summary[name] = run_diagram(diagram, spec.seeds, measure, folder)
    return summary


def _value(found: Mapping[str, float], order: str) -> SeedValue:
    """The order parameter with the radius beside it; none where it does not exist."""
    number = {key: value if math.isfinite(value) else None for key, value in found.items()}
    return {
        ClusterPhasePoints.value: number[order],
        ClusterPhasePoints.radius: number[ClusterPhasePoints.radius],
    }


def size(spec: PhaseClusters) -> Size:
    """Compact copies of the largest sample."""
    points = max(64 * spec.k, spec.n)
    held = points * (points + 2 * spec.m + spec.k)
    return Size(held, len(spec.seeds) * 300 * spec.steps * held / 4)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "phase-clusters",
        "fa",
        "where the 2-class network averages its clusters over (η, σ_w), (α/σ, n/k) and (k, cosine), with "
        "predicted lines and exact radii",
        PhaseClusters,
        run,
        {"quick": "5 s", "cpu": "30 s", "paper": "1 h"},
        highlights=(
            Highlight("*/distance", "log(measured ÷ predicted) along the edge, {}"),
            Highlight("*/points", "points looked at, {}"),
        ),
        size=size,
        columns={**PHASE_COLUMNS, PHASE_POINTS: ClusterPhasePoints},
        by_name=True,
    ),
)
