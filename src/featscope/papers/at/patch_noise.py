"""`patch-noise`: standard training on noisy patches for d up to 10⁹, by compact copies in law (AT Lemma E.3).

B.3's scaling σ_0 = σ_n = 1/√d with a fixed number of points. Full gradient descent on the noisy sample, not a
recursion: the copy has as many coordinates as there are
noise vectors, initial weights and features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import field_validator
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.settings import Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics import patch_observables as seen
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.trajectory import Recording, by_seed, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Spec, refuse_unused
from featscope.laws.patch_copy import compact_patches
from featscope.laws.patches import PatchBatch, PatchLaw, PatchSetting, stack
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at.patch_columns import Trajectory
from featscope.papers.at.sweeps import enough_dimensions

NOISY_DESCENT, SPANS = "dynamics", "spans"


class NoisyDescent(Trajectory):
    """One row for each dimension, seed and recorded step."""

    d = column("the dimension of a patch")
    residual = column("mean 1 − logit_y of the training points")
    clean_train = column("accuracy on the training points")
    noise_max = column("largest |⟨w, ξ_p⟩| over neurons and training patches")


class Spans(Columns):
    """One row for each dimension and seed, of the final network."""

    d = column("the dimension of a patch")
    seed = column("the seed of data and initial weights")
    coordinates = column("coordinates of the compact copy")
    outside_span = column("largest share of w(T) − w(0) outside the span of features and training noise")


class PatchNoise(Spec):
    """Figure 3's patches with N points, for several d."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"seeds": [0], "train_size": 6, "dimensions": [1000, 10000, 100000], "net.width": 5},
        "paper": {"seeds": [0, 1, 2, 3, 4], "train_size": 50},
    }

    law: PatchLaw = setting(PatchLaw(), "the law of the data; its d is replaced by each of `dimensions`")
    net: PatchNetSpec = setting(PatchNetSpec(width=10), "the network")
    train_size: int = setting(15, "training points", letter="N", ge=2)
    dimensions: Sizes = setting(
        tuple(10**i for i in range(3, 10)), "dimensions that are swept, ascending", letter="d"
    )
    learning_rate: float = setting(1.0, "step size of gradient descent", letter="η", gt=0)
    fitted: float = setting(0.02, "training ends when the mean of 1 − logit_y is below", gt=0, lt=1)
    steps: int = setting(40000, "most steps of gradient descent", letter="T", ge=1)
    every: int = setting(20, "steps between two recorded rows", ge=1)
    dtype: Literal["float64"] = "float64"

    def model_post_init(self, context: object) -> None:
        """d and what follows from it is swept, not set."""
        refuse_unused(self, "d is swept: set dimensions", "law.d", "law.sigma_n", "net.sigma_0")

    _enough = field_validator("dimensions")(enough_dimensions)


def law_at(spec: PatchNoise, d: int) -> PatchLaw:
    """The law with B.3's noise at one d."""
    return spec.law.replace(d=d, sigma_n=d**-0.5)


def run_dimension(spec: PatchNoise, folder: Folder, d: int) -> Json:
    """Train until fitted at one d; all seeds at once."""
    law = law_at(spec, d)
    shape = (law.k, spec.net.width)
    copies = [
        compact_patches(law, spec.train_size, law.k * spec.net.width, stream(seed, "data", d))
        for seed in spec.seeds
    ]
    copy, data = copies[0][0], stack([batch for _, batch, _ in copies])
    w0 = d**-0.5 * torch.stack([vectors.view(*shape, -1) for *_, vectors in copies])

    def look(state: Weights, t: int) -> Mapping[str, Tensor | float]:
        net = spec.net.net(state.w)
        u, v = seen.feature_correlations(state.w, copy)
        fit = seen.fit(net, data.x, data.y)
        return {
            NoisyDescent.residual: fit.residual,
            NoisyDescent.clean_train: fit.accuracy,
            NoisyDescent.u: seen.own_correlations(u).amax(-1),
            NoisyDescent.v: seen.own_correlations(v).amax(-1),
            NoisyDescent.noise_max: seen.noise_correlation_max(net, copy, data),
        }

    def done(state: Weights, t: int) -> bool:
        return bool((seen.fit(spec.net.net(state.w), data.x, data.y).residual < spec.fitted).all())

    step = training_step(spec.net, data.x, data.y, spec.learning_rate)
    part, runs = folder.part(NOISY_DESCENT, d=d), by_seed(spec.seeds)
    record = trajectory(step, Weights(w0), spec.steps, look, spec.every, runs=runs, keep=part, stop=done)
    alive = [seed for seed in spec.seeds if str(seed) not in record.diverged]
    if not alive:
        record.healthy(f"d={d}", "lower learning_rate")
    kept = [spec.seeds.index(seed) for seed in alive]
    moved, data = (record.state.w - w0)[kept], PatchBatch(*(tensor[kept] for tensor in data))
    shares = outside_span(copy, data, moved)
    size = int(w0.shape[-1])
    rows: Rows = [{Spans.seed: seed, Spans.coordinates: size} for seed in alive]
    for row, share in zip(rows, shares, strict=True):
        row[Spans.outside_span] = share
    folder.add(SPANS, rows, d=d)
    return summarise(record, alive) | {"outside_span": max(shares), "coordinates": size}


