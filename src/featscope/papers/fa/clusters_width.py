"""`clusters-width`: how many neurons does a robust network need (Remark A.5, Theorem D.3)?

Remark A.5 asks for m ≥ max(|J₊|, |J₋|) neurons a class, one for each cluster, as Theorem D.3's network has
them. Here networks of every smaller width are built (groups of clusters, one- and two-sided) and searched for
by ascent of the least radius, over the balance of the classes and the cosine of the features. Radii are those
of the cluster centres, exact, in units of √d: the law's own as d → ∞, where noise moves no inner product by a
share of d. No classifier has more than √((1 − cosine)/2) at all centres.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from featscope.attacks.two_layer_radius import LIMIT, exact_radii
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.settings import Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.radius_ascent import Searched, ascend_radii
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec, require_one_seed
from featscope.laws.clusters import ClusterLaw
from featscope.nets.narrow import one_sided, two_sided
from featscope.nets.two_layer import TwoLayer

#: thresholds of built neurons that are tried; 1 − 1/√2 is the best for orthogonal features, two-sided
THRESHOLDS = (0.0, 0.15, 1 - 2**-0.5, 0.5)


class WidthSpec(Spec):
    """Numbers of clusters for which networks are built, and a small one for which they are also searched."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"clusters": [10], "balances": [2], "cosines": [0.0], "starts": 5, "ascent_steps": 40},
        "paper": {"clusters": [6, 8, 10, 12], "searched": [6, 8, 10], "starts": 200, "ascent_steps": 1000},
    }
    seeds: tuple[int, ...] = setting((0,), "seed of the searches' starts")
    clusters: Sizes = setting((6, 10), "numbers of clusters of built networks", letter="k")
    searched: Sizes = setting((6,), "numbers of clusters of searched networks")
    balances: Sizes = setting((2, 3), "|J₊| is k divided by this, rounded")
    cosines: tuple[Annotated[float, Field(gt=-1, lt=1)], ...] = setting(
        (0.0, 0.3), "cosines between features"
    )
    starts: int = setting(30, "random starts at each width, over all splits of the neurons by sign", ge=1)
    ascent_steps: int = setting(250, "steps of a search", ge=1)
    rate: float = setting(0.02, "step size of a search", gt=0)

    def model_post_init(self, context: object) -> None:
        """One seed, and widths that can be measured exactly."""
        require_one_seed(self, "raise starts for more of them")
        most = max(k - max(round(k / b), 1) for k in (*self.clusters, *self.searched) for b in self.balances)
        require(most <= LIMIT, "exact radii need few neurons a class", f"{most} of {LIMIT}", "lower clusters")


class WidthRow(Columns):
    """One row for each law and width; radii are the least over the centres, ÷ √d."""

    k = column("clusters")
    positive = column("|J₊|")
    cosine = column("cosine between features")
    width = column("neurons in all")
    seed = column("the seed of the searches")
    bound = column("√((1 − cosine)/2), which no classifier exceeds")
    largest_class = column("max(|J₊|, |J₋|)")
    built = column("largest radius of a built network of at most this width")
    built_class = column("neurons of its larger class")
    searched = column("largest exact radius that a search found at this width; −1 where none was made")
    searched_class = column("neurons of its larger class; −1 where none was made")
    best = column("the larger of both")
    best_class = column("neurons of its larger class")


class Measured(NamedTuple):
    """The least exact radius of a network over the centres, and its neurons of the larger class."""

    radius: float
    neurons: int


def least_radius(net: TwoLayer, x: Tensor, y: Tensor) -> Measured:
    """What a network does at the centres; a wrong centre has radius 0."""
    plus = int((net.a > 0).sum())
    return Measured(float(exact_radii(net, x, y).upper.min()), max(plus, len(net.a) - plus))


def built(x: Tensor, y: Tensor, width: int) -> Iterator[TwoLayer]:
    """Built networks with this many neurons."""
    plus, minus = int((y > 0).sum()), int((y < 0).sum())
    for first in range(max(1, width - minus), min(plus, width - 1) + 1):
        for threshold in THRESHOLDS:
            yield two_sided(x, y, first, width - first, threshold)
    if width - 1 <= plus:
        yield one_sided(x, y, "plus", width - 1, 0.5)
    if width - 1 <= minus:
        yield one_sided(x, y, "minus", width - 1, 0.5)


