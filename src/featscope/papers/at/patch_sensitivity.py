"""`patch-sensitivity`: Figure 3's adversarial training with one setting changed at a time: q, ϱ, m, σ0, η̃ and
the size of a batch; at smaller sizes (d = N = 40, m = 30) unless the profile is `paper`.

Every change is a run of `patch-batches` with one size of a batch; this experiment gathers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from featscope.core.columns import Columns, column
from featscope.core.settings import Positives, Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Request, Spec, request
from featscope.laws.patches import PatchSetting
from featscope.papers.at import patch_batches
from featscope.papers.at.patch_batches import SWITCHES, Switches

CHANGES = "changes"
#: where B.3 has σ0 for q = 4 and 5: growth takes (1/σ0)^{q−3} times as long
LARGER_START = 0.1


class Changes(Columns):
    """One row for each change, seed and class."""

    setting = column("what is changed: its letter")
    at = column("its value")
    usual = column("whether it is Figure 3's value")
    seed = column("the seed of data, initial weights and batches")
    label = column("the class", "class")
    switch = column("the epoch from which on u is ahead of v to the end; null if there is none")
    u_end = column("max_r ⟨w_ir, u_i⟩ at the end")
    v_end = column("max_r ⟨w_ir, v_i⟩ at the end")


class PatchSensitivity(Spec):
    """The values of each setting; all others are Figure 3's, in batches of 5."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0], "powers": [3], "knees": [1.0], "widths": [20, 30], "starts": [0.01],
            "step_sizes": [1000.0], "batch_sizes": [5], "epochs": 150,
        },
        "paper": {"small": False, "widths": [30, 100, 300], "batch_sizes": [1, 5, 10, 20]},
    }  # fmt: skip

    seeds: tuple[int, ...] = setting((0, 1, 2, 3), "the seeds, one independent repetition each")
    powers: Sizes = setting((3, 4, 5), "powers of the activation; 4 and 5 with σ0 = 0.1", letter="q")
    knees: Positives = setting((0.5, 1.0, 2.0), "where the activation becomes linear", letter="ϱ")
    widths: Sizes = setting((10, 30, 100), "neurons of a class", letter="m")
    starts: Positives = setting((0.003, 0.01, 0.03), "scales of the first weights", letter="σ_0")
    step_sizes: Positives = setting((10.0, 100.0, 1000.0, 10000.0), "steps of the attack", letter="η̃")
    batch_sizes: Sizes = setting((1, 5, 10, 20), "points of a batch")
    epochs: int = setting(600, "most epochs", letter="T", ge=1)
    small: bool = setting(True, "use the smaller sizes of patch-batches' quick profile, d = N = 40, m = 30")
    dtype: Literal["float32", "float64"] = "float32"

    def changes(self) -> list[tuple[str, float, bool, dict[str, Any]]]:
        """(letter, value, whether usual, overrides of patch-batches)."""
        found: list[tuple[str, float, bool, dict[str, Any]]] = []
        for q in self.powers:
            start = {} if q == 3 else {"net.sigma_0": LARGER_START}
            found.append(("q", q, q == 3, {"net.q": q, **start}))
        keys = {
            "ϱ": ("net.rho", self.knees, 1.0),
            "m": ("net.width", self.widths, 30 if self.small else 100),
            "σ0": ("net.sigma_0", self.starts, 0.01),
            "η̃": ("training.step_size", self.step_sizes, 1000.0),
        }
        for letter, (key, values, usual) in keys.items():
            found += [(letter, value, value == usual, {key: value}) for value in values]
        return found + [("batch", size, size == 5, {"batch_sizes": [size]}) for size in self.batch_sizes]


def label_of(letter: str, value: float) -> str:
    """What a change is called among the runs that are needed."""
    return f"{letter} {value:g}"


def needs(spec: PatchSensitivity) -> Mapping[str, Request]:
    """One run of patch-batches for each change; Figure 3's own is shared."""
    (plan,) = patch_batches.EXPERIMENTS
    base = {
        "batch_sizes": [5],
        "seeds": list(spec.seeds),
        "training.epochs": spec.epochs,
        "dtype": spec.dtype,
    }
    profile = "quick" if spec.small else "cpu"
    return {
        label_of(letter, value): request(plan, profile, {**base, **changes})
        for letter, value, _, changes in spec.changes()
    }


def run(spec: PatchSensitivity, folder: Folder) -> Json:
    """Gather what every change did."""
    summary: Json = {}
    rows: Rows = []
    asked = needs(spec)
    law = next(iter(asked.values())).spec
    folder.conditions(law.law.check(PatchSetting(law.eps)))  # type: ignore[attr-defined]
    for letter, value, usual, _ in spec.changes():
        name = label_of(letter, value)
        for row in folder.needed[name].part(SWITCHES).to_dicts():
            same = (Switches.seed, Switches.label, Switches.switch, Switches.u_end, Switches.v_end)
            kept: dict[str, Any] = {str(key): row.get(key) for key in same}
            rows.append({Changes.setting: letter, Changes.at: float(value), Changes.usual: usual, **kept})
        mine = [row for row in rows if (row[Changes.setting], row[Changes.at]) == (letter, float(value))]
        summary[name] = {
            "switched": sum(row[Changes.switch] is not None for row in mine) / len(mine),
            "epoch": _median([row[Changes.switch] for row in mine]),
        }
    folder.add(CHANGES, rows)
    return summary


def _median(epochs: list[float | None]) -> float | None:
    """The median epoch, if more than half of the classes switch."""
    there = sorted(epoch for epoch in epochs if epoch is not None)
    middle = len(epochs) // 2
    return float(there[middle]) if middle < len(there) else None


def size(spec: PatchSensitivity) -> Size:
    """It gathers; the cost is that of the runs it needs."""
    return Size(1000, 1000)


EXPERIMENTS = (
    Experiment(
        name="patch-sensitivity",
        paper="at",
        shows="when AT Figure 3's adversarial training switches to the robust feature as q, ϱ, m, σ0, η̃ and "
        "the batch size change one at a time",
        spec=PatchSensitivity,
        run=run,
        takes={"quick": "10 s", "cpu": "1 min", "paper": "15 min"},
        needs=needs,
        highlights=(
            Highlight("*/switched", "share of the classes that switch, {}", "share"),
            Highlight("*/epoch", "median epoch of the switch, {}"),
        ),
        size=size,
        columns={CHANGES: Changes},
        by_name=True,
    ),
)
