"""`patch-batches`: the epoch at which adversarial training changes its phase, against the size of a batch.

AT §6.1 prints η, T and "nearly at 150-epoch", but no batch size. An epoch is a pass over the data, so that a
smaller batch means more steps an epoch. Everything else is Figure 3's; only the correlations with both
features are recorded, and a size ends when every class of every seed has max_r⟨w, u⟩ ≥ ϱ, where a neuron has
left the polynomial part of its activation, or with the epochs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows, table
from featscope.core.streams import stream
from featscope.dynamics import patch_observables as seen
from featscope.dynamics.patch_descent import Weights, training_epoch
from featscope.dynamics.trajectory import seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Spec, refuse_unused
from featscope.laws.patches import PatchLaw, PatchSetting, stack
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at import printed
from featscope.papers.at.fig3_settings import FEW_POINTS, AdversarialTraining
from featscope.papers.at.fig3_summary import phase_switch
from featscope.papers.at.patch_columns import Trajectory

CORRELATIONS, SWITCHES = "dynamics", "switches"


class Correlations(Trajectory):
    """One row for each batch size, seed and recorded epoch."""

    batch_size = column("points of a batch")
    step = column("epochs done, each a pass over the training points")


class Switches(Columns):
    """One row for each batch size, seed and class."""

    batch_size = column("points of a batch")
    seed = column("the seed of data, initial weights and batches")
    label = column("the class", "class")
    switch = column(
        "the first recorded epoch from which on u is ahead of v to the end; null if there is none"
    )
    epochs = column("epochs that were run")
    u_end = column("max_r ⟨w_ir, u_i⟩ at the end")
    v_end = column("max_r ⟨w_ir, v_i⟩ at the end")


class PatchBatches(Spec):
    """Figure 3's law, network and adversarial training, for several sizes of a batch."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            **FEW_POINTS,
            "batch_sizes": [2, 5, 40],
            "training.epochs": 300,
        },
        "paper": {"seeds": [0, 1, 2, 3, 4], "dtype": "float64"},
    }

    seeds: tuple[int, ...] = setting((0, 1), "the seeds, one independent repetition each")
    law: PatchLaw = setting(PatchLaw(), "the law of the data")
    net: PatchNetSpec = setting(PatchNetSpec(), "the network")
    eps: float = setting(printed.FIGURE_3_EPS, "radius of the training attack", letter="ε", gt=0)
    train_size: int = setting(100, "training points", letter="N", ge=1)
    batch_sizes: tuple[int, ...] = setting((1, 5, 10, 20, 100), "points of a batch, swept")
    training: AdversarialTraining = setting(AdversarialTraining(), "gradient descent on perturbed points")
    every: int = setting(2, "epochs between two recorded rows", ge=1)
    #: an epoch is read to the nearest recorded one, which float32 gives as well
    dtype: Literal["float32", "float64"] = "float32"

    def model_post_init(self, context: object) -> None:
        """The sizes are swept, and each fits the data."""
        refuse_unused(self, "sizes are swept: set batch_sizes", "training.batch_size")
        refuse_unused(self, "the attack is one step: use patch-fig3", "training.attack_steps")
        fits = 0 < len(self.batch_sizes) == len(set(self.batch_sizes))
        fits = fits and all(1 <= size <= self.train_size for size in self.batch_sizes)
        given = f"batch_sizes={list(self.batch_sizes)}, train_size={self.train_size}"
        require(fits, "batch sizes differ and are 1 … train_size", given, "change them")

    @property
    def ascent(self) -> PatchTrainingAttack:
        """The training attack."""
        plan = self.training
        return PatchTrainingAttack(
            objective=plan.objective, step_size=plan.step_size, eps=self.eps, clip=plan.clip
        )


