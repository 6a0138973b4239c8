"""Experiments `built-cgro`, `built-memorise`, `built-fstar`: the networks of CGRO §5 and EP built by hand, counted and certified."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from featscope.attacks.evaluate import evaluate
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.separated import PackingLaw
from featscope.nets.built.graph import Graph
from featscope.nets.built.robust import (
    Indicator,
    Robust,
    cgro_classifier,
    cgro_parameters,
    halfspace,
    norm_of,
    opposite_distance,
)

Row = dict[str, Any]
KINDS: tuple[Indicator, ...] = ("Linf", "L2-shared", "L2-each")


def logits(graph: Graph) -> Any:
    """A built classifier's sign as two logits, for the attacks."""

    module = graph.module()

    def model(x: Tensor) -> Tensor:
        f = module(x)[..., 0]
        return torch.stack([-f / 2, f / 2], -1)

    return model


def packing_for(dim: int, least_sites: int, seed: int) -> PackingLaw:
    """The packing law with the fewest levels (at least 3) that has ``least_sites`` sites."""
    levels = max(3, math.ceil(least_sites ** (1 / (dim - 1))))
    return PackingLaw(D=dim, levels=levels, label_seed=seed)


class BuiltCgro(Spec):
    """f_S of equation (C) over D, N and the norm."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {"quick": {"dimensions": [4, 8, 16], "samples": [5, 10, 30], "test": 100, "attacked": 20}}

    dimensions: tuple[int, ...] = Field(default=(4, 16, 64), description="D")
    samples: tuple[int, ...] = Field(default=(10, 30, 100), description="N")
    accuracy_shares: tuple[float, ...] = Field(default=(0.5, 0.9, 0.99, 0.999, 0.9999), description="δ as a share of R/2")
    least_sites: int = Field(default=5000, ge=1, description="sites of the packing, so that fresh points are unseen")
    test: int = Field(default=500, ge=1)
    attacked: int = Field(default=50, ge=1, description="fresh points for the gradient attack, on the largest N of each D")
    seeds: tuple[int, ...] = (0,)


def _cgro_row(spec: BuiltCgro, seed: int, dim: int, n: int, kind: Indicator) -> tuple[Row, Robust, PackingLaw]:
    law = packing_for(dim, spec.least_sites, seed)
    train = law.sample(n, stream(seed, "data", "train", dim, n))
    clean = halfspace(dim, dim - 1, 0.5, law.shift)
    built = cgro_classifier(train.x, train.y, clean, law.radius, law.spacing, kind)
    test = law.sample(spec.test, stream(seed, "data", "test", dim, n))
    seen = (torch.cdist(test.x, train.x) == 0).any(-1)
    moved = test.x.clone()
    moved[:, -1] -= test.y * law.radius
    row: Row = {"run": seed, "D": dim, "n": n, "kind": kind, "norm": norm_of(kind), "levels": built.local.levels}
    row |= {"parameters": built.graph.parameters, "formula": cgro_parameters(n, dim, built.local.levels, kind, clean.parameters)}
    row |= {"neurons": built.graph.neurons, "depth": built.graph.depth, "slack": float(built.certificate().min())}
    row |= {"separation": law.spacing, "radius": law.radius, "measured_separation": opposite_distance(train.x, train.y, norm_of(kind))}
    correct = test.y * built.graph(test.x)[:, 0] > 0
    fooled = ~(test.y * built.graph(moved)[:, 0] > 0)
    row |= {"clean_test": float(correct.double().mean()), "fooled": float(fooled.double().mean()), "seen": float(seen.double().mean())}
    row["fooled_unseen"] = float(fooled[~seen].double().mean()) if bool((~seen).any()) else 1.0
    return row, built, law


def accuracy_rows(spec: BuiltCgro) -> list[Row]:
    """Levels and parameters as δ approaches R/2: the price of accuracy is a logarithm in ℓ2 and nothing in ℓ∞."""
    rows: list[Row] = []
    dim, n, seed = spec.dimensions[len(spec.dimensions) // 2], min(spec.samples), spec.seeds[0]
    for share in spec.accuracy_shares:
        law = packing_for(dim, spec.least_sites, seed).replace(delta_share=share)
        train = law.sample(n, stream(seed, "data", "accuracy"))
        for kind in KINDS:
            clean = halfspace(dim, dim - 1, 0.5, law.shift)
            built = cgro_classifier(train.x, train.y, clean, law.radius, law.spacing, kind)
            row: Row = {"share": share, "kind": kind, "levels": built.local.levels, "parameters": built.graph.parameters}
            rows.append(row | {"D": dim, "n": n, "slack": float(built.certificate().min())})
    return rows


def run_cgro(spec: BuiltCgro, folder: Folder) -> Json:
    """Build, count, certify and attack f_S."""
    rows: list[Row] = []
    tensors: dict[str, Tensor] = {}
    for seed in spec.seeds:
        for dim in spec.dimensions:
            for n in spec.samples:
                for kind in KINDS:
                    row, built, law = _cgro_row(spec, seed, dim, n, kind)
                    if n == max(spec.samples) and kind != "L2-each":
                        row |= _attack(spec, seed, built, law)
                        if seed == spec.seeds[0] and kind == "Linf":
                            keys = {
                                "x": built.x,
                                "y": built.y,
                                "numbers": torch.tensor([built.delta, built.separation], dtype=torch.float64),
                            }
                            tensors |= {f"D{dim}/{key}": value for key, value in keys.items()}
                    rows.append(row)
    folder.add("cgro", rows, tensors)
    folder.add("accuracy", accuracy_rows(spec))
    return {
        "cases": len(rows),
        "least_slack": min(row["slack"] for row in rows),
        "clean_test": min(row["clean_test"] for row in rows),
        "robust_test_error_unseen": min(row["fooled_unseen"] for row in rows),
        "formula_mismatches": sum(row["parameters"] != row["formula"] for row in rows),
        "parameters": {f"{r['kind']} D={r['D']} N={r['n']}": r["parameters"] for r in rows if r["run"] == spec.seeds[0]},
    }


def _attack(spec: BuiltCgro, seed: int, built: Robust, law: PackingLaw) -> Row:
    """The gradient attack on training points (must fail: they are certified) and on fresh points."""
    threat = Threat(norm_of(built.kind), law.radius, 1)
    found: Row = {}
    fresh = law.sample(spec.attacked, stream(seed, "data", "attacked", law.D))
    for name, x, y in (("train", built.x, built.y), ("test", fresh.x, fresh.y)):
        rng = stream(seed, "attack", name, law.D)
        attacks = (PGD(steps=10, restarts=2),)
        outcome = evaluate(logits(built.graph), x[: spec.attacked], (y[: spec.attacked] > 0).long(), threat, attacks, rng)
        found[f"pgd_{name}"] = outcome.accuracy
    return found


EXPERIMENTS = (
    Experiment(
        name="built-cgro",
        paper="cgro",
        shows="CGRO §5: f_S of equation (C) as a ReLU network, exact counts, certified robust on the training set, fragile on fresh points",
        spec=BuiltCgro,
        run=run_cgro,
        revision=2,
        takes={"quick": "2 s", "cpu": "15 s", "paper": "15 s"},
    ),
)
