"""What `patch-scaling` records: the columns of its parts and the events that it waits for."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

from featscope.core.columns import Columns, column
from featscope.papers.at.patch_columns import Trajectory

CURVES, EVENTS, ENDS, INITIAL, MAXIMA, POWER = "curves", "events", "ends", "initial", "maxima", "power"


ScalingArm = Literal["standard", "features-only", "two-sided", "as-printed"]
#: the adversarial readings of Lemma D.17's clip: (two-sided, features only)
CLIPS: dict[str, tuple[bool, bool]] = {
    "features-only": (True, True),
    "two-sided": (True, False),
    "as-printed": (False, False),
}


class StandardEvent(IntEnum):
    """What is waited for under standard training (Lemmas D.9 and D.10)."""

    NON_ROBUST_ARRIVES = 0
    OUTPUT_GROWS = 1


class AttackedEvent(IntEnum):
    """What is waited for under adversarial training (Lemmas D.23 to D.25)."""

    ATTACK_CANCELS = 0
    ROBUST_ARRIVES = 1
    OUTPUT_GROWS = 2


class Curves(Trajectory):
    """One row for each arm, dimension, seed and recorded step."""

    arm = column("standard, or the reading of the clip")
    d = column("the dimension of a patch")
    time = column("η times steps, in the small-step limit")
    F = column("F_y of each class, at the clean or at the perturbed points")
    C_max = column("largest ⟨w_ir, u_j⟩ over i ≠ j and r")
    D_max = column("largest ⟨w_ir, v_j⟩ over i ≠ j and r")
    residual = column("1 − logit_y of each class there")
    other_low = column("the smallest logit_i, i ≠ y, of each class there")
    other_high = column("the largest logit_i, i ≠ y, of each class there")
    rate_low = column(
        "standard training: the smallest speed of an A or B that is in the polynomial part, in units of "
        "Lemma D.8's A^{q−1} Σ α^q ÷ (k ϱ^{q−1}), of each class; NaN if none is"
    )
    rate_high = column("the largest such speed, of each class")
    linear = column("1 if a neuron of the class has left the polynomial part of the activation, else 0")


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


class Ends(Columns):
    """One row for each arm, dimension and seed: what the last network does on the noiseless population, in
    closed form. Shares are of the k classes, or of the k(k−1) pairs of a class and a target."""

    arm = column("standard, or the reading of the clip")
    d = column("the dimension of a patch")
    seed = column("the seed of the initial weights")
    arrived = column("1 if the run reached its horizon, else 0")
    clean = column("share of classes that are right at X")
    robust_only = column("share that are right at D_R, X without its non-robust features")
    non_robust_only = column("share that are right at D_NR, X without its robust features")
    fooled = column("share of pairs that are wrong under Theorem 4.3's model-free Δ")
    targeted = column("share of pairs for which that Δ gives the answer y'")
    training_attack = column("share that are right at X and at the training's own X̃")
    lowered = column("share that are right under −ε u_y − ε v_y on every patch, which lowers F_y alone")
    attacked = column("share that are right under −ε u_y + ε u_j on every patch, for every j")
    certified = column("share certified for every Δ in the features' span")
    attacked_robust_only = column("share of D_R that are right under −ε u_y + ε u_j on every patch")
    certified_robust_only = column("share of D_R certified for every Δ in the features' span")
    u = column("max_r ⟨w_ir, u_i⟩ of each class, the lemmas' A")
    v = column("max_r ⟨w_ir, v_i⟩ of each class, the lemmas' B")
    off = column("largest ⟨w_ir, f_j⟩ over i ≠ j, r and both kinds of features: C and D")


class Initial(Columns):
    """One row for each width, dimension and seed: max_r⟨w_r(0), f⟩."""

    m = column("neurons of a class")
    d = column("the dimension of a patch")
    seed = column("the seed of the draw")
    largest = column("the largest of m draws of N(0, 1/d)")
    exact = column("its exact mean")


class Maxima(Columns):
    """One row for each n and deviation from √(2 log 2n): Lemma B.1's probabilities, exact, beside its
    bounds."""

    n = column("how many Gaussians")
    side = column("above: ‖X‖∞ ≥ √(2 log 2n) + t; below: ‖X‖∞ ≤ √(2 log 2n) − δ")
    deviation = column("t or δ")
    log_exact = column("log of the exact probability")
    log_bound = column("log of the lemma's bound")


class Power(Columns):
    """One row for each q, S and y0 of the tensor power method."""

    q = column("the power q of the activation")
    S = column("the ratio S of the two growth rates")
    y0 = column("where the sequence that is behind starts")
    x0 = column("where the other starts")
    gap = column("the relative lead of x0")
    growth = column("y ÷ y0 when x reaches 1")


#: part → its columns
COLUMNS = {CURVES: Curves, EVENTS: Events, ENDS: Ends, INITIAL: Initial, MAXIMA: Maxima, POWER: Power}
