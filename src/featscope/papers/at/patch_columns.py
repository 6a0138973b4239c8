"""Columns that several experiments of the patch model write, so that one judge reads them all."""

from __future__ import annotations

from typing import Literal

from featscope.core.columns import Columns, column

#: the trainings that are compared
Arm = Literal["standard", "adversarial"]
ARMS: tuple[Arm, ...] = ("standard", "adversarial")


class Trajectory(Columns):
    """A trajectory's row: one for each seed and recorded step."""

    seed = column("the seed of data, initial weights and attacks")
    step = column("steps of descent done")
    u = column("max_r ⟨w_ir, u_i⟩ of each class i, the lemmas' A")
    v = column("max_r ⟨w_ir, v_i⟩ of each class i, the lemmas' B")


class Correlated(Trajectory):
    """The same for both arms, with the off-diagonal correlations."""

    arm = column("standard or adversarial")
    C = column("max_r ⟨w_ir, u_j⟩ of each pair of classes i ≠ j")
    D = column("max_r ⟨w_ir, v_j⟩ of each pair of classes i ≠ j")
