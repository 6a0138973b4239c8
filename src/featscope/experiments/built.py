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
from featscope.laws.separated import PackingLaw, separated_sample
from featscope.nets.built.fstar import (
    cell_certificate,
    cells_needed,
    f_star,
    grid_network,
    grid_parameters,
    nodes,
    slope_bound,
)
from featscope.nets.built.graph import Graph
from featscope.nets.built.robust import (
    Indicator,
    Robust,
    cgro_classifier,
    cgro_parameters,
    halfspace,
    memorising_network,
    memorising_parameters,
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


class BuiltMemorise(Spec):
    """EP's memorising network on random separated sets."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {"quick": {"dimensions": [8, 16, 32], "samples": [5, 10, 30], "seeds": [0]}}

    dimensions: tuple[int, ...] = (8, 16, 32, 64)
    samples: tuple[int, ...] = (10, 30, 100)
    separation: float = Field(default=0.3, gt=0, description="R in the norm")
    delta: float = Field(default=0.1, gt=0)


def run_memorise(spec: BuiltMemorise, folder: Folder) -> Json:
    """Build and certify on separated sets drawn at random."""
    rows: list[Row] = []
    for seed in spec.seeds:
        for dim in spec.dimensions:
            for n in spec.samples:
                for kind in KINDS[:2]:
                    rng = stream(seed, "data", dim, n, kind)
                    data = separated_sample(n, dim, norm_of(kind), spec.separation, rng)
                    built = memorising_network(data.x, data.y, spec.delta, spec.separation, kind)
                    row: Row = {"run": seed, "D": dim, "n": n, "kind": kind, "levels": built.local.levels}
                    row |= {"parameters": built.graph.parameters, "slack": float(built.certificate().min())}
                    row |= {"formula": memorising_parameters(n, dim, built.local.levels, kind), "lower_order": math.sqrt(n * dim)}
                    rows.append(row)
    folder.add("memorise", rows)
    return {
        "cases": len(rows),
        "least_slack": min(row["slack"] for row in rows),
        "formula_mismatches": sum(row["parameters"] != row["formula"] for row in rows),
        "parameters": {f"{r['kind']} D={r['D']} N={r['n']}": r["parameters"] for r in rows if r["run"] == spec.seeds[0]},
    }


class BuiltFstar(Spec):
    """f* and its grid network for small d."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {"seeds": [0], "pairs": 500, "points": 50},
        "paper": {"dimensions": [2, 3, 4, 5]},
    }

    dimensions: tuple[int, ...] = Field(default=(2, 3, 4), description="d")
    levels: int = Field(default=3, ge=2)
    delta_share: float = Field(default=0.4, gt=0, lt=1)
    pairs: int = Field(default=5000, ge=1, description="pairs of points for the Lipschitz check")
    points: int = Field(default=200, ge=1, description="points for the error of the network")


def _lipschitz(spec: BuiltFstar, a: Tensor, b: Tensor, rng: torch.Generator) -> tuple[float, float]:
    """The largest measured slope over near and far pairs, and the largest local bound 2/(d_A + d_B), in ℓ∞."""
    x = torch.rand(spec.pairs, a.shape[1], generator=rng, dtype=torch.float64)
    halfway = a[torch.randint(len(a), (spec.pairs,), generator=rng)] + b[torch.randint(len(b), (spec.pairs,), generator=rng)]
    x[: spec.pairs // 2] = 0.5 * halfway[: spec.pairs // 2]
    size = 10 ** (-4 * torch.rand(spec.pairs, 1, generator=rng, dtype=torch.float64))
    step = size * (2 * torch.rand(x.shape, generator=rng, dtype=torch.float64) - 1)
    rise = (f_star(x + step, a, b, "Linf") - f_star(x, a, b, "Linf")).abs()
    return float((rise / step.abs().amax(-1)).max()), float(slope_bound(x, a, b, "Linf").max())


def run_fstar(spec: BuiltFstar, folder: Folder) -> Json:
    """f* exactly, its slope, and the network with its count and certificate."""
    rows: list[Row] = []
    for seed in spec.seeds:
        for dim in spec.dimensions:
            law = PackingLaw(D=dim, levels=spec.levels, delta_share=spec.delta_share, label_seed=seed)
            data = law.support()
            a, b = data.x[data.y > 0], data.x[data.y < 0]
            if len(a) == 0 or len(b) == 0:
                continue
            eps = opposite_distance(data.x, data.y, "Linf") / 2
            cells = cells_needed(eps, law.radius)
            values = f_star(nodes(cells, dim).double() / cells, a, b, "Linf")
            graph = grid_network(values, cells, dim)
            rng = stream(seed, "points", dim)
            x = torch.rand(spec.points, dim, generator=rng, dtype=torch.float64)
            error = float((graph(x)[:, 0] - f_star(x, a, b, "Linf")).abs().max())
            slope, local = _lipschitz(spec, a, b, rng)
            sure = min(cell_certificate(values, cells, c, law.radius, s) for c, s in zip(data.x, data.y.tolist(), strict=True))
            worst = _worst_on_balls(law.radius, data.x, data.y, a, b, rng)
            row: Row = {"run": seed, "d": dim, "cells": cells, "hats": (cells + 1) ** dim, "parameters": graph.parameters}
            row |= {"formula": grid_parameters(cells, dim), "zeros": int((values == 0).sum()), "eps": eps, "delta": law.radius}
            row |= {"slope": slope, "local_slope": local, "slope_bound": 1 / eps, "error": error, "error_bound": 1 / (eps * cells)}
            rows.append(row | {"slack": sure, "f_star_on_balls": worst, "f_star_bound": 1 - law.radius / eps})
    folder.add("fstar", rows)
    first = [row for row in rows if row["run"] == spec.seeds[0]]
    return {
        "parameters": {str(row["d"]): row["parameters"] for row in first},
        "least_slack": min(row["slack"] for row in rows),
        "largest_slope_share": max(row["slope"] / row["slope_bound"] for row in rows),
        "largest_error_share": max(row["error"] / row["error_bound"] for row in rows),
        "f_star_on_balls": min(row["f_star_on_balls"] for row in rows),
    }


def _worst_on_balls(delta: float, x: Tensor, y: Tensor, a: Tensor, b: Tensor, rng: torch.Generator) -> float:
    """The least y·f* found on the δ-balls: towards the nearest point of the other class, and at random corners."""
    other = [
        a[torch.cdist(p[None], a, p=math.inf).argmin()] if s < 0 else b[torch.cdist(p[None], b, p=math.inf).argmin()]
        for p, s in zip(x, y, strict=True)
    ]
    towards = (torch.stack(other) - x).clamp(-delta, delta)
    corners = delta * (2.0 * torch.randint(0, 2, x.shape, generator=rng) - 1)
    found = [float((y * f_star(x + step, a, b, "Linf")).min()) for step in (towards, corners)]
    return min(found)


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
    Experiment(
        name="built-memorise",
        paper="ep",
        shows="EP: a network of order N·d parameters with certified zero robust training error on any separated set",
        spec=BuiltMemorise,
        run=run_memorise,
        takes={"quick": "2 s", "cpu": "10 s", "paper": "10 s"},
    ),
    Experiment(
        name="built-fstar",
        paper="ep",
        shows="EP: the robust classifier f*, its Lipschitz constant, and its grid network whose size grows exponentially with d",
        spec=BuiltFstar,
        run=run_fstar,
        takes={"quick": "2 s", "cpu": "10 s", "paper": "2 min"},
    ),
)
