"""How `patch-fig3` trains each arm, and how it measures robustness."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from featscope.attacks.patch_training_attack import Clip
from featscope.core.frozen import Value
from featscope.papers.at import printed

#: The paper prints no batch size. With its η = .1 the switch comes near its epoch 150 in batches of 5, and in
#: none of the other sizes of `patch-batches`: inferred, not read.
INFERRED_BATCH_SIZE = 5


class Training(Value):
    """Gradient descent: learning rate η, T epochs, each a pass over the data in batches of ``batch_size``;
    ``None`` is the full batch, for which an epoch is one step (AT §2.4)."""

    learning_rate: float = Field(default=printed.FIGURE_3_LEARNING_RATE, gt=0)
    epochs: int = Field(default=printed.FIGURE_3_EPOCHS, ge=1)
    batch_size: int | None = Field(default=INFERRED_BATCH_SIZE, ge=1)

    def steps_an_epoch(self, points: int) -> int:
        """How many steps of descent a pass over so many points takes."""
        return 1 if self.batch_size is None else math.ceil(points / self.batch_size)


class AdversarialTraining(Training, registered="patch-adversarial-training"):
    """The same at perturbed points: one ascent step of size η̃ with a clip, or PGD with ``attack_steps`` >
    1."""

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
    points: int = Field(default=60, ge=1, description="test points attacked along training")
    every: int = Field(default=200, ge=1, description="epochs between attacks")
    radii: tuple[Annotated[float, Field(gt=0)], ...] = (0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.3, 0.5, 0.8)
    curve_points: int = Field(default=40, ge=1)
