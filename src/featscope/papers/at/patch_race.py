"""`patch-race`: which of AT's two features a training learns, at one setting, by the coefficient recursions.

Nothing of dimension d is made, so that d, |J_R| and |J_NR| may be any number; many settings are run along one
leading axis, which is what sweeps do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch

from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_events import NOT_YET
from featscope.dynamics.patch_race import RaceEvent, Races
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Batch, Experiment, Readable, Spec, refuse_unused
from featscope.laws.patches import PatchLaw, PatchSetting, both_kinds
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at import printed

RACES = "races"
RaceTraining = Literal["standard", "features-only", "two-sided", "as-printed"]
#: the readings of Lemma D.17's clip: (two-sided, features only)
CLIPS: Mapping[str, tuple[bool, bool]] = {
    "features-only": (True, True),
    "two-sided": (True, False),
    "as-printed": (False, False),
}


class RaceRows(Columns):
    """One row for each seed and class."""

    seed = column("the seed of the initial coefficients")
    label = column("the class", "class")
    decided = column("whether a feature reached its threshold ϱ/α or ϱ/β, or the output log d, in time")
    robust = column("whether the robust feature is ahead then, αA > βB; null if it was not decided")
    A = column("max_r ⟨w_ir, u_i⟩ then; null if it was not decided")
    B = column("max_r ⟨w_ir, v_i⟩ then; null if it was not decided")
    T = column("when, in units of 1/η; null if it was not decided")
    T_cancelled = column(
        "when Σ B^q reached a third of the value that cancels β; null if never, or no attack"
    )
    full_ball_margin = column("F_y − max F_j at the end, after the explicit perturbation of radius ε")


class RaceOrder(Columns):
    """The order parameters of one seed."""

    robust_share = column("share of the classes that the robust feature wins")
    decided_share = column("share of the classes that were decided within the steps")
    log_lead = column("mean over classes of log(αA ÷ βB) when decided")
    cancelled_first = column("share of the classes whose T_y (attack cancels β) comes before the decision")
    fooled_share = column("share of the classes that the explicit perturbation of radius ε turns")


class PatchRace(Spec):
    """A noiseless law of constant amplitudes; σ0 = 1/√d."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"seeds": [0]},
        "paper": {"seeds": list(range(30)), "relative": 0.01, "steps": 8000},
    }

    law: PatchLaw = setting(PatchLaw(sigma_n=0.0), "the law of the data, without noise")
    net: PatchNetSpec = setting(PatchNetSpec(width=10), "the network")
    training: RaceTraining = setting(
        "standard", "standard, or adversarial training with a reading of Lemma D.17's clip"
    )
    eps: float = setting(printed.FIGURE_3_EPS, "radius of the threat", letter="ε", gt=0)
    step_size: float = setting(1000.0, "step size of the training attack", letter="η̃", gt=0)
    relative: float = setting(
        0.02, "largest relative change of a coefficient in one step of the adaptive clock", gt=0, le=0.2
    )
    steps: int = setting(4000, "most steps of the recursion", ge=1)
    dtype: Literal["float64"] = "float64"

    def model_post_init(self, context: object) -> None:
        """The recursion is for noiseless constant laws with both kinds of patches; σ0 follows d."""
        refuse_unused(self, "the recursion is noiseless", "law.sigma_n")
        refuse_unused(self, "σ0 is 1/√d here: set law.d", "net.sigma_0")
        both_kinds(self.law)
        self.law.require_constant()


def shape(spec: PatchRace) -> Hashable:
    """What settings of one batch have in common."""
    same = (spec.law.k, spec.net, spec.training, spec.relative, spec.steps, len(spec.seeds))
    return str(same)


def races(specs: Sequence[PatchRace]) -> tuple[Races, co.Coefficients, torch.Tensor]:
    """All settings and seeds along one axis, their initial coefficients, and their radii."""
    pairs = [(spec, seed) for spec in specs for seed in spec.seeds]
    first = specs[0]
    data = co.constant_latents([spec.law for spec, _ in pairs])
    dims, eps, size = (
        torch.tensor([float(value) for value in values], dtype=torch.float64)
        for values in zip(*((spec.law.d, spec.eps, spec.step_size) for spec, _ in pairs), strict=True)
    )
    clip = None
    if first.training != "standard":
        two_sided, features_only = CLIPS[first.training]
        clip = co.CoefficientClip(eps, size, two_sided, features_only)
    needs_gram = first.training in ("two-sided", "as-printed")
    drawn = [_draw(spec.law.k, spec.net.width, spec.law.d, seed, needs_gram) for spec, seed in pairs]
    start = co.Coefficients(*(torch.cat(parts) for parts in zip(*drawn, strict=True)))
    return Races(first.net, data, dims, clip), start, eps


def _draw(k: int, m: int, d: int, seed: int, gram: bool) -> co.Coefficients:
    return co.draw(1, k, m, d, d**-0.5, stream(seed, "init", d), gram=gram)


