"""`image-built` (CGRO §1, §6): does an adversarially trained network look like f_S?

§1 conjectures that adversarial training converges to something like f_S of equation (C), a clean classifier
with memorised balls around the training images. Here f_S is built around a network that was trained without
attack, on the same images and with the same architecture as an adversarially trained one, and the two are
measured side by side: robust accuracy and loss landscape over radii, at training and at test images. The
clean network stands beside them: it is what f_S is away from the training balls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from featscope.attacks.evaluate import evaluate
from featscope.attacks.pgd import PGD, Attack
from featscope.attacks.transfer import Transfer
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import RadiusList, Sizes, setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, Trainer, TrainingSpec, accuracy
from featscope.dynamics.schedules import Ramp
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_training import Epochs, ImageTraining, data_hashes, trainer_of, training_size
from featscope.experiments.spec import Experiment, Spec
from featscope.features.landscape import landscape, largest_change, loss_and_norm
from featscope.images.datasets import ImageBatch
from featscope.images.separation import closest
from featscope.nets.built.around import BuiltAround, largest_logit
from featscope.nets.networks import NetworkSpec
from featscope.papers.cgro.image_recipe import LENET, TRAINING

Net = Literal["clean", "built", "adversarial"]
#: the clean network, f_S around it, and the adversarially trained one
NETS: tuple[Net, ...] = ("clean", "built", "adversarial")
METHODS = ("standard", "adversarial")
SETS = ("train", "test")


class ImageBuilt(Spec):
    """Few and more training images, the same number of updates for each."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "sizes": [100, 300],
            "updates": 60,
            "test": 100,
            "measured": 20,
            "attacked": 40,
            "steps": 5,
            "training.attack.steps": 2,
        },
        "paper": {
            "sizes": [200, 1000, 10_000],
            "updates": 10_000,
            "test": 10_000,
            "measured": 1000,
            "attacked": 1000,
            "steps": 40,
        },
    }

    dataset: str = setting("mnist", "the data set, as `featscope data list` names it")
    sizes: Sizes = setting((200, 1000), "training images that are swept; a tenth is held out", letter="N")
    updates: int = setting(1000, "steps of SGD of each training, in whole epochs", ge=1)
    test: int = setting(1000, "test images, the same for every seed", ge=10)
    net: NetworkSpec = setting(LENET, "the network")
    training: TrainingSpec = setting(
        TRAINING.replace(
            batch_size=32,
            select="clean",
            attack=AttackSpec(eps=0.1, steps=5, ramp=Ramp(epochs=2)),
        ),
        "the adversarial training; the clean network's differs in its method alone",
    )
    room: float = setting(
        1.1,
        "separation for which the indicators are built, in units of 2δ; at most what the images have. Near 1 "
        "an indicator ends right outside its ball, as in (C)",
        gt=1,
    )
    radii: RadiusList = setting((0.05, 0.1, 0.15, 0.2, 0.3), "radii of accuracies and landscapes", letter="ε")
    measured: int = setting(100, "images of each set whose landscape is measured", ge=1)
    attacked: int = setting(200, "images of each set that are attacked", ge=1)
    steps: int = setting(10, "steps of each search", ge=1)

    def model_post_init(self, context: object) -> None:
        """The training radius and its double are among the radii, and sizes ascend."""
        for factor in (1.0, 2.0):
            there = any(math.isclose(r, factor * self.training.attack.eps) for r in self.radii)
            rule = "radii must contain the training radius and its double"
            require(there, rule, f"radii={self.radii}, eps={self.training.attack.eps}", "add them")
        rising = 0 < len(self.sizes) == len(set(self.sizes)) and list(self.sizes) == sorted(self.sizes)
        require(rising, "sizes must ascend", f"sizes={self.sizes}", "sort them")
        # `adversarial` needs the images that `standard` is trained on: nothing may draw them differently.
        same = self.training.method == "adversarial"
        require(same, "the training is adversarial", f"method={self.training.method}", "use adversarial")

    def trained(self, size: int, method: str) -> ImageTraining:
        """The training of one size, as many epochs as give the updates."""
        kept = size - max(1, round(self.training.held_out * size))
        epochs = max(1, round(self.updates * self.training.batch_size / kept))
        return ImageTraining(
            seeds=self.seeds,
            dataset=self.dataset,
            train=size,
            test=self.test,
            attacked=0,
            net=self.net,
            training=self.training.replace(method=method, epochs=epochs),
            every=epochs,
        )

    def trainings(self) -> tuple[ImageTraining, ...]:
        """Everything that is trained."""
        return tuple(self.trained(size, method) for size in self.sizes for method in METHODS)


