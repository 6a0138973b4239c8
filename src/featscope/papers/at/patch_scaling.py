"""`patch-scaling`: AT's growth lemmas for d = 10² … 10⁹ by the coefficient recursions, with initial
coefficients drawn in law.

The paper lets η = 1/poly(d): the recursions run in their small-step limit. All dimensions and seeds are one
batch. Events are caught at the step at which they happen: who reaches its threshold first, and how large the
other is by then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field, field_validator
from scipy import integrate
from scipy import stats as sps
from torch import Tensor

from featscope.core.rules import CONSTANT
from featscope.core.settings import Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_observables import cross_correlations, own_correlations
from featscope.dynamics.trajectory import Labels, Step, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.spec import Experiment, Spec, refuse_unused
from featscope.laws.patches import PatchLaw, PatchSetting, both_kinds
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at import printed
from featscope.papers.at.overview import SCALING_HIGHLIGHTS
from featscope.papers.at.scaling_columns import (
    CLIPS,
    CURVES,
    EVENTS,
    INITIAL,
    NOT_YET,
    POWER,
    AttackedEvent,
    Curves,
    Events,
    Initial,
    Power,
    ScalingArm,
    StandardEvent,
)
from featscope.papers.at.sweeps import enough_dimensions

#: events are looked for every so many small steps: each moves a coefficient by at most 2 %, so values at
#: events are good to a few per cent
LOOK = 4


class PatchScaling(Spec):
    """B.3's scaling in d: σ0 = 1/√d and η̃ = d^{c0}, with α, β, ε, P and ϱ as in Figure 3."""

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


class Watched(NamedTuple):
    """Coefficients, and for each event and class when it happened and what A and B were then (runs, events,
    k, 3); −1 before."""

    u: Tensor
    v: Tensor
    e: Tensor
    gram: Tensor
    time: Tensor
    events: Tensor

    def coefficients(self) -> co.Coefficients:
        """The coefficients alone."""
        return co.Coefficients(self.u, self.v, self.e, self.gram, self.time)


class Setting(NamedTuple):
    """What one arm needs: data, dimension of each run, clip and velocity."""

    spec: PatchScaling
    data: co.Latents
    dims: Tensor
    clip: co.CoefficientClip | None
    velocity: co.Velocity

    def outputs(self, c: co.Coefficients) -> Tensor:
        """F_y at the clean or at the perturbed points, (runs, k)."""
        if self.clip is None:
            out = co.clean_pass(self.spec.net, c, self.data).outputs
        else:
            x = co.perturb(self.spec.net, c, self.data, self.clip)
            out = co.adversarial_pass(self.spec.net, c, self.data, x).outputs
        return torch.diagonal(out, dim1=-2, dim2=-1)

    def reached(self, c: co.Coefficients) -> Tensor:
        """Which events hold now, (runs, events, k).

        Standard (D.9, D.10): max B ≥ ϱ/β; F_y ≥ log d. Adversarial (D.23 to D.25): Σ B^q = Θ(1/η̃), read as a
        third of ϱ^{q−1}/(η̃ β^{q−2}), the value at which the attack cancels β; max A ≥ ϱ/α; F_y(X̃) ≥ log d.
        """
        rho, q = self.spec.net.rho, self.spec.net.q
        a, b = own_correlations(c.u), own_correlations(c.v)
        amplitude = {
            kind: self.data.amplitude[:, self.data.robust[0] == kind][:, 0] for kind in (True, False)
        }
        logs = self.dims.log()[:, None]
        grown = self.outputs(c) >= logs
        if self.clip is None:
            return torch.stack([b.amax(-1) >= rho / amplitude[False], grown], 1)
        cancelled = rho ** (q - 1) / (self.dims[:, None] ** self.spec.c0 * amplitude[False] ** (q - 2))
        total = b.clamp(min=0).pow(q).sum(-1) >= cancelled / CONSTANT
        return torch.stack([total, a.amax(-1) >= rho / amplitude[True], grown], 1)


def setting_of(spec: PatchScaling, arm: ScalingArm) -> Setting:
    """The arm's data, clip and velocity for all dimensions and seeds at once."""
    data = co.latents(spec.law.population(), spec.law.k)
    dims = torch.tensor(spec.dimensions, dtype=torch.float64).repeat_interleave(len(spec.seeds))
    if arm == "standard":
        return Setting(spec, data, dims, None, co.standard_velocity(spec.net, data))
    two_sided, features_only = CLIPS[arm]
    clip = co.CoefficientClip(spec.eps, dims**spec.c0, two_sided, features_only)
    return Setting(spec, data, dims, clip, co.adversarial_velocity(spec.net, data, clip))


def events_of(arm: ScalingArm) -> type[StandardEvent] | type[AttackedEvent]:
    """The events of an arm, in the order of `Setting.reached`."""
    return StandardEvent if arm == "standard" else AttackedEvent


def start(spec: PatchScaling, arm: ScalingArm) -> Watched:
    """Initial coefficients in law; the same draws for every arm."""
    needs_gram = arm in ("two-sided", "as-printed")
    parts = [
        co.draw(1, spec.law.k, spec.net.width, d, d**-0.5, stream(seed, "init", d), gram=needs_gram)
        for d in spec.dimensions
        for seed in spec.seeds
    ]
    c = co.Coefficients(*(torch.cat(p) for p in zip(*parts, strict=True)))
    events = torch.full((len(c.time), len(events_of(arm)), spec.law.k, 3), NOT_YET, dtype=torch.float64)
    return Watched(*c, events)


