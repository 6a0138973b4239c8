"""Parts and columns of `patch-fig3`."""

from __future__ import annotations

from featscope.core.columns import Column, Columns, column
from featscope.papers.at.patch_columns import Correlated

DYNAMICS, RADII, MATCHING = "dynamics", "radii", "matching"


class Dynamics(Correlated):
    """One row for each arm, seed and recorded epoch; costly columns every `evaluation.every` epochs."""

    step = column("epochs done, each a pass over the training points")
    loss = column("mean cross-entropy of the training points")
    residual = column("mean 1 − logit_y of the training points")
    clean_train = column("accuracy on the training points")
    clean_test = column("accuracy on the test points")
    rest_l1 = column("largest ℓ1 norm of a neuron's part orthogonal to all features")
    rest_l2 = column("largest ℓ2 norm of a neuron's part orthogonal to all features")
    feature_robust = column("accuracy on D_R, where only robust features are left")
    feature_non_robust = column("accuracy on D_NR, where only non-robust features are left")
    u_all = column("⟨w_ir, u_i⟩ of every class i and neuron r")
    v_all = column("⟨w_ir, v_i⟩ of every class i and neuron r")
    noise_max = column("largest |⟨w, ξ_p⟩| over neurons and training patches")
    noise_update_rest = column("largest change of ⟨w, ξ_p⟩ a unit of η beside the patch's own term")
    F_max = column("largest F_y over the training points")
    F_ratio = column("smallest ÷ largest F_y within a class, the worst class")
    robust_training_attack = column("test points right at X and at X̃", "robust_training-attack")
    robust_train_training_attack = column(
        "training points right at X and at X̃", "robust_train_training-attack"
    )
    robust_feature_span = column(
        "test points that no attack within the features' span fools", "robust_feature-span"
    )
    robust_full_ball = column("test points that no attack within the ball fools", "robust_full-ball")
    robust_model_free = column("test points right under the Δ that looks at no model", "robust_model-free")


#: threat → the column of the accuracy under it
ROBUST_OVER: dict[str, Column] = {
    "feature-span": Dynamics.robust_feature_span,
    "full-ball": Dynamics.robust_full_ball,
}
#: columns of accuracies on points that are attacked, of which there are fewer
ATTACKED_COLUMNS = (
    Dynamics.robust_training_attack,
    Dynamics.robust_feature_span,
    Dynamics.robust_full_ball,
    Dynamics.robust_model_free,
)


class Radii(Columns):
    """One row for each arm, seed, threat and radius: the final network's robust accuracy as a bracket."""

    arm = column("standard or adversarial")
    seed = column("the seed of the network and the points")
    threat = column("full-ball, or feature-span: only what lies in the span of the features may change")
    points = column("test or train: which points")
    eps = column("the radius")
    upper = column("share of points that no attack fools")
    lower = column("share of points certified by tangents")
    lower_interval = column("share of points certified by intervals")
    cross_entropy_alone = column(
        "share of points that PGD on cross-entropy alone leaves; at the spec's ε only"
    )


class Matching(Columns):
    """One row: what no classifier can do on a sample."""

    seed = column("the first seed, which drew the sample")
    upper = column("bound on any classifier's robust accuracy, by a matching of intersecting pairs")
    intersecting_pairs = column("share of pairs of different labels whose balls intersect")
