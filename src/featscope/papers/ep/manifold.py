"""`manifold`: robust networks behind a chart of k dimensions, and the talk's table in numbers."""

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
from featscope.laws.separated import ManifoldLaw
from featscope.nets.built.counting import packing_sites, parameters_needed
from featscope.nets.built.fstar import cell_certificate, cells_needed, f_star, grid_network, grid_parameters, nodes
from featscope.nets.built.graph import Graph, append
from featscope.nets.built.robust import memorising_parameters, opposite_distance

Row = dict[str, Any]


class Manifold(Spec):
    """The grid network behind a linear chart, over k and d, and the talk's table."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {"quick": {"intrinsic": [2, 3], "ambient": [16, 32, 64]}}

    seeds: tuple[int, ...] = (0,)
    intrinsic: tuple[int, ...] = Field(default=(2, 3, 4), description="k")
    ambient: tuple[int, ...] = Field(default=(16, 64, 256), description="d")
    test: int = Field(default=100, ge=1)
    mu: float = Field(default=0.1, ge=0, lt=0.5)
    table_n: int = Field(default=100, ge=1)


def chart_network(law: ManifoldLaw, values: Tensor, cells: int) -> Graph:
    """Read the chart, then interpolate f* on its grid: k(d+1) parameters and the grid's."""
    graph = Graph(law.d)
    rows, shift = law.reader()
    chart = graph.affine((graph.x, rows), bias=shift)
    append(graph, grid_network(values, cells, law.k), chart)
    return graph


def _manifold_row(spec: Manifold, k: int, d: int, seed: int) -> Row:
    law = ManifoldLaw(k=k, d=d, seed=seed)
    chart = law.chart.support()
    a, b = chart.x[chart.y > 0], chart.x[chart.y < 0]
    eps = opposite_distance(chart.x, chart.y, "Linf") / 2
    cells = cells_needed(eps, law.chart.radius)
    values = f_star(nodes(cells, k).double() / cells, a, b, "Linf")
    graph = chart_network(law, values, cells)
    test = law.sample(spec.test, stream(seed, "data", k, d))
    sure = min(cell_certificate(values, cells, c, law.chart.radius, s) for c, s in zip(chart.x, chart.y.tolist(), strict=True))
    module = graph.module()

    def model(x: Tensor) -> Tensor:
        f = module(x)[..., 0]
        return torch.stack([-f, f], -1)

    few = min(spec.test, 20)
    attacks = (PGD(steps=5, restarts=1),)
    found = evaluate(model, test.x[:few], (test.y[:few] > 0).long(), Threat("L2", law.radius, 1), attacks, stream(seed, "attack", k, d))
    inside = bool((test.x >= 0).all() and (test.x <= 1).all())
    row: Row = {"run": seed, "k": k, "d": d, "cells": cells, "parameters": graph.parameters, "chart_parameters": k * (d + 1)}
    row |= {
        "formula": k * (d + 1) + grid_parameters(cells, k),
        "slack": sure,
        "clean_test": float((test.y * graph(test.x)[:, 0] > 0).double().mean()),
    }
    row |= {"attacked": found.accuracy, "radius": law.radius, "inside_cube": inside}
    return row | {"needed": float(parameters_needed(law.chart.sites, spec.mu)), "sites": law.chart.sites}


def table(spec: Manifold) -> list[Row]:
    """The talk's Table 1 with our counts: N = table_n, ℓ∞, ε = .2, δ = .08, μ = `mu`."""
    rows: list[Row] = []
    eps, delta = 0.2, 0.08
    cells = cells_needed(eps, delta)
    for dim in (4, 16, 64):
        sites = packing_sites(dim, delta)
        rows.append(
            {
                "dimension": dim,
                "train_upper": float(memorising_parameters(spec.table_n, dim, 0, "Linf")),
                "train_lower": math.sqrt(spec.table_n * dim),
                "general_upper_log10": math.log10(grid_parameters(cells, dim)),
                "general_lower": float(parameters_needed(sites, spec.mu)),
                "linear_lower": float(parameters_needed(sites, spec.mu)),
                "standard_linear": dim + 1,
            }
        )
    return rows


def run_manifold(spec: Manifold, folder: Folder) -> Json:
    """Build behind charts, certify, attack, and fill the table."""
    rows = [_manifold_row(spec, k, d, seed) for seed in spec.seeds for k in spec.intrinsic for d in spec.ambient]
    cells = table(spec)
    folder.add("manifold", rows)
    folder.add("table", cells)
    return {
        "parameters": {f"k={row['k']} d={row['d']}": row["parameters"] for row in rows},
        "least_slack": min(row["slack"] for row in rows),
        "clean_test": min(row["clean_test"] for row in rows),
        "attacked": min(row["attacked"] for row in rows),
        "table": cells,
    }


EXPERIMENTS = (
    Experiment(
        name="manifold",
        paper="ep",
        shows="EP: on a k-dimensional manifold the robust network grows with exp(k), not exp(d); the talk's table in numbers",
        spec=Manifold,
        run=run_manifold,
        takes={"quick": "3 s", "cpu": "15 s", "paper": "15 s"},
    ),
)
