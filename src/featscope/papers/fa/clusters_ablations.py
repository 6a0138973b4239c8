"""FA appendix E.1: the five sweeps around §6.1's setting, each with its row of heat maps (Figures 5 to 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.settings import Positives, Sizes, setting
from featscope.core.store import Folder, Json, Part
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import binary_step, start_binary
from featscope.dynamics.cluster_observables import ClusterObservables, cosines, summarise_cosines
from featscope.dynamics.trajectory import trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides
from featscope.laws.clusters import ClusterLaw
from featscope.nets import two_layer
from featscope.nets.two_layer import TwoLayer
from featscope.papers.fa.clusters import (
    BinaryCourse,
    ClusterSpec,
    Training,
    cluster_training_size,
    each_healthy,
    right,
)
from featscope.papers.fa.clusters_figures import QUICK


class AblationSpec(ClusterSpec):
    """The values of each sweep, in the paper's order; everything else is the baseline.

    float32, because n reaches 50 000.
    """

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {**QUICK, "points": [200, 400, 1000], "rates": [0.1, 0.01, 0.001]},
        "paper": {"dtype": "float64", "heavy": None},
    }
    seeds: tuple[int, ...] = (0, 1, 2)
    dtype: Literal["float32", "float64"] = "float32"
    points: Sizes = setting((1000, 10_000, 50_000), "training points that are swept", letter="n")
    rates: Positives = setting((0.01, 0.001, 0.0001), "learning rates that are swept", letter="η")
    inits: Positives = setting(
        (0.001, 0.0001, 0.00001), "scales of the first weights that are swept", letter="σ_w"
    )
    ratios: Positives = setting((0.5, 1.0, 2.0), "sizes of noise over feature that are swept, σ/α")
    cosines: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = setting(
        (0.00001, 0.001, 0.09), "cosines between features that are swept"
    )
    heavy: int | None = setting(20_000, "training points from which on only the first seed is run", ge=1)
    every: int = Field(default=100, ge=1)

    def seeds_at(self, n: int) -> tuple[int, ...]:
        """The seeds with which a setting of n points is run."""
        return self.seeds if self.heavy is None or n < self.heavy else self.seeds[:1]


class SweptCourse(BinaryCourse):
    """One row for each setting, seed and recorded step.

    A setting of several sweeps is trained in the first of them.
    """

    sweep = column("what varies")
    at = column("its value")


class SweptHeatMap(Columns):
    """One row for each setting of each sweep and seed; the tensor `table` is the heat map."""

    sweep = column("what varies")
    at = column("its value")
    seed = column("the seed")
    mean = column("mean cosine of a neuron with a feature of its class")
    min = column("least cosine of a neuron with a feature of its class")
    max = column("largest cosine of a neuron with a feature of its class")
    other_max = column("largest |cosine| of a neuron with a feature of the other class")
    clean_test = column("test accuracy")
    spread = column("standard deviation of the cosines of neurons with features of their class")


def sweeps(spec: AblationSpec) -> dict[str, list[tuple[float, ClusterLaw, Training]]]:
    """Sweep name → (value, law, training), in the order of Figures 5 to 9."""
    law, base = spec.law, spec.training
    return {
        "points": [(float(v), law, base.replace(n=v)) for v in spec.points],
        "rate": [(v, law, base.replace(learning_rate=v)) for v in spec.rates],
        "init": [(v, law, base.replace(init_weight=v, init_bias=v)) for v in spec.inits],
        "snr": [(v, law.replace(alpha=v * law.sigma), base) for v in spec.ratios],
        "cosine": [(v, law.replace(cosine=v), base) for v in spec.cosines],
    }


class AblatedMap(NamedTuple):
    """A trained 2-class network's heat map and its row."""

    row: dict[str, float]
    table: Tensor


def _one(spec: AblationSpec, law: ClusterLaw, training: Training, part: Part, seed: int) -> AblatedMap:
    """Train the 2-class network once and read its heat map off."""
    drawn = law.draw(training.n, 2 * training.m, seed, compact=training.compact, dtype=spec.torch_dtype)
    a = two_layer.output_weights(training.m, spec.torch_dtype)
    bias = stream(seed, "init", "bias")
    start = start_binary(drawn.directions, training.n, training.init_weight, training.init_bias, bias)
    watch = ClusterObservables(law, drawn.train)
    done = trajectory(
        binary_step(drawn.train, a, training.learning_rate),
        start,
        training.steps,
        lambda state, t: watch.binary(state, a),
        spec.every,
        keep=part,
    )
    done.healthy(part.key, "lower training.learning_rate")
    table = cosines(drawn.features, done.state.w)
    same = (law.signs(a.dtype)[:, None] * a[None, :]) > 0
    width = drawn.features.shape[1]
    test = law.sample(spec.test_points, stream(seed, "data", "test"), width, spec.torch_dtype)
    clean = right(two_layer.forward(TwoLayer(done.state.w, done.state.b, a), test.x), test.y)
    return AblatedMap(
        {**summarise_cosines(table, same), "clean_test": clean, "spread": float(table[same].std())}, table
    )


def run_ablations(spec: AblationSpec, folder: Folder) -> Json:
    """All sweeps; settings that occur in several of them are trained once."""
    known: dict[tuple[ClusterLaw, Training], Settled] = {}
    summary: dict[str, list[Json]] = {}
    for sweep, settings in sweeps(spec).items():
        summary[sweep] = []
        for at, law, training in settings:
            folder.conditions(law.check(training.hyper), sweep=sweep, at=at)
            if (law, training) not in known:
                known[law, training] = _settle(spec, law, training, folder, sweep, at)
            maps, lost = known[law, training]
            for seed, found in maps.items():
                folder.add("table", [found.row], {"table": found.table}, sweep=sweep, at=at, seed=seed)
            summary[sweep].append({"value": at, **_average([found.row for found in maps.values()]), **lost})
    return {"sweeps": summary, "order": list(summary)}


#: heat maps by seed, and a note of the seeds that diverged
Settled = tuple[dict[int, AblatedMap], Json]


def _settle(
    spec: AblationSpec, law: ClusterLaw, training: Training, folder: Folder, sweep: str, at: float
) -> Settled:
    """One setting over its healthy seeds."""

    def measure(seed: int) -> tuple[int, AblatedMap]:
        part = folder.part("training", sweep=sweep, at=at, seed=seed)
        return seed, _one(spec, law, training, part, seed)

    found, lost = each_healthy(spec.seeds_at(training.n), measure)
    return dict(found), lost


def _average(rows: Sequence[dict[str, float]]) -> Json:
    return {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}


def size(spec: AblationSpec) -> Size:
    """The largest sample, and one training for each value of a sweep."""
    largest = cluster_training_size(spec.replace(training=spec.training.replace(n=max(spec.points))))
    others = len(spec.rates) + len(spec.inits) + len(spec.ratios) + len(spec.cosines)
    share = (sum(spec.points) + others * spec.training.n) / max(spec.points)
    return Size(largest.numbers, largest.work * share)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-ablations",
        "fa",
        "Figures 5 to 9: the heat map of the 2-class network as n, η, σ_w, the signal-to-noise ratio and the "
        "cosine vary",
        AblationSpec,
        run_ablations,
        {"quick": "6 s", "cpu": "60 s", "paper": "6 min"},
        highlights=(
            Highlight("sweeps/*/*/mean", "mean cosine with features of the own class, sweep {} at {}"),
        ),
        size=size,
        revision=3,
        columns={"training": SweptCourse, "table": SweptHeatMap},
    ),
)