def raced(specs: Sequence[PatchRace]) -> list[Rows]:
    """The rows of every setting, all run at once."""
    made, start, eps = races(specs)
    end = made.run(start, specs[0].relative, specs[0].steps)
    margin = made.full_ball_margin(end.coefficients(), eps)
    events, margins = end.events.tolist(), margin.tolist()
    rows: list[Rows] = []
    place = 0
    for spec in specs:
        mine: Rows = []
        for seed in spec.seeds:
            for label in range(spec.law.k):
                mine.append(_row(spec, seed, label, events[place], margins[place][label]))
            place += 1
        rows.append(mine)
    return rows


def _row(spec: PatchRace, seed: int, label: int, events: Any, margin: float) -> dict[str, Any]:
    when, a, b = events[RaceEvent.DECIDED][label]
    cancelled = events[RaceEvent.CANCELLED][label][0]
    alpha, beta = (spec.law.of_class(name, label).moment(1) for name in co.AMPLITUDES)
    decided = when != NOT_YET
    return {
        RaceRows.seed: seed,
        RaceRows.label: label,
        RaceRows.decided: decided,
        RaceRows.robust: alpha * a > beta * b if decided else None,
        RaceRows.A: a if decided else None,
        RaceRows.B: b if decided else None,
        RaceRows.T: when if decided else None,
        RaceRows.T_cancelled: cancelled if cancelled != NOT_YET else None,
        RaceRows.full_ball_margin: margin if decided and math.isfinite(margin) else None,
    }


def order_of(spec: PatchRace, rows: Rows) -> Rows:
    """The order parameters of each seed; a class that was not decided has no winner, and a seed with such a
    class none either."""
    found: Rows = []
    for seed in dict.fromkeys(row[RaceRows.seed] for row in rows):
        mine = [row for row in rows if row[RaceRows.seed] == seed]
        whole = mine if all(row[RaceRows.decided] for row in mine) else []
        found.append(
            {
                RaceRows.seed: seed,
                RaceOrder.robust_share: _mean([row[RaceRows.robust] for row in whole]),
                RaceOrder.decided_share: _mean([row[RaceRows.decided] for row in mine]),
                RaceOrder.log_lead: _mean([_log_lead(spec, row) for row in whole]),
                RaceOrder.cancelled_first: _mean([_cancelled_first(row) for row in whole]),
                RaceOrder.fooled_share: _mean([row[RaceRows.full_ball_margin] <= 0 for row in whole]),
            }
        )
    return found


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _cancelled_first(row: Mapping[str, Any]) -> bool:
    cancelled = row.get(RaceRows.T_cancelled)
    return cancelled is not None and cancelled <= row[RaceRows.T]


def _log_lead(spec: PatchRace, row: Mapping[str, Any]) -> float:
    """log(αA/βB); what never became positive is far behind."""
    tiny = 1e-300
    alpha, beta = (spec.law.of_class(name, row[RaceRows.label]).moment(1) for name in co.AMPLITUDES)
    return math.log(max(alpha * row[RaceRows.A], tiny)) - math.log(max(beta * row[RaceRows.B], tiny))


def summary_of(spec: PatchRace, rows: Rows) -> Json:
    """Means over the seeds that have a winner."""
    orders = order_of(spec, rows)
    return {name: _mean([row[name] for row in orders if row[name] is not None]) for name in RaceOrder.all()}


def batch(specs: Sequence[PatchRace]) -> list[Callable[[Folder], Json]]:
    """Run settings of one shape at once; what is found of each is written by its own writer."""
    return [_writer(spec, rows) for spec, rows in zip(specs, raced(specs), strict=True)]


def _writer(spec: PatchRace, rows: Rows) -> Callable[[Folder], Json]:
    def write(folder: Folder) -> Json:
        folder.conditions(spec.law.check(PatchSetting(spec.eps)))
        folder.add(RACES, rows)
        return summary_of(spec, rows)

    return write


def run(spec: PatchRace, folder: Folder) -> Json:
    """One setting by itself."""
    return batch([spec])[0](folder)


def order(run: Readable) -> Rows:
    """The order parameters of a finished run."""
    return order_of(PatchRace.of(run), run.part(RACES).to_dicts())


def size(spec: PatchRace) -> Size:
    """The coefficients; their number depends on neither d nor the patches."""
    held = len(spec.seeds) * spec.law.k * spec.net.width * 2 * spec.law.k
    return Size(held, held * spec.steps)


EXPERIMENTS = (
    Experiment(
        name="patch-race",
        paper="at",
        shows="which of AT's two features one training learns, by the recursions, at any d and any number of "
        "patches: a point of a phase diagram",
        spec=PatchRace,
        run=run,
        takes={"quick": "1 s", "cpu": "1 s", "paper": "5 s"},
        highlights=(
            Highlight("robust_share", "share of the classes that the robust feature wins"),
            Highlight("decided_share", "share of the classes that were decided"),
            Highlight("log_lead", "log(αA ÷ βB) when decided"),
            Highlight("fooled_share", "share of the classes that an explicit perturbation of radius ε turns"),
        ),
        size=size,
        columns={RACES: RaceRows},
        batch=Batch(shape, batch),
        order=order,
    ),
)
