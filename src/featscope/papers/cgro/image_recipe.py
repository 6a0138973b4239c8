"""CGRO's network and training of real images (Figures 1 to 3), before what each experiment changes."""

from __future__ import annotations

from featscope.dynamics.image_training import AttackSpec, TrainingSpec
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.nets.networks import NetworkSpec

LENET = NetworkSpec(architecture="lenet5", width=6, channels=1, side=28)
#: PGD on MNIST at the paper's radius .1 with cyclical learning rates, as the paper says. It gives no learning
#: rate: at a peak of .05 LeNet's units die under attack (constant outputs), at .02 with the radius ramped
#: over two epochs it trains.
TRAINING = TrainingSpec(
    method="adversarial",
    epochs=20,
    batch_size=64,
    schedule=Schedule(shape="cyclical", peak=0.02),
    attack=AttackSpec(eps=0.1, steps=7, ramp=Ramp(epochs=2)),
    select="robust",
)
