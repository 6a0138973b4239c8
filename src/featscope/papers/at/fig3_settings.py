"""How `patch-fig3` trains each arm, and how it measures robustness."""

from __future__ import annotations

import math
from typing import Literal

from featscope.attacks.patch_training_attack import Clip
from featscope.core.frozen import Value
from featscope.core.settings import RadiusList, setting
from featscope.papers.at import printed

#: The paper prints no batch size. With its η = .1 the switch comes near its epoch 150 in batches of 5, and in
#: none of the other sizes of `patch-batches`: inferred, not read.
INFERRED_BATCH_SIZE = 5
#: what `quick` takes of Figure 3's law and network
FEW_POINTS = {"seeds": [0], "law.d": 40, "net.width": 30, "train_size": 40}


class Training(Value):
    """Gradient descent: learning rate η, T epochs, each a pass over the data in batches of ``batch_size``;
    ``None`` is the full batch, for which an epoch is one step (AT §2.4)."""

    learning_rate: float = setting(
        printed.FIGURE_3_LEARNING_RATE, "step size of gradient descent", letter="η", gt=0
    )
    epochs: int = setting(printed.FIGURE_3_EPOCHS, "passes over the training points", letter="T", ge=1)
    batch_size: int | None = setting(INFERRED_BATCH_SIZE, "points of a step; null: all of them", ge=1)

    def steps_an_epoch(self, points: int) -> int:
        """How many steps of descent a pass over so many points takes."""
        return 1 if self.batch_size is None else math.ceil(points / self.batch_size)


class AdversarialTraining(Training, registered="patch-adversarial-training"):
    """The same at perturbed points: one ascent step of size η̃ with a clip, or PGD with ``attack_steps`` >
    1."""

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
    points: int = setting(60, "test points attacked along training", ge=1)
    every: int = setting(200, "epochs between two evaluations under attack", ge=1)
    radii: RadiusList = setting(
        (0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.3, 0.5, 0.8),
        "radii of the curves after training; none: no curves",
        min_length=0,
    )
    curve_points: int = setting(40, "test points of the curves over radii", ge=1)
