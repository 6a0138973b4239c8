"""AT-R2.5: is the switch of phase what adversarial training does, or what one unconverged step does?"""

from __future__ import annotations

from featscope.claims.claim import Claim, Finding, Judge, Kind, Runs
from featscope.claims.judging import at_most, exactly, largest, one_run, over_seeds
from featscope.core.rules import SAME_MINIMUM, SMALL, TRAINED_GAP
from featscope.papers.at.claims_training import dominance
from featscope.papers.at.final_values import final_values
from featscope.papers.at.inner_columns import INNER_DYNAMICS, InnerDynamics
from featscope.papers.at.runs import INNER

#: arm → what finds its perturbations
ARM_MEANINGS = {
    "patch": "one step, patch clip",
    "coordinate": "one step, coordinate clip",
    "features-only": "one step along the features alone, coordinate clip",
    "pgd-1": "one signed step of size ε",
    "pgd-3": "PGD with 3 steps",
    "pgd-10": "PGD with 10 steps",
    "pgd-50": "PGD with 50 steps",
    "exact": "the true maximiser over the ball",
    "exact-features": "the true maximiser over the ball within the features' span",
}


def _never_above(column: str, bound: float) -> Judge:
    """The largest value of a column over arms, seeds and all times at which it is measured."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(INNER_DYNAMICS)
        by_arm = {
            str(arm): largest(found.to_list())
            for (arm,), same in rows.group_by(InnerDynamics.arm, maintain_order=True)
            if column in same.columns and len(found := same[column].drop_nulls())
        }
        return exactly(largest(by_arm.values()), bound, by_arm=by_arm)

    return judge


def _converged(arm: str) -> Judge:
    """How far the arm's perturbation is from the true maximum when training ends, in units of F_y(X)."""

    def judge(runs: Runs) -> Finding:
        left = final_values(runs["run"], arm, InnerDynamics.left).tolist()
        return at_most(over_seeds(left), SMALL, by_seed=left)

    return judge


CLAIMS = (
    Claim(
        id="AT-R2.5",
        paper="at",
        named_kind=Kind.QUESTION,
        reference="AT §2.5 and §7, beyond the one step of Figure 3",
        statement="Adversarial training switches phase and ends with u far above v whatever finds the inner "
        "maximum: one step, PGD, or the true maximiser of −F_y.",
        hypotheses=("Figure 3's law, in fewer dimensions",),
        readings=(
            one_run(
                "gap",
                "largest duality gap ÷ F_y(X) of the exact minimum at a checkpoint",
                INNER,
                _never_above(InnerDynamics.gap, SAME_MINIMUM),
            ),
            one_run(
                "gap-in-training",
                "largest duality gap ÷ F_y(X) of a perturbation that the exact arms trained on",
                INNER,
                _never_above(InnerDynamics.training_gap, TRAINED_GAP),
            ),
            one_run(
                "unbeaten",
                "by how much PGD with 50 steps and 10 starts is better than the exact minimum, ÷ F_y(X)",
                INNER,
                _never_above(InnerDynamics.beaten_by, SAME_MINIMUM),
            ),
            *(
                one_run(
                    f"converged ({arm})",
                    f"what {ARM_MEANINGS[arm]}, leaves to the true maximum at the end, ÷ F_y(X)",
                    INNER,
                    _converged(arm),
                )
                for arm in ("patch", "pgd-50")
            ),
            *(
                one_run(f"switch ({arm})", f"smallest u ÷ v; {told}", INNER, dominance(arm, InnerDynamics.u))
                for arm, told in ARM_MEANINGS.items()
            ),
        ),
    ),
)