class BuiltTraining(Epochs):
    """One row for each size, method, seed and recorded epoch."""

    size = column("training images, held out ones included")
    method = column("standard or adversarial")


class BuiltNets(Columns):
    """One row for each size, seed and network."""

    size = column("training images, held out ones included")
    seed = column("the seed of images, first weights and batches")
    net = column("clean, built (f_S around it) or adversarial")
    clean_train = column("accuracy on training images")
    clean_test = column("accuracy on test images")
    certified_train = column("share of training images on whose balls f_S is proven right (built only)")
    separation = column("least ℓ∞ distance of training images of different labels (built only)")
    remembered = column("training images that f_S holds (built only)")


class BuiltRadii(Columns):
    """One row for each size, seed, network, set and radius."""

    size = column("training images, held out ones included")
    seed = column("the seed of images, first weights and batches")
    net = column("clean, built (f_S around it) or adversarial")
    set = column("train or test")
    radius = column("the radius (ℓ∞), pixels in [0, 1]")
    robust = column("accuracy under attack, own gradients and what fools the clean network")
    loss = column("clean loss")
    change = column("largest loss change found within the radius, mean over the measured images")
    gradient = column("largest gradient norm found within the radius, mean over the measured images")


def around(net: nn.Module, images: ImageBatch, delta: float, room: float) -> tuple[BuiltAround, float]:
    """f_S on the training images of a network, and the images' exact separation."""
    # Back to bytes, on which the search for the closest pair is exact.
    pixels = np.rint(images.x.numpy() * 255).astype(np.uint8)
    separation = closest((pixels, images.y.numpy().astype(np.uint8))).distance / 255
    scale = largest_logit(net, images.x)
    used = min(separation, room * 2 * delta)
    return BuiltAround(net, images.x, images.y, delta, used, scale).eval(), separation


def _networks(
    spec: ImageBuilt, size: int, seed: int, folder: Folder
) -> tuple[dict[str, nn.Module], ImageBatch, ImageBatch, float]:
    """The three networks, the images that they were trained on, the test images, and the separation."""
    found: dict[str, nn.Module] = {}
    for method in METHODS:
        trainer = trainer_of(spec.trained(size, method), seed)
        part = folder.part("training", size=size, method=method, seed=seed)
        found[method] = trainer.last(trainer.run(part, spec.trained(size, method).training.epochs).state)
    assert trainer.test is not None
    built, separation = around(found["standard"], trainer.train, spec.training.attack.eps, spec.room)
    nets = {"clean": found["standard"], "built": built, "adversarial": found["adversarial"]}
    return nets, trainer.train, trainer.test, separation


def _net_row(net: nn.Module, name: str, train: ImageBatch, test: ImageBatch, separation: float) -> Json:
    c = BuiltNets
    row: Json = {c.net: name, c.clean_train: accuracy(net, train), c.clean_test: accuracy(net, test)}
    if name == "built":
        assert isinstance(net, BuiltAround)
        proven = float(net.certified().double().mean())
        row |= {c.certified_train: proven, c.separation: separation, c.remembered: len(train.y)}
    return row


