"""`image-network`: one network trained on real images, kept with its epochs, shared by all who ask for it.

A network is a run of this experiment: found again by its spec's hash, resumed where it was killed, trained
once. Experiments that compare networks (AT Tables 1 and 2, the inversions, FA Figure 3) name those that they
need, get them with :func:`trained`, and read what they watch from the weights of the epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.files import digest
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.stored import StoredRun
from featscope.dynamics.image_training import AttackSpec, Trained, TrainingSpec, place
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_training import (
    RESNET,
    STANDARD,
    Epochs,
    ImageTraining,
    data_hashes,
    trainer_of,
    training_size,
)
from featscope.experiments.spec import Experiment, Request
from featscope.nets.classifier import ImageClassifier

ADVERSARIAL = TrainingSpec(
    method="adversarial",
    epochs=6,
    schedule=Schedule(peak=0.1),
    attack=AttackSpec(eps=0.3, steps=5, ramp=Ramp(epochs=3)),
    held_out=0.05,
    select="robust",
    select_steps=20,
)
#: the same for CIFAR-10 on 5000 images: a narrow stand-in for AT's WideResNet-34-10, at its radius
CIFAR_NET = RESNET.replace(channels=3, side=32)
CIFAR_STANDARD = STANDARD.replace(epochs=10, attack=AttackSpec(eps=8 / 255))
CIFAR_ADVERSARIAL = ADVERSARIAL.replace(
    epochs=10, attack=AttackSpec(eps=8 / 255, steps=5, ramp=Ramp(epochs=3))
)


class ImageNetwork(ImageTraining):
    """An image training whose epochs are kept."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "train": 1000,
            "test": 200,
            "attacked": 60,
            "net.blocks": [1, 1],
            "training.epochs": 3,
            "training.batch_size": 32,
            "training.select_steps": 5,
        },
        "paper": {
            "train": 60_000,
            "test": 10_000,
            "attacked": 10_000,
            "net.width": 64,
            "training.epochs": 30,
            "snapshots": 5,
        },
    }

    seeds: tuple[int, ...] = (0,)
    snapshots: int = setting(
        1, "of the recorded epochs, keep the weights of every so many, and the last", ge=1
    )


class Kept(Columns):
    """One row for each epoch whose weights were kept."""

    seed = column("the network's seed")
    epoch = column("epochs trained")
    parameters = column("weights of the network")


def run(spec: ImageNetwork, folder: Folder) -> Json:
    """Train the network of each seed; the last row of each, and the weights of its epochs."""
    last: dict[str, Json] = {}
    for seed in spec.seeds:

        def keep(state: Trained, t: int, seed: int = seed) -> None:
            if t % spec.snapshots == 0 or t == spec.training.epochs:
                kept = {"weights": state.weights, "buffers": state.buffers}
                folder.add("epoch", [{Kept.parameters: state.weights.numel()}], kept, seed=seed, epoch=t)

        recording = trainer_of(spec, seed).run(folder.part("training", seed=seed), spec.every, seen=keep)
        last[str(seed)] = recording.rows[-1]
    return {"last": last, "data_sha256": data_hashes(spec.dataset)}


@dataclass(frozen=True)
class Network:
    """A trained network of one seed, read from its run."""

    run: StoredRun
    spec: ImageNetwork
    seed: int

    def at(self, epoch: int) -> ImageClassifier:
        """The network after an epoch that was kept, in evaluation mode."""
        kept = f"epoch {epoch}; kept: {list(self.epochs)}"
        require(epoch in self.epochs, "the weights of this epoch were not kept", kept, "lower snapshots")
        return self._place("epoch", "", epoch=epoch)

    @property
    def last(self) -> ImageClassifier:
        """The network after the last epoch, in evaluation mode."""
        return self._place("training", "")

    @property
    def best(self) -> ImageClassifier:
        """The network of the epoch with the best held-out score, in evaluation mode."""
        return self._place("training", "best_")

    @cached_property
    def epochs(self) -> tuple[int, ...]:
        """The epochs whose weights were kept, ascending."""
        return tuple(sorted(self.run.part("epoch", seed=self.seed)[Kept.epoch].to_list()))

    @cached_property
    def rows(self) -> Rows:
        """What was recorded at each epoch."""
        return self.run.part("training", seed=self.seed).to_dicts()

    def _place(self, part: str, prefix: str, **labels: int) -> ImageClassifier:
        net = self.spec.untrained(self.seed)
        weights, buffers = (
            self.run.tensor(part, f"{prefix}{name}", seed=self.seed, **labels)
            for name in ("weights", "buffers")
        )
        place(net, weights, buffers)
        return net.eval()


def request_of(spec: ImageNetwork, seed: int) -> Request:
    """The run that trains the network of this spec and seed alone."""
    return Request(EXPERIMENT, spec.replace(seeds=(seed,)))


def networks_needed(networks: Iterable[tuple[ImageNetwork, int]]) -> dict[str, Request]:
    """What an experiment that reads these networks says it needs."""
    wanted = [request_of(spec, seed) for spec, seed in networks]
    return {digest(request.identity): request for request in wanted}


def trained(spec: ImageNetwork, seed: int, folder: Folder) -> Network:
    """The network of this spec and seed, which the experiment has said it needs."""
    wanted = request_of(spec, seed)
    return Network(folder.needed[digest(wanted.identity)], spec.replace(seeds=(seed,)), seed)


def methods(spec: ImageNetwork, adversarial: TrainingSpec) -> dict[str, ImageNetwork]:
    """The network of ``spec`` under its own training, and the same under ``adversarial``."""
    return {"standard": spec, "adversarial": spec.replace(training=adversarial)}


def both_needed(spec: ImageNetwork, adversarial: TrainingSpec, seeds: Sequence[int]) -> dict[str, Request]:
    """The networks of both trainings for each seed, as what is needed."""
    return networks_needed((s, seed) for s in methods(spec, adversarial).values() for seed in seeds)


def both(
    spec: ImageNetwork, adversarial: TrainingSpec, seeds: Sequence[int], folder: Folder
) -> dict[str, list[Network]]:
    """The networks of both trainings, a list over seeds each."""
    return {
        name: [trained(s, seed, folder) for seed in seeds] for name, s in methods(spec, adversarial).items()
    }


def size(spec: ImageNetwork) -> Size:
    """The images, and what a batch leaves in the network."""
    return training_size(spec)


EXPERIMENT = Experiment(
    name="image-network",
    paper="at",
    shows="one network trained on real images, with its epochs kept; other experiments share it",
    spec=ImageNetwork,
    run=run,
    takes={"quick": "1 min", "cpu": "2 min standard, 7 min adversarial", "paper": "not measured; a GPU job"},
    highlights=(
        Highlight("last/*/clean_test", "clean accuracy on test images, seed {}", "share"),
        Highlight("last/*/robust_test", "accuracy under attack on test images, seed {}", "share"),
    ),
    size=size,
    revision=3,
    columns={"training": Epochs, "epoch": Kept},
    data=lambda spec: (spec.dataset,),
)
EXPERIMENTS = (EXPERIMENT,)
