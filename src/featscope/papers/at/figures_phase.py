"""Phase diagrams of AT: who wins over strength, number, radius and step, with the lemmas' lines; one setting
at a time."""

from __future__ import annotations

import math

from featscope.experiments.run import Run
from featscope.papers.at.patch_sensitivity import CHANGES, Changes, PatchSensitivity
from featscope.papers.at.phase_patch import (
    DESCENT,
    FULL_BALL,
    RADIUS_STEP,
    RADIUS_STRENGTH,
    PhasePatch,
    standard_panel,
)
from featscope.plots.axes import Axis
from featscope.plots.grids import Categories, Group, HeatScale
from featscope.plots.palette import ROBUST
from featscope.plots.phase import phase_map
from featscope.plots.picture import Picture
from featscope.plots.sheet import side_by_side

WINS = HeatScale("robust feature wins", 0, 1)
STRENGTH, NUMBER = Axis("α ÷ β", "log", ticks=(1.5, 2, 3, 4, 5, 8)), Axis("|J_NR| ÷ |J_R|", "log")
HOW_TO_READ = (
    "Colours are the mean over seeds and classes; cells are cut where it changes sides. The dashed line is "
    "the "
    "prediction, dots are the measured edge with its interval over seeds."
)


def standard(run: Run) -> Picture:
    """Standard training over strength and number."""
    spec = PhasePatch.of(run)
    panels = [
        (standard_panel(q), f"recursion, q = {q}, d = {spec.d:.0e}".replace("e+0", "e")) for q in spec.powers
    ]
    panels.append((DESCENT, f"full descent, q = 3, d = {spec.descent_d}"))
    last = len(panels) - 1
    return Picture(
        title="Which feature standard training learns",
        caption=f"{HOW_TO_READ} Prediction: Σα^q = Σβ^q, which is |J_NR| ÷ |J_R| = (α ÷ β)^q. Above it the "
        "non-robust feature wins.",
        alt="Heat maps of the share in which the robust feature wins, over strength and number of the two "
        "features, both axes logarithmic, with a dashed predicted line and dots along the measured edge.",
        spec=side_by_side(
            [
                phase_map(run, name, title, STRENGTH, NUMBER, WINS, place == last)
                for place, (name, title) in enumerate(panels)
            ],
            columns=2,
        ),
        claims=("PH-patch",),
    )


def attacked(run: Run) -> Picture:
    """Adversarial training over radius, step and strength."""
    step, radius = Axis("η̃", "log"), Axis("ε ÷ β")
    fooled = HeatScale("share of classes", 0, 1)
    shown = [
        phase_map(run, RADIUS_STEP, "radius and step of the attack", step, radius, fooled, False),
        phase_map(run, RADIUS_STRENGTH, "strength and radius", STRENGTH, radius, fooled, False),
        phase_map(run, FULL_BALL, "turned by the explicit perturbation", radius, STRENGTH, fooled, True),
    ]
    return Picture(
        title="Which feature adversarial training learns, and whether that is robust over the full ball",
        caption=f"{HOW_TO_READ} Predictions: ε = β for η̃ > β²/ϱ (B.3); ε = β; and |J_R|(α−ε)^q = Pε^q, "
        f"above "
        "which a network of robust features withstands ε·u_j on every patch. Figure 3's law, clip on "
        "features.",
        alt="Three heat maps over radius and step, strength and radius, radius and strength, with dashed "
        "predicted lines and dots along the measured edges.",
        spec=side_by_side([panel for panel in shown if panel.cells], columns=3),
        claims=("PH-patch",),
    )


def attacked_if_followed(run: Run) -> Picture:
    """The adversarial panels, or those of standard training where no other was followed."""
    return attacked(run) if PhasePatch.of(run).attacked else standard(run)


def sensitivity(run: Run) -> Picture:
    """The epoch of the switch as one setting changes at a time."""
    spec, rows = PatchSensitivity.of(run), run.part(CHANGES)
    sizes = "d = N = 40, m = 30" if spec.small else "at its own sizes"
    panels = []
    for letter in dict.fromkeys(rows[Changes.setting].to_list()):
        mine = [row for row in rows.to_dicts() if row[Changes.setting] == letter]
        values = sorted({row[Changes.at] for row in mine})
        epochs = [
            [
                math.nan if row.get(Changes.switch) is None else row[Changes.switch]
                for row in mine
                if row[Changes.at] == at
            ]
            for at in values
        ]
        group = Group("epoch of the switch", ROBUST, epochs)
        panels.append(
            Categories(
                f"{letter}",
                [f"{at:g}" for at in values],
                Axis("epoch", limits=(0, spec.epochs)),
                [group],
                x=letter,
                legend=letter == "q",
                width=150,
                height=130,
            )
        )
    return Picture(
        title="When adversarial training switches to the robust feature, one setting changed at a time",
        caption="The epoch from which on u is ahead of v to the end, for every seed and class (dots), and "
        "the "
        "median of those that switch (bar); a class that never switches has no dot. Figure 3's training in "
        f"batches of 5 but for the setting named, {sizes}.",
        alt="Bar charts with dots, one for each of six settings: epoch of the switch against the setting's "
        "value.",
        spec=side_by_side(panels, columns=3),
        claims=("PH-sensitivity",),
    )


FIGURES = {
    "phase-patch": {"standard": standard, "attacked": attacked_if_followed},
    "patch-sensitivity": {"changes": sensitivity},
}
