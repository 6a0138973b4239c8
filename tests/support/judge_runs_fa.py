"""Made-up runs of FA's synthetic experiments. What a judge must not read is spoiled in them, so that the
wrong network, sweep or row shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from judging import made
from scipy.stats import t as student

from featscope.core.conditions import Condition
from featscope.core.store import CONDITIONS
from featscope.core.stored import labelled
from featscope.experiments.run import Run

NAN = float("nan")
#: a setting that does not meet an assumption, and how that is told
UNMET = (Condition("A4.3.d", "d ≥ k^10", 300.0, 1e10, False),)
UNMET_TOLD = ["d ≥ k^10: 300 against 1e+10"]
Row = dict[str, Any]

#: a row at the end of a training in which everything that a lemma asks for is there
GOOD: Row = {
    "time": 1.0,
    "margin_min": 0.97,
    "margin_max": 1.0,
    "slope_ratio": 1.0,
    "own_active": 1.0,
    "lambda_min": 1.0,
    "lambda_max": 1.02,
    "lambda_mean": 1.0,
    "lambda_ratio": 1.02,
    "lambda_other": 0.0,
    "lambda_other_top": 0.0,
    "sigma_min": 0.5,
    "sigma_max": 0.0,
    "sigma_other": 0.0,
    "sigma_other_top": 0.0,
    "deviation": 0.01,
}
#: nothing is there
SPOILED: Row = GOOD | {
    "margin_min": -9.0,
    "slope_ratio": 1e9,
    "own_active": 0.1,
    "lambda_min": -7.0,
    "lambda_max": 1e9,
    "lambda_ratio": 1e9,
    "lambda_other": 99.0,
    "lambda_other_top": 99.0,
    "sigma_min": -99.0,
    "sigma_max": 99.0,
    "sigma_other": 99.0,
    "sigma_other_top": 99.0,
    "deviation": 99.0,
}
NETS = ("binary", "fine")


def conditions(unmet: Sequence[Condition]) -> dict[str, list[Row]]:
    """The part of conditions: one that is met, and those that are not."""
    met = Condition("A3.2", "features are orthogonal: |cosine| ≤ 0", 0.0, 0.0, True)
    return {CONDITIONS: [condition.as_json() for condition in (met, *unmet)]}


def courses(net: str, by_seed: Sequence[Sequence[Row]]) -> dict[str, list[Row]]:
    """Rows along training of one network, seed by seed; the other network is spoiled."""
    other = NETS[1 - NETS.index(net)]
    return {
        net: [
            {"step": i, "seed": seed} | row for seed, rows in enumerate(by_seed) for i, row in enumerate(rows)
        ],
        other: [{"step": i, "seed": seed} | SPOILED for seed in range(len(by_seed)) for i in range(3)],
    }


def ended(*ends: Row) -> list[list[Row]]:
    """Trainings of which only the last row counts: one for each seed, with these changes of a good end."""
    return [[SPOILED, SPOILED, GOOD | end] for end in ends]


def fig2(
    net: str, by_seed: Sequence[Sequence[Row]], tables: Sequence[Row] = (), unmet: Sequence[Condition] = ()
) -> Run:
    """A run at §6.1's values; accuracies that are not named are one half."""
    usual = {"clean_binary": 0.5, "clean_fine": 0.5}
    parts = courses(net, by_seed) | conditions(unmet)
    parts["table"] = [{"seed": seed} | usual | row for seed, row in enumerate(tables)]
    count = max(len(by_seed), len(tables), 1)
    return made("clusters-fig2", parts, seeds=list(range(count)), test_points=100)


