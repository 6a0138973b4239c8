"""Parts and columns of `patch-inner`."""

from __future__ import annotations

from featscope.core.columns import Columns, column
from featscope.papers.at.patch_columns import Trajectory

INNER_DYNAMICS, INNER_RADII = "dynamics", "radii"


class InnerDynamics(Trajectory):
    """One row for each arm, seed and recorded step. At checkpoints the arm's perturbation of the training
    points is held beside the exact one, over the arm's own threat."""

    arm = column("what finds the perturbation in training")
    loss = column("mean cross-entropy of the training points")
    clean_test = column("accuracy on the test points")
    feature_robust = column("accuracy on D_R, where only robust features are left")
    feature_non_robust = column("accuracy on D_NR, where only non-robust features are left")
    training_gap = column(
        "largest duality gap ÷ F_y(X) of all perturbations trained on so far; exact arms only"
    )
    gap = column("at checkpoints: largest duality gap ÷ F_y(X) of the exact minimum")
    beaten_by = column(
        "at checkpoints: largest (exact − best of PGD with restarts) ÷ F_y(X), above 0 where PGD was better"
    )
    least = column("at checkpoints: mean of the least F_y over the threat ÷ F_y(X)")
    left = column("at checkpoints: mean of (F_y at the arm's perturbation − the least) ÷ F_y(X)")


class InnerRadii(Columns):
    """One row for each arm, seed and radius: the final network's robust test accuracy over the full ball."""

    arm = column("what finds the perturbation in training")
    seed = column("the seed of the network and the points")
    eps = column("the radius")
    upper = column("share of points that no attack fools")
    lower = column("share of points certified by tangents")
