"""How `patch-fig3` trains each arm, and how it measures robustness."""

from __future__ import annotations

from typing import Literal

from featscope.attacks.patch_training_attack import Clip
from featscope.core.frozen import Value
from featscope.core.settings import RadiusList, setting
from featscope.papers.at import printed


class Training(Value):
    """Gradient descent: learning rate η, steps T, full batch unless a size is given."""

    learning_rate: float = setting(
        printed.FIGURE_3_LEARNING_RATE, "step size of gradient descent", letter="η", gt=0
    )
    steps: int = setting(printed.FIGURE_3_STEPS, "steps of gradient descent", letter="T", ge=1)
    batch_size: int | None = setting(None, "points of a step; all if not given", ge=1)


class AdversarialTraining(Training, registered="patch-adversarial-training"):
    """The same at perturbed points: one ascent step of size η̃ with a clip, or PGD with ``attack_steps`` >
    1."""

    learning_rate: float = setting(1.0, "step size of gradient descent", letter="η", gt=0)
    steps: int = setting(1500, "steps of gradient descent", letter="T", ge=1)
    clip: Clip = setting(
        "patch", "how a perturbation is brought back to the ball: by coordinate, by patch, or by coefficient"
    )
    step_size: float = setting(
        printed.FIGURE_3_ATTACK_STEP_SIZE, "step size of the training attack", letter="η̃", gt=0
    )
    objective: Literal["own-logit", "margin", "cross-entropy"] = setting(
        "own-logit", "what the training attack raises: −F_y, the margin, or the cross-entropy"
    )
    attack_steps: int = setting(1, "ascent steps of the training attack; 1 is the paper's", ge=1)

    @property
    def leaves_one_step_alone(self) -> bool:
        """Whether clip and step_size, which PGD does not use, are those of the default."""
        return (self.clip, self.step_size) == ("patch", printed.FIGURE_3_ATTACK_STEP_SIZE)


class Measurement(Value):
    """How robustness is measured: PGD steps and restarts, and the radii of the curves."""

    steps: int = setting(20, "steps of the PGD that measures robust accuracy", ge=1)
    restarts: int = setting(1, "random starts of that PGD", ge=1)
    points: int = setting(100, "test points attacked along training", ge=1)
    every: int = setting(100, "training steps between two evaluations under attack", ge=1)
    radii: RadiusList = setting(
        (0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.3, 0.5, 0.8),
        "radii of the curves after training; none: no curves",
        min_length=0,
    )
    curve_points: int = setting(60, "test points of the curves over radii", ge=1)
