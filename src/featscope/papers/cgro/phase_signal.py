"""`phase-signal`: memorisation against the signal over (N, 1−γ) and (λ, 1−γ), with N* drawn.

What is followed is the accuracy under the attack (A) on fresh points: one half where the training points are
memorised and the residual signal is not learned, one where it is. N* says that the residual signal wins
beyond 1−γ = (σ²d·v0·α/(2.3·α³N))^{1/3}, whatever λ is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, Literal

import torch

from featscope.core.settings import setting
from featscope.core.signs import share
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import Kernel, Objective, recursion_step, weakened
from featscope.dynamics.trajectory import trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.signal import SignalLaw, SignalSetting, stack
from featscope.nets.cubic_cnn import output
from featscope.sweeps.axes import SweepAxis
from featscope.sweeps.phases import PHASE_COLUMNS, Diagram, SeedValues, run_diagram

SAMPLES, TRADEOFF = "samples", "tradeoff"
#: the two ends of 1−γ in both panels
GAPS = (0.01, 0.3)


class PhaseSignal(Spec):
    """Sizes that the panels share, and how finely they are cut along 1−γ."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {
            "seeds": [0], "d": 128, "most_samples": 4, "columns": 2, "tradeoff_n": 3,
            "width": 0.3, "test": 200, "steps_per_sample": 150,
        },
        "paper": {"seeds": list(range(10)), "most_samples": 80, "columns": 7, "d": 512},
    }  # fmt: skip

    seeds: tuple[int, ...] = (0, 1, 2)
    dtype: Literal["float64"] = "float64"
    d: int = setting(512, "dimension of a patch", letter="d", ge=32)
    m: int = setting(10, "width of the network", letter="m", ge=1)
    learning_rate: float = setting(0.1, "step size of gradient descent", letter="η", gt=0)
    most_samples: int = setting(24, "largest number of training points", letter="N", ge=2)
    columns: int = setting(5, "numbers of training points that are looked at", ge=2)
    tradeoff: float = setting(
        0.9, "weight of the perturbed loss where it is not swept", letter="λ", gt=0, lt=1
    )
    tradeoff_n: int = setting(8, "training points where λ is swept", ge=1)
    steps_per_sample: int = setting(300, "steps for each training point, at λ = 0.9", ge=1)
    width: float = setting(0.04, "the edge is known to this share of the range of log(1−γ)", gt=0, lt=1)
    test: int = setting(500, "fresh points on which accuracy is measured", ge=1)

    def law(self, gap: float) -> SignalLaw:
        """The law with this 1−γ."""
        return SignalLaw(d=self.d, gap=gap)


def tested(spec: PhaseSignal, n: int, tradeoff: float, gaps: Sequence[float]) -> list[SeedValues]:
    """Accuracy under (A) on fresh points for each 1−γ and seed, all trained at once by the exact
    recursion."""
    law, seeds = spec.law(gaps[0]), spec.seeds
    scale = 1 / math.sqrt(spec.d)
    drawn = [
        law.compact_instance(n, spec.m, scale, stream(seed, "data", "train"), stream(seed, "init"))
        for seed in seeds
    ]
    instance = stack(drawn * len(gaps))
    kernel = Kernel.of(instance)
    rho = torch.tensor(gaps, dtype=torch.float64).repeat_interleave(len(seeds))[:, None] ** 3
    objective = Objective(law.strength**3, rho, spec.learning_rate, tradeoff, n)
    steps = round(spec.steps_per_sample * n * 0.9 / tradeoff)
    state = trajectory(
        recursion_step(kernel, objective), kernel.start(n), steps, lambda state, t: {}, steps,
        runs=[{"place": place} for place in range(len(gaps) * len(seeds))],
    ).state  # fmt: skip
    weights = kernel.weights(instance.w, state)
    found: list[SeedValues] = []
    for place, gap in enumerate(gaps):
        values = []
        for index, seed in enumerate(seeds):
            w = weights[place * len(seeds) + index]
            fresh = law.fresh(spec.test, w, stream(seed, "data", "test"))
            # The attack (A) leaves the share 1−γ of the signal; noise patches have nothing along it.
            values.append(float(share(fresh.y * output(w, weakened(fresh.x, gap)) > 0)))
        found.append([value if math.isfinite(value) else None for value in values])
    return found


def gap_line(spec: PhaseSignal, n: float) -> float | None:
    """1−γ at which N* is N, within the box: N* falls like (1−γ)⁻³."""
    stars = spec.law(0.1).critical_samples(1 / math.sqrt(spec.d))
    line = float(0.1 * (stars / n) ** (1 / 3))
    return line if GAPS[0] <= line <= GAPS[1] else None


def panel(spec: PhaseSignal, name: str) -> Diagram:
    """A panel, cut along 1−γ only."""
    y = SweepAxis("1 − γ", *GAPS, 5, log=True)
    if name == SAMPLES:
        x = SweepAxis("N", 2, spec.most_samples, spec.columns, log=True, whole=True)
        return Diagram(name, x, y, spec.width, 0.75, lambda n: gap_line(spec, n), columns_only=True)
    x = SweepAxis("λ", 0.3, 0.95, 3)
    return Diagram(name, x, y, spec.width, 0.75, lambda _: gap_line(spec, spec.tradeoff_n), columns_only=True)


def measured(spec: PhaseSignal, name: str, places: Sequence[tuple[Any, Any]]) -> list[SeedValues]:
    """Order parameters of places; those of one column are trained together."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    found: dict[int, SeedValues] = {}
    for x, group in groupby(order, key=lambda index: places[index][0]):
        mine = list(group)
        n, tradeoff = (x, spec.tradeoff) if name == SAMPLES else (spec.tradeoff_n, x)
        values = tested(spec, n, tradeoff, [places[index][1] for index in mine])
        found |= dict(zip(mine, values, strict=True))
    return [found[index] for index in range(len(places))]


def run(spec: PhaseSignal, folder: Folder) -> Json:
    """Both panels."""
    setting = SignalSetting(spec.tradeoff_n, 1 / math.sqrt(spec.d), spec.learning_rate, spec.tradeoff)
    folder.conditions(spec.law(0.1).check(setting))
    summary: Json = {}
    with torch.no_grad():
        for name in (SAMPLES, TRADEOFF):
            diagram = panel(spec, name)
            summary[name] = run_diagram(diagram, spec.seeds, partial(measured, spec, name), folder)
    return summary


def size(spec: PhaseSignal) -> Size:
    """The recursion of the largest sample, for several 1−γ at a time."""
    noise = 3 * spec.most_samples
    runs = 5 * len(spec.seeds)
    steps = spec.steps_per_sample * spec.most_samples * spec.columns
    return Size(runs * (noise * noise + 4 * spec.m * noise), runs * steps * spec.m * noise * noise)


EXPERIMENTS = (
    Experiment(
        name="phase-signal",
        paper="cgro",
        shows="memorisation against the residual signal over (N, 1−γ) and (λ, 1−γ), with N* drawn",
        spec=PhaseSignal,
        run=run,
        takes={"quick": "5 s", "cpu": "30 s", "paper": "1 h"},
        highlights=(
            Highlight("*/distance", "log(measured ÷ predicted) along the edge, {}"),
            Highlight("*/points", "points looked at, {}"),
        ),
        size=size,
        columns=dict(PHASE_COLUMNS),
        by_name=True,
    ),
)
