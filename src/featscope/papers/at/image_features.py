"""`image-features` (AT §6.2, A.1, Table 1, Figures 1, 4 and 5): what two trainings learn of features.

A reference network of each training gives the reconstructed sets D̂_NR (from standard training) and D̂_R
(from adversarial training); a *fresh* network of each training, which had no part in them, reads both sets
after each of its epochs. One network is trained for each seed and training (`image-network`). The network of
a seed makes the sets of that seed and is the fresh one for the seed before it, so that each serves once in
either role; values of different seeds share networks and are not fully independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import TrainingSpec, accuracy, robust_accuracy
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_network import ADVERSARIAL, ImageNetwork, Network, both, both_needed
from featscope.experiments.image_training import Epochs, activations, data_hashes, images, training_size
from featscope.experiments.spec import Experiment, Request, Spec, refuse_unused
from featscope.features.accuracy import feature_accuracy
from featscope.features.invert import InversionSpec, Inverted, invert
from featscope.images.datasets import ImageBatch
from featscope.nets.classifier import ImageClassifier
from featscope.papers.at.printed import TABLE_1

METHODS = ("standard", "adversarial")
#: set → the training of the network that it is reconstructed from
SETS = {"NR": "standard", "R": "adversarial"}

#: The paper gives neither optimiser nor steps. Of the step sizes .02 to .5 this one leaves the smallest
#: feature error on an adversarially trained network (docs/images-at.md).
INVERSION = InversionSpec(steps=400, step_size=0.5)

#: what `quick` changes in the networks
QUICK: Mapping[str, Any] = {
    "network.train": 1000,
    "network.test": 200,
    "network.attacked": 60,
    "network.net.blocks": [1, 1],
    "network.training.epochs": 3,
    "network.training.batch_size": 32,
    "adversarial.epochs": 4,
    "adversarial.batch_size": 32,
    "adversarial.attack.steps": 2,
    "adversarial.attack.ramp.epochs": 2,
    "adversarial.select_steps": 5,
}
#: what `paper` changes in the networks: ResNet-18 and 30 epochs on all images
PAPER: Mapping[str, Any] = {
    "network.train": 60_000,
    "network.test": 10_000,
    "network.net.width": 64,
    "network.training.epochs": 30,
    "adversarial.epochs": 30,
    "adversarial.attack.steps": 20,
}


class References(Spec):
    """The networks: `network` says data, architecture and standard training, `adversarial` the other."""

    network: ImageNetwork = setting(ImageNetwork(), "data, architecture and standard training")
    adversarial: TrainingSpec = setting(ADVERSARIAL, "the adversarial training of the same network")
    inversion: InversionSpec = setting(INVERSION, "how images are reconstructed from features")
    images: int = setting(200, "test images that are reconstructed, drawn by seed", ge=2)

    def model_post_init(self, context: object) -> None:
        """A fresh network is another seed's."""
        rule = "a reference and a fresh network need two seeds"
        require(len(self.seeds) > 1, rule, f"seeds={self.seeds}", "give --seeds 2 or more")
        rule = "adversarial training is not standard training"
        require(self.adversarial.method != "standard", rule, "standard", "set its method")
        refuse_unused(self, "set seeds; each network has one of them", "network.seeds")
        self.network.net.require_layer(self.inversion.layer)


