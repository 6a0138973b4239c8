"""What `patch-scaling` records: the columns of its parts and the events that it waits for."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

from featscope.core.columns import Columns, column
from featscope.papers.at.patch_columns import Trajectory

CURVES, EVENTS, INITIAL, POWER = "curves", "events", "initial", "power"


class Curves(Trajectory):
    """One row for each arm, dimension, seed and recorded step."""

    arm = column("standard, or the reading of the clip")
    d = column("the dimension of a patch")
    time = column("η times steps, in the small-step limit")
    F = column("F_y of each class, at the clean or at the perturbed points")
    C_max = column("largest ⟨w_ir, u_j⟩ over i ≠ j and r")
    D_max = column("largest ⟨w_ir, v_j⟩ over i ≠ j and r")


class Events(Columns):
    """One row for each arm, dimension, seed, class and event."""

    arm = column("standard, or the reading of the clip")
    d = column("the dimension of a patch")
    seed = column("the seed of the initial weights")
    label = column("the class", "class")
    event = column("the number of a StandardEvent or an AttackedEvent")
    happened = column("whether it happened before the run ended")
    time = column("when; −1 if it did not")
    A = column("max_r ⟨w_ir, u_i⟩ then; −1 if it did not happen")
    B = column("max_r ⟨w_ir, v_i⟩ then; −1 if it did not happen")


class Initial(Columns):
    """One row for each width, dimension and seed: max_r⟨w_r(0), f⟩."""

    m = column("neurons of a class")
    d = column("the dimension of a patch")
    seed = column("the seed of the draw")
    largest = column("the largest of m draws of N(0, 1/d)")
    exact = column("its exact mean")


class Power(Columns):
    """One row for each q, S and y0 of the tensor power method."""

    q = column("the power q of the activation")
    S = column("the ratio S of the two growth rates")
    y0 = column("where the sequence that is behind starts")
    x0 = column("where the other starts")
    gap = column("the relative lead of x0")
    growth = column("y ÷ y0 when x reaches 1")


ScalingArm = Literal["standard", "features-only", "two-sided", "as-printed"]
#: the adversarial readings of Lemma D.17's clip: (two-sided, features only)
CLIPS: dict[str, tuple[bool, bool]] = {
    "features-only": (True, True),
    "two-sided": (True, False),
    "as-printed": (False, False),
}
NOT_YET = -1.0


class StandardEvent(IntEnum):
    """What is waited for under standard training (Lemmas D.9 and D.10)."""

    NON_ROBUST_ARRIVES = 0
    OUTPUT_GROWS = 1


class AttackedEvent(IntEnum):
    """What is waited for under adversarial training (Lemmas D.23 to D.25)."""

    ATTACK_CANCELS = 0
    ROBUST_ARRIVES = 1
    OUTPUT_GROWS = 2
