"""`image-architecture`: does the architecture decide robustness? The talk asks: CNN or transformer?

LeNet-5 and a small vision transformer of as many parameters, on the same images, with the same epochs and
attack, each trained as it is and adversarially. Accuracy over radii, by the same attack on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from featscope.attacks.pgd import PGD
from featscope.attacks.suite import assess_curve
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import RadiusList, setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.dynamics.image_training import AttackSpec, TrainingSpec, accuracy
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_network import (
    ImageNetwork,
    Network,
    methods,
    networks_needed,
    trained,
)
from featscope.experiments.image_training import data_hashes, images, training_size
from featscope.experiments.spec import Experiment, Request, Spec, refuse_unused
from featscope.images.datasets import ImageBatch
from featscope.nets.networks import NetworkSpec

METHODS = ("standard", "adversarial")
CNN, TRANSFORMER = "lenet5", "vit"
ARCHITECTURES = (CNN, TRANSFORMER)
STANDARD = TrainingSpec(epochs=15, batch_size=64, schedule=Schedule(peak=0.02), held_out=0.05)
ADVERSARIAL = STANDARD.replace(
    method="adversarial", attack=AttackSpec(eps=0.1, steps=5, ramp=Ramp(epochs=5)), select="robust"
)


class ArchitectureCurve(Columns):
    """One row for each architecture, training, seed and radius."""

    architecture = column("lenet5 or vit")
    method = column("standard or adversarial")
    seed = column("the seed of images, first weights and batches")
    radius = column("ℓ∞ radius of the attack")
    accuracy = column("test images that withstand it: an upper bound")
    parameters = column("weights of the network")


class ImageArchitecture(Spec):
    """The data, both trainings and both networks; the radii of the curves."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "network.train": 400,
            "network.test": 100,
            "network.training.epochs": 3,
            "adversarial.epochs": 3,
            "adversarial.attack.steps": 2,
            "adversarial.attack.ramp.epochs": 1,
            "images": 40,
            "steps": 3,
            "radii": [0.0, 0.1],
        },
        "paper": {"network.train": 60_000, "images": 2000, "steps": 50},
    }

    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), "seeds of images, first weights and batches")
    network: ImageNetwork = setting(
        ImageNetwork(
            net=NetworkSpec(architecture="lenet5", width=6, channels=1, side=28),
            training=STANDARD,
            attacked=0,
            snapshots=1000,
        ),
        "data, convolutional network and standard training",
    )
    transformer: NetworkSpec = setting(
        NetworkSpec(architecture="vit", width=48, channels=1, side=28), "the other network"
    )
    adversarial: TrainingSpec = setting(ADVERSARIAL, "adversarial training of both networks")
    images: int = setting(500, "test images that are attacked, the same for every network", ge=10)
    radii: RadiusList = setting((0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2), "radii", letter="ε")
    steps: int = setting(20, "steps of PGD at each radius", ge=1)

    def model_post_init(self, context: object) -> None:
        """The two networks are those that are compared, and the curve starts with clean accuracy."""
        found = (self.network.net.architecture, self.transformer.architecture)
        require(found == ARCHITECTURES, "LeNet-5 is compared with a transformer", f"{found}", "use both")
        begins = len(self.radii) >= 2 and self.radii[0] == 0
        require(begins, "radii start with 0, clean accuracy", f"radii={self.radii}", "put 0 first")
        refuse_unused(self, "set seeds; each network has one of them", "network.seeds")

    def networks(self) -> dict[tuple[str, str], ImageNetwork]:
        """(architecture, training) → its spec."""
        nets = {CNN: self.network, TRANSFORMER: self.network.replace(net=self.transformer)}
        return {
            (name, method): spec
            for name, net in nets.items()
            for method, spec in methods(net, self.adversarial).items()
        }


def needed(spec: ImageArchitecture) -> Mapping[str, Request]:
    """Both networks under both trainings, for every seed."""
    return networks_needed((net, seed) for net in spec.networks().values() for seed in spec.seeds)


def _curve(spec: ImageArchitecture, network: Network, test: ImageBatch) -> tuple[Rows, dict[str, Tensor]]:
    """Accuracy over the radii by PGD on the soft margin."""
    net, attack, c = network.last, PGD("soft-margin", spec.steps), ArchitectureCurve
    threat = spec.adversarial.attack.threat()
    found = assess_curve(net, test.x, test.y, threat, spec.radii[1:], [attack], seed=network.seed)
    size = sum(p.numel() for p in net.parameters())
    heights = (accuracy(net, test), *found.accuracy)
    return [
        {c.radius: radius, c.accuracy: height, c.parameters: size}
        for radius, height in zip(spec.radii, heights, strict=True)
    ], {}


def run(spec: ImageArchitecture, folder: Folder) -> Json:
    """The curve of every network; clean accuracy and the area under it by architecture and training."""
    test = images(spec.network, "test", spec.images, 0)
    table: Json = {}
    for (name, method), net in spec.networks().items():
        clean, robust = [], []
        for seed in spec.seeds:
            make = partial(_curve, spec, trained(net, seed, folder), test)
            rows = folder.once("curve", make, architecture=name, method=method, seed=seed).rows
            by_radius = {row[ArchitectureCurve.radius]: row[ArchitectureCurve.accuracy] for row in rows}
            clean.append(by_radius[0.0])
            robust.append(by_radius[max(by_radius)])
        table[f"{name}, {method}"] = {
            "clean": as_fact(mean_interval(clean)),
            "at the largest radius": as_fact(mean_interval(robust)),
        }
    return {"table": table, "data_sha256": data_hashes(spec.network.dataset)}


def size(spec: ImageArchitecture) -> Size:
    """The networks that it needs; the curves are small beside them."""
    return training_size(spec.network)


EXPERIMENTS = (
    Experiment(
        name="image-architecture",
        paper="ep",
        shows="LeNet-5 against a vision transformer of as many parameters on MNIST: accuracy over radii, "
        "standard and adversarial",
        spec=ImageArchitecture,
        run=run,
        takes={"quick": "20 s", "cpu": "10 min", "paper": "not measured"},
        highlights=(Highlight("table/*/*", "{}: {} accuracy", "share"),),
        size=size,
        columns={"curve": ArchitectureCurve},
        data=lambda spec: (spec.network.dataset,),
        needs=needed,
    ),
)
