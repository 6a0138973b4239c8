"""How the quantities of FA's theorems scale with d (to 10⁹), n and k; the talk's setting along d."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from featscope.attacks.minimal import MinimalPGD, readout_objective
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.columns import Columns, column
from featscope.core.settings import Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.clusters import ClusterLaw
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import span
from featscope.papers.fa.clusters import Training, train
from featscope.papers.fa.sphere_gap import sphere_gap

#: §6.1's values, from which the sweeps scale.
BASE_D, BASE_ETA, BASE_INIT = 3072, 1e-3, 1e-5


class ScalingSpec(Spec):
    """The values of each sweep.

    Along d and n: η d and σ_w d stay as in §6.1; along k also η d/(m k), the rate at which λ grows.
    """

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {
            "seeds": [0],
            "dimensions": [1000, 100_000, 10_000_000],
            "points": [60, 120, 240],
            "clusters": [4, 6, 8],
            "talk_dimensions": [1000, 100_000, 10_000_000],
            "base_points": 120,
            "test_points": 40,
        },
        "paper": {"points": [125, 250, 500, 1000, 2000, 4000, 8000]},
    }
    seeds: tuple[int, ...] = (0, 1)
    dimensions: Sizes = setting(
        (3072, 30_720, 307_200, 10**7, 10**9), "dimensions that are swept", letter="d"
    )
    points: Sizes = setting((125, 250, 500, 1000, 2000), "training points that are swept", letter="n")
    clusters: Sizes = setting((4, 6, 8, 10, 12), "numbers of clusters that are swept", letter="k")
    talk_dimensions: Sizes = setting(
        (3072, 30_720, 307_200, 10**7, 10**9), "dimensions of the talk's long training"
    )
    talk_steps: int = setting(200, "steps of the talk's long training", ge=1)
    base_points: int = setting(1000, "training points where they are not swept", ge=4)
    sweep_dimension: int = setting(10**6, "dimension where it is not swept", ge=100)
    test_points: int = setting(100, "fresh points on which accuracy is measured", ge=1)


#: What is kept of the observables at the end of training.
KEPT = (
    "deviation",
    "lambda_ratio",
    "lambda_mean",
    "lambda_min",
    "lambda_other",
    "lambda_other_top",
    "own_active",
    "slope_ratio",
    "margin_min",
    "margin_max",
)


class Swept(Columns):
    """One row for each setting of each sweep and seed: both networks at the end of training.

    Columns `fine_…` are of the k-class one.
    """

    sweep = column("what varies: d, n, k, or d in the talk's own setting")
    at = column("its value")
    seed = column("the seed")
    n = column("training points")
    k = column("clusters")
    d = column("dimension")
    clean_binary = column("test accuracy of the 2-class network")
    clean_fine = column("test accuracy of the k-class network's read-out")
    deviation = column("√d · ‖w − λ Σ μ_j/‖μ_j‖²‖, largest over neurons")
    lambda_ratio = column("largest ÷ least λ of an own feature; −1 where the least is not positive")
    ratio_excess = column("lambda_ratio − 1")
    lambda_mean = column("mean λ of own features")
    lambda_min = column("least λ of an own feature")
    lambda_other = column("largest |λ| of another feature")
    lambda_other_top = column("largest λ of another feature")
    own_active = column("share of (point, own neuron) pairs with a pre-activation ≥ 0")
    slope_ratio = column("largest ÷ least |ℓ'| of training points")
    margin_min = column("least margin of a training point")
    margin_max = column("largest margin of a training point")
    margin_gap = column("margin_max − margin_min")
    bias = column("largest |b_r|")
    cosine_mean = column("mean cosine of a weight with an own feature")
    cosine_other_max = column("largest |cosine| of a weight with another feature")
    sphere_bound = column("proved bound of inf_C sup |C f_FA − f| on the sphere ‖x‖ = √d")
    sphere_found = column("what a search finds of it")
    exact = column("median exact radius of the 2-class network, at most 4√d")
    exact_over_root_dk = column("the same ÷ √(d/k)")
    exact_max_over_root_dk = column("largest exact radius ÷ √(d/k)")
    fine_deviation = column("deviation, k-class")
    fine_lambda_ratio = column("lambda_ratio, k-class")
    fine_ratio_excess = column("ratio_excess, k-class")
    fine_lambda_mean = column("lambda_mean, k-class")
    fine_lambda_min = column("lambda_min, k-class")
    fine_lambda_other = column("lambda_other, k-class")
    fine_lambda_other_top = column("lambda_other_top, k-class")
    fine_other_share = column("fine_lambda_other ÷ fine_lambda_min; −1 where the least is not positive")
    fine_own_active = column("own_active, k-class")
    fine_slope_ratio = column("slope_ratio, k-class")
    fine_margin_min = column("margin_min, k-class")
    fine_margin_max = column("margin_max, k-class")
    fine_margin_gap = column("margin_gap, k-class")
    fine_cosine_mean = column("cosine_mean, k-class")
    fine_cosine_other_max = column("cosine_other_max, k-class")
    readout_over_root_d = column("median attacked radius of the k-class network's read-out ÷ √d, at most 4")
    certified_over_root_d = column("median certified radius of the read-out ÷ √d")
    certified_min_over_root_d = column("least certified radius of the read-out ÷ √d")


def settings(spec: ScalingSpec) -> dict[str, list[tuple[float, ClusterLaw, Training]]]:
    """Sweep → (value, law, training)."""
    n, wide = spec.base_points, spec.sweep_dimension

    def near(d: int, n: int, m: int = 5, boost: float = 1.0) -> Training:
        factor = BASE_D / d
        init = BASE_INIT * factor
        return Training(
            n=n, m=m, learning_rate=BASE_ETA * factor * boost, init_weight=init, init_bias=init, compact=True
        )

    def talk(d: int) -> Training:
        return Training(
            n=n,
            learning_rate=d**-0.5,
            init_weight=d**-0.5,
            init_bias=1 / d,
            steps=spec.talk_steps,
            compact=True,
        )

    def wide_k(k: int) -> Training:
        return near(wide, max(n // 10, 12) * k, k // 2, (k // 2) * k / 50)

    return {
        "d": [(float(d), ClusterLaw(d=d), near(d, n)) for d in spec.dimensions],
        "n": [(float(size), ClusterLaw(d=wide), near(wide, size)) for size in spec.points],
        "k": [(float(k), ClusterLaw(k=k, d=wide), wide_k(k)) for k in spec.clusters],
        "talk": [(float(d), ClusterLaw(d=d), talk(d)) for d in spec.talk_dimensions],
    }


def measure(
    spec: ScalingSpec, law: ClusterLaw, training: Training, seed: int
) -> tuple[Rows, dict[str, Tensor]]:
    """Train both networks once and read off, as one row, what the theorems speak of."""
    done = train(spec, law, training, seed, None, training.steps)
    batch = done.test(spec.test_points)
    binary = done.watch.binary(done.binary_state, done.binary.a)
    fine = done.watch.fine(done.fine_state, training.h)
    exact = exact_radii(done.binary, batch.x, batch.y)
    basis, signs = span(done.fine.w), law.signs(batch.x.dtype)
    net, inner = MultiClass(done.fine.w @ basis.mT, training.h), batch.x @ basis.mT
    pgd = MinimalPGD(steps=40, restarts=2, rounds=8, reach=3 * math.sqrt(law.d))
    attacked = pgd(readout_objective(net, signs, batch.y), inner, stream(seed, "attack")).radius
    lower = certified_radii(net, signs, inner, batch.y, batch.cluster, attacked, bins=300)
    clean = done.clean(batch)
    row = {key: float(binary[key]) for key in (*KEPT, "bias", "cosine_mean", "cosine_other_max")}
    row |= {f"fine_{key}": float(fine[key]) for key in (*KEPT, "cosine_mean", "cosine_other_max")}
    above, found = sphere_gap(
        done.binary, law, row["lambda_mean"], done.drawn.features, stream(seed, "sphere")
    )
    row |= {"sphere_bound": above, "sphere_found": found, "clean_binary": clean[0], "clean_fine": clean[1]}
    radii = _radii(law, exact.upper, attacked, lower)
    return [{"n": training.n, "k": law.k, "d": law.d, **row, **_derived(row), **radii}], {}


def _derived(row: Mapping[str, float]) -> dict[str, float]:
    """Gaps and ratios of what was read off."""
    # −1 marks a share that does not exist because some own coefficient is 0.
    share = row["fine_lambda_other"] / row["fine_lambda_min"] if row["fine_lambda_min"] > 0 else -1.0
    return {
        "margin_gap": row["margin_max"] - row["margin_min"],
        "fine_margin_gap": row["fine_margin_max"] - row["fine_margin_min"],
        "ratio_excess": row["lambda_ratio"] - 1,
        "fine_ratio_excess": row["fine_lambda_ratio"] - 1,
        "fine_other_share": share,
    }


def _radii(law: ClusterLaw, exact: Tensor, attacked: Tensor, certified: Tensor) -> dict[str, float]:
    """Radii of test points in the units of the theorems; a point that nothing fools counts as 4√d away."""
    root_d, root_dk = math.sqrt(law.d), math.sqrt(law.d / law.k)
    cap = 4 * root_d
    return {
        "exact": min(float(exact.median()), cap),
        "exact_over_root_dk": min(float(exact.median()), cap) / root_dk,
        "exact_max_over_root_dk": min(float(exact.max()), cap) / root_dk,
        "readout_over_root_d": min(float(attacked.median()), cap) / root_d,
        "certified_over_root_d": float(certified.median()) / root_d,
        "certified_min_over_root_d": float(certified.min()) / root_d,
    }


def run_scaling(spec: ScalingSpec, folder: Folder) -> Json:
    """All sweeps; one row for each value and seed."""
    return {
        sweep: [_settle(spec, folder, sweep, *setting) for setting in found]
        for sweep, found in settings(spec).items()
    }


def _settle(
    spec: ScalingSpec, folder: Folder, sweep: str, at: float, law: ClusterLaw, training: Training
) -> Json:
    """Measure one setting with every seed; the means over seeds."""
    folder.conditions(law.check(training.hyper), sweep=sweep, at=at)
    rows: Rows = []
    for seed in spec.seeds:
        rows += folder.once(
            "setting", partial(measure, spec, law, training, seed), sweep=sweep, at=at, seed=seed
        ).rows
    return {"value": at} | {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}


def size(spec: ScalingSpec) -> Size:
    """Compact copies: a coordinate for every point and neuron, whatever d is."""
    points = max(*spec.points, spec.base_points)
    coordinates = points + 20 * max(spec.clusters)
    trainings = len(spec.dimensions) + len(spec.points) + len(spec.clusters) + len(spec.talk_dimensions)
    held = (points + spec.test_points) * coordinates
    return Size(held, len(spec.seeds) * trainings * spec.talk_steps * held * max(spec.clusters))


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-scaling",
        "fa",
        "distance to the averaging solution, coefficient ratios and robust radii as functions of d (to 10⁹), "
        "n and k; the talk's setting",
        ScalingSpec,
        run_scaling,
        {"quick": "6 s", "cpu": "60 s", "paper": "5 min"},
        highlights=(
            Highlight("d/*/lambda_ratio", "largest λ over smallest, d = {}"),
            Highlight("d/*/deviation", "√d‖w − λΣμ/‖μ‖²‖, d = {}"),
        ),
        size=size,
        revision=2,
        columns={"setting": Swept},
    ),
)
