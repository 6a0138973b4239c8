"""`image-feature-attacks` (AT A.2, Table 2): targeted attacks through the features of a network.

NRF-PGD uses those of a standard network, RF-PGD those of an adversarially trained one. The attacks see a
reference network and are tried on two others, one of each training, whose seed is the next in the list (the
first after the last): other training images, other first weights. Beside the rate on them stand the rate at Δ
= 0, the rate under random noise of the same size, the rate on the reference network's own head, and how near
the features came, so that a search that failed is told from one that does not carry over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal

from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.settings import REQUIRED, RadiusList, setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.dynamics.image_training import TrainingSpec
from featscope.experiments.cost import Size
from featscope.experiments.image_network import (
    ADVERSARIAL,
    CIFAR_ADVERSARIAL,
    CIFAR_NET,
    CIFAR_STANDARD,
    ImageNetwork,
    Network,
    both,
    both_needed,
)
from featscope.experiments.image_training import Epochs, activations, data_hashes, training_size
from featscope.experiments.spec import Experiment, Request, Spec
from featscope.nets.classifier import REPRESENTATION
from featscope.papers.at.feature_attack_columns import RATE, Learned, Rates, Reach, Redrawn
from featscope.papers.at.feature_attack_search import ATTACKS, SEARCHED, Duel, FeatureSearch, attack_pair
from featscope.papers.at.image_features import METHODS
from featscope.papers.at.overview import FEATURE_ATTACKS_HIGHLIGHTS
from featscope.papers.at.printed import TABLE_2, TABLE_2_PAIRS

DatasetName = Literal["mnist", "cifar10"]


class FeatureTask(Value):
    """The networks of one data set; the radius of the adversarial training is that of the attacks."""

    network: ImageNetwork = setting(REQUIRED, "data, architecture and standard training")
    adversarial: TrainingSpec = setting(
        REQUIRED, "the adversarial training; its radius is that of the attacks"
    )

    def model_post_init(self, context: object) -> None:
        """Ten classes, and trainings that are what their names say."""
        given = self.network
        require(
            given.grouping == "each",
            "the networks tell ten classes apart",
            f"grouping={given.grouping}",
            "use each",
        )
        rule = "seeds of the networks are those of the experiment"
        require(given.seeds == (0,), rule, f"{given.seeds}", "use seeds")
        named = (given.training.method, self.adversarial.method)
        rule = "one training is standard, the other is not"
        require(named[0] == "standard" != named[1], rule, f"{named}", "change the methods")


def _quick(name: str) -> dict[str, Any]:
    small = {"train": 1000, "test": 200, "attacked": 60, "net.blocks": [1, 1]}
    small |= {"training.epochs": 3, "training.batch_size": 32}
    other = {"epochs": 4, "batch_size": 32, "attack.steps": 2, "select_steps": 5}
    changes = {f"{name}.network.{key}": value for key, value in small.items()}
    return changes | {f"{name}.adversarial.{key}": value for key, value in other.items()}


class ImageFeatureAttacks(Spec):
    """Networks, class pairs and the search.

    `cpu` uses MNIST; `datasets=["cifar10"]` the paper's classes with a narrow network.
    """

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"seeds": [0, 1], "images": 20, "steps": 10, **_quick("mnist"), **_quick("cifar10")},
        "paper": {
            "seeds": [0, 1, 2, 3, 4],
            "datasets": ["cifar10"],
            "images": 1000,
            "steps": 100,
            "cifar10.network.train": 50_000,
            "cifar10.network.test": 10_000,
            "cifar10.network.attacked": 1000,
            "cifar10.network.snapshots": 1000,
            "cifar10.network.net": {
                "architecture": "wide-resnet",
                "width": 16,
                "depth": 34,
                "widen": 10,
                "channels": 3,
                "side": 32,
            },
            "cifar10.network.training.epochs": 200,
            "cifar10.network.training.augment": {"shift": 4, "mirror": True},
            "cifar10.adversarial.epochs": 200,
            "cifar10.adversarial.augment": {"shift": 4, "mirror": True},
            "cifar10.adversarial.attack.steps": 10,
        },
    }

    datasets: tuple[DatasetName, ...] = setting(("mnist",), "data sets")
    #: on MNIST the digits of the paper's numbers, so that nobody chooses: 3 → 5, 5 → 3, 1 → 0, 0 → 1
    pairs: tuple[tuple[int, int], ...] = setting(TABLE_2_PAIRS, "source and target classes")
    images: int = setting(200, "test images of each source class, the same for every seed", ge=1)
    steps: int = setting(40, "steps of the feature attacks; the step falls from the radius to 0", ge=1)
    layer: str = setting(REPRESENTATION, "layer whose features are moved")
    draws: int = setting(
        1,
        "draws of the target images X′ for each pair of networks; the table is the first",
        later=True,
        ge=1,
    )
    reach: RadiusList | None = setting(
        None,
        "further radii at which both attacks are tried, to see where a reference can be moved",
        later=True,
    )
    mnist: FeatureTask = setting(
        FeatureTask(network=ImageNetwork(), adversarial=ADVERSARIAL), "the networks on MNIST"
    )
    cifar10: FeatureTask = setting(
        FeatureTask(
            network=ImageNetwork(dataset="cifar10", train=5000, net=CIFAR_NET, training=CIFAR_STANDARD),
            adversarial=CIFAR_ADVERSARIAL,
        ),
        "the networks on CIFAR-10",
    )

    def model_post_init(self, context: object) -> None:
        """Two seeds at least, because the attacked networks are not the references.

        Pairs of two different classes.
        """
        some = len(self.datasets) == len(set(self.datasets)) > 0
        require(some, "name at least one data set, each once", f"datasets={self.datasets}", "use mnist")
        rule = "attacked networks must not be the references"
        require(len(self.seeds) >= 2, rule, f"{len(self.seeds)} seed", "use two seeds or more")
        proper = len(self.pairs) > 0 and all(a != b and {a, b} <= set(range(10)) for a, b in self.pairs)
        require(
            proper,
            "pairs are of two different classes from 0 to 9",
            f"pairs={self.pairs}",
            "use for example [[3, 5]]",
        )
        for name in self.datasets:
            task: FeatureTask = getattr(self, name)
            task.network.net.require_layer(self.layer)


def _one(
    spec: ImageFeatureAttacks,
    name: DatasetName,
    place: int,
    nets: Mapping[str, Sequence[Network]],
    folder: Folder,
) -> Rows:
    """The references of one seed against the networks of the next; a pair that is there is not made again."""
    following = (place + 1) % len(spec.seeds)
    references, attacked = (
        {method: nets[method][at].last for method in METHODS} for at in (place, following)
    )
    duel = Duel(spec.seeds[place], spec.seeds[following], references, attacked)
    task: FeatureTask = getattr(spec, name)
    threat, how = task.adversarial.attack.threat(), FeatureSearch(spec.images, spec.steps, spec.layer)
    rows: Rows = []
    for source, target in spec.pairs:
        where: dict[str, Any] = {"dataset": name, "seed": duel.seed, "source": source, "target": target}
        attack = partial(attack_pair, duel, name, (source, target))
        made = folder.once("rates", partial(attack, threat, how), **where)
        rows += [{**where, **row} for row in made.rows]
        for again in range(1, spec.draws):
            drawn = folder.once("redrawn", partial(attack, threat, how, again), **where, draw=again)
            rows += [{**where, Redrawn.draw: again, **row} for row in drawn.rows]
        for eps in spec.reach or ():
            folder.once("reach", partial(attack, task.adversarial.attack.threat(eps), how), **where, eps=eps)
    return rows


def _learned(nets: Mapping[str, Sequence[Network]]) -> Rows:
    """Clean and robust accuracy of every network after its last epoch."""
    return [
        {
            Learned.method: method,
            Learned.seed: net.seed,
            Learned.clean_test: net.rows[-1].get(Epochs.clean_test),
            Learned.robust_test: net.rows[-1].get(Epochs.robust_test),
        }
        for method in METHODS
        for net in nets[method]
    ]


def tables(rows: Rows, seeds: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Json:
    """For each attack and column: the rate of each pair and the mean over pairs, intervals over seeds."""
    columns = (*(rates[0] for rates in RATE.values()), Rates.own_head, Rates.distance)
    columns += tuple(rates[1] for rates in RATE.values())
    by_place = {
        (row[Rates.seed], row[Rates.attack], row[Rates.source], row[Rates.target]): row for row in rows
    }
    found: Json = {}
    for attack in SEARCHED:
        for column_ in columns:
            cells: dict[str, list[Any]] = {
                f"{source}-{target}": [by_place[seed, attack, source, target].get(column_) for seed in seeds]
                for source, target in pairs
            }
            if any(value is None for values in cells.values() for value in values):
                continue
            mean = [sum(values) / len(values) for values in zip(*cells.values(), strict=True)]
            facts = {pair: as_fact(mean_interval(values)) for pair, values in cells.items()}
            over = {**as_fact(mean_interval(mean)), "by_seed": mean}
            found.setdefault(column_, {})[attack] = {"pairs": facts, "mean": over}
    return found


def spreads(rows: Rows, again: Rows) -> Json:
    """Standard deviations of the rates, means over pairs: over networks, and over draws of the target images
    with the networks of each seed."""
    found: Json = {}
    for method, (key, _) in RATE.items():
        for attack in ATTACKS:
            over_networks: dict[Any, list[float]] = {}
            over_draws: dict[Any, list[float]] = {}
            for row in (row for row in (*rows, *again) if row[Rates.attack] == attack):
                pair = (row[Rates.source], row[Rates.target])
                over_draws.setdefault((pair, row[Rates.seed]), []).append(row[key])
                if Redrawn.draw not in row:
                    over_networks.setdefault(pair, []).append(row[key])
            found.setdefault(method, {})[attack] = {
                name: fmean(stdev(values) for values in groups.values())
                for name, groups in (("networks", over_networks), ("draws", over_draws))
            }
    return found


def needed(spec: ImageFeatureAttacks) -> Mapping[str, Request]:
    """The networks of both trainings for every data set and seed."""
    found: dict[str, Request] = {}
    for name in spec.datasets:
        task = getattr(spec, name)
        found |= both_needed(task.network, task.adversarial, spec.seeds)
    return found


def run(spec: ImageFeatureAttacks, folder: Folder) -> Json:
    """Table 2 with intervals over seeds, the controls beside it, and what is printed."""
    found: Json = {}
    for name in spec.datasets:
        task: FeatureTask = getattr(spec, name)
        nets = both(task.network, task.adversarial, spec.seeds, folder)
        made = [row for place in range(len(spec.seeds)) for row in _one(spec, name, place, nets, folder)]
        rows = [row for row in made if Redrawn.draw not in row]
        again = [row for row in made if Redrawn.draw in row]
        learned = _learned(nets)
        folder.add("learned", learned, dataset=name)
        accuracy = {
            method: {
                str(key): [row[key] for row in learned if row[Learned.method] == method]
                for key in (Learned.clean_test, Learned.robust_test)
            }
            for method in METHODS
        }
        found[name] = {
            "table": tables(rows, spec.seeds, spec.pairs),
            **({"spread": spreads(rows, again)} if again else {}),
            "accuracy": accuracy,
            "eps": task.adversarial.attack.eps,
            "data_sha256": data_hashes(name),
        }
    printed = {method: {attack: list(v) for attack, v in cells.items()} for method, cells in TABLE_2.items()}
    return {
        "datasets": found,
        "printed": {"cifar10": printed, "pairs": [list(pair) for pair in TABLE_2_PAIRS]},
    }


def size(spec: ImageFeatureAttacks) -> Size:
    """The largest of the networks, and the attacks on every pair."""
    networks = [getattr(spec, name).network for name in spec.datasets]
    held = max(training_size(network).numbers for network in networks)
    times = spec.draws + len(spec.reach or ())
    looks = len(spec.pairs) * spec.images * spec.steps * len(spec.seeds) * times
    return Size(held, looks * sum(activations(network.net) for network in networks))


EXPERIMENTS = (
    Experiment(
        name="image-feature-attacks",
        paper="at",
        shows="AT Table 2: targeted attacks through non-robust and robust features, tried on networks that "
        "they have not seen",
        spec=ImageFeatureAttacks,
        run=run,
        takes={
            "quick": "1 min",
            "cpu": "3 min, and 25 min for networks that other experiments share",
            "paper": "not measured; a GPU job",
        },
        highlights=FEATURE_ATTACKS_HIGHLIGHTS,
        size=size,
        revision=3,
        columns={"rates": Rates, "redrawn": Redrawn, "reach": Reach, "learned": Learned},
        data=lambda spec: spec.datasets,
        needs=needed,
    ),
)
