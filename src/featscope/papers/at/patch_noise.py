"""`patch-noise`: training on noisy patches (AT appendix E), with B.3's scaling σ_0 = σ_n = 1/√d.

Three looks, all by full gradient descent on a noisy sample. Standard training with a fixed number of points
for d up to 10⁹, by compact copies in law, which have as many coordinates as there are noise vectors, initial
weights and features. Standard training with N = d points, as the lemmas have N = poly(d). And standard and
adversarial training of few points where d exceeds NP + km + 2k, so that the decompositions of Lemmas E.2 and
E.9 leave something out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import field_validator
from torch import Tensor

from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.core.columns import Columns, column
from featscope.core.settings import Sizes, setting
from featscope.core.store import Folder, Json, Part, Rows
from featscope.core.streams import stream
from featscope.dynamics import patch_observables as seen
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.trajectory import Recording, seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Spec, refuse_unused
from featscope.laws.patch_copy import compact_patches
from featscope.laws.patches import PatchBatch, PatchLaw, PatchSetting, stack
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at import printed
from featscope.papers.at.choices import choices
from featscope.papers.at.patch_columns import Trajectory
from featscope.papers.at.sweeps import enough_dimensions

NOISY_DESCENT, GROWING, SPANS = "dynamics", "growing", "spans"


class NoisyDescent(Trajectory):
    """One row for each dimension, seed and recorded step."""

    d = column("the dimension of a patch")
    residual = column("mean 1 − logit_y of the training points")
    clean_train = column("accuracy on the training points")
    noise_max = column("largest |⟨w, ξ_p⟩| over neurons and training patches")


class GrowingSample(NoisyDescent):
    """The same with N = d points."""

    N = column("points of the sample")


Wide = Literal["standard", "patch", "coordinate"]
WIDE: tuple[Wide, ...] = ("standard", "patch", "coordinate")


class Spans(Columns):
    """One row for each training and seed, of the final network."""

    training = column("standard, or the clip of adversarial training")
    seed = column("the seed of data and initial weights")
    vectors = column("features and noise vectors, 2k + NP")
    room = column("the dimension d of a patch")
    outside_span = column("largest share of w(T) − w(0) outside the span of features and training noise")
    outside_initial = column("the same where the span also has the initial weights")
    moved = column("largest |w(T) − w(0)|")


class PatchNoise(Spec):
    """Figure 3's patches with N points, for several d."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0],
            "train_size": 6,
            "dimensions": [1000, 10000, 100000],
            "growing": [20, 40, 60],
            "net.width": 5,
            "wide_steps": 200,
        },
        "paper": {"seeds": [0, 1, 2, 3, 4], "train_size": 50},
    }

    law: PatchLaw = setting(PatchLaw(), "the law of the data; its d is replaced by each of `dimensions`")
    net: PatchNetSpec = setting(PatchNetSpec(width=10), "the network")
    train_size: int = setting(15, "training points", letter="N", ge=2)
    dimensions: Sizes = setting(
        tuple(10**i for i in range(3, 10)), "dimensions that are swept, ascending", letter="d"
    )
    growing: Sizes = setting((40, 80, 160, 320, 640), "dimensions at which there are N = d points")
    eps: float = setting(printed.FIGURE_3_EPS, "radius of the training attack", letter="ε", gt=0)
    wide_points: int = setting(10, "points where d exceeds NP + km + 2k", ge=2)
    wide_steps: int = setting(1000, "steps of descent there", ge=1)
    learning_rate: float = setting(1.0, "step size of gradient descent", letter="η", gt=0)
    fitted: float = setting(0.02, "training ends when the mean of 1 − logit_y is below", gt=0, lt=1)
    steps: int = setting(40000, "most steps of gradient descent", letter="T", ge=1)
    every: int = setting(20, "steps between two recorded rows", ge=1)
    dtype: Literal["float64"] = "float64"

    def model_post_init(self, context: object) -> None:
        """d and what follows from it is swept, not set."""
        refuse_unused(self, "d is swept: set dimensions", "law.d", "law.sigma_n", "net.sigma_0")

    _enough = field_validator("dimensions", "growing")(enough_dimensions)

    @property
    def wide_dimension(self) -> int:
        """Twice what features, noise vectors and initial weights can span."""
        return 2 * (self.wide_points * self.law.patches + self.law.k * (self.net.width + 2))


def law_at(spec: PatchNoise, d: int) -> PatchLaw:
    """The law with B.3's noise at one d."""
    return spec.law.replace(d=d, sigma_n=d**-0.5)


def run_dimension(spec: PatchNoise, folder: Folder, d: int) -> Json:
    """Train until fitted at one d with a fixed number of points, by compact copies; all seeds at once."""
    law = law_at(spec, d)
    shape = (law.k, spec.net.width)
    copies = [
        compact_patches(law, spec.train_size, law.k * spec.net.width, stream(seed, "data", d))
        for seed in spec.seeds
    ]
    data = stack([batch for _, batch, _ in copies])
    w0 = d**-0.5 * torch.stack([vectors.view(*shape, -1) for *_, vectors in copies])
    return train(spec, copies[0][0], data, w0, folder.part(NOISY_DESCENT, d=d), {})