def run_size(spec: PatchBatches, folder: Folder, size: int) -> Rows:
    """Train with one size of a batch on all seeds at once, and say where each class switches."""
    dtype, law, plan = spec.torch_dtype, spec.law, spec.training
    data = stack(
        [law.sample(spec.train_size, stream(seed, "data", "train")).to(dtype) for seed in spec.seeds]
    )
    w0 = torch.stack([spec.net.init(law.k, law.d, stream(seed, "init")) for seed in spec.seeds]).to(dtype)

    def look(state: Weights, t: int) -> Mapping[str, Tensor | float]:
        u, v = seen.feature_correlations(state.w, law)
        return {
            Correlations.u: seen.own_correlations(u).amax(-1),
            Correlations.v: seen.own_correlations(v).amax(-1),
        }

    def learned(state: Weights, t: int) -> bool:
        u, _ = seen.feature_correlations(state.w, law)
        return bool((seen.own_correlations(u).amax(-1) >= spec.net.rho).all())

    whole = size == spec.train_size
    step = training_epoch(
        spec.net,
        data.x,
        data.y,
        plan.learning_rate,
        spec.ascent.perturb,
        batch_size=None if whole else size,
        seeds=spec.seeds,
    )
    part, runs = folder.part(CORRELATIONS, batch_size=size), seed_labels(spec.seeds)
    record = trajectory(step, Weights(w0), plan.epochs, look, spec.every, runs=runs, keep=part, stop=learned)
    return switch_rows(record.healthy(f"batch_size={size}").rows)


def switch_rows(rows: Rows) -> Rows:
    """A row for each seed and class: where it switches and how it ends."""
    last = {row[Correlations.seed]: row for row in rows}
    found: Rows = []
    for seed, switches in phase_switch(table(rows)).items():
        end = last[seed]
        for label, switch in enumerate(switches):
            found.append(
                {
                    Switches.seed: seed,
                    Switches.label: label,
                    Switches.switch: switch,
                    Switches.epochs: end[Correlations.step],
                    Switches.u_end: end[Correlations.u][label],
                    Switches.v_end: end[Correlations.v][label],
                }
            )
    return found


def median_switch(switches: list[int | None]) -> float:
    """The median epoch over seeds and classes; one that never switches comes after all that do."""
    return float(np.median([math.inf if switch is None else switch for switch in switches]))


def run(spec: PatchBatches, folder: Folder) -> Json:
    """All sizes in turn."""
    folder.conditions(spec.law.check(PatchSetting(spec.eps)))
    summary: Json = {}
    for size in spec.batch_sizes:
        rows = run_size(spec, folder, size)
        folder.add(SWITCHES, rows, batch_size=size)
        switches = [row[Switches.switch] for row in rows]
        median = median_switch(switches)
        summary[f"batch_size={size}"] = {
            "phase_switch": median if math.isfinite(median) else None,
            "switches": switches,
            "u": min(row[Switches.u_end] for row in rows),
            "v": max(row[Switches.v_end] for row in rows),
        }
    return summary


def size(spec: PatchBatches) -> Size:
    """Samples and weights of every seed; each epoch meets every point with every neuron three times."""
    law, runs = spec.law, len(spec.seeds)
    weights, points = law.k * spec.net.width * law.d, spec.train_size * law.patches
    products = 3 * points * weights * spec.training.epochs * len(spec.batch_sizes)
    return Size(runs * (points * law.d + 3 * weights), runs * products)


EXPERIMENTS = (
    Experiment(
        name="patch-batches",
        paper="at",
        shows="the epoch at which AT Figure 3's adversarial training changes its phase, against the "
        "size of a batch",
        spec=PatchBatches,
        run=run,
        takes={"quick": "5 s", "cpu": "40 s", "paper": "6 min"},
        highlights=(
            Highlight("*/phase_switch", "median epoch of the switch of phase, {}"),
            Highlight("*/u", "smallest max ⟨w, u⟩ at the end, {}"),
            Highlight("*/v", "largest max ⟨w, v⟩ at the end, {}"),
        ),
        size=size,
        columns={CORRELATIONS: Correlations, SWITCHES: Switches},
    ),
)
