"""`image-features` (AT §6.2, A.1, Table 1, Figures 1, 4 and 5): what standard and adversarial training learn of robust and non-robust features.

A reference network of each training gives the reconstructed sets D̂_NR (from standard training) and D̂_R (from adversarial training); a *fresh* network of each
training, which had no part in them, reads both sets after each of its epochs. One network is trained for each seed and training (`image-network`). The network of a
seed makes the sets of that seed and is the fresh one for the seed before it, so that each serves once in either role; values of different seeds share networks and
are not fully independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from featscope.core.errors import require
from featscope.core.stats import mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import TrainingSpec, accuracy, robust_accuracy
from featscope.experiments.image_network import ADVERSARIAL, ImageNetwork, Network, both, both_needed, images
from featscope.experiments.image_training import as_fact
from featscope.experiments.spec import Experiment, Request, Spec, refuse_unused
from featscope.features.accuracy import feature_accuracy
from featscope.features.invert import InversionSpec, Inverted, invert
from featscope.images.datasets import ImageBatch, load
from featscope.nets.classifier import ImageClassifier

METHODS = ("standard", "adversarial")
#: set → the training of the network that it is reconstructed from
SETS = {"NR": "standard", "R": "adversarial"}
#: Table 1: clean and robust test accuracy, accuracy on D̂_NR and on D̂_R
PRINTED = {
    "mnist": {"standard": (0.9956, 0.0004, 0.8811, 0.4461), "adversarial": (0.9941, 0.9443, 0.3949, 0.6919)},
    "cifar10": {"standard": (0.9574, 0.0, 0.9179, 0.6126), "adversarial": (0.8628, 0.4513, 0.1088, 0.6788)},
    "svhn": {"standard": (0.9684, 0.0016, 0.7391, 0.6538), "adversarial": (0.9199, 0.5855, 0.3550, 0.7704)},
}
COLUMNS = ("clean_test", "robust_test", "feature_NR", "feature_R")

#: The paper gives neither optimiser nor steps. Of the step sizes .02 to .5 this one leaves the smallest feature error on an adversarially trained network (docs/images-at.md).
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
    """The networks: `network` says data, architecture and standard training, `adversarial` the other training."""

    network: ImageNetwork = ImageNetwork()
    adversarial: TrainingSpec = ADVERSARIAL
    inversion: InversionSpec = INVERSION
    images: int = Field(default=200, ge=2, description="test images that are reconstructed, drawn by seed")

    def model_post_init(self, context: object) -> None:
        """A fresh network is another seed's."""
        require(len(self.seeds) > 1, "a reference and a fresh network need two seeds", f"seeds={self.seeds}", "give --seeds 2 or more")
        require(self.adversarial.method != "standard", "adversarial training is not standard training", "standard", "set its method")
        refuse_unused(self, "set seeds; each network has one of them", "network.seeds")
        self.network.net.require_layer(self.inversion.layer)


