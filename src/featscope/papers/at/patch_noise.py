"""`patch-noise`: standard training on noisy patches for d up to 10⁹, by compact copies in law (AT Lemma E.3).

B.3's scaling σ_0 = σ_n = 1/√d with a fixed number of points. Full gradient descent on the noisy sample, not a recursion: the copy has as many coordinates as there are
noise vectors, initial weights and features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor

from featscope.core.errors import require
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics import patch_observables as seen
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.trajectory import by_seed, trajectory
from featscope.experiments.spec import Experiment, Spec, refuse_unused
from featscope.laws.patch_copy import compact_patches
from featscope.laws.patches import PatchBatch, PatchLaw, stack
from featscope.nets.patch_cnn import PatchNetSpec


class PatchNoise(Spec):
    """Figure 3's patches with N points, for several d."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"seeds": [0], "train_size": 6, "dimensions": [1000, 10000, 100000], "net.width": 5},
        "paper": {"seeds": [0, 1, 2, 3, 4], "train_size": 50},
    }

    law: PatchLaw = PatchLaw()
    net: PatchNetSpec = PatchNetSpec(width=10)
    train_size: int = Field(default=15, ge=2)
    dimensions: tuple[int, ...] = tuple(10**i for i in range(3, 10))
    learning_rate: float = Field(default=1.0, gt=0)
    fitted: float = Field(default=0.02, gt=0, lt=1, description="training ends when the mean of 1 − logit_y is below")
    steps: int = Field(default=40000, ge=1)
    every: int = Field(default=20, ge=1)
    dtype: Literal["float64"] = "float64"

    def model_post_init(self, context: object) -> None:
        """d and what follows from it is swept, not set."""
        refuse_unused(self, "d is swept: set dimensions", "law.d", "law.sigma_n", "net.sigma_0")

    @field_validator("dimensions")
    @classmethod
    def _enough(cls, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        require(len(set(dimensions)) >= 3, "an exponent needs at least three dimensions", f"{dimensions}", "add more")
        require(max(dimensions) <= 10**15, "dimensions must be at most 10¹⁵", f"{max(dimensions)}", "float64 ends there")
        return dimensions


def run_dimension(spec: PatchNoise, folder: Folder, d: int) -> Json:
    """Train until fitted at one d; all seeds at once."""
    law = spec.law.replace(d=d, sigma_n=d**-0.5)
    shape = (law.k, spec.net.width)
    copies = [compact_patches(law, spec.train_size, law.k * spec.net.width, stream(seed, "data", d)) for seed in spec.seeds]
    copy, data = copies[0][0], stack([batch for _, batch, _ in copies])
    w0 = d**-0.5 * torch.stack([vectors.view(*shape, -1) for *_, vectors in copies])

    def look(state: Weights, t: int) -> Mapping[str, Tensor | float]:
        net = spec.net.net(state.w)
        u, v = seen.correlations(state.w, copy)
        fit = seen.fit(net, data.x, data.y)
        return {
            "d": float(d),
            "residual": fit.residual,
            "clean_train": fit.accuracy,
            "u": seen.own_correlations(u).amax(-1),
            "v": seen.own_correlations(v).amax(-1),
            "noise_max": seen.noise_correlation_max(net, copy, data),
        }

    def done(state: Weights, t: int) -> bool:
        return bool((seen.fit(spec.net.net(state.w), data.x, data.y).residual < spec.fitted).all())

    step = training_step(spec.net, data.x, data.y, spec.learning_rate)
    record = trajectory(step, Weights(w0), spec.steps, look, spec.every, runs=by_seed(spec.seeds), keep=folder.part(f"d{d}"), stop=done)
    last = [row for row in record.rows if row["step"] == record.rows[-1]["step"]]
    alive = [seed for seed in spec.seeds if str(seed) not in record.diverged]
    if not alive:
        record.healthy(f"d={d}", "lower learning_rate")
    kept = [spec.seeds.index(seed) for seed in alive]
    moved, data = (record.state.w - w0)[kept], PatchBatch(*(part[kept] for part in data))
    return {
        **({"diverged": record.diverged} if record.diverged else {}),
        "steps": record.rows[-1]["step"],
        "outside_span": outside_span(copy, data, moved),
        "coordinates": int(w0.shape[-1]),
        "noise_max": float(np.mean([max(r["noise_max"] for r in record.rows if r["run"] == s) for s in alive])),
        "u": float(np.mean([max(r["u"]) for r in last])),
        "v": float(np.mean([min(r["v"]) for r in last])),
        "residual": float(np.mean([r["residual"] for r in last])),
    }


def outside_span(law: PatchLaw, data: PatchBatch, moved: Tensor) -> float:
    """Lemma E.2: the largest share of w(T) − w(0) that lies outside the span of features and training noise."""
    worst = 0.0
    for index in range(len(moved)):
        noise = (data.x[index] - law.signal(data.y[index], data.robust[index], data.amplitude[index])).flatten(0, 1)
        basis = torch.linalg.qr(torch.cat([*law.features(), noise]).mT).Q
        rows = moved[index].flatten(0, 1)
        rest = rows - (rows @ basis) @ basis.mT
        worst = max(worst, float((rest.norm(dim=-1) / rows.norm(dim=-1).clamp(min=1e-300)).max()))
    return worst


def run(spec: PatchNoise, folder: Folder) -> Json:
    """All dimensions in turn."""
    return {f"d={d}": run_dimension(spec, folder, d) for d in spec.dimensions}


EXPERIMENTS = (
    Experiment(
        name="patch-noise",
        paper="at",
        shows="noise correlations of standard training for d up to 10⁹ by compact copies in law (AT Lemma E.3)",
        spec=PatchNoise,
        run=run,
        takes={"quick": "3 s", "cpu": "30 s", "paper": "10 min"},
    ),
)
