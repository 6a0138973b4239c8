"""How `patch-fig3` trains each arm, and how it measures robustness."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from featscope.attacks.patch_training_attack import Clip
from featscope.core.frozen import Value
from featscope.papers.at import printed


class Training(Value):
    """Gradient descent: learning rate η, steps T, full batch unless a size is given."""

    learning_rate: float = Field(default=printed.FIGURE_3_LEARNING_RATE, gt=0)
    steps: int = Field(default=printed.FIGURE_3_STEPS, ge=1)
    batch_size: int | None = Field(default=None, ge=1)


class AdversarialTraining(Training, registered="patch-adversarial-training"):
    """The same at perturbed points: one ascent step of size η̃ with a clip, or PGD with ``attack_steps`` >
    1."""

    learning_rate: float = Field(default=1.0, gt=0)
    steps: int = Field(default=1500, ge=1)
    clip: Clip = "patch"
    step_size: float = Field(default=printed.FIGURE_3_ATTACK_STEP_SIZE, gt=0)
    objective: Literal["own-logit", "margin", "cross-entropy"] = "own-logit"
    attack_steps: int = Field(default=1, ge=1)

    @property
    def leaves_one_step_alone(self) -> bool:
        """Whether clip and step_size, which PGD does not use, are those of the default."""
        return (self.clip, self.step_size) == ("patch", printed.FIGURE_3_ATTACK_STEP_SIZE)


class Measurement(Value):
    """How robustness is measured: PGD steps and restarts, and the radii of the curves."""

    steps: int = Field(default=20, ge=1)
    restarts: int = Field(default=1, ge=1)
    points: int = Field(default=100, ge=1, description="test points attacked along training")
    every: int = Field(default=100, ge=1)
    radii: tuple[Annotated[float, Field(gt=0)], ...] = (0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.3, 0.5, 0.8)
    curve_points: int = Field(default=60, ge=1)
