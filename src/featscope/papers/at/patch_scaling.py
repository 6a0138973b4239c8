"""`patch-scaling`: AT's growth lemmas for d = 10² … 10⁹ by the coefficient recursions, with initial
coefficients drawn in law.

The paper lets η = 1/poly(d): the recursions run in their small-step limit. All dimensions and seeds are one
batch. Events are caught at the step at which they happen: who reaches its threshold first, and how large the
other is by then. What the last networks do on the population is in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor

from featscope.core.settings import Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_events import LOOK, NOT_YET, EventRun, noted, waiting
from featscope.dynamics.trajectory import Labels, Step, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.spec import Experiment, Spec, refuse_unused
from featscope.laws.patches import PatchLaw, PatchSetting, both_kinds
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at import printed
from featscope.papers.at.choices import choices
from featscope.papers.at.overview import SCALING_HIGHLIGHTS
from featscope.papers.at.scaling_arm import Setting, own_outputs
from featscope.papers.at.scaling_columns import (
    CLIPS,
    COLUMNS,
    CURVES,
    ENDS,
    EVENTS,
    INITIAL,
    MAXIMA,
    POWER,
    AttackedEvent,
    Curves,
    Events,
    ScalingArm,
    StandardEvent,
)
from featscope.papers.at.scaling_start import initial_rows, maxima_rows, power_rows
from featscope.papers.at.sweeps import enough_dimensions


class PatchScaling(Spec):
    """B.3's scaling in d: σ0 = 1/√d and η̃ = d^{c0}, with α, β, ε, P and ϱ as in Figure 3.

    B.3 lets ϱ shrink and m grow with the logarithm of d: `rho_power` and `width_power`.
    """

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "dimensions": [100, 10000, 1000000],
            "steps": 1500,
            "power_starts": [1e-2, 1e-3, 1e-4],
        },
        "paper": {"seeds": list(range(100)), "relative": 0.01, "steps": 12000},
    }

    seeds: tuple[int, ...] = tuple(range(12))
    law: PatchLaw = setting(PatchLaw(sigma_n=0.0), "the law of the data, without noise")
    net: PatchNetSpec = setting(PatchNetSpec(width=10), "the network")
    eps: float = setting(printed.FIGURE_3_EPS, "radius of the threat", letter="ε", gt=0)
    c0: float = setting(0.5, "exponent of the attack's step size, η̃ = d^c0", letter="c_0", gt=0, lt=1)
    rho_power: float = setting(0.0, "ϱ is net.rho · (log d)^−this", ge=0)
    width_power: float = setting(0.0, "m is net.width · (log d)^this, rounded up", ge=0)
    dimensions: Sizes = setting(
        tuple(10**i for i in range(2, 10)), "dimensions that are swept, ascending", letter="d"
    )
    arms: tuple[ScalingArm, ...] = setting(
        ("standard", "features-only", "two-sided", "as-printed"), "which recursions are followed"
    )
    relative: float = setting(
        0.02, "largest relative change of a coefficient in one step of the adaptive clock", gt=0, le=0.2
    )
    steps: int = setting(4000, "most steps of the recursion", ge=1)
    horizon_power: float = setting(2.0, "every run ends at time d^this, if its steps last so long", gt=0)
    every: int = setting(50, "steps between two recorded rows", ge=1)
    widths: Sizes = setting(
        (10, 30, 100, 1000, 10000, 100000),
        "widths at which the largest initial correlation is drawn",
        letter="m",
    )
    dtype: Literal["float64"] = "float64"
    power_starts: tuple[Annotated[float, Field(gt=0, lt=0.5)], ...] = setting(
        (1e-2, 1e-3, 1e-4, 1e-5, 1e-6), "starts y_0 of the tensor power iteration"
    )

    def model_post_init(self, context: object) -> None:
        """d and what follows from it is swept, not set."""
        refuse_unused(self, "d is swept: set dimensions", "law.d", "law.sigma_n", "net.sigma_0")
        both_kinds(self.law)

    _enough = field_validator("dimensions")(enough_dimensions)

    def net_at(self, d: int) -> PatchNetSpec:
        """The network at one d, with B.3's σ0."""
        log_d = math.log(d)
        return self.net.replace(
            rho=self.net.rho * log_d**-self.rho_power,
            width=math.ceil(self.net.width * log_d**self.width_power),
            sigma_0=d**-0.5,
        )

    def nets(self) -> list[PatchNetSpec]:
        """The network of every run, dimension by dimension."""
        return [self.net_at(d) for d in self.dimensions for _ in self.seeds]


