"""`phase-patch`: which of AT's features wins over strength, number, radius and step of the attack, with the
theory's lines.

Standard training over (α/β, |J_NR|/|J_R|): Lemma B.2's tensor power method names the line Σα^q = Σβ^q, for
each q, by the recursion at large d and by full descent on noisy samples at small d. Adversarial training over
(ε/β, η̃) and (ε/β, α/β): B.3 asks ε > β and a large η̃; the last panel asks instead from which α/β on the
explicit perturbation of radius ε no longer turns the network, against |J_R|(α−ε)^q = Pε^q.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import torch

from featscope.core.settings import Sizes, setting
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.patch_observables import feature_correlations, own_correlations
from featscope.dynamics.trajectory import seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Spec
from featscope.laws.patches import PatchLaw, PatchSetting, stack
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at.patch_race import PatchRace, RaceOrder, RaceTraining, order_of, raced
from featscope.sweeps.axes import SweepAxis
from featscope.sweeps.phases import PHASE_COLUMNS, Diagram, Measure, SeedValues, run_diagram

#: settings that are run along one leading axis
TOGETHER = 50
#: |J_R| of the panels over |J_NR|/|J_R|, so that the ratio moves in tenths
ROBUST_PATCHES = 10
#: Figure 3's law of the adversarial panels
FIGURE_3 = {"alpha": 2.0, "beta": 1.0, "patches": 16, "robust_patches": 1}
RADIUS_STEP, RADIUS_STRENGTH, FULL_BALL = "radius and step", "radius and strength", "full ball"


def standard_panel(q: int) -> str:
    """The name of the panel of standard training with this power."""
    return f"standard q{q}"


DESCENT = "descent q3"


class PhasePatch(Spec):
    """The boxes, how finely they are cut, and the training that is followed."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1, 2, 3],
            "powers": [3],
            "width": 0.25,
            "d": 10000,
            "descent_columns": 2,
            "descent_seeds": 1,
            "attacked": False,
        },
        "paper": {"seeds": list(range(60)), "relative": 0.02, "steps": 8000, "attacked_width": 0.04},
    }

    seeds: tuple[int, ...] = setting(tuple(range(24)), "the seeds of the initial coefficients")
    powers: Sizes = setting(
        (3, 4, 5), "powers of the activation, a panel of standard training each", letter="q"
    )
    d: int = setting(10**6, "dimension of a patch in the panels of standard training", letter="d", ge=100)
    attacked_d: int = setting(10**4, "dimension of a patch in the panels of adversarial training", ge=100)
    attacked_seeds: int = setting(6, "seeds of adversarial training: the first of them", ge=1)
    attacked_width: float = setting(0.08, "the same share for adversarial training", gt=0, lt=1)
    attacked: bool = setting(True, "follow adversarial training too")
    width: float = setting(0.04, "the edge is known to this share of each axis", gt=0, lt=1)
    net_width: int = setting(10, "neurons of each class", letter="m", ge=1)
    relative: float = setting(0.1, "largest relative change of a coefficient in one step", gt=0, le=0.2)
    steps: int = setting(2000, "most steps of the recursion", ge=1)
    descent_d: int = setting(60, "dimension of a patch under full descent", ge=10)
    descent_n: int = setting(40, "training points under full descent", letter="N", ge=2)
    descent_steps: int = setting(1500, "most steps of full descent", ge=1)
    descent_columns: int = setting(4, "values of α/β under full descent", ge=1)
    descent_seeds: int = setting(4, "seeds of full descent: the first of them", ge=1)
    dtype: Literal["float64"] = "float64"


def race_spec(
    spec: PhasePatch, q: int, d: int, seeds: Sequence[int], training: RaceTraining, **place: Any
) -> PatchRace:
    """A point of a panel of the recursion."""
    law = {name: place.pop(name) for name in ("alpha", "beta", "patches", "robust_patches") if name in place}
    return PatchRace(
        seeds=tuple(seeds),
        law=PatchLaw(sigma_n=0.0, d=d, **law),
        net=PatchNetSpec(width=spec.net_width, q=q),
        training=training,
        relative=spec.relative,
        steps=spec.steps,
        **place,
    )


