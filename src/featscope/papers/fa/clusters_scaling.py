"""How the quantities of FA's theorems scale with d (to 10⁹), n and k, on compact copies; and the talk's own setting along d."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from featscope.attacks.minimal import MinimalPGD, readout_objective
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.errors import FeatscopeError
from featscope.core.stats import exponent
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.clusters import ClusterLaw
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import span
from featscope.papers.fa.clusters import Training, train
from featscope.papers.fa.sphere_gap import sphere_gap

#: §6.1's values, from which the sweeps scale.
BASE_D, BASE_ETA, BASE_INIT = 3072, 1e-3, 1e-5


class ScalingSpec(Spec):
    """The values of each sweep. Along d and n: η d and σ_w d stay as in §6.1; along k also η d/(m k), the rate at which λ grows."""

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
    dimensions: tuple[int, ...] = (3072, 30_720, 307_200, 10**7, 10**9)
    points: tuple[int, ...] = (125, 250, 500, 1000, 2000)
    clusters: tuple[int, ...] = (4, 6, 8, 10, 12)
    talk_dimensions: tuple[int, ...] = (3072, 30_720, 307_200, 10**7, 10**9)
    talk_steps: int = Field(default=200, ge=1)
    base_points: int = Field(default=1000, ge=4)
    sweep_dimension: int = Field(default=10**6, ge=100)
    test_points: int = Field(default=100, ge=1)


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


def settings(spec: ScalingSpec) -> dict[str, list[tuple[int, ClusterLaw, Training]]]:
    """Sweep → (value, law, training)."""
    n, wide = spec.base_points, spec.sweep_dimension

    def near(d: int, n: int, m: int = 5, boost: float = 1.0) -> Training:
        factor = BASE_D / d
        init = BASE_INIT * factor
        return Training(n=n, m=m, learning_rate=BASE_ETA * factor * boost, init_weight=init, init_bias=init, compact=True)

    def talk(d: int) -> Training:
        return Training(n=n, learning_rate=d**-0.5, init_weight=d**-0.5, init_bias=1 / d, steps=spec.talk_steps, compact=True)

    def wide_k(k: int) -> Training:
        return near(wide, max(n // 10, 12) * k, k // 2, (k // 2) * k / 50)

    return {
        "d": [(d, ClusterLaw(d=d), near(d, n)) for d in spec.dimensions],
        "n": [(size, ClusterLaw(d=wide), near(wide, size)) for size in spec.points],
        "k": [(k, ClusterLaw(k=k, d=wide), wide_k(k)) for k in spec.clusters],
        "talk": [(d, ClusterLaw(d=d), talk(d)) for d in spec.talk_dimensions],
    }


def measure(spec: ScalingSpec, law: ClusterLaw, training: Training, seed: int) -> Json:
    """Train both networks once and read off what the theorems speak of."""
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
    cap = 4 * math.sqrt(law.d)
    gaps = {"margin_gap": row["margin_max"] - row["margin_min"], "fine_margin_gap": row["fine_margin_max"] - row["fine_margin_min"]}
    ratios = {"ratio_excess": row["lambda_ratio"] - 1, "fine_ratio_excess": row["fine_lambda_ratio"] - 1}
    # −1 marks a share that does not exist because some own coefficient is 0.
    share = row["fine_lambda_other"] / row["fine_lambda_min"] if row["fine_lambda_min"] > 0 else -1.0
    above, found = sphere_gap(done.binary, law, row["lambda_mean"], done.drawn.features, stream(seed, "sphere"))
    row |= {"sphere_bound": above, "sphere_found": found}
    row |= gaps | ratios | {"fine_other_share": share}
    return row | {
        "n": training.n,
        "k": law.k,
        "d": law.d,
        "clean_binary": clean[0],
        "clean_fine": clean[1],
        "exact": min(float(exact.upper.median()), cap),
        "exact_over_root_dk": min(float(exact.upper.median()), cap) / math.sqrt(law.d / law.k),
        "exact_max_over_root_dk": min(float(exact.upper.max()), cap) / math.sqrt(law.d / law.k),
        "readout_over_root_d": min(float(attacked.median()), cap) / math.sqrt(law.d),
        "certified_over_root_d": float(lower.median()) / math.sqrt(law.d),
        "certified_min_over_root_d": float(lower.min()) / math.sqrt(law.d),
    }


#: sweep → quantities whose exponent is fitted.
FITTED = {
    "d": ("deviation", "lambda_ratio", "exact_over_root_dk", "readout_over_root_d", "certified_over_root_d", "fine_deviation"),
    "n": (
        "sphere_found",
        "sphere_bound",
        "deviation",
        "fine_deviation",
        "margin_gap",
        "fine_margin_gap",
        "ratio_excess",
        "fine_ratio_excess",
        "exact_over_root_dk",
        "readout_over_root_d",
    ),
    "k": ("exact_over_root_dk", "readout_over_root_d", "certified_over_root_d", "deviation"),
    "talk": ("lambda_min", "lambda_ratio", "exact_over_root_dk", "fine_lambda_min", "fine_other_share"),
}


def fits(rows: Sequence[Json], sweep: str) -> Json:
    """The fitted exponents with their intervals; a quantity that is not positive everywhere has none."""
    found: Json = {}
    for key in FITTED[sweep]:
        try:
            value, low, high = exponent([row["value"] for row in rows], [row[key] for row in rows])
        except FeatscopeError:
            continue
        found[key] = {"exponent": value, "low": low, "high": high}
    return found


def run_scaling(spec: ScalingSpec, folder: Folder) -> Json:
    """All sweeps; one row for each value and seed."""
    summary: Json = {}
    for sweep, points in settings(spec).items():
        rows = []
        for value, law, training in points:
            for seed in spec.seeds:
                part = folder.part(f"{sweep}-{value}-{seed}")
                saved = part.load()
                row = (
                    saved.rows[0] if saved else {"sweep": sweep, "value": float(value), "seed": seed, **measure(spec, law, training, seed)}
                )
                if saved is None:
                    part.save(0, True, [row], {})
                rows.append(row)
        summary[sweep] = {"exponents": fits(rows, sweep), "rows": [_mean(rows, float(value)) for value, _, _ in points]}
    return summary


def _mean(rows: Sequence[Json], value: float) -> Json:
    mine = [row for row in rows if row["value"] == value]
    return {key: sum(row[key] for row in mine) / len(mine) for key in mine[0] if key not in ("sweep", "seed")}


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-scaling",
        "fa",
        "distance to the averaging solution, coefficient ratios and robust radii as functions of d (to 10⁹), n and k; the talk's setting",
        ScalingSpec,
        run_scaling,
        {"quick": "6 s", "cpu": "60 s", "paper": "5 min"},
    ),
)
