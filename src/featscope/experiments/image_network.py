"""`image-network`: one network trained on real images, kept with its epochs, and shared by every experiment that asks for the same one.

A network is a run of this experiment: found again by its spec's hash, resumed where it was killed, trained once. Experiments that compare networks (AT Tables 1 and 2,
the inversions, FA Figure 3) name the networks that they need with :func:`trained` and read what they watch from the weights of the epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import Field

from featscope.core.errors import require
from featscope.core.store import Folder, Json, StoredRun, digest
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, Trained, Trainer, TrainingSpec, place
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.spec import Experiment, Request, Spec
from featscope.images.datasets import ImageBatch, Split, load
from featscope.images.groupings import grouping
from featscope.nets.classifier import ImageClassifier
from featscope.nets.networks import NetworkSpec

#: ResNet-18, the paper's network for MNIST (AT §6.2), at a width that trains on two cores
RESNET = NetworkSpec(architecture="resnet", width=8, channels=1, side=28)
STANDARD = TrainingSpec(epochs=5, schedule=Schedule(peak=0.1), attack=AttackSpec(eps=0.3), held_out=0.05)
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
CIFAR_ADVERSARIAL = ADVERSARIAL.replace(epochs=10, attack=AttackSpec(eps=8 / 255, steps=5, ramp=Ramp(epochs=3)))


class ImageNetwork(Spec):
    """Data and labels, network, training. One seed draws the training images, the first weights and the order of the batches."""

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
        "paper": {"train": 60_000, "test": 10_000, "attacked": 10_000, "net.width": 64, "training.epochs": 30, "snapshots": 5},
    }

    seeds: tuple[int, ...] = (0,)
    dataset: str = "mnist"
    grouping: str = Field(default="each", description="labels: each class, halves, parity, or groups such as 0,1,8|2,3")
    train: int = Field(default=10_000, ge=50, description="training images, drawn by seed; the held-out share is taken from them")
    test: int = Field(default=2000, ge=10, description="test images, the same for every seed")
    attacked: int = Field(default=200, ge=0, description="images of each set attacked at recorded epochs; 0: none")
    net: NetworkSpec = RESNET
    training: TrainingSpec = STANDARD
    snapshots: int = Field(default=1, ge=1, description="keep the weights of every so many epochs, and the last")


def images(spec: ImageNetwork, split: Split, n: int, draw: int) -> ImageBatch:
    """``n`` images of a split (all, if there are fewer), drawn by ``draw``, with the labels of the grouping."""
    groups = grouping(spec.grouping)
    require(
        spec.net.classes == len(groups.parts),
        "the network needs one output for each label",
        f"net.classes={spec.net.classes}, {len(groups.parts)} labels",
        f"set net.classes={len(groups.parts)}",
    )
    source = load(spec.dataset, split)
    batch = source.batch(source.subset(min(n, len(source)), draw))
    kept = groups.kept(batch.y)
    return ImageBatch(batch.x[kept], groups(batch.y[kept]))


def data(spec: ImageNetwork, seed: int) -> tuple[ImageBatch, ImageBatch]:
    """Training images by seed and the test images."""
    return images(spec, "train", spec.train, seed), images(spec, "test", spec.test, 0)


def run(spec: ImageNetwork, folder: Folder) -> Json:
    """Train the network of each seed; the last row of each, and the weights of its epochs."""
    last: dict[str, Json] = {}
    for seed in spec.seeds:
        train, test = data(spec, seed)
        trainer = Trainer(spec.net.build(stream(seed, "init")), train, spec.training, seed, test, spec.attacked)

        def keep(state: Trained, t: int, seed: int = seed) -> None:
            if t % spec.snapshots == 0 or t == spec.training.epochs:
                folder.add(f"epoch/{seed}/{t}", [{"step": t}], {"weights": state.weights, "buffers": state.buffers})

        recording = trainer.run(folder.part(f"training/{seed}"), seen=keep)
        last[str(seed)] = recording.rows[-1]
    hashes = {"train": load(spec.dataset, "train").sha256, "test": load(spec.dataset, "test").sha256}
    return {"last": last, "data_sha256": hashes}


@dataclass(frozen=True)
class Network:
    """A trained network of one seed, read from its run."""

    run: StoredRun
    spec: ImageNetwork
    seed: int

    def at(self, epoch: int) -> ImageClassifier:
        """The network after an epoch that was kept, in evaluation mode."""
        require(
            epoch in self.epochs, "the weights of this epoch were not kept", f"epoch {epoch}; kept: {list(self.epochs)}", "lower snapshots"
        )
        return self._place(f"epoch-{self.seed}-{epoch}/", "")

    @property
    def last(self) -> ImageClassifier:
        """The network after the last epoch, in evaluation mode."""
        return self._place(f"training-{self.seed}/", "")

    @property
    def best(self) -> ImageClassifier:
        """The network of the epoch with the best held-out score, in evaluation mode."""
        return self._place(f"training-{self.seed}/", "best_")

    @cached_property
    def epochs(self) -> tuple[int, ...]:
        """The epochs whose weights were kept, ascending."""
        head = f"epoch-{self.seed}-"
        return tuple(sorted({int(key[len(head) :].split("/")[0]) for key in self.run.tensors if key.startswith(head)}))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What was recorded at each epoch."""
        return self.run.part(f"training/{self.seed}").to_dicts()

    def _place(self, part: str, prefix: str) -> ImageClassifier:
        net = self.spec.net.build(stream(self.seed, "init"))
        place(net, self.run.tensors[f"{part}{prefix}weights"], self.run.tensors[f"{part}{prefix}buffers"])
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


def both(spec: ImageNetwork, adversarial: TrainingSpec, seeds: Sequence[int], folder: Folder) -> dict[str, list[Network]]:
    """The networks of both trainings, a list over seeds each."""
    return {name: [trained(s, seed, folder) for seed in seeds] for name, s in methods(spec, adversarial).items()}


EXPERIMENT = Experiment(
    name="image-network",
    paper="at",
    shows="one network trained on real images, with its epochs kept; other experiments share it",
    spec=ImageNetwork,
    run=run,
    takes={"quick": "1 min", "cpu": "2 min standard, 7 min adversarial", "paper": "not measured; a GPU job"},
    revision=2,
    needs_data=("mnist",),
)
EXPERIMENTS = (EXPERIMENT,)