def watch(place: Setting, step: Step[co.Coefficients]) -> Step[Watched]:
    """A step that also notes the first time of each event with A and B at that time, looking every ``LOOK``
    steps."""

    def watched(state: Watched, t: int) -> Watched:
        c = step(state.coefficients(), t)
        if (t + 1) % LOOK:
            return Watched(*c, state.events)
        now = torch.stack(
            [
                c.time[:, None].expand(-1, place.data.classes),
                own_correlations(c.u).amax(-1),
                own_correlations(c.v).amax(-1),
            ],
            -1,
        )
        new = place.reached(c) & (state.events[..., 0] == NOT_YET)
        return Watched(*c, torch.where(new[..., None], now[:, None], state.events))

    return watched


def labels(spec: PatchScaling) -> list[Labels]:
    """The runs of one batch, in the order of `setting` and `start`."""
    return [{Curves.d: d, Curves.seed: seed} for d in spec.dimensions for seed in spec.seeds]


def run_arm(spec: PatchScaling, folder: Folder, arm: ScalingArm) -> Rows:
    """Run one arm over all dimensions and seeds, save curves and events, and return the events."""
    place = setting_of(spec, arm)
    horizon = place.dims**spec.horizon_power
    step = watch(place, co.small_steps(place.velocity, spec.relative, horizon))

    def look(state: Watched, t: int) -> Mapping[str, Tensor | float]:
        c = state.coefficients()
        return {
            Curves.time: c.time,
            Curves.u: own_correlations(c.u).amax(-1),
            Curves.v: own_correlations(c.v).amax(-1),
            Curves.F: place.outputs(c),
            Curves.C_max: cross_correlations(c.u).amax(-1),
            Curves.D_max: cross_correlations(c.v).amax(-1),
        }

    def all_done(state: Watched, t: int) -> bool:
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
    return events


def event_rows(spec: PatchScaling, state: Watched) -> Rows:
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


def initial_rows(spec: PatchScaling) -> Rows:
    """Lemma D.3: max_r⟨w(0), f⟩ for m and d swept, drawn, beside the exact mean of the largest of m
    Gaussians."""
    rows: Rows = []
    for m in spec.widths:
        exact = expected_maximum(m)
        for d in spec.dimensions:
            for seed in spec.seeds:
                draw = d**-0.5 * torch.randn(m, generator=stream(seed, "largest", m, d), dtype=torch.float64)
                row: dict[str, Any] = {Initial.m: m, Initial.d: d, Initial.seed: seed}
                rows.append({**row, Initial.largest: float(draw.max()), Initial.exact: exact / math.sqrt(d)})
    return rows


def expected_maximum(m: int) -> float:
    """E max of m independent N(0, 1) = ∫ z m φ(z) Φ(z)^{m−1} dz."""

    def density(z: float) -> float:
        return float(z * m * np.exp(sps.norm.logpdf(z) + (m - 1) * sps.norm.logcdf(z)))

    return float(integrate.quad(density, -8, 12, limit=400)[0])


def power_rows(spec: PatchScaling) -> Rows:
    """Lemma B.2: y at the time x reaches 1, over a grid of y0, S and q, with the gap x0 = y0 S^{1/(q−2)} (1 +
    1/log(1/y0))."""
    rows: Rows = []
    grid = [(ratio, y0) for ratio in (0.25, 0.53, 1.0, 4.0) for y0 in spec.power_starts]
    ratio, y0 = (torch.tensor(column, dtype=torch.float64) for column in zip(*grid, strict=True))
    gap = 1 / (1 / y0).log()
    for q in (3, 4, 5):
        x0 = y0 * ratio ** (1 / (q - 2)) * (1 + gap)
        growth = power_run(x0, y0, ratio, q, spec.relative / 4) / y0
        names = (Power.S, Power.y0, Power.x0, Power.gap, Power.growth)
        cells = zip(*(values.tolist() for values in (ratio, y0, x0, gap, growth)), strict=True)
        rows += [{Power.q: q, **dict(zip(names, cell, strict=True))} for cell in cells]
    return rows


def power_run(x0: Tensor, y0: Tensor, ratio: Tensor, q: int, relative: float, target: float = 1.0) -> Tensor:
    """Iterate the lemma's pairs with steps that move neither sequence by more than ``relative``; return y
    when x reaches the target."""
    pair = co.PowerPair(x0, y0)
    while bool((pair.x < target).any()):
        room = torch.maximum(pair.x ** (q - 2), ratio * pair.y ** (q - 2))
        eta = torch.where(pair.x < target, relative / room, 0.0)
        pair = co.tensor_power_step(q, eta, ratio)(pair, 0)
    return pair.y


def run(spec: PatchScaling, folder: Folder) -> Json:
    """All arms, the initial maxima, and the tensor power grid."""
    # The data are noiseless at every d, so d ≫ 2k alone depends on it, and is hardest at the smallest.
    folder.conditions(spec.law.replace(d=min(spec.dimensions)).check(PatchSetting(spec.eps)))
    summary: Json = {arm: _medians(run_arm(spec, folder, arm)) for arm in spec.arms}
    folder.add(INITIAL, initial_rows(spec))
    folder.add(POWER, power_rows(spec))
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
    held = runs * spec.law.k * spec.net.width * 2 * spec.law.k
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
        revision=2,
        columns={CURVES: Curves, EVENTS: Events, INITIAL: Initial, POWER: Power},
    ),
)