def _orders(specs: Sequence[PatchRace], name: str) -> list[SeedValues]:
    """An order parameter of every setting, seed by seed, some settings at a time."""
    found: list[SeedValues] = []
    for start in range(0, len(specs), TOGETHER):
        some = specs[start : start + TOGETHER]
        for one, rows in zip(some, raced(some), strict=True):
            found.append([row[name] for row in order_of(one, rows)])
    return found


def patches_for(ratio: float) -> int:
    """|J_R| + |J_NR| for a ratio of the two."""
    return ROBUST_PATCHES + max(1, round(ROBUST_PATCHES * ratio))


def standard(spec: PhasePatch, q: int) -> tuple[Diagram, Measure]:
    """Standard training over strength and number; Σα^q = Σβ^q is |J_NR|/|J_R| = (α/β)^q."""

    def measure(places: Sequence[tuple[Any, Any]]) -> list[SeedValues]:
        specs = [
            race_spec(
                spec, q, spec.d, spec.seeds, "standard",
                alpha=x, beta=1.0, patches=patches_for(y), robust_patches=ROBUST_PATCHES,
            )
            for x, y in places
        ]  # fmt: skip
        return _orders(specs, RaceOrder.robust_share)

    return Diagram(standard_panel(q), *_boxes(), spec.width, 0.5, partial(power_line, q)), measure


def _boxes() -> tuple[SweepAxis, SweepAxis]:
    return SweepAxis("α ÷ β", 1.25, 5.0, 5, log=True), SweepAxis("|J_NR| ÷ |J_R|", 1.0, 1000.0, 5, log=True)


def power_line(q: int, strength: float) -> float | None:
    """|J_NR|/|J_R| = (α/β)^q, within the box."""
    line = strength**q
    return line if 1.0 <= line <= 1000.0 else None


def attacked(spec: PhasePatch, name: str) -> tuple[Diagram, Measure]:
    """Adversarial training at Figure 3's law, over the radius and something else."""
    seeds = spec.seeds[: spec.attacked_seeds]
    radius = SweepAxis("ε ÷ β", 0.2, 2.0, 5)
    strength = SweepAxis("α ÷ β", 1.5, 8.0, 5, log=True)

    def look(order: str, at: Any) -> Measure:
        def measure(places: Sequence[tuple[Any, Any]]) -> list[SeedValues]:
            specs = [
                race_spec(spec, 3, spec.attacked_d, seeds, "features-only", **{**FIGURE_3, **at(x, y)})
                for x, y in places
            ]
            return _orders(specs, order)

        return measure

    if name == RADIUS_STEP:
        size = SweepAxis("η̃", 0.1, 10_000.0, 5, log=True)
        return Diagram(name, size, radius, spec.attacked_width, 0.5, radius_line), look(
            RaceOrder.robust_share, lambda x, y: {"step_size": x, "eps": y}
        )
    root = math.sqrt(spec.attacked_d)
    if name == RADIUS_STRENGTH:
        return Diagram(name, strength, radius, spec.attacked_width, 0.5, lambda x: 1.0), look(
            RaceOrder.robust_share, lambda x, y: {"alpha": x, "eps": y, "step_size": root}
        )
    return Diagram(name, radius, strength, spec.attacked_width, 0.5, full_ball_line), look(
        RaceOrder.fooled_share, lambda x, y: {"alpha": y, "eps": x, "step_size": root}
    )


def radius_line(step_size: float) -> float | None:
    """B.3: ε > β, where the attack is large enough to cancel β before B reaches ϱ/β: η̃ > β²/ϱ."""
    return 1.0 if step_size > 1.0 else None


def full_ball_line(radius: float) -> float | None:
    """|J_R|(α − ε)^q = Pε^q at Figure 3's numbers of patches, q = 3."""
    line = radius * (1 + (FIGURE_3["patches"] / FIGURE_3["robust_patches"]) ** (1 / 3))
    return line if 1.5 <= line <= 8.0 else None