def search(spec: WidthSpec, x: Tensor, y: Tensor, width: int) -> Measured:
    """The best of all splits of the neurons between the signs and all starts."""
    rng = stream(spec.seeds[0], "search", str(width))
    splits = [1 + place % (width - 1) for place in range(spec.starts)]
    a = torch.stack([torch.where(torch.arange(width) < plus, 1.0, -1.0) for plus in splits]).to(x)
    w = 0.5 * torch.randn(len(splits), width, x.shape[1], generator=rng, dtype=x.dtype)
    b = 0.1 * torch.randn(len(splits), width, generator=rng, dtype=x.dtype)
    with torch.no_grad():
        found = ascend_radii(Searched(w, b, a), x, y, spec.ascent_steps, spec.rate, rng)
    return max(least_radius(TwoLayer(*net), x, y) for net in zip(*found, strict=True))


def _law_rows(spec: WidthSpec, law: ClusterLaw, searching: bool) -> tuple[Rows, dict[str, Tensor]]:
    """All widths from 2 to k."""
    x, y = law.features() / math.sqrt(law.d), law.signs()
    rows: Rows = []
    best_built = Measured(0.0, 0)
    c = WidthRow
    for width in range(2, law.k + 1):
        # More neurons never do worse.
        best_built = max([best_built, *(least_radius(net, x, y) for net in built(x, y, width))])
        found = search(spec, x, y, width) if searching else Measured(-1.0, -1)
        best = max(best_built, found)
        rows.append(
            {
                c.width: width,
                c.seed: spec.seeds[0],
                c.bound: math.sqrt((1 - law.cosine) / 2),
                c.largest_class: max(law.plus, law.k - law.plus),
                c.built: best_built.radius,
                c.built_class: best_built.neurons,
                c.searched: found.radius,
                c.searched_class: found.neurons,
                c.best: best.radius,
                c.best_class: best.neurons,
            }
        )
    return rows, {}


def laws(spec: WidthSpec) -> list[ClusterLaw]:
    """Every law; d = k, because radii of centres in units of √d do not depend on it."""
    found = [
        ClusterLaw(k=k, d=k, positive=max(round(k / balance), 1), cosine=cosine)
        for k in sorted({*spec.clusters, *spec.searched})
        for balance in spec.balances
        for cosine in spec.cosines
    ]
    return list(dict.fromkeys(found))


def run_width(spec: WidthSpec, folder: Folder) -> Json:
    """Every law at every width."""
    summary: Json = {}
    for law in laws(spec):
        place = {"k": law.k, "positive": law.plus, "cosine": law.cosine}
        folder.conditions(law.check(), **place)
        rows = folder.once("width", partial(_law_rows, spec, law, law.k in spec.searched), **place).rows
        key = f"k = {law.k}, |J₊| = {law.plus}, cosine {law.cosine:g}"
        summary[key] = {str(row[WidthRow.width]): row[WidthRow.best] for row in rows}
    return summary


def size(spec: WidthSpec) -> Size:
    """Quadratic programmes of built networks, and ascents of searched ones."""
    count = len(spec.balances) * len(spec.cosines)
    programmes = sum(k * k * 2.0 ** (k - 1) for k in spec.clusters) * 1e4
    ascents = sum(spec.ascent_steps * spec.starts * float(k) ** 5 for k in spec.searched) * 8
    return Size(max((*spec.clusters, *spec.searched)) ** 4 * spec.starts, count * (programmes + ascents))


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-width",
        "fa",
        "robust networks of every width up to one neuron a cluster, built and searched for, over the balance "
        "of the classes and the cosine of the features: exact radii of the centres",
        WidthSpec,
        run_width,
        {"quick": "3 s", "cpu": "20 s", "paper": "1 h"},
        highlights=(Highlight("*/*", "largest radius ÷ √d found, {}, {} neurons"),),
        size=size,
        columns={"width": WidthRow},
    ),
)
