"""`image-fine-labels-cifar10`: the comparison of `image-fine-labels` on networks that have learned CIFAR-10.

ResNet-9 of width 16, eight passes over 40 000 images with shifts and mirror images on a one-cycle schedule,
in bfloat16: about four minutes a network on one core. Depth, width and epochs were chosen by speed, before
any accuracy was known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from featscope.core.settings import setting
from featscope.dynamics.augment import Augment
from featscope.dynamics.image_training import AttackSpec, TrainingSpec
from featscope.dynamics.schedules import Schedule
from featscope.experiments.image_network import ImageNetwork
from featscope.experiments.spec import Experiment
from featscope.nets.networks import NetworkSpec
from featscope.papers.fa.image_fine_labels import EXPERIMENT as FINE_LABELS
from featscope.papers.fa.image_fine_labels import FineTask, ImageFineLabels

LEARNED = ImageNetwork(
    dataset="cifar10",
    train=40_000,
    attacked=0,
    net=NetworkSpec(architecture="resnet9", width=16),
    training=TrainingSpec(
        epochs=8,
        schedule=Schedule(peak=0.1),
        attack=AttackSpec(eps=8 / 255),
        augment=Augment(shift=2, mirror=True),
        held_out=0.05,
        autocast=True,
    ),
    snapshots=1000,
    channels_last=True,
)
#: the network of the other experiment's profiles, a ResNet in full precision
_PLAIN = {
    "cifar10.network.channels_last": False,
    "cifar10.network.training.autocast": False,
    "cifar10.network.net.architecture": "resnet",
}


class LearnedFineLabels(ImageFineLabels, registered="image-fine-labels-cifar10"):
    """The settings of `image-fine-labels` with another network on CIFAR-10."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**ImageFineLabels.profiles["quick"], **_PLAIN, "cifar10.network.net.width": 8},
        "paper": {**ImageFineLabels.profiles["paper"], **_PLAIN},
    }

    seeds: tuple[int, ...] = setting((0, 1), "seeds, two networks each")
    datasets: tuple[Literal["cifar10"], ...] = setting(("cifar10",), "the data set")
    cifar10: FineTask = setting(
        FineTask(network=LEARNED, radii=tuple(r / 10 for r in range(9)), checked=(0.2, 0.4)),
        "network and radii on CIFAR-10",
    )


EXPERIMENT = Experiment(
    name="image-fine-labels-cifar10",
    paper="fa",
    shows="FA Figure 3 (right) on networks that have learned CIFAR-10: robust accuracy against the ℓ2 "
    "radius, trained with 2-class and with 10-class labels",
    spec=LearnedFineLabels,
    run=FINE_LABELS.run,
    takes={"quick": "1 min", "cpu": "35 min", "paper": "not measured; a GPU job"},
    highlights=FINE_LABELS.highlights,
    size=FINE_LABELS.size,
    revision=FINE_LABELS.revision,
    columns=FINE_LABELS.columns,
    data=FINE_LABELS.data,
    needs=FINE_LABELS.needs,
)
EXPERIMENTS = (EXPERIMENT,)