def assumption(
    net: str,
    flows: Sequence[Sequence[Row]],
    starts: Sequence[Sequence[Row]] = (),
    unmet: Sequence[Condition] = (),
    by_seed: Sequence[Row] = (),
    **proof: float,
) -> Run:
    """A run at Assumption 4.3, by default with a window for T that is open for this network only."""
    parts = courses(net, flows) | conditions(unmet)
    first = [(net, starts[seed] if starts else [GOOD] * 3) for seed in range(len(flows))]
    spoiled = [(NETS[1 - NETS.index(net)], [SPOILED] * 3)] * len(flows)
    parts["start"] = [
        {"step": i, "seed": seed, "net": name} | row
        for pairs in (first, spoiled)
        for seed, (name, rows) in enumerate(pairs)
        for i, row in enumerate(rows)
    ]
    parts["by_seed"] = [{"seed": seed} | row for seed, row in enumerate(by_seed)]
    usual = {"k": 3, "n": 100, "d": 1024, "epsilon": 0.01, "learning_rate": 0.5, "most_steps": 4.0}
    usual |= {
        "least_steps": 1.0 if net == "binary" else 9.0,
        "least_steps_fine": 1.0 if net == "fine" else 9.0,
    }
    parts["proof"] = [usual | {"averaging_radius": 90.5, "decoupling_radius": 3.2} | proof]
    count = max(len(flows), len(by_seed), 1)
    return made("clusters-assumption", parts, seeds=list(range(count)), test_points=100)


#: the quantities that are judged along each sweep
SWEEPS: dict[str, tuple[str, ...]] = {
    "d": ("deviation", "exact_over_root_dk", "certified_over_root_d", "bias"),
    "n": ("sphere_bound", "deviation", "fine_deviation", "margin_gap", "ratio_excess", "fine_margin_gap"),
    "k": ("exact_over_root_dk", "certified_over_root_d", "lambda_min"),
    "talk": ("lambda_min", "lambda_ratio", "exact_over_root_dk", "fine_lambda_min", "fine_other_share"),
}
Fit = tuple[float, float, float]
#: an interval of 95 % that straddles every bound
STRADDLES: Fit = (-9.0, 0.0, 9.0)
#: rounding of a fit: what is exactly at a bound is tried this far on either side of it
ULPS = 1e-9


def with_fit(fit: Fit | None) -> list[float]:
    """Values at 10³, 10⁴ and 10⁵ whose fitted exponent has this interval (low, exponent, high); None is a
    value that is not positive.

    On the logarithms u = −s, 0, s the line b·u with the residual c·(1, −2, 1) has slope b and standard error
    c√3/s.
    """
    if fit is None:
        return [1.0, 0.0, 1.0]
    low, slope, high = fit
    if math.isnan(slope):
        return [1.0, NAN, 1.0]
    assert math.isclose(high - slope, slope - low, abs_tol=1e-12), "an interval of a fit is symmetric"
    step = math.log(10)
    c = (high - slope) * step / (student.ppf(0.975, 1) * math.sqrt(3))
    return [math.exp(slope * u * step + c * r) for u, r in ((-1, 1), (0, -2), (1, 1))]


def scaling(
    fits: Mapping[tuple[str, str], Fit | None],
    rows: Mapping[str, Sequence[Row]] | None = None,
    **settings: int,
) -> Run:
    """Sweeps with the given fits by sweep and quantity, and with the given rows; all other quantities
    straddle every bound."""
    found: list[Row] = []
    for sweep, keys in SWEEPS.items():
        values = {key: with_fit(fits.get((sweep, key), STRADDLES)) for key in keys}
        given = (rows or {}).get(sweep, [{}, {}, {}])
        for i, row in enumerate(given):
            usual: Row = {
                "n": 77,
                "lambda_other_top": 99.0,
                "own_active": 1.0,
                "clean_binary": 0.5,
                "clean_fine": 0.5,
            }
            usual |= {"lambda_min": -9.0, "fine_lambda_min": 1.0, "fine_lambda_other": 0.1}
            fitted = {
                key: column[i] for key, column in values.items() if (sweep, key) in fits or key not in usual
            }
            found.append({"sweep": sweep, "at": 10.0 ** (3 + i), "seed": 0} | usual | fitted | row)
    return made("clusters-scaling", {"setting": found}, **settings)


def line_proof(part: str, delta: float = -2.0, **labels: int | str) -> dict[str, torch.Tensor]:
    """Tensors of the network f(x) = x on the line at x = 2, whose radius is 2, with its certificate."""
    tensors = {
        "w": [[1.0], [-1.0]],
        "b": [0.0, 0.0],
        "a": [1.0, -1.0],
        "x": [[2.0]],
        "y": [1.0],
        "delta": [[delta]],
        "certificate": [[[1.0], [1.0]]],
    }
    return {
        f"{labelled(part, labels)}/{name}": torch.tensor(value, dtype=torch.float64)
        for name, value in tensors.items()
    }
