"""What `signal-stages` records: a training at one step, the stages of a seed, descent beside recursions."""

from __future__ import annotations

from featscope.core.columns import Columns, column


class Outcome(Columns):
    """A training at one step: α³U and V_i of §4.3, accuracies, and the times of the stages (−1: not yet)."""

    seed = column("seed of the run")
    step = column("step t")
    clean_train = column("clean accuracy of the training points")
    clean_test = column("clean accuracy of fresh points")
    gta_train = column("accuracy of the training points at their points of (A)")
    gta_test = column("accuracy of fresh points at their points of (A)")
    signal = column("α³U")
    V_min = column("least V_i")
    V_median = column("median V_i")
    V_max = column("largest V_i")
    signal_at = column("first step with α³U ≥ 1")
    first_memorised = column("first step with some V_i ≥ 1")
    median_memorised = column("first step by which half of the points have V_i ≥ 1")
    last_memorised = column("first step by which every point has had V_i ≥ 1")
    alpha_u = column("α·max_r u_r")
    v_max = column("max_ijr |v_ijr|")
    slack = column("Σ_s mean_i ψ(ρs + V_i) over the steps so far")


class Training(Outcome):
    """One recorded step of the recursions with all quantities of §4.1 and §4.3."""

    u_max = column("max_r u_r")
    V_fresh_rms = column("root mean square of V over fresh points")
    memorised = column("share of training points with V_i ≥ 1")
    loss = column("value of (O)")
    gradient = column("‖∇L‖")
    growth_constant = column("growth of u_r in units of ηα³u_r²ψ(α³U), Lemma 4.2's constant")
    crosstalk_low = column("most that other noise patches took from a v_ijr")
    crosstalk_high = column("most that other noise patches added to a v_ijr")


class Stages(Columns):
    """The stages of one seed; none where a time was not reached or cannot be predicted."""

    seed = column("seed of the run")
    T0 = column("first step with α³U ≥ 1")
    T0_predicted = column("its prediction from max_r u_r(0)")
    T1_first = column("first step with some V_i ≥ 1")
    T1_median = column("first step by which half of the points have V_i ≥ 1")
    T1_last = column("first step by which every point has had V_i ≥ 1")
    T1_median_predicted = column("prediction of the median from v_ijr(0)")
    T1_order = column("the paper's order N/(ησ0σ³d^{3/2})")
    plateau_predicted = column("where α³U should stand at the median T1")


class Verification(Columns):
    """Full descent beside the recursions at one step, first seed."""

    seed = column("seed of the run")
    step = column("step t")
    gap_u = column("largest difference in u")
    gap_v = column("largest difference in v")