def setting_of(spec: PatchScaling, arm: ScalingArm) -> Setting:
    """The arm's data, clip and velocity for all dimensions and seeds at once."""
    data = co.latents(spec.law.population(), spec.law.k)
    dims = torch.tensor(spec.dimensions, dtype=torch.float64).repeat_interleave(len(spec.seeds))
    nets = spec.nets()
    rho = torch.tensor([net.rho for net in nets], dtype=torch.float64)
    here = torch.arange(max(net.width for net in nets)) < torch.tensor([net.width for net in nets])[:, None]
    absent = torch.zeros(here.shape, dtype=torch.float64).masked_fill(~here, -torch.inf)[:, None, :]
    activation = co.Activation(spec.net.q, rho.view(-1, 1, 1, 1, 1))
    if arm == "standard":
        velocity = co.standard_velocity(activation, data)
        return Setting(spec.net.q, spec.eps, spec.c0, data, dims, rho, absent, None, velocity)
    two_sided, features_only = CLIPS[arm]
    clip = co.CoefficientClip(spec.eps, dims**spec.c0, two_sided, features_only)
    velocity = co.adversarial_velocity(activation, data, clip)
    return Setting(spec.net.q, spec.eps, spec.c0, data, dims, rho, absent, clip, velocity)


def events_of(arm: ScalingArm) -> type[StandardEvent] | type[AttackedEvent]:
    """The events of an arm, in the order of `Setting.reached`."""
    return StandardEvent if arm == "standard" else AttackedEvent


def start(spec: PatchScaling, arm: ScalingArm) -> EventRun:
    """Initial coefficients in law; the same draws for every arm."""
    needs_gram = arm in ("two-sided", "as-printed")
    widest = max(net.width for net in spec.nets())
    parts = []
    for d in spec.dimensions:
        net = spec.net_at(d)
        for seed in spec.seeds:
            rng = stream(seed, "init", d)
            drawn = co.draw(1, spec.law.k, net.width, d, net.sigma_0, rng, gram=needs_gram)
            parts.append(co.widened(drawn, widest))
    c = co.Coefficients(*(torch.cat(p) for p in zip(*parts, strict=True)))
    return waiting(c, len(events_of(arm)), spec.law.k)


def watch(place: Setting, step: Step[co.Coefficients]) -> Step[EventRun]:
    """A step that also notes the first time of each event with A and B at that time, looking every ``LOOK``
    steps."""

    def watched(state: EventRun, t: int) -> EventRun:
        c = step(state.coefficients(), t)
        if (t + 1) % LOOK:
            return EventRun(*c, state.events)
        return noted(state, c, place.reached(c), place.own(c.u).amax(-1), place.own(c.v).amax(-1))

    return watched


def labels(spec: PatchScaling) -> list[Labels]:
    """The runs of one batch, in the order of `setting` and `start`."""
    return [{Curves.d: d, Curves.seed: seed} for d in spec.dimensions for seed in spec.seeds]