def outside_span(law: PatchLaw, data: PatchBatch, moved: Tensor) -> list[float]:
    """Lemma E.2: for each run the largest share of w(T) − w(0) outside the span of features and training
    noise."""
    shares = []
    for index in range(len(moved)):
        noise = (
            data.x[index] - law.signal(data.y[index], data.robust[index], data.amplitude[index])
        ).flatten(0, 1)
        basis = torch.linalg.qr(torch.cat([*law.features(), noise]).mT).Q
        rows = moved[index].flatten(0, 1)
        rest = rows - (rows @ basis) @ basis.mT
        shares.append(float((rest.norm(dim=-1) / rows.norm(dim=-1).clamp(min=1e-300)).max()))
    return shares


def summarise(record: Recording[Weights], alive: list[int]) -> Json:
    """The end of training at one d, means over seeds that did not diverge."""
    rows = [row for row in record.rows if row[NoisyDescent.seed] in alive]
    last = [row for row in rows if row[NoisyDescent.step] == rows[-1][NoisyDescent.step]]
    name = NoisyDescent.noise_max
    peaks = [max(row[name] for row in rows if row[NoisyDescent.seed] == seed) for seed in alive]
    return {
        **({"diverged": record.diverged} if record.diverged else {}),
        "steps": rows[-1][NoisyDescent.step],
        "noise_max": float(np.mean(peaks)),
        "u": float(np.mean([max(row[NoisyDescent.u]) for row in last])),
        "v": float(np.mean([min(row[NoisyDescent.v]) for row in last])),
        "residual": float(np.mean([row[NoisyDescent.residual] for row in last])),
    }


def run(spec: PatchNoise, folder: Folder) -> Json:
    """All dimensions in turn."""
    # σ_n√d is 1 at every d, so d ≫ 2k alone depends on it, and is hardest at the smallest.
    folder.conditions(law_at(spec, min(spec.dimensions)).check(PatchSetting(eps=None)))
    return {f"d={d}": run_dimension(spec, folder, d) for d in spec.dimensions}


def size(spec: PatchNoise) -> Size:
    """The compact copy: a coordinate for every noise patch, neuron and feature, whatever d is."""
    neurons, patches = spec.law.k * spec.net.width, spec.train_size * spec.law.patches
    coordinates = patches + neurons + 2 * spec.law.k
    runs = len(spec.seeds) * len(spec.dimensions)
    return Size(runs * (patches + neurons) * coordinates, runs * spec.steps * patches * neurons * coordinates)


EXPERIMENTS = (
    Experiment(
        name="patch-noise",
        paper="at",
        shows="noise correlations of standard training for d up to 10⁹ by compact copies in law (AT Lemma "
        "E.3)",
        spec=PatchNoise,
        run=run,
        takes={"quick": "3 s", "cpu": "30 s", "paper": "10 min"},
        highlights=(
            Highlight("*/steps", "steps until the points are fitted, {}"),
            Highlight("*/noise_max", "largest correlation with a point's noise, {}"),
            Highlight("*/u", "max ⟨w, u⟩, {}"),
            Highlight("*/v", "max ⟨w, v⟩, {}"),
        ),
        size=size,
        revision=2,
        columns={NOISY_DESCENT: NoisyDescent, SPANS: Spans},
    ),
)