def run_growing(spec: PatchNoise, folder: Folder, d: int) -> Json:
    """Train until fitted at one d with N = d points, in R^d itself."""
    law, net = law_at(spec, d), spec.net.replace(sigma_0=d**-0.5)
    data = stack([law.sample(d, stream(seed, "data", "growing", d)) for seed in spec.seeds])
    w0 = torch.stack([net.init(law.k, d, stream(seed, "init", "growing", d)) for seed in spec.seeds])
    return train(spec, law, data, w0, folder.part(GROWING, d=d), {GrowingSample.N: float(d)})


def train(
    spec: PatchNoise, law: PatchLaw, data: PatchBatch, w0: Tensor, part: Part, also: Mapping[str, float]
) -> Json:
    """Standard training until fitted, all seeds at once."""

    def look(state: Weights, t: int) -> Mapping[str, Tensor | float]:
        net = spec.net.net(state.w)
        u, v = seen.feature_correlations(state.w, law)
        fit = seen.fit(net, data.x, data.y)
        return {
            NoisyDescent.residual: fit.residual,
            NoisyDescent.clean_train: fit.accuracy,
            NoisyDescent.u: seen.own_correlations(u).amax(-1),
            NoisyDescent.v: seen.own_correlations(v).amax(-1),
            NoisyDescent.noise_max: seen.noise_correlation_max(net, law, data),
            **also,
        }

    def done(state: Weights, t: int) -> bool:
        return bool((seen.fit(spec.net.net(state.w), data.x, data.y).residual < spec.fitted).all())

    step, runs = training_step(spec.net, data.x, data.y, spec.learning_rate), seed_labels(spec.seeds)
    record = trajectory(step, Weights(w0), spec.steps, look, spec.every, runs=runs, keep=part, stop=done)
    alive = [seed for seed in spec.seeds if str(seed) not in record.diverged]
    if not alive:
        record.healthy("noisy patches", "lower learning_rate")
    return summarise(record, alive)


def outside(rows: Tensor, span: Tensor) -> float:
    """The largest share of a row outside the span of others."""
    basis = torch.linalg.qr(span.mT).Q
    rest = rows - (rows @ basis) @ basis.mT
    return float((rest.norm(dim=-1) / rows.norm(dim=-1).clamp(min=1e-300)).max())


def run_wide(spec: PatchNoise, folder: Folder, training: Wide) -> Json:
    """Train few points in many dimensions, standard or with one of §2.5's clips, and see what the lemmas'
    decompositions leave out."""
    d = spec.wide_dimension
    law, net = law_at(spec, d), spec.net.replace(sigma_0=d**-0.5)
    data = stack([law.sample(spec.wide_points, stream(seed, "data", "wide")) for seed in spec.seeds])
    w0 = torch.stack([net.init(law.k, d, stream(seed, "init", "wide")) for seed in spec.seeds])
    attack = None
    if training != "standard":
        attack = PatchTrainingAttack(eps=spec.eps, step_size=d**0.5, clip=training).perturb
    step, state = training_step(net, data.x, data.y, spec.learning_rate, attack), Weights(w0)
    for t in range(spec.wide_steps):
        state = step(state, t)
    rows: Rows = []
    for index, seed in enumerate(spec.seeds):
        batch = PatchBatch(*(part[index] for part in data))
        noise = (batch.x - law.signal(batch.y, batch.robust, batch.amplitude)).flatten(0, 1)
        span = torch.cat([*law.features(), noise])
        moved = (state.w[index] - w0[index]).flatten(0, 1)
        rows.append(
            {
                Spans.seed: seed,
                Spans.vectors: len(span),
                Spans.room: d,
                Spans.outside_span: outside(moved, span),
                Spans.outside_initial: outside(moved, torch.cat([span, w0[index].flatten(0, 1)])),
                Spans.moved: float(moved.abs().max()),
            }
        )
    folder.add(SPANS, rows, training=training)
    return {str(name): max(row[name] for row in rows) for name in (Spans.outside_span, Spans.outside_initial)}


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
    """All dimensions in turn, with N fixed and with N = d, then few points in many dimensions."""
    # σ_n√d and σ0√d are 1 at every d: what else depends on d is hardest at the smallest.
    smallest = min(*spec.dimensions, *spec.growing)
    law, net = law_at(spec, smallest), spec.net.replace(sigma_0=smallest**-0.5)
    folder.conditions([*law.check(PatchSetting(eps=None)), *choices(law, net)])
    summary: Json = {f"d={d}": run_dimension(spec, folder, d) for d in spec.dimensions}
    summary |= {f"N=d={d}": run_growing(spec, folder, d) for d in spec.growing}
    return summary | {f"span {training}": run_wide(spec, folder, training) for training in WIDE}


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
        shows="noise in training (AT appendix E): its correlations for d up to 10⁹ and for N = d, and "
        "what the decompositions leave out",
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
        revision=4,
        columns={NOISY_DESCENT: NoisyDescent, GROWING: GrowingSample, SPANS: Spans},
    ),
)