def descended(spec: PhasePatch) -> tuple[Diagram, Measure]:
    """Full descent on noisy samples at small d, column by column of α/β."""
    seeds = spec.seeds[: spec.descent_seeds]
    x = SweepAxis("α ÷ β", 1.5, 3.0, spec.descent_columns, log=True)
    y = SweepAxis("|J_NR| ÷ |J_R|", 1.0, 64.0, 4, log=True)

    def measure(places: Sequence[tuple[Any, Any]]) -> list[SeedValues]:
        return [descent_winner(spec, seeds, strength, ratio) for strength, ratio in places]

    line = partial(power_line, 3)
    return Diagram(DESCENT, x, y, max(spec.width, 0.1), 0.5, line, columns_only=True), measure


def descent_winner(spec: PhasePatch, seeds: Sequence[int], strength: float, ratio: float) -> SeedValues:
    """Share of the classes that the robust feature wins, for each seed: whose αA or βB is ahead when one of
    them reaches ϱ or the class's least training output log d."""
    d, net = spec.descent_d, PatchNetSpec(width=spec.net_width, sigma_0=spec.descent_d**-0.5)
    given: dict[str, Any] = {"alpha": strength, "patches": 1 + max(1, round(ratio))}
    law = PatchLaw(d=d, sigma_n=0.1 * d**-0.5, **given)
    data = stack([law.sample(spec.descent_n, stream(seed, "data", "train")) for seed in seeds])
    w0 = torch.stack([net.init(law.k, d, stream(seed, "init")) for seed in seeds])
    winner = torch.full((len(seeds), law.k), -1.0)

    def decide(state: Weights) -> None:
        u, v = feature_correlations(state.w, law)
        a, b = strength * own_correlations(u).amax(-1), own_correlations(v).amax(-1)
        out = net.net(state.w)(data.x).gather(-1, data.y[..., None])[..., 0]
        own = torch.stack([out.masked_fill(data.y != j, torch.inf).amin(-1) for j in range(law.k)], -1)
        new = ((torch.maximum(a, b) >= net.rho) | (own >= math.log(d))) & (winner < 0)
        winner[new] = (a > b)[new].float()

    def over(state: Weights, t: int) -> bool:
        decide(state)
        return bool((winner >= 0).all())

    eta = 0.5 / (strength**3 + ratio) * math.sqrt(d)
    trajectory(
        training_step(net, data.x, data.y, eta), Weights(w0), spec.descent_steps,
        lambda state, t: {}, 5, runs=seed_labels(seeds), stop=over,
    )  # fmt: skip
    return [float(row.mean()) if bool((row >= 0).all()) else None for row in winner]


def run(spec: PhasePatch, folder: Folder) -> Json:
    """All panels."""
    law = PatchLaw(sigma_n=0.0, d=spec.attacked_d, **FIGURE_3)  # type: ignore[arg-type]
    folder.conditions(law.check(PatchSetting(None)))
    summary: Json = {}
    panels = [(*standard(spec, q), spec.seeds) for q in spec.powers]
    panels.append((*descended(spec), spec.seeds[: spec.descent_seeds]))
    if spec.attacked:
        names = (RADIUS_STEP, RADIUS_STRENGTH, FULL_BALL)
        panels += [(*attacked(spec, name), spec.seeds[: spec.attacked_seeds]) for name in names]
    for diagram, measure, seeds in panels:
        summary[diagram.name] = run_diagram(diagram, seeds, measure, folder)
    return summary


def size(spec: PhasePatch) -> Size:
    """Batches of coefficients, and the samples of full descent."""
    runs = TOGETHER * len(spec.seeds)
    held = runs * 2 * spec.net_width * 4 + spec.descent_seeds * spec.descent_n * 65 * spec.descent_d
    return Size(held, runs * spec.steps * spec.net_width * len(spec.powers) / spec.width)


EXPERIMENTS = (
    Experiment(
        name="phase-patch",
        paper="at",
        shows="which of AT's features wins over (α/β, |J_NR|/|J_R|), (η̃, ε/β) and (α/β, ε/β), with the "
        "theory's lines",
        spec=PhasePatch,
        run=run,
        takes={"quick": "15 s", "cpu": "2 min", "paper": "30 min"},
        highlights=(
            Highlight("*/distance", "log(measured ÷ predicted) along the edge, {}"),
            Highlight("*/points", "points looked at, {}"),
            Highlight("*/grid", "points of the full grid, {}"),
        ),
        size=size,
        columns=dict(PHASE_COLUMNS),
        by_name=True,
    ),
)
