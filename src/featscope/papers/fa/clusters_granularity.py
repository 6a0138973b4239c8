"""`clusters-granularity`: labels between FA's two classes and its k clusters.

Labels in G groups, 2 ≤ G ≤ k, are read out as two classes. Averaging inside groups predicts the radius
√(d/(s_own + s_rival)), which is √(dG/(2k)) for groups of one size and joins Theorem 4.5 to Theorem 4.7. The
labels are the groups themselves, groups with some labels wrong, or what k-means finds inside each class.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.readout_nearest import nearest_flip
from featscope.core.columns import Columns, column
from featscope.core.settings import Shares, Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import fine_step, start_fine
from featscope.dynamics.cluster_observables import cosines
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.cluster_groups import (
    ClusterGroups,
    composition,
    flip_labels,
    kmeans_labels,
    parse_groups,
    predicted_radii,
)
from featscope.laws.clusters import ClusterBatch, ClusterLaw, ClusterSetting
from featscope.nets import multiclass
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import span
from featscope.papers.fa.clusters import right

Labels = Literal["groups", "noisy", "k-means"]
#: k = 12 in G = 2, 3, 4, 6 and 12 groups of one size
EQUAL = ("6 v 6", "4 v 4+4", "3+3 v 3+3", "2+2+2 v 2+2+2", "1+1+1+1+1+1 v 1+1+1+1+1+1")
#: ten clusters in groups of different sizes
UNEQUAL = ("2+2+1 v 2+2+1", "4 v 6")


class GranularitySpec(Spec):
    """Groupings by their sizes, the dimensions, and how labels are spoilt.

    η d and σ_w d are the same at every d, as in `clusters-scaling`; η d T is four times that of §6.1, because
    the prediction is for margins well above ln G, where the largest output decides the read-out.
    """

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {
            "seeds": [0, 1],
            "n": 120,
            "fewer": 120,
            "wrong": [0.1],
            "test_points": 8,
            "bins": 100,
        },
        "paper": {"n": 4800, "fewer": 2400, "test_points": 100, "steps": 400, "eta_d": 3.0, "bins": 900},
    }
    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), "seeds of data and initial weights")
    equal: tuple[str, ...] = setting(EQUAL, "groupings in groups of one size, at every dimension")
    unequal: tuple[str, ...] = setting(UNEQUAL, "groupings in groups of several sizes")
    spoilt: tuple[str, ...] = setting((EQUAL[2], EQUAL[4]), "groupings whose labels are spoilt or guessed")
    wrong: Shares = setting((0.1, 0.3), "shares of wrong labels")
    dimensions: Sizes = setting(
        (10_000, 10**9), "dimensions; the first is that of the other arms", letter="d"
    )
    n: int = setting(1600, "training points with true labels", letter="n", ge=12)
    fewer: int = setting(600, "training points with wrong or guessed labels", ge=12)
    eta_d: float = setting(12.0, "learning rate times d", letter="ηd", gt=0)
    init_d: float = setting(0.03, "standard deviation of the first weights times d", letter="σ_w d", gt=0)
    steps: int = setting(100, "steps of gradient descent", letter="T", ge=1)
    test_points: int = setting(40, "fresh points whose radii are measured", ge=1)
    bins: int = setting(450, "parts of the squared budget in the certificate", ge=10)

    def model_post_init(self, context: object) -> None:
        """Refuse texts that name no groups."""
        for text in (*self.equal, *self.unequal, *self.spoilt):
            parse_groups(text)


class GroupedNet(Columns):
    """One row for each grouping, dimension, kind of labels and seed: the trained network's radii.

    Ratios are to the prediction √(d/(s_own + s_rival)), point by point.
    """

    groups = column("sizes of the groups of each class")
    d = column("dimension")
    labels = column("groups, noisy or k-means")
    wrong = column("share of training labels that were replaced")
    seed = column("the seed")
    count = column("G, number of groups")
    k = column("clusters")
    n = column("training points")
    agreement = column("share of points with their cluster's most frequent label, least over clusters")
    largest = column("clusters in the largest group, by the most frequent label of each")
    clean = column("test accuracy of the read-out")
    predicted = column("median prediction ÷ √d")
    found = column("median radius found ÷ √d")
    certified = column("median certified radius ÷ √d")
    found_ratio = column("median of radius found ÷ prediction")
    certified_ratio = column("median of certified radius ÷ prediction")
    weights_ratio = column("median of min_j (z_own − z_j)/‖w_own − w_j‖ over rivals j ÷ prediction")
    widest = column("largest radius found ÷ certified radius, −1 where none is certified")
    own_min = column("least cosine of a weight with a feature of its group")
    other_max = column("largest cosine of a weight with a feature of another group")


class GroupedPoint(Columns):
    """One row a test point of a grouping in groups of several sizes."""

    groups = column("sizes of the groups of each class")
    d = column("dimension")
    labels = column("groups, noisy or k-means")
    wrong = column("share of training labels that were replaced")
    seed = column("the seed")
    point = column("index of the test point")
    own = column("clusters in the point's group")
    rival = column("clusters in the largest group of the other class")
    predicted = column("√(d/(own + rival))")
    found = column("radius found")
    certified = column("certified radius")


class Arm(NamedTuple):
    """One setting: a grouping at a dimension, and what the labels are."""

    groups: ClusterGroups
    d: int
    labels: Labels
    wrong: float
    points: int

    @property
    def law(self) -> ClusterLaw:
        """The law of the data."""
        return self.groups.law(self.d)

    @property
    def place(self) -> dict[str, str | int | float]:
        """The labels of its parts."""
        return {"groups": self.groups.name, "d": self.d, "labels": self.labels, "wrong": self.wrong}


def arms(spec: GranularitySpec) -> list[Arm]:
    """All settings."""
    first, n, fewer = spec.dimensions[0], spec.n, spec.fewer
    found = [Arm(parse_groups(text), d, "groups", 0.0, n) for d in spec.dimensions for text in spec.equal]
    found += [Arm(parse_groups(text), first, "groups", 0.0, n) for text in spec.unequal]
    for text in spec.spoilt:
        found += [Arm(parse_groups(text), first, "noisy", share, fewer) for share in spec.wrong]
        found.append(Arm(parse_groups(text), first, "k-means", 0.0, fewer))
    return found


def run_granularity(spec: GranularitySpec, folder: Folder) -> Json:
    """Every setting with every seed."""
    summary: Json = {}
    for arm in arms(spec):
        training = ClusterSetting(arm.points, 1, spec.eta_d / arm.d, spec.init_d / arm.d, 0.0)
        folder.conditions(arm.law.check(training), **arm.place)
        rows: Rows = []
        for seed in spec.seeds:
            rows += folder.once("net", partial(_net, spec, arm, seed, folder), **arm.place, seed=seed).rows
        key = f"{arm.groups.name}, d = {arm.d:.0e}, {arm.labels} {arm.wrong:g}"
        summary[key] = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    return summary


def _labels(arm: Arm, x: Tensor, y: Tensor, cluster: Tensor, seed: int) -> Tensor:
    group, rng = arm.groups.of_cluster()[cluster], stream(seed, "labels")
    if arm.labels == "k-means":
        return kmeans_labels(x, y, arm.groups, rng)
    return flip_labels(group, arm.groups.count, arm.wrong, rng) if arm.labels == "noisy" else group


class Trained(NamedTuple):
    """A network in the span of its weights, fresh points there, and what its labels came to mean."""

    net: MultiClass
    batch: ClusterBatch  # x in the span
    own: Tensor  # the group of each point, by the most frequent label of its cluster
    sizes: Tensor  # clusters of each group
    share: Tensor  # of each cluster's points that carry its most frequent label
    cosines: tuple[float, float]  # least with a feature of the own group, largest with another


def _train(spec: GranularitySpec, arm: Arm, seed: int) -> Trained:
    law, groups = arm.law, arm.groups
    drawn = law.draw(arm.points, groups.count, seed, compact=True, dtype=spec.torch_dtype)
    label = _labels(arm, drawn.train.x, drawn.train.y, drawn.train.cluster, seed)
    state = start_fine(drawn.directions, arm.points, spec.init_d / arm.d)
    step = fine_step(drawn.train._replace(cluster=label), 1, spec.eta_d / arm.d)
    for t in range(spec.steps):
        state = step(state, t)
    of_cluster, share = composition(label, drawn.train.cluster, groups.count, law.k)
    width, test = drawn.features.shape[1], stream(seed, "data", "test")
    batch, basis = law.sample(spec.test_points, test, width, spec.torch_dtype), span(state.w)
    table = cosines(drawn.features, state.w)
    mine = of_cluster[:, None] == torch.arange(groups.count)[None, :]
    return Trained(
        MultiClass(state.w @ basis.mT),
        batch._replace(x=batch.x @ basis.mT),
        of_cluster[batch.cluster],
        torch.bincount(of_cluster, minlength=groups.count),
        share,
        (float(table[mine].min()), float(table[~mine].max())),
    )


def _net(spec: GranularitySpec, arm: Arm, seed: int, folder: Folder) -> tuple[Rows, dict[str, Tensor]]:
    """Train once and measure; a grouping of several sizes also keeps its points."""
    net, batch, own, sizes, share, cosine = _train(spec, arm, seed)
    x, y, signs, root = batch.x, batch.y, arm.groups.signs(batch.x.dtype), math.sqrt(arm.d)
    found = nearest_flip(net, signs, x, y, own).radius
    certified = certified_radii(net, signs, x, y, own, found, bins=spec.bins)
    predicted = predicted_radii(sizes, signs, own, arm.d).to(found)
    c = GroupedNet
    row: dict[str, float] = {
        c.count: arm.groups.count,
        c.k: arm.law.k,
        c.n: arm.points,
        c.agreement: float(share.min()),
        c.largest: int(sizes.max()),
        c.clean: right(multiclass.readout(multiclass.logits(net, x), signs), y),
        c.predicted: float(predicted.median()) / root,
        c.found: float(found.median()) / root,
        c.certified: float(certified.median()) / root,
        c.found_ratio: float((found / predicted).median()),
        c.certified_ratio: float((certified / predicted).median()),
        c.weights_ratio: float((_by_weights(net, signs, x, y, own) / predicted).median()),
        c.widest: float((found / certified).max()) if bool((certified > 0).all()) else -1.0,
        c.own_min: cosine[0],
        c.other_max: cosine[1],
    }
    if arm.groups.name in spec.unequal:
        columns: dict[str, Tensor] = {
            GroupedPoint.own: sizes[own],
            GroupedPoint.rival: (arm.d / predicted**2).round() - sizes[own],
            GroupedPoint.predicted: predicted,
            GroupedPoint.found: found,
            GroupedPoint.certified: certified,
        }
        folder.part("points", **arm.place, seed=seed).save(0, True, _points(columns), {})
    return [row], {}


def _points(columns: dict[str, Tensor]) -> Rows:
    lists = {name: values.tolist() for name, values in columns.items()}
    return [
        {GroupedPoint.point: i, **{name: values[i] for name, values in lists.items()}}
        for i in range(len(next(iter(lists.values()))))
    ]


def _by_weights(net: MultiClass, signs: Tensor, x: Tensor, y: Tensor, own: Tensor) -> Tensor:
    """The distance to the nearest plane on which a rival's output is the own one's: what the learned weights
    predict where one group at a time counts."""
    z, best = x @ net.w.mT, torch.full_like(y, torch.inf)
    for rival in range(net.k):
        gap = (z.gather(1, own[:, None])[:, 0] - z[:, rival]).clamp(min=0)
        apart = torch.linalg.vector_norm(net.w[own] - net.w[rival], dim=-1)
        best = torch.where(signs[rival] != y, torch.minimum(best, gap / apart), best)
    return best


def size(spec: GranularitySpec) -> Size:
    """A compact copy for each setting and seed, and a knapsack for each group of its network."""
    held, count = spec.n * (spec.n + 40), len(arms(spec)) * len(spec.seeds)
    certified = spec.test_points * spec.bins**2 * 12
    return Size(held, count * (spec.steps * held * 24 + certified))


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-granularity",
        "fa",
        "labels in G groups of clusters, 2 ≤ G ≤ k, read out as two: certified radii against "
        "√(d/(s_own + s_rival)); wrong labels and labels by k-means",
        GranularitySpec,
        run_granularity,
        {"quick": "4 s", "cpu": "60 s", "paper": "20 min"},
        highlights=(
            Highlight("*/found", "median radius found ÷ √d, {}"),
            Highlight("*/predicted", "… predicted, {}"),
        ),
        size=size,
        columns={"net": GroupedNet, "points": GroupedPoint},
    ),
)