class ImageFeatures(References):
    """Table 1: the networks, the inversion (from noise, as in the paper) and how many images are attacked."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, "seeds": [0, 1], "images": 60, "attacked": 60, "inversion.steps": 30},
        "paper": {**PAPER, "images": 10_000, "attacked": 10_000, "inversion.steps": 2000},
    }

    attacked: int = setting(
        1000,
        "test images on which the table's robust accuracy is counted, the same for every seed; "
        "0: not counted",
        ge=0,
    )
    attack_steps: int = setting(20, "steps of that PGD", ge=1)


class Originals(Columns):
    """One row for each seed; the tensors are the images and their labels."""

    seed = column("the seed that draws them")
    images = column("test images that are reconstructed")


class InversionPath(Columns):
    """One row for each set, seed and recorded step of the reconstruction."""

    set = column("NR or R")
    seed = column("the reference's seed")
    step = column("steps of the search")
    error_mean = column("relative feature error, mean over images")
    error_max = column("relative feature error, largest over images")


class SetRead(Columns):
    """One row for each seed, set and reader: accuracy on a reconstructed set."""

    seed = column("the references' seed")
    fresh = column("the fresh networks' seed")
    set = column("NR or R")
    reader = column("reference- or fresh-, and the training")
    accuracy = column("share of the set that the reader classifies as its originals")
    low = column("lower end of Wilson's interval")
    high = column("upper end of Wilson's interval")
    accuracy_near = column("accuracy on the half with the smaller feature error")
    accuracy_far = column("accuracy on the half with the larger feature error")
    error_mean = column("relative feature error of the set, mean over images")
    error_median = column("median over images")
    error_max = column("largest over images")
    start = column("where the inversion starts")
    layer = column("the layer that is inverted")
    steps = column("steps of the inversion")
    step_size = column("its first step size")


class FeatureCurve(Columns):
    """One row for each training, seed and kept epoch of the fresh network."""

    method = column("standard or adversarial: the fresh network's training")
    seed = column("the seed of the sets")
    fresh = column("the fresh network's seed")
    step = column("epochs trained")
    clean_test = column("accuracy on test images")
    feature_NR = column("accuracy on D̂_NR")
    feature_R = column("accuracy on D̂_R")


#: set → column
FEATURE = {"NR": FeatureCurve.feature_NR, "R": FeatureCurve.feature_R}


class Tested(Columns):
    """One row for each training and seed: the network after its last epoch."""

    method = column("standard or adversarial")
    seed = column("the network's seed")
    clean_test = column("accuracy on the network's test images")
    clean_attacked = column("accuracy on the images that are attacked")
    attacked = column("images attacked")
    eps = column("radius of the attack")
    steps = column("its steps")
    robust_test = column("accuracy under attack")


#: the columns of Table 1
CELLS = (Tested.clean_test, Tested.robust_test, FeatureCurve.feature_NR, FeatureCurve.feature_R)
Cells = Mapping[str, Mapping[str, Sequence[float]]]


def pairs(seeds: Sequence[int]) -> list[tuple[int, int]]:
    """Reference and fresh seed: the next of the list, after the last the first."""
    return [(seed, seeds[(i + 1) % len(seeds)]) for i, seed in enumerate(seeds)]


def reconstruct(spec: ImageFeatures, folder: Folder, seed: int) -> dict[str, Inverted]:
    """D̂_NR and D̂_R of one seed, from its own drawing of test images.

    The images and their originals are kept.
    """
    x, y = images(spec.network, "test", spec.images, seed)
    folder.add("originals", [{Originals.images: len(y)}], {"x": x, "y": y}, seed=seed)
    nets = both(spec.network, spec.adversarial, [seed], folder)
    return {
        name: invert(
            nets[method][0].last, x, y, spec.inversion, seed, folder.part("invert", set=name, seed=seed)
        )
        for name, method in SETS.items()
    }


def read_sets(readers: Mapping[str, ImageClassifier], sets: Mapping[str, Inverted]) -> Rows:
    """One row for each set and reader: accuracy over all images, and over the halves by feature error."""
    rows: Rows = []
    for name, data in sets.items():
        order = data.error.argsort()
        halves = {
            SetRead.accuracy_near: order[: len(order) // 2],
            SetRead.accuracy_far: order[len(order) // 2 :],
        }
        of_set = {
            SetRead.error_mean: float(data.error.mean()),
            SetRead.error_median: float(data.error.median()),
            SetRead.error_max: float(data.error.max()),
        }
        of_set |= {key: data.provenance[key] for key in HOW}
        for reader, net in readers.items():
            found = feature_accuracy(net, data)
            row: dict[str, Any] = {SetRead.set: name, SetRead.reader: reader, SetRead.accuracy: found.value}
            row |= {SetRead.low: found.low, SetRead.high: found.high}
            for key, chosen in halves.items():
                part = Inverted(data.x[chosen], data.y[chosen], data.error[chosen], data.provenance)
                row[key] = feature_accuracy(net, part).value
            rows.append(row | of_set)
    return rows


#: how a set was made
HOW = (SetRead.start, SetRead.layer, SetRead.steps, SetRead.step_size)


def readers(reference: Mapping[str, Network], fresh: Mapping[str, Network]) -> dict[str, ImageClassifier]:
    """The networks that read the sets of a seed, after their last epoch: both references, both fresh."""
    named = {f"reference-{method}": reference[method].last for method in METHODS}
    return named | {f"fresh-{method}": fresh[method].last for method in METHODS}


def _curve(fresh: Network, sets: Mapping[str, Inverted]) -> Rows:
    """Accuracy on test images and on both sets after every epoch that was kept."""
    clean = {row[Epochs.step]: row[Epochs.clean_test] for row in fresh.rows}
    rows: Rows = []
    for epoch in fresh.epochs:
        net = fresh.at(epoch)
        features = {str(FEATURE[name]): feature_accuracy(net, data).value for name, data in sets.items()}
        place: dict[str, int] = {FeatureCurve.step: epoch, FeatureCurve.fresh: fresh.seed}
        rows.append({**place, FeatureCurve.clean_test: clean[epoch], **features})
    return rows


def _tested(
    spec: ImageFeatures, method: str, network: Network, test: ImageBatch
) -> tuple[Rows, dict[str, Tensor]]:
    """Clean accuracy on the network's test images.

    Robust accuracy on the images of ``test``, if any are to be attacked.
    """
    row: dict[str, Any] = {Tested.clean_test: network.rows[-1][Epochs.clean_test]}
    if spec.attacked:
        threat, rng = spec.adversarial.attack.threat(), stream(network.seed, "tested", method)
        row |= {Tested.clean_attacked: accuracy(network.last, test), Tested.attacked: len(test.y)}
        row |= {Tested.eps: threat.eps, Tested.steps: spec.attack_steps}
        row[Tested.robust_test] = robust_accuracy(network.last, test, threat, spec.attack_steps, rng)
    return [row], {}


def needed(spec: ImageFeatures) -> Mapping[str, Request]:
    """The networks of both trainings for every seed."""
    return both_needed(spec.network, spec.adversarial, spec.seeds)


def run(spec: ImageFeatures, folder: Folder) -> Json:
    """Reconstructions of each seed, read by the networks of that seed and of the next.

    Table 1 beside the printed one.
    """
    sets = {seed: reconstruct(spec, folder, seed) for seed in spec.seeds}
    nets = both(spec.network, spec.adversarial, spec.seeds, folder)
    by_seed = {seed: {method: nets[method][i] for method in METHODS} for i, seed in enumerate(spec.seeds)}
    test = images(spec.network, "test", max(spec.attacked, 1), 0)
    cells: dict[str, dict[str, list[float]]] = {method: {} for method in METHODS}
    read: Rows = []
    for seed, other in pairs(spec.seeds):
        rows = read_sets(readers(by_seed[seed], by_seed[other]), sets[seed])
        folder.add("read", [{SetRead.fresh: other, **row} for row in rows], seed=seed)
        read += rows
        for method in METHODS:
            fresh = by_seed[other][method]
            curve = _curve(fresh, sets[seed])
            folder.add("curve", curve, method=method, seed=seed)
            tested = folder.once(
                "tested", partial(_tested, spec, method, fresh, test), method=method, seed=other
            ).rows[0]
            for key in CELLS:
                if key in tested or key in curve[-1]:
                    cells[method].setdefault(key, []).append({**curve[-1], **tested}[key])
    return _summary(spec, cells, read, sets)


def differences(cells: Cells) -> dict[str, list[float]]:
    """The paper's three statements as differences of accuracies by seed.

    Each says that its difference is positive.
    """
    std, adv = cells["standard"], cells["adversarial"]
    non_robust, robust = FeatureCurve.feature_NR, FeatureCurve.feature_R
    named = {
        "standard_reads_non_robust_more": (std[non_robust], std[robust]),
        "adversarial_suppresses_non_robust": (std[non_robust], adv[non_robust]),
        "adversarial_strengthens_robust": (adv[robust], std[robust]),
    }
    return {name: [a - b for a, b in zip(*both_sides, strict=True)] for name, both_sides in named.items()}


def _summary(
    spec: ImageFeatures, cells: Cells, read: Rows, sets: Mapping[int, Mapping[str, Inverted]]
) -> Json:
    name = spec.network.dataset
    by_reader: dict[str, list[float]] = {}
    for row in read:
        who = f"{row[SetRead.reader]} reads {row[SetRead.set]}"
        by_reader.setdefault(who, []).append(row[SetRead.accuracy])
    errors = {key: [float(of_seed[key].error.mean()) for of_seed in sets.values()] for key in SETS}
    how = {str(key): getattr(spec.inversion, key) for key in HOW}
    found = differences(cells)
    return {
        "table": {
            m: {key: as_fact(mean_interval(values)) for key, values in cells[m].items()} for m in METHODS
        },
        "printed": {m: TABLE_1[name][m]._asdict() for m in METHODS} if name in TABLE_1 else None,
        "differences": {
            key: {"seeds": values, **as_fact(mean_interval(values))} for key, values in found.items()
        },
        "read": {key: as_fact(mean_interval(values)) for key, values in by_reader.items()},
        "inversion": {**how, "images": spec.images, "mean_error": errors},
        "data_sha256": data_hashes(name),
    }


def references_size(spec: References, steps: float) -> Size:
    """The largest of the networks, and so many steps of a reconstruction of all images."""
    held = training_size(spec.network).numbers + spec.inversion.batch * activations(spec.network.net)
    return Size(held, steps * spec.images * activations(spec.network.net))


def size(spec: ImageFeatures) -> Size:
    """The networks that it needs, and the reconstructions from them."""
    return references_size(spec, spec.inversion.steps * len(spec.seeds))


EXPERIMENTS = (
    Experiment(
        name="image-features",
        paper="at",
        shows="AT Table 1, Figures 4, 5 and the images of Figure 1: accuracy on robust and non-robust "
        "features over standard and adversarial training",
        spec=ImageFeatures,
        run=run,
        takes={
            "quick": "1 min",
            "cpu": "7 min, and 26 min for its six networks",
            "paper": "not measured; a GPU job",
        },
        highlights=(Highlight("table/*/*", "{} training, {}", "share"),),
        size=size,
        revision=3,
        columns={
            "originals": Originals,
            "invert": InversionPath,
            "read": SetRead,
            "curve": FeatureCurve,
            "tested": Tested,
        },
        data=lambda spec: (spec.network.dataset,),
        needs=needed,
    ),
)
