"""Experiment `built-cgro`: f_S of CGRO §5 as a network built by hand, counted, certified and attacked."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field

from featscope.attacks.evaluate import evaluate
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.columns import Columns, column
from featscope.core.settings import Sizes, setting
from featscope.core.signs import label_index, share
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.experiments.built import BuiltNetwork, SampledNetwork, network_row, summary_of
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.separated import Labelled, PackingLaw, packing_for
from featscope.nets.built.robust import (
    HALFSPACE_PARAMETERS,
    KINDS,
    Indicator,
    Robust,
    cgro_classifier,
    cgro_parameters,
    halfspace,
    norm_of,
    opposite_distance,
)

Row = dict[str, Any]


class BuiltCgro(Spec):
    """f_S of equation (C) over D, N and the norm."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {"dimensions": [4, 8, 16], "samples": [5, 10, 30], "test": 100, "attacked": 20}
    }

    dimensions: Sizes = setting((4, 16, 64), "dimensions that are swept", letter="D")
    samples: Sizes = setting((10, 30, 100), "training points that are swept", letter="N")
    accuracy_shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = setting(
        (0.5, 0.9, 0.99, 0.999, 0.9999), "δ as a share of R/2"
    )
    least_sites: int = setting(5000, "sites of the packing, so that fresh points are unseen", ge=1)
    test: int = setting(500, "fresh points on which accuracy is measured", ge=1)
    attacked: int = setting(50, "fresh points for the gradient attack, on the largest N of each D", ge=1)
    seeds: tuple[int, ...] = (0,)

    def law(self, dim: int, seed: int) -> PackingLaw:
        """The packing of D dimensions."""
        return packing_for(dim, self.least_sites, seed)

    def accuracy_law(self, part: float, seed: int) -> PackingLaw:
        """The packing on which δ approaches R/2, D in the middle of those swept."""
        dim = self.dimensions[len(self.dimensions) // 2]
        return self.law(dim, seed).replace(delta_share=part)


class Classifier(SampledNetwork):
    """One f_S: its size, its certificate, and what it says of fresh points."""

    norm = column("norm of the balls")
    neurons = column("ReLUs")
    depth = column("depth of the graph")
    separation = column("R of the law")
    radius = column("radius δ of the balls")
    measured_separation = column("least distance of opposite training points in the norm")
    clean_test = column("clean accuracy on fresh points")
    fooled = column("share of fresh points that the displacement across x_D = ½ fools")
    seen = column("share of fresh points that are training points")
    fooled_unseen = column("the share fooled among the others; 1 if there are none")
    pgd_train = column("accuracy of training points under PGD (largest N only)")
    pgd_test = column("accuracy of fresh points under PGD (largest N only)")


class AccuracyPrice(BuiltNetwork):
    """One network as δ approaches R/2."""

    seed = column("seed of the labels and of the sample")
    share = column("δ as a share of R/2")


class Memory(Columns):
    """The training set that one ℓ∞ network memorises; its points x and labels y are tensors of the part."""

    D = column("dimension")
    seed = column("seed of the sample")
    delta = column("radius δ of the balls")
    separation = column("R, the separation that the indicators are built for")


def _classifier(law: PackingLaw, train: Labelled, kind: Indicator) -> Robust:
    """f_S with the clean classifier x_D > ½."""
    clean = halfspace(law.D, law.D - 1, 0.5, law.shift)
    return cgro_classifier(train.x, train.y, clean, law.radius, law.spacing, kind)


def _row(spec: BuiltCgro, seed: int, law: PackingLaw, n: int, built: Robust) -> Row:
    c, norm = Classifier, norm_of(built.kind)
    test = law.sample(spec.test, stream(seed, "data", "test", law.D, n))
    seen = (torch.cdist(test.x, built.x) == 0).any(-1)
    moved = test.x.clone()
    moved[:, -1] -= test.y * law.radius
    correct = test.y * built.graph(test.x)[:, 0] > 0
    fooled = ~(test.y * built.graph(moved)[:, 0] > 0)
    return {
        c.seed: seed,
        **network_row(built),
        c.formula: cgro_parameters(n, law.D, built.local.levels, built.kind, HALFSPACE_PARAMETERS),
        c.norm: norm,
        c.neurons: built.graph.neurons,
        c.depth: built.graph.depth,
        c.separation: law.spacing,
        c.radius: law.radius,
        c.measured_separation: opposite_distance(built.x, built.y, norm),
        c.clean_test: float(share(correct)),
        c.fooled: float(share(fooled)),
        c.seen: float(share(seen)),
        c.fooled_unseen: float(share(fooled[~seen])) if bool((~seen).any()) else 1.0,
    }


def accuracy_rows(spec: BuiltCgro) -> list[Row]:
    """Levels and parameters as δ approaches R/2: accuracy costs a logarithm in ℓ2 and nothing in ℓ∞."""
    rows: list[Row] = []
    for seed, part in product(spec.seeds, spec.accuracy_shares):
        law = spec.accuracy_law(part, seed)
        train = law.sample(min(spec.samples), stream(seed, "data", "accuracy"))
        place: Row = {AccuracyPrice.seed: seed, AccuracyPrice.share: part}
        rows += [{**place, **network_row(_classifier(law, train, kind))} for kind in KINDS]
    return rows


def _keep_memory(folder: Folder, seed: int, built: Robust) -> None:
    row: Row = {Memory.seed: seed, Memory.delta: built.delta, Memory.separation: built.separation}
    folder.add("memory", [row], {"x": built.x, "y": built.y}, D=built.x.shape[1])


def _record_conditions(spec: BuiltCgro, folder: Folder) -> None:
    for seed, dim in product(spec.seeds, spec.dimensions):
        law = spec.law(dim, seed)
        folder.conditions(law.check(law.own_radius), D=dim, seed=seed)
    for seed, part in product(spec.seeds, spec.accuracy_shares):
        law = spec.accuracy_law(part, seed)
        folder.conditions(law.check(law.own_radius), share=part, seed=seed)


def run_cgro(spec: BuiltCgro, folder: Folder) -> Json:
    """Build, count, certify and attack f_S."""
    rows: list[Row] = []
    for seed, dim, n in product(spec.seeds, spec.dimensions, spec.samples):
        law = spec.law(dim, seed)
        train = law.sample(n, stream(seed, "data", "train", dim, n))
        for kind in KINDS:
            built = _classifier(law, train, kind)
            row = _row(spec, seed, law, n, built)
            if n == max(spec.samples) and kind != "L2-each":
                row |= _attack(spec, seed, built, law)
                if seed == spec.seeds[0] and kind == "Linf":
                    _keep_memory(folder, seed, built)
            rows.append(row)
    folder.add("cgro", rows)
    folder.add("accuracy", accuracy_rows(spec))
    _record_conditions(spec, folder)
    return summary_of(rows, spec.seeds[0]) | {
        "clean_test": min(row[Classifier.clean_test] for row in rows),
        "robust_test_error_unseen": min(row[Classifier.fooled_unseen] for row in rows),
    }


def _attack(spec: BuiltCgro, seed: int, built: Robust, law: PackingLaw) -> Row:
    """The gradient attack on training points (must fail: they are certified) and on fresh points."""
    threat = Threat(norm_of(built.kind), law.radius, 1)
    found: Row = {}
    fresh = law.sample(spec.attacked, stream(seed, "data", "attacked", law.D))
    sets = (
        (Classifier.pgd_train, "train", built.x, built.y),
        (Classifier.pgd_test, "test", fresh.x, fresh.y),
    )
    for key, name, x, y in sets:
        rng = stream(seed, "attack", name, law.D)
        few, label = x[: spec.attacked], label_index(y[: spec.attacked])
        attacks = (PGD(steps=10, restarts=2),)
        found[key] = evaluate(built.graph.classifier(), few, label, threat, attacks, rng).accuracy
    return found


#: layers of the square networks in ℓ2, about
SQUARE_LAYERS = 40


def size(spec: BuiltCgro) -> Size:
    """The largest network on all points, and the fresh points that it meets."""
    largest = max(spec.samples) * max(spec.dimensions)
    held = largest * SQUARE_LAYERS + spec.least_sites * max(spec.dimensions)
    met = sum(spec.samples) * sum(spec.dimensions) * (spec.test + spec.attacked * SQUARE_LAYERS)
    return Size(held + spec.test * largest, len(spec.seeds) * met)


EXPERIMENTS = (
    Experiment(
        name="built-cgro",
        paper="cgro",
        shows="CGRO §5: f_S of equation (C) as a ReLU network, exact counts, certified robust on the "
        "training set, fragile on fresh points",
        spec=BuiltCgro,
        run=run_cgro,
        revision=4,
        columns={"cgro": Classifier, "accuracy": AccuracyPrice, "memory": Memory},
        takes={"quick": "2 s", "cpu": "15 s", "paper": "15 s"},
        highlights=(
            Highlight("cases", "networks built"),
            Highlight("least_slack", "least certified margin on the training balls"),
            Highlight("formula_mismatches", "parameter counts that differ from the formula"),
            Highlight("clean_test", "clean accuracy on fresh points", "share"),
            Highlight("robust_test_error_unseen", "robust error on fresh points", "share"),
        ),
        size=size,
    ),
)