def run_arm(spec: PatchScaling, folder: Folder, arm: ScalingArm) -> Rows:
    """Run one arm over all dimensions and seeds, save curves and events, and return the events."""
    place = setting_of(spec, arm)
    horizon = place.dims**spec.horizon_power
    step = watch(place, co.small_steps(place.velocity, spec.relative, horizon))

    def look(state: EventRun, t: int) -> Mapping[str, Tensor | float]:
        c = state.coefficients()
        outputs = place.all_outputs(c)
        return {
            Curves.time: c.time,
            Curves.u: place.own(c.u).amax(-1),
            Curves.v: place.own(c.v).amax(-1),
            Curves.F: own_outputs(outputs),
            Curves.C_max: place.off(c.u),
            Curves.D_max: place.off(c.v),
            **place.logits(outputs),
            **(place.rates(c) if arm == "standard" else {}),
        }

    def all_done(state: EventRun, t: int) -> bool:
        return bool((state.time >= horizon).all())

    record = trajectory(
        step,
        start(spec, arm),
        spec.steps,
        look,
        spec.every,
        runs=labels(spec),
        keep=folder.part(CURVES, arm=arm),
        stop=all_done,
        clocks=("time", "events"),
    )
    record.healthy(arm, "lower relative")
    events = event_rows(spec, record.state)
    folder.add(EVENTS, events, arm=arm)
    folder.add(ENDS, end_rows(spec, place.ends(record.state.coefficients(), horizon)), arm=arm)
    return events


def end_rows(spec: PatchScaling, ends: Mapping[str, Tensor]) -> Rows:
    """One row for each run."""
    return [
        {**of_run, **{name: values[index].tolist() for name, values in ends.items()}}
        for index, of_run in enumerate(labels(spec))
    ]


def event_rows(spec: PatchScaling, state: EventRun) -> Rows:
    """One row for each run, class and event, with the values then."""
    rows: Rows = []
    for index, run_labels in enumerate(labels(spec)):
        for label in range(spec.law.k):
            for event in range(state.events.shape[1]):
                when, a, b = state.events[index, event, label].tolist()
                which = {**run_labels, Events.label: label, Events.event: event}
                rows.append(
                    {**which, Events.happened: when != NOT_YET, Events.time: when, Events.A: a, Events.B: b}
                )
    return rows


def run(spec: PatchScaling, folder: Folder) -> Json:
    """All arms, the initial maxima, and the tensor power grid."""
    for d in spec.dimensions:
        law, net = spec.law.replace(d=d), spec.net_at(d)
        found = [*law.check(PatchSetting(spec.eps)), *choices(law, net, d**spec.c0)]
        folder.conditions(found, d=d)
    summary: Json = {arm: _medians(run_arm(spec, folder, arm)) for arm in spec.arms}
    folder.add(INITIAL, initial_rows(spec.widths, spec.dimensions, spec.seeds))
    folder.add(MAXIMA, maxima_rows(spec.widths))
    folder.add(POWER, power_rows(spec.power_starts, spec.relative / 4))
    return summary


def _medians(events: Rows) -> Json:
    """For each event and dimension: how often it happened, and the medians of A and B then."""
    found: Json = {}
    for event, d in dict.fromkeys((row[Events.event], row[Events.d]) for row in events):
        rows = [row for row in events if (row[Events.event], row[Events.d]) == (event, d)]
        there = [row for row in rows if row[Events.happened]]
        medians = {str(c): float(np.median([row[c] for row in there])) for c in (Events.A, Events.B) if there}
        found.setdefault(f"event {event}", {})[f"d={d}"] = {"share": len(there) / len(rows), **medians}
    return found


def size(spec: PatchScaling) -> Size:
    """Coefficients of all dimensions and seeds at once; their number does not depend on d."""
    runs = len(spec.seeds) * len(spec.dimensions)
    widest = max(net.width for net in spec.nets())
    held = runs * spec.law.k * widest * 2 * spec.law.k
    return Size(held + max(spec.widths) * len(spec.seeds), held * spec.steps * len(spec.arms))


EXPERIMENTS = (
    Experiment(
        name="patch-scaling",
        paper="at",
        shows="AT's growth lemmas for d = 10² … 10⁹: who grows first and how large the loser is then, with "
        "fitted exponents",
        spec=PatchScaling,
        run=run,
        takes={"quick": "5 s", "cpu": "1 min", "paper": "20 min"},
        highlights=SCALING_HIGHLIGHTS,
        size=size,
        revision=3,
        columns=COLUMNS,
    ),
)
