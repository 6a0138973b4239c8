"""FA appendix E.1: the five sweeps around §6.1's setting, each with its row of heat maps (Figures 5 to 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import binary_step, start_binary
from featscope.dynamics.cluster_observables import Watch, cosines, summarise_cosines
from featscope.dynamics.trajectory import trajectory
from featscope.experiments.spec import Experiment, Overrides
from featscope.laws.clusters import ClusterLaw
from featscope.nets import two_layer
from featscope.nets.two_layer import TwoLayer
from featscope.papers.fa.clusters import ClusterSpec, Training, each_healthy, right
from featscope.papers.fa.clusters_figures import QUICK


class AblationSpec(ClusterSpec):
    """The values of each sweep, in the paper's order; everything else is the baseline. float32, because n reaches 50 000."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {**QUICK, "points": [200, 400, 1000], "rates": [0.1, 0.01, 0.001]},
        "paper": {"seeds": [0, 1, 2], "dtype": "float64"},
    }
    seeds: tuple[int, ...] = (0,)
    dtype: Literal["float32", "float64"] = "float32"
    points: tuple[int, ...] = (1000, 10_000, 50_000)
    rates: tuple[float, ...] = (0.01, 0.001, 0.0001)
    inits: tuple[float, ...] = (0.001, 0.0001, 0.00001)
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    cosines: tuple[float, ...] = (0.00001, 0.001, 0.09)
    every: int = Field(default=100, ge=1)


def sweeps(spec: AblationSpec) -> dict[str, list[tuple[float, ClusterLaw, Training]]]:
    """Sweep name → (value, law, training), in the order of Figures 5 to 9."""
    law, base = spec.law, spec.training
    return {
        "points": [(v, law, base.replace(n=v)) for v in spec.points],
        "rate": [(v, law, base.replace(learning_rate=v)) for v in spec.rates],
        "init": [(v, law, base.replace(init_weight=v, init_bias=v)) for v in spec.inits],
        "snr": [(v, law.replace(alpha=v * law.sigma), base) for v in spec.ratios],
        "cosine": [(v, law.replace(cosine=v), base) for v in spec.cosines],
    }


def _one(spec: AblationSpec, law: ClusterLaw, training: Training, seed: int, folder: Folder, name: str) -> Json:
    """Train the 2-class network once and read its heat map off."""
    drawn = law.draw(training.n, 2 * training.m, seed, compact=training.compact, dtype=spec.torch_dtype)
    a = two_layer.output_weights(training.m, spec.torch_dtype)
    start = start_binary(drawn.directions, training.n, training.init_weight, training.init_bias, stream(seed, "init", "bias"))
    watch = Watch(law, drawn.train)
    label = f"{name}-{seed}"
    done = trajectory(
        binary_step(drawn.train, a, training.learning_rate),
        start,
        training.steps,
        lambda state, t: {"seed": float(seed), **watch.binary(state, a)},
        max(spec.every, 1),
        keep=folder.part(f"run-{label}"),
    )
    done.healthy(f"{name}, seed {seed}", "lower training.learning_rate")
    table = cosines(drawn.features, done.state.w)
    same = (law.signs(a.dtype)[:, None] * a[None, :]) > 0
    test = law.sample(spec.test_points, stream(seed, "data", "test"), drawn.features.shape[1], spec.torch_dtype)
    clean = right(two_layer.forward(TwoLayer(done.state.w, done.state.b, a), test.x), test.y)
    facts = {**summarise_cosines(table, same), "clean_test": clean, "spread": float(table[same].std())}
    folder.add(f"table-{label}", [{"seed": seed, "setting": name, **facts}], {"table": table})
    return facts


def run_ablations(spec: AblationSpec, folder: Folder) -> Json:
    """All sweeps; settings that occur in several of them are run once."""
    known: dict[str, Json] = {}
    names: dict[str, str] = {}
    summary: dict[str, list[Json]] = {}
    for sweep, settings in sweeps(spec).items():
        lines = []
        for value, law, training in settings:
            key = law.model_dump_json() + training.model_dump_json()
            name = names.setdefault(key, f"{sweep}-{value:g}")
            if name not in known:
                known[name] = _settle(spec, law, training, folder, name)
            lines.append({"value": value, "setting": name, **known[name]})
        summary[sweep] = lines
    return {"sweeps": summary, "order": list(summary)}


def _settle(spec: AblationSpec, law: ClusterLaw, training: Training, folder: Folder, name: str) -> Json:
    """The means of one setting over its healthy seeds."""
    rows, lost = each_healthy(spec.seeds, lambda seed: _one(spec, law, training, seed, folder, name))
    return {**_average(rows), **lost}


def _average(rows: Sequence[Json]) -> Json:
    return {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-ablations",
        "fa",
        "Figures 5 to 9: the heat map of the 2-class network as n, η, σ_w, the signal-to-noise ratio and the cosine vary",
        AblationSpec,
        run_ablations,
        {"quick": "3 s", "cpu": "40 s", "paper": "6 min"},
    ),
)
