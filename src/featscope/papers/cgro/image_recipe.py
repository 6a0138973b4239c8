"""CGRO's network and training of real images (Figures 1 to 3), before what each experiment changes."""

from __future__ import annotations

from torch import nn

from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, Trainer, TrainingSpec, accuracy, robust_accuracy
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.image_training import ImageTraining
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
SETS = ("train", "test")
#: what `quick` takes of Figure 1's small set
FEW_IMAGES = {"seeds": [0, 1], "train": 300, "test": 200, "training.batch_size": 32}


def accuracies(spec: ImageTraining, trainer: Trainer, net: nn.Module) -> dict[str, float]:
    """Clean and attacked accuracy on training and test images after the last epoch."""
    assert trainer.test is not None
    threat, found = spec.training.attack.threat(), dict[str, float]()
    for name, images in zip(SETS, (trainer.train, trainer.test), strict=True):
        part = Trainer.some(images, spec.attacked)
        rng = stream(trainer.seed, "final", name)
        found[f"clean_{name}"] = accuracy(net, part)
        found[f"robust_{name}"] = robust_accuracy(net, part, threat, spec.training.select_steps, rng)
    return found
