"""`manifold`: robust networks behind a chart of k dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar, Literal

from featscope.attacks.evaluate import evaluate
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.columns import Columns, column
from featscope.core.settings import Sizes, setting
from featscope.core.signs import label_index, share
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.separated import ManifoldLaw
from featscope.nets.built.fstar import GridClassifier, grid_parameters
from featscope.nets.built.graph import Graph, append

Row = dict[str, Any]
#: fresh points that are attacked
ATTACKED_POINTS = 20


class Manifold(Spec):
    """The grid network behind a linear chart, over k and d."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {"quick": {"intrinsic": [2, 3], "ambient": [16, 32, 64]}}

    seeds: tuple[int, ...] = (0,)
    intrinsic: Sizes = setting((2, 3, 4), "dimensions of the manifold that are swept", letter="k")
    ambient: Sizes = setting((16, 64, 256), "dimensions of the space around it that are swept", letter="d")
    test: int = setting(100, "fresh points on which accuracy is measured", ge=1)


class BehindChart(Columns):
    """A robust network on one manifold."""

    seed = column("seed of the labels and of the frame")
    k = column("intrinsic dimension")
    d = column("ambient dimension")
    cells = column("K, cells an axis of the chart's grid")
    parameters = column("stored weights and biases")
    chart_parameters = column("k(d+1), those of the chart")
    formula = column("chart and grid if no value of f* on the grid were 0")
    slack = column("certified margin on the δ-balls of the chart")
    clean_test = column("clean accuracy on fresh points")
    attacked = column("accuracy of fresh points under PGD, ℓ2")
    radius = column("ℓ2 radius δ in R^d")
    inside_cube = column("whether all fresh points lie in [0, 1]^d")


def chart_network(law: ManifoldLaw, grid: GridClassifier) -> Graph:
    """Read the chart, then interpolate f* on its grid: k(d+1) parameters and the grid's."""
    graph = Graph(law.d)
    rows, shift = law.reader()
    chart = graph.affine((graph.x, rows), bias=shift)
    append(graph, grid.network(), chart)
    return graph


def _manifold_row(spec: Manifold, law: ManifoldLaw) -> Row:
    c, k, d, seed = BehindChart, law.k, law.d, law.seed
    support = law.chart.support()
    grid = GridClassifier.of(support.x, support.y, law.chart.radius)
    graph = chart_network(law, grid)
    test = law.sample(spec.test, stream(seed, "data", k, d))
    few, label = test.x[:ATTACKED_POINTS], label_index(test.y[:ATTACKED_POINTS])
    threat, attacks = Threat("L2", law.radius, 1), (PGD(steps=5, restarts=1),)
    found = evaluate(graph.classifier(), few, label, threat, attacks, stream(seed, "attack", k, d))
    return {
        c.seed: seed,
        c.k: k,
        c.d: d,
        c.cells: grid.cells,
        c.parameters: graph.parameters,
        c.chart_parameters: k * (d + 1),
        c.formula: k * (d + 1) + grid_parameters(grid.cells, k),
        c.slack: grid.certificate(),
        c.clean_test: float(share(test.y * graph(test.x)[:, 0] > 0)),
        c.attacked: found.accuracy,
        c.radius: law.radius,
        c.inside_cube: bool((test.x >= 0).all() and (test.x <= 1).all()),
    }


def run_manifold(spec: Manifold, folder: Folder) -> Json:
    """Build behind charts, certify and attack."""
    c = BehindChart
    rows: list[Row] = []
    for seed, k, d in product(spec.seeds, spec.intrinsic, spec.ambient):
        law = ManifoldLaw(k=k, d=d, seed=seed)
        folder.conditions(law.check(law.own_radius), k=k, d=d, seed=seed)
        rows.append(_manifold_row(spec, law))
    folder.add("manifold", rows)
    return {
        "parameters": {f"k={row[c.k]} d={row[c.d]}": row[c.parameters] for row in rows},
        "least_slack": min(row[c.slack] for row in rows),
        "clean_test": min(row[c.clean_test] for row in rows),
        "attacked": min(row[c.attacked] for row in rows),
    }


#: cells of the grid network along an axis, about
CELLS_AN_AXIS = 15


def size(spec: Manifold) -> Size:
    """The grid network of the largest chart, met by every fresh point."""
    cells = [CELLS_AN_AXIS ** min(k, 1000) for k in spec.intrinsic]
    held = (max(cells) + max(spec.ambient) * max(spec.intrinsic)) * spec.test
    return Size(held, len(spec.seeds) * sum(cells) * len(spec.ambient) * spec.test)


EXPERIMENTS = (
    Experiment(
        name="manifold",
        paper="ep",
        shows="EP: on a k-dimensional manifold the robust network grows with exp(k), not exp(d)",
        spec=Manifold,
        run=run_manifold,
        revision=3,
        columns={"manifold": BehindChart},
        takes={"quick": "3 s", "cpu": "15 s", "paper": "15 s"},
        highlights=(
            Highlight("parameters/*", "parameters behind a chart, {}"),
            Highlight("least_slack", "least certified margin on the balls"),
            Highlight("clean_test", "clean accuracy on fresh points", "share"),
        ),
        size=size,
    ),
)
