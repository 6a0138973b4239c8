"""Numbers that AT prints, as data."""

from __future__ import annotations

#: AT §6.1, the gradient descent of Figure 3: learning rate η and steps T of both arms.
FIGURE_3_LEARNING_RATE = 0.1
FIGURE_3_STEPS = 1000
#: AT §6.1: the step size η̃ of the training attack, and the radius ε of training and test.
FIGURE_3_ATTACK_STEP_SIZE = 1000.0
FIGURE_3_EPS = 1.2
