"""`clusters-plane`: FA's schematic Figures 1 and 4 computed: boundaries in the plane, and Figure 1's law, the
simplex (pairwise cosine −1/(k−1), Σ μ_j = 0), trained in R^d."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows
from featscope.dynamics.cluster_observables import cosines, summarise_cosines
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides
from featscope.laws.clusters import ClusterLaw
from featscope.laws.separated import PackingLaw
from featscope.nets import two_layer
from featscope.nets.built.fstar import f_star
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import TwoLayer, averaging
from featscope.papers.fa.clusters import ClusterSpec, Training, cluster_training_size, train

#: Figure 1: five clusters, of which the first three are positive
CORNERS, POSITIVE = 5, 3
#: points along an axis of the pictures
RESOLUTION = 161
#: half the side of Figure 1's picture, in lengths of a feature
REACH = 1.6


class PlaneSpec(ClusterSpec):
    """The law of the trained part: §6.1's with the corners of a simplex for features."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"seeds": [0], "d": 400, "n": 200, "test_points": 40, "learning_rate": 1e-2}
    }
    seeds: tuple[int, ...] = (0, 1, 2)
    law: ClusterLaw = setting(ClusterLaw(cosine=-1 / 9), "the law of the data")
    training: Training = setting(Training(), "points, neurons and gradient descent")
    test_points: int = setting(100, "fresh points on which accuracy is measured", ge=1)
    sites: int = setting(6, "points of Figure 4 along the hyperplane", ge=2)


class PlaneCentre(Columns):
    """One row a centre of Figure 1: its distances from both boundaries, in lengths of a feature."""

    corner = column("number of the centre")
    label = column("its class, ±1")
    x = column("its place in the plane")
    y = column("its place in the plane")
    averaging = column("exact distance from the boundary of f_FA")
    decoupled = column("exact distance from the boundary of f_FD")
    bent = column("largest |f_FA(x) − ⟨3μ₊, x⟩| over the picture: 0 where f_FA is linear")


class PlaneSite(Columns):
    """One row a point of Figure 4: how far the hyperplane and the robust classifier let it move."""

    seed = column("seed of the labels")
    site = column("number of the point")
    label = column("its class, ±1")
    x = column("its place along the hyperplane")
    y = column("its place across")
    linear = column("distance from the hyperplane")
    robust = column("distance to the nearest point of the other class ÷ 2")


class TrainedSimplex(Columns):
    """One row a seed: both networks trained on the simplex law."""

    seed = column("the seed")
    clean_binary = column("test accuracy of the 2-class network")
    clean_fine = column("test accuracy of the k-class network's read-out")
    same_min = column("least cosine of a weight with a feature of its class")
    other_max = column("largest cosine of a weight with a feature of the other class, with its sign")
    fine_own = column("least cosine of a k-class weight with its own feature")
    fine_other = column("largest cosine of a k-class weight with another feature, with its sign")
    exact_over_root_d = column("median exact radius of the 2-class network ÷ √d")
    averaging_over_root_d = column("the same of f_FA, built")


def corners() -> tuple[Tensor, Tensor]:
    """The five unit vectors of Figure 1, Σ μ_j = 0, and their labels; positive ones stand together."""
    angle = 2 * math.pi * (torch.arange(CORNERS, dtype=torch.float64) - 1) / CORNERS + math.pi / 2
    signs = torch.where(torch.arange(CORNERS) < POSITIVE, 1.0, -1.0).double()
    return torch.stack([angle.cos(), angle.sin()], -1), signs


def decoupling(mu: Tensor, signs: Tensor) -> TwoLayer:
    """f_FD: one neuron a cluster, half its length as threshold."""
    return TwoLayer(mu, torch.full((len(mu),), -0.5, dtype=mu.dtype), signs)


def picture_grid(reach: float = REACH) -> Tensor:
    """(RESOLUTION², 2) points of the picture, row by row."""
    line = torch.linspace(-reach, reach, RESOLUTION, dtype=torch.float64)
    y, x = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], -1)


def figure_1() -> tuple[Rows, dict[str, Tensor]]:
    """Both classifiers in the plane."""
    mu, signs = corners()
    nets = {"averaging": averaging(mu, signs), "decoupled": decoupling(mu, signs)}
    grid = picture_grid()
    values = {name: two_layer.forward(net, grid) for name, net in nets.items()}
    straight = grid @ mu[signs > 0].sum(0)
    radii = {name: exact_radii(net, mu, signs).upper for name, net in nets.items()}
    c = PlaneCentre
    rows: Rows = [
        {
            c.corner: j,
            c.label: float(signs[j]),
            c.x: float(mu[j, 0]),
            c.y: float(mu[j, 1]),
            c.averaging: float(radii["averaging"][j]),
            c.decoupled: float(radii["decoupled"][j]),
            c.bent: float((values["averaging"] - straight).abs().max()),
        }
        for j in range(CORNERS)
    ]
    shape = (RESOLUTION, RESOLUTION)
    return rows, {name: value.reshape(shape) for name, value in values.items()}