def _landscape(
    spec: ImageBuilt, nets: Mapping[str, nn.Module], name: str, images: ImageBatch, rng: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Clean loss, and the largest loss change and gradient norm within each radius, (radii, images).

    A network is flat where it has memorised, and an ascent stands still there; so what raises the clean
    network's loss is tried on every network, too.
    """
    net, threat = nets[name], spec.training.attack.threat()
    found = landscape(net, images.x, images.y, threat, spec.radii, spec.steps, rng)
    _, moves = largest_change(nets["clean"], images.x, images.y, threat, spec.radii, spec.steps, rng)
    tried = [loss_and_norm(net, images.x + move, images.y, threat) for move in moves]
    changes = torch.stack([value - found.loss for value, _ in tried])
    norms = torch.stack([norm for _, norm in tried])
    return (
        found.loss,
        torch.maximum(found.change, changes).cummax(0).values,
        torch.maximum(found.gradient, norms).cummax(0).values,
    )


def _radius_rows(
    spec: ImageBuilt, nets: Mapping[str, nn.Module], name: str, which: str, images: ImageBatch, seed: int
) -> Rows:
    """Robust accuracy and landscape of one network around one set."""
    c, threat = BuiltRadii, spec.training.attack.threat()
    some, few = Trainer.some(images, spec.attacked), Trainer.some(images, spec.measured)
    rng = stream(seed, "landscape", name, which)
    loss, change, gradient = _landscape(spec, nets, name, few, rng)
    search = PGD("cross-entropy", spec.steps, stop_early=True)
    attacks: tuple[Attack, ...] = (search, Transfer(nets["clean"], search))
    rows: Rows = []
    for place, radius in enumerate(spec.radii):
        rng = stream(seed, "attack", name, which, place)
        robust = evaluate(nets[name], some.x, some.y, threat.with_radius(radius), attacks, rng)
        rows.append(
            {
                c.set: which,
                c.radius: radius,
                c.robust: robust.accuracy,
                c.loss: float(loss.mean()),
                c.change: float(change[place].mean()),
                c.gradient: float(gradient[place].mean()),
            }
        )
    return rows


def _one(spec: ImageBuilt, size: int, seed: int, folder: Folder) -> tuple[Rows, Rows]:
    """The three networks of one size and seed; what is measured is not measured again."""
    nets, train, test, separation = _networks(spec, size, seed, folder)
    sets = dict(zip(SETS, (train, test), strict=True))

    def told() -> tuple[Rows, dict[str, Tensor]]:
        return [_net_row(net, name, train, test, separation) for name, net in nets.items()], {}

    def measured(name: str) -> tuple[Rows, dict[str, Tensor]]:
        return [row for s in SETS for row in _radius_rows(spec, nets, name, s, sets[s], seed)], {}

    rows = folder.once("nets", told, size=size, seed=seed).rows
    radii = [
        {BuiltRadii.net: name, **row}
        for name in NETS
        for row in folder.once("radii", partial(measured, name), size=size, seed=seed, net=name).rows
    ]
    return rows, radii


def run(spec: ImageBuilt, folder: Folder) -> Json:
    """All sizes and seeds; robust accuracy at the training radius, and clean accuracy."""
    facts: Json = {}
    for size in spec.sizes:
        found = [_one(spec, size, seed, folder) for seed in spec.seeds]
        facts[str(size)] = {name: _facts(spec, name, found) for name in NETS}
    return {"sizes": facts, "data_sha256": data_hashes(spec.dataset)}


def _facts(spec: ImageBuilt, name: str, found: list[tuple[Rows, Rows]]) -> Json:
    eps = spec.training.attack.eps

    def robust(radii: Rows, which: str) -> float:
        own = [row for row in radii if row[BuiltRadii.net] == name and row[BuiltRadii.set] == which]
        return float(next(r[BuiltRadii.robust] for r in own if math.isclose(r[BuiltRadii.radius], eps)))

    clean = [
        next(row[BuiltNets.clean_test] for row in nets if row[BuiltNets.net] == name) for nets, _ in found
    ]
    facts: Json = {"clean_test": as_fact(mean_interval(clean))}
    for which in SETS:
        facts[f"robust_{which}"] = as_fact(mean_interval([robust(radii, which) for _, radii in found]))
    return facts


def size(spec: ImageBuilt) -> Size:
    """The trainings, and the distances of every attacked image to every training image at every step."""
    trained = [training_size(one) for one in spec.trainings()]
    pixels = spec.net.channels * spec.net.side**2
    looks = len(spec.radii) * spec.steps * 2 * (2 * spec.measured + spec.attacked)
    work = len(spec.seeds) * looks * max(spec.sizes) * pixels
    held = max(one.numbers for one in trained) + max(spec.attacked, spec.measured) * max(spec.sizes)
    return Size(held, sum(one.work for one in trained) + work)


EXPERIMENTS = (
    Experiment(
        name="image-built",
        paper="cgro",
        shows="CGRO §1, §6: f_S built around a trained network beside an adversarially trained one, robust "
        "accuracy and loss landscape at training and test images",
        spec=ImageBuilt,
        run=run,
        takes={"quick": "20 s", "cpu": "6 min", "paper": "not measured; a GPU job"},
        highlights=(
            Highlight("sizes/*/*/robust_train", "robust accuracy on training images, N = {}, {}", "share"),
            Highlight("sizes/*/*/robust_test", "robust accuracy on test images, N = {}, {}", "share"),
            Highlight("sizes/*/*/clean_test", "clean accuracy on test images, N = {}, {}", "share"),
        ),
        size=size,
        columns={"training": BuiltTraining, "nets": BuiltNets, "radii": BuiltRadii},
        data=lambda spec: (spec.dataset,),
    ),
)
