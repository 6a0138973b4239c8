"""Train and probe the networks that `featscope probe` places its numbers among, and write their table.

    python tools/reference_networks.py train [NAME ...] [--runs runs]
    python tools/reference_networks.py make [NAME ...] [--runs runs] [--probes probes] [--budget 4m]
    python tools/reference_networks.py table [--probes probes]

`train` trains all of them, or those named; `make` trains and probes them; `table` writes what the finished
probes found.
A network is a run of `image-network` with seed 0, found again by its spec; a probe goes on where it was
stopped. The table, `src/featscope/probe/reference.json`, has what the probes found and the recipe of each
network; weights are not shipped.
"""

from __future__ import annotations

import argparse
import datetime
import time
from pathlib import Path
from typing import Any

from featscope.core.files import read_json, write_json
from featscope.core.store import Store
from featscope.dynamics.augment import Augment
from featscope.dynamics.image_training import AttackSpec, TrainingSpec, split
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.experiments import runner
from featscope.experiments.image_network import ImageNetwork, Network, request_of
from featscope.experiments.image_training import images
from featscope.images.datasets import ImageBatch
from featscope.nets.networks import NetworkSpec
from featscope.papers.cgro.image_recipe import LENET
from featscope.probe.diagnosis import ASKED, interval
from featscope.probe.run import DOCUMENT, probe

TABLE = Path(__file__).parents[1] / "src/featscope/probe/reference.json"
SEED, EXAMPLES = 0, 10_000
LENET_STANDARD = TrainingSpec(epochs=10, batch_size=64, schedule=Schedule(peak=0.02), held_out=0.05)
LENET_ADVERSARIAL = LENET_STANDARD.replace(
    method="adversarial",
    attack=AttackSpec(eps=0.3, steps=5, ramp=Ramp(epochs=5)),
)
RESNET9 = NetworkSpec(
    architecture="resnet9", width=16, mean=(0.4914, 0.4822, 0.4465), std=(0.247, 0.2435, 0.2616)
)
RESNET9_STANDARD = TrainingSpec(
    epochs=10,
    attack=AttackSpec(eps=8 / 255),
    augment=Augment(shift=4, mirror=True),
    held_out=0.05,
    autocast=True,
)
RESNET9_ADVERSARIAL = RESNET9_STANDARD.replace(
    method="adversarial",
    epochs=6,
    attack=AttackSpec(eps=8 / 255, steps=1, step_size=10 / 255, ramp=Ramp(epochs=1)),
)


def _spec(dataset: str, net: NetworkSpec, training: TrainingSpec, train: int) -> ImageNetwork:
    epochs = training.epochs
    return ImageNetwork(
        dataset=dataset, net=net, training=training, train=train, every=epochs, snapshots=epochs,
        channels_last=net is RESNET9,
    )  # fmt: skip


#: name → the network's spec, and the radius at which it is probed
RECIPES: dict[str, tuple[ImageNetwork, float]] = {
    "LeNet, standard": (_spec("mnist", LENET, LENET_STANDARD, 10_000), 0.3),
    "LeNet, adversarial": (_spec("mnist", LENET, LENET_ADVERSARIAL, 10_000), 0.3),
    "ResNet-9 of width 16, standard": (_spec("cifar10", RESNET9, RESNET9_STANDARD, 50_000), 8 / 255),
    "ResNet-9 of width 16, adversarial": (_spec("cifar10", RESNET9, RESNET9_ADVERSARIAL, 25_000), 8 / 255),
}


def network(name: str, runs: Path) -> Network:
    """The trained network of a recipe."""
    spec = RECIPES[name][0]
    done = runner.run(request_of(spec, SEED), Store(runs))
    return Network(done, spec.replace(seeds=(SEED,)), SEED)


def learned(spec: ImageNetwork) -> ImageBatch:
    """The images that the network was trained on, without those held out."""
    drawn = images(spec, "train", spec.train, SEED)
    kept, _ = split(drawn.y, spec.training.held_out, SEED)
    return ImageBatch(drawn.x[kept], drawn.y[kept])


def place(name: str, probes: Path) -> Path:
    """The folder of a recipe's probe."""
    return probes / "-".join(name.replace(",", "").lower().split())


def make(name: str, runs: Path, probes: Path, budget: str) -> None:
    """Train and probe one network, and say how long each took."""
    spec, eps = RECIPES[name]
    begin = time.perf_counter()
    found = network(name, runs)
    trained = time.perf_counter()
    train, test = learned(spec), images(spec, "test", EXAMPLES, 0)
    folder = place(name, probes)
    told = probe(
        found.last, test.x, test.y, eps=eps, data_name=spec.dataset, train=(train.x, train.y), budget=budget,
        out=folder,
    )  # fmt: skip
    print(told)
    seconds = {"trained": trained - begin, "probed": time.perf_counter() - trained}
    print(f"{name}: trained or found in {seconds['trained']:.0f} s, probed in {seconds['probed']:.0f} s")


def row(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """A network's row: what it is, what its probe found, and how it was made."""
    spec, _ = RECIPES[name]
    subject, training = document["subject"], spec.training
    numbers: dict[str, Any] = {}
    for part, _, _, path in ASKED:
        if "skipped" in document[part]:
            numbers[part] = None
            continue
        value, low, high = interval(document[part], path)
        answer = next(one["answer"] for one in document["diagnosis"]["mechanisms"] if one["part"] == part)
        numbers[part] = {"value": value, "low": low, "high": high, "answer": answer}
    return {
        "name": name,
        "data": spec.dataset,
        "training": training.method,
        "norm": subject["norm"],
        "eps": subject["eps"],
        "clean": document["preflight"]["clean"],
        "robust": document["robustness"]["at_eps"]["attacked"],
        "established": document["robustness"]["established"],
        **numbers,
        "made": {
            "experiment": "image-network",
            "seed": SEED,
            "train": spec.train,
            "net": spec.net.model_dump(mode="json"),
            "training": training.model_dump(mode="json"),
            "network_sha256": subject["network"],
            "budget_seconds": subject["seconds"],
            "featscope": document["featscope"],
        },
    }


def table(probes: Path) -> list[dict[str, Any]]:
    """Write the table of all recipes whose probes are finished."""
    rows = []
    for name in RECIPES:
        document = place(name, probes) / DOCUMENT
        if document.exists():
            date = datetime.date.fromtimestamp(document.stat().st_mtime).isoformat()
            rows.append({**row(name, read_json(document)), "date": date})
    write_json(TABLE, {"schema": 1, "networks": rows})
    return rows


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=("train", "make", "table"))
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--probes", type=Path, default=Path("probes"))
    parser.add_argument("--budget", default="4m")
    given = parser.parse_args()
    if given.verb == "train":
        for name in given.names or RECIPES:
            print(name, network(name, given.runs).rows[-1])
        return
    if given.verb == "make":
        for name in given.names or RECIPES:
            make(name, given.runs, given.probes, given.budget)
        return
    for one in table(given.probes):
        print(one["name"], one["clean"]["value"], {part: one[part] for part, *_ in ASKED})


if __name__ == "__main__":
    main()
