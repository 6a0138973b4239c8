"""`image-features` (AT §6.2, A.1, Table 1, Figures 1, 4 and 5): what two trainings learn of features.

A reference network of each training gives the reconstructed sets D̂_NR (from standard training) and D̂_R
(from adversarial training); networks of each training read both sets after each of their epochs. Who they are
to the reference is a column: the reference itself, one of the same first weights, or one that has nothing in
common with it (`image_relations`). One network is trained for each seed and training (`image-network`); it
makes the sets of its seed and reads once in each relation, so that values of different seeds share networks
and are not fully independent. Intervals are over starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from featscope.core.errors import require
from featscope.core.settings import setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import TrainingSpec, accuracy, robust_accuracy
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_network import (
    ADVERSARIAL,
    ImageNetwork,
    Network,
    methods,
    networks_needed,
    trained,
)
from featscope.experiments.image_training import Epochs, activations, data_hashes, images, training_size
from featscope.experiments.spec import Experiment, Request, Spec, refuse_unused
from featscope.features.accuracy import feature_accuracy
from featscope.features.invert import InversionSpec, Inverted, invert
from featscope.images.datasets import ImageBatch, load
from featscope.nets.classifier import ImageClassifier
from featscope.papers.at.image_feature_columns import (
    FEATURE,
    HOW,
    FeatureCurve,
    InversionPath,
    Originals,
    SetAccuracy,
    SetRead,
    Tested,
)
from featscope.papers.at.image_relations import RELATIONS, first_weights, readers, start_means
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
        rule = "a reference and a network that has nothing in common with it need two seeds"
        require(len(self.seeds) > 1, rule, f"seeds={self.seeds}", "give --seeds 2 or more")
        rule = "adversarial training is not standard training"
        require(self.adversarial.method != "standard", rule, "standard", "set its method")
        refuse_unused(
            self, "set seeds; each network has one of them", "network.seeds", "network.first_weights"
        )
        self.network.net.require_layer(self.inversion.layer)


class ImageFeatures(References):
    """Table 1: the networks, the inversion (from noise, as in the paper) and how many images are attacked.

    Six networks of each training, two of each start, read all sets.
    """

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, "seeds": [0, 1, 2, 3], "images": 60, "attacked": 60, "inversion.steps": 30},
        "paper": {**PAPER, "images": 10_000, "attacked": 10_000, "inversion.steps": 2000},
    }

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    networks_per_start: int = setting(
        2, "networks of the same first weights, those of the first seeds; 1: each has its own", ge=1
    )
    attacked: int = setting(
        1000,
        "test images on which the table's robust accuracy is counted, the same for every seed; "
        "0: not counted",
        ge=0,
    )
    attack_steps: int = setting(20, "steps of that PGD", ge=1)

    def model_post_init(self, context: object) -> None:
        """Whole groups of one start each, and two of them."""
        super().model_post_init(context)
        per, count = self.networks_per_start, len(self.seeds)
        require(
            count % per == 0 and count >= 2 * per,
            "seeds must make up two starts or more of networks_per_start each",
            f"{count} seeds, networks_per_start={per}",
            f"give --seeds {2 * per} or another multiple of {per}, or set networks_per_start=1",
        )

    @property
    def readers(self) -> dict[int, dict[str, int]]:
        """For each seed and relation the seed of the networks that read."""
        return readers(self.seeds, self.networks_per_start)

    def networks(self) -> dict[int, dict[str, ImageNetwork]]:
        """For each seed the network of each training, with the first weights of its start."""
        return {
            seed: methods(self.network.replace(first_weights=start), self.adversarial)
            for seed, start in first_weights(self.seeds, self.networks_per_start).items()
        }


#: training → column → a value for each seed
Cells = Mapping[str, Mapping[str, Sequence[float]]]
Networks = Mapping[int, Mapping[str, Network]]


def reconstruct(spec: ImageFeatures, folder: Folder, nets: Mapping[str, Network]) -> dict[str, Inverted]:
    """D̂_NR and D̂_R from the networks of one seed, of its own drawing of test images.

    The images and their originals are kept.
    """
    seed = nets["standard"].seed
    x, y = images(spec.network, "test", spec.images, seed)
    folder.add("originals", [{Originals.images: len(y)}], {"x": x, "y": y}, seed=seed)
    return {
        name: invert(
            nets[method].last, x, y, spec.inversion, seed, folder.part("invert", set=name, seed=seed)
        )
        for name, method in SETS.items()
    }


def read_set(net: ImageClassifier, name: str, data: Inverted) -> dict[str, Any]:
    """What a network reads of a set: accuracy over all images, and over the halves by feature error."""
    found, order = feature_accuracy(net, data), data.error.argsort()
    row: dict[str, Any] = {SetAccuracy.set: name, SetAccuracy.accuracy: found.value}
    row |= {SetAccuracy.low: found.low, SetAccuracy.high: found.high}
    halves = {
        SetAccuracy.accuracy_near: order[: len(order) // 2],
        SetAccuracy.accuracy_far: order[len(order) // 2 :],
    }
    for key, chosen in halves.items():
        part = Inverted(data.x[chosen], data.y[chosen], data.error[chosen], data.provenance)
        row[key] = feature_accuracy(net, part).value
    row |= {
        SetAccuracy.error_mean: float(data.error.mean()),
        SetAccuracy.error_median: float(data.error.median()),
        SetAccuracy.error_max: float(data.error.max()),
    }
    return row | {key: data.provenance[key] for key in HOW}


def _curve(reader: Network, sets: Mapping[str, Inverted]) -> Rows:
    """Accuracy on test images and on both sets after every epoch that was kept."""
    clean = {row[Epochs.step]: row[Epochs.clean_test] for row in reader.rows}
    rows: Rows = []
    for epoch in reader.epochs:
        net = reader.at(epoch)
        features = {str(FEATURE[name]): feature_accuracy(net, data).value for name, data in sets.items()}
        place: dict[str, int] = {FeatureCurve.step: epoch, FeatureCurve.reader: reader.seed}
        rows.append({**place, FeatureCurve.clean_test: clean[epoch], **features})
    return rows


def _tested(
    spec: ImageFeatures, method: str, network: Network, test: ImageBatch
) -> tuple[Rows, dict[str, Tensor]]:
    """Clean accuracy on the network's test images.

    Robust accuracy on the images of ``test``, if any are to be attacked.
    """
    row: dict[str, Any] = {Tested.clean_test: network.rows[-1][Epochs.clean_test]}
    row[Tested.published] = load(spec.network.dataset, "train").published
    if spec.attacked:
        threat, rng = spec.adversarial.attack.threat(), stream(network.seed, "tested", method)
        row |= {Tested.clean_attacked: accuracy(network.last, test), Tested.attacked: len(test.y)}
        row |= {Tested.eps: threat.eps, Tested.steps: spec.attack_steps}
        row[Tested.robust_test] = robust_accuracy(network.last, test, threat, spec.attack_steps, rng)
    return [row], {}


def needed(spec: ImageFeatures) -> Mapping[str, Request]:
    """The networks of both trainings for every seed."""
    return networks_needed((net, seed) for seed, both in spec.networks().items() for net in both.values())


def run(spec: ImageFeatures, folder: Folder) -> Json:
    """Reconstructions of each seed, read by the networks of every relation.

    Table 1 beside the printed one.
    """
    nets = {
        seed: {method: trained(net, seed, folder) for method, net in both.items()}
        for seed, both in spec.networks().items()
    }
    test = images(spec.network, "test", max(spec.attacked, 1), 0)
    tested = {
        (method, seed): folder.once(
            "tested", partial(_tested, spec, method, nets[seed][method], test), method=method, seed=seed
        ).rows[0]
        for seed in spec.seeds
        for method in METHODS
    }
    sets = {seed: reconstruct(spec, folder, nets[seed]) for seed in spec.seeds}
    cells = {
        relation: {method: _read_by(spec, relation, method, nets, sets, folder) for method in METHODS}
        for relation in RELATIONS
        if relation in spec.readers[spec.seeds[0]]
    }
    for of_relation in cells.values():
        for method, columns in of_relation.items():
            for key in (Tested.clean_test, Tested.robust_test):
                if key in tested[method, spec.seeds[0]]:
                    columns[key] = [tested[method, seed][key] for seed in spec.seeds]
    errors = {key: [float(of_seed[key].error.mean()) for of_seed in sets.values()] for key in SETS}
    return _summary(spec, cells, errors)


def _read_by(
    spec: ImageFeatures,
    relation: str,
    method: str,
    nets: Networks,
    sets: Mapping[int, Mapping[str, Inverted]],
    folder: Folder,
) -> dict[str, list[float]]:
    """What the networks of one training read in one relation: rows at the end, a curve over epochs; of each
    set the last accuracy by seed."""
    found: dict[str, list[float]] = {str(key): [] for key in FEATURE.values()}
    for seed in spec.seeds:
        reader = nets[spec.readers[seed][relation]][method]
        last = reader.last
        rows = [{SetRead.reader: reader.seed, **read_set(last, *item)} for item in sets[seed].items()]
        folder.add("read", rows, relation=relation, method=method, seed=seed)
        curve = _curve(reader, sets[seed])
        folder.add("curve", curve, relation=relation, method=method, seed=seed)
        for key, values in found.items():
            values.append(curve[-1][key])
    return found


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


def _summary(spec: ImageFeatures, cells: Mapping[str, Cells], errors: Mapping[str, Sequence[float]]) -> Json:
    name, per = spec.network.dataset, spec.networks_per_start

    def fact(values: Sequence[float]) -> Json:
        return {**as_fact(mean_interval(start_means(values, per))), "seeds": list(values)}

    how = {str(key): getattr(spec.inversion, key) for key in HOW}
    return {
        "table": {
            relation: {m: {key: fact(values) for key, values in of[m].items()} for m in METHODS}
            for relation, of in cells.items()
        },
        "printed": {m: TABLE_1[name][m]._asdict() for m in METHODS} if name in TABLE_1 else None,
        "differences": {
            relation: {key: fact(values) for key, values in differences(of).items()}
            for relation, of in cells.items()
        },
        "inversion": {**how, "images": spec.images, "mean_error": errors},
        "data_sha256": data_hashes(name),
        "data_published": load(name, "train").published,
    }


def references_size(spec: References, steps: float) -> Size:
    """The largest of the networks, and so many steps of a reconstruction of all images."""
    held = training_size(spec.network).numbers + spec.inversion.batch * activations(spec.network.net)
    return Size(held, steps * spec.images * activations(spec.network.net))


def features_size(spec: ImageFeatures) -> Size:
    """The networks that it needs, and the reconstructions from them."""
    return references_size(spec, spec.inversion.steps * len(spec.seeds))


FEATURES_HIGHLIGHTS = (Highlight("table/*/*/*", "{}: {} training, {}", "share"),)
FEATURES_COLUMNS = {
    "originals": Originals,
    "invert": InversionPath,
    "read": SetRead,
    "curve": FeatureCurve,
    "tested": Tested,
}
EXPERIMENTS = (
    Experiment(
        name="image-features",
        paper="at",
        shows="AT Table 1, Figures 4, 5 and the images of Figure 1: accuracy on robust and non-robust "
        "features over standard and adversarial training",
        spec=ImageFeatures,
        run=run,
        takes={
            "quick": "2 min",
            "cpu": "10 min, and 50 min for its twelve networks",
            "paper": "not measured; a GPU job",
        },
        highlights=FEATURES_HIGHLIGHTS,
        size=features_size,
        revision=4,
        columns=FEATURES_COLUMNS,
        data=lambda spec: (spec.network.dataset,),
        needs=needed,
    ),
)