def figure_4(sites: int, seed: int) -> tuple[Rows, dict[str, Tensor]]:
    """Points just above and below a hyperplane, and the classifier f* that tells their balls apart."""
    law = PackingLaw(D=2, levels=sites, label_seed=seed)
    x, y = law.support()
    if bool((y == y[0]).all()):
        y[::2], x[::2, 1] = -y[::2], 1 - x[::2, 1]
    c = PlaneSite
    rows: Rows = []
    for i in range(len(x)):
        other = x[y != y[i]]
        rows.append(
            {
                c.seed: seed,
                c.site: i,
                c.label: float(y[i]),
                c.x: float(x[i, 0]),
                c.y: float(x[i, 1]),
                c.linear: abs(float(x[i, 1]) - 0.5),
                c.robust: float(torch.linalg.vector_norm(other - x[i], dim=-1).min()) / 2,
            }
        )
    line = torch.linspace(0, 1, RESOLUTION, dtype=torch.float64)
    across, along = torch.meshgrid(line, line, indexing="ij")
    grid = torch.stack([along.flatten(), across.flatten()], -1)
    value = f_star(grid, x[y > 0], x[y < 0], "L2")
    return rows, {"robust": value.reshape(RESOLUTION, RESOLUTION)}


def _simplex(spec: PlaneSpec, seed: int) -> tuple[Rows, dict[str, Tensor]]:
    """Train on the simplex law and read off what Figure 1 shows."""
    law, training = spec.law, spec.training
    done = train(spec, law, training, seed, None, training.steps)
    batch, c = done.test(spec.test_points), TrainedSimplex
    clean = done.clean(batch)
    table = cosines(done.drawn.features, done.binary.w)
    same = (law.signs(done.binary.a.dtype)[:, None] * done.binary.a[None, :]) > 0
    fine = cosines(done.drawn.features, MultiClass(done.fine.w, training.h).equivalent())
    mine = torch.eye(law.k, dtype=torch.bool)
    built = averaging(done.drawn.features, law.signs(done.drawn.features.dtype))
    root = math.sqrt(law.d)
    return [
        {
            c.clean_binary: clean[0],
            c.clean_fine: clean[1],
            c.same_min: summarise_cosines(table, same)["min"],
            c.other_max: float(table[~same].max()),
            c.fine_own: float(fine[mine].min()),
            c.fine_other: float(fine[~mine].max()),
            c.exact_over_root_d: float(exact_radii(done.binary, batch.x, batch.y).upper.median()) / root,
            c.averaging_over_root_d: float(exact_radii(built, batch.x, batch.y).upper.median()) / root,
        }
    ], {"binary": table, "fine": fine}


def run_plane(spec: PlaneSpec, folder: Folder) -> Json:
    """Both schematic figures, and the simplex trained."""
    folder.conditions(spec.law.check(spec.training.hyper))
    folder.add("centres", *figure_1())
    folder.add("sites", *figure_4(spec.sites, spec.seeds[0]))
    rows: Rows = []
    for seed in spec.seeds:
        rows += folder.once("simplex", partial(_simplex, spec, seed), seed=seed).rows
    return {
        key: sum(row[key] for row in rows) / len(rows)
        for key in (TrainedSimplex.exact_over_root_d, TrainedSimplex.averaging_over_root_d)
    }


def size(spec: PlaneSpec) -> Size:
    """The training of the simplex."""
    return cluster_training_size(spec)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-plane",
        "fa",
        "Figures 1 and 4 computed: boundaries of averaging, decoupling and robust classifiers in the plane; "
        "Figure 1's simplex trained in R^d",
        PlaneSpec,
        run_plane,
        {"quick": "2 s", "cpu": "12 s", "paper": "12 s"},
        highlights=(
            Highlight("exact_over_root_d", "median radius on the simplex law over √d"),
            Highlight("averaging_over_root_d", "… of f_FA"),
        ),
        size=size,
        columns={"centres": PlaneCentre, "sites": PlaneSite, "simplex": TrainedSimplex},
    ),
)