class ImageFeatures(References):
    """Table 1: the networks, the inversion (from noise, as the paper describes) and how many images are attacked."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, "seeds": [0, 1], "images": 60, "attacked": 60, "inversion.steps": 30},
        "paper": {**PAPER, "images": 10_000, "attacked": 10_000, "inversion.steps": 2000},
    }

    attacked: int = Field(
        default=1000,
        ge=0,
        description="test images on which the table's robust accuracy is counted, the same for every seed; 0: not counted",
    )
    attack_steps: int = Field(default=20, ge=1, description="steps of that PGD")


def pairs(seeds: Sequence[int]) -> list[tuple[int, int]]:
    """Reference and fresh seed: the next of the list, after the last the first."""
    return [(seed, seeds[(i + 1) % len(seeds)]) for i, seed in enumerate(seeds)]


def reconstruct(spec: ImageFeatures, folder: Folder, seed: int) -> dict[str, Inverted]:
    """D̂_NR and D̂_R of one seed, from its own drawing of test images; the images and their originals are kept."""
    originals = images(spec.network, "test", spec.images, seed)
    folder.add(f"originals/{seed}", [{"seed": seed, "images": len(originals.y)}], {"x": originals.x, "y": originals.y})
    nets = both(spec.network, spec.adversarial, [seed], folder)
    return {
        name: invert(nets[method][0].last, originals.x, originals.y, spec.inversion, seed, folder.part(f"invert/{name}/{seed}"))
        for name, method in SETS.items()
    }


def read_sets(readers: Mapping[str, ImageClassifier], sets: Mapping[str, Inverted]) -> Rows:
    """One row for each set and reader: accuracy with Wilson's interval, over all images and over the halves with smaller and larger feature error."""
    rows: Rows = []
    for name, data in sets.items():
        order = data.error.argsort()
        near, far = order[: len(order) // 2], order[len(order) // 2 :]
        for reader, net in readers.items():
            found = feature_accuracy(net, data)
            row: dict[str, Any] = {"set": name, "reader": reader, "accuracy": found.value, "low": found.low, "high": found.high}
            for half, chosen in (("near", near), ("far", far)):
                part = Inverted(data.x[chosen], data.y[chosen], data.error[chosen], data.provenance)
                row[f"accuracy_{half}"] = feature_accuracy(net, part).value
            row |= {
                "error_mean": float(data.error.mean()),
                "error_median": float(data.error.median()),
                "error_max": float(data.error.max()),
            }
            rows.append(row | {key: data.provenance[key] for key in ("start", "layer", "steps", "step_size")})
    return rows


def readers(reference: Mapping[str, Network], fresh: Mapping[str, Network]) -> dict[str, ImageClassifier]:
    """The networks that read the sets of a seed: both references and both fresh networks, after their last epoch."""
    named = {f"reference-{method}": reference[method].last for method in METHODS}
    return named | {f"fresh-{method}": fresh[method].last for method in METHODS}


def _curve(fresh: Network, sets: Mapping[str, Inverted]) -> Rows:
    """Accuracy on test images and on both sets after every epoch that was kept."""
    clean = {row["step"]: row["clean_test"] for row in fresh.rows}
    rows: Rows = []
    for epoch in fresh.epochs:
        net = fresh.at(epoch)
        features = {f"feature_{name}": feature_accuracy(net, data).value for name, data in sets.items()}
        rows.append({"step": epoch, "fresh": fresh.seed, "clean_test": clean[epoch], **features})
    return rows


def _tested(spec: ImageFeatures, folder: Folder, method: str, network: Network, test: ImageBatch) -> dict[str, Any]:
    """Clean accuracy on the network's test images and robust accuracy on the images of ``test``, if any are to be attacked; measured once."""
    part = folder.part(f"tested/{method}/{network.seed}")
    saved = part.load()
    if saved is not None:
        return saved.rows[0]
    row: dict[str, Any] = {"method": method, "seed": network.seed, "clean_test": network.rows[-1]["clean_test"]}
    if spec.attacked:
        threat, rng = spec.adversarial.attack.threat(), stream(network.seed, "tested", method)
        row |= {"clean_attacked": accuracy(network.last, test), "attacked": len(test.y), "eps": threat.eps, "steps": spec.attack_steps}
        row["robust_test"] = robust_accuracy(network.last, test, threat, spec.attack_steps, rng)
    part.save(0, True, [row], {})
    return row


def needed(spec: ImageFeatures) -> Mapping[str, Request]:
    """The networks of both trainings for every seed."""
    return both_needed(spec.network, spec.adversarial, spec.seeds)


def run(spec: ImageFeatures, folder: Folder) -> Json:
    """Reconstructions of each seed, read by the networks of that seed and of the next; the four cells beside the printed ones."""
    # Every seed is reconstructed first: that needs its own two networks only, while others may still be trained elsewhere.
    sets = {seed: reconstruct(spec, folder, seed) for seed in spec.seeds}
    nets = both(spec.network, spec.adversarial, spec.seeds, folder)
    by_seed = {seed: {method: nets[method][i] for method in METHODS} for i, seed in enumerate(spec.seeds)}
    test = images(spec.network, "test", max(spec.attacked, 1), 0)
    cells: dict[str, dict[str, list[float]]] = {method: {} for method in METHODS}
    read: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {name: [] for name in SETS}
    for seed, other in pairs(spec.seeds):
        rows = read_sets(readers(by_seed[seed], by_seed[other]), sets[seed])
        folder.add(f"read/{seed}", [{"seed": seed, "fresh": other, **row} for row in rows])
        for row in rows:
            read.setdefault(f"{row['reader']} reads {row['set']}", []).append(row["accuracy"])
        for name, data in sets[seed].items():
            errors[name].append(float(data.error.mean()))
        for method in METHODS:
            curve = _curve(by_seed[other][method], sets[seed])
            folder.add(f"curve/{method}/{seed}", curve)
            last = {**_tested(spec, folder, method, by_seed[other][method], test), **{k: curve[-1][k] for k in COLUMNS[2:]}}
            for key in COLUMNS:
                if key in last:
                    cells[method].setdefault(key, []).append(last[key])
    return _summary(spec, cells, read, errors)


def differences(cells: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """The paper's three statements as differences of accuracies, one for each seed; each statement says that its difference is positive."""
    std, adv = cells["standard"], cells["adversarial"]
    named = {
        "standard_reads_non_robust_more": (std["feature_NR"], std["feature_R"]),
        "adversarial_suppresses_non_robust": (std["feature_NR"], adv["feature_NR"]),
        "adversarial_strengthens_robust": (adv["feature_R"], std["feature_R"]),
    }
    return {name: [a - b for a, b in zip(*both_sides, strict=True)] for name, both_sides in named.items()}


def _summary(
    spec: ImageFeatures,
    cells: Mapping[str, Mapping[str, list[float]]],
    read: Mapping[str, list[float]],
    errors: Mapping[str, list[float]],
) -> Json:
    name = spec.network.dataset
    printed = {m: dict(zip(COLUMNS, PRINTED[name][m], strict=True)) for m in METHODS} if name in PRINTED else None
    how = {key: getattr(spec.inversion, key) for key in ("start", "layer", "steps", "step_size")}
    return {
        "table": {m: {key: as_fact(mean_interval(values)) for key, values in cells[m].items()} for m in METHODS},
        "printed": printed,
        "differences": {key: {"seeds": values, **as_fact(mean_interval(values))} for key, values in differences(cells).items()},
        "read": {key: as_fact(mean_interval(values)) for key, values in read.items()},
        "inversion": {**how, "images": spec.images, "mean_error": {key: list(values) for key, values in errors.items()}},
        "data_sha256": {split: load(name, split).sha256 for split in ("train", "test")},
    }


EXPERIMENTS = (
    Experiment(
        name="image-features",
        paper="at",
        shows="AT Table 1, Figures 4, 5 and the images of Figure 1: accuracy on robust and non-robust features over standard and adversarial training",
        spec=ImageFeatures,
        run=run,
        takes={"quick": "1 min", "cpu": "7 min, and 26 min for its six networks", "paper": "not measured; a GPU job"},
        revision=2,
        needs_data=("mnist",),
        needs=needed,
    ),
)
