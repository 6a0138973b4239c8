"""Made-up runs of FA's synthetic experiments. What a judge must not read is spoiled in them, so that the wrong network, sweep or row shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from featscope.core.store import Run
from judging import made

NAN = float("nan")
UNMET = ["d ≥ k^10: 300 against 1e+10"]
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
    "deviation": 99.0,
}
NETS = ("binary", "fine")


def courses(net: str, by_seed: Sequence[Sequence[Row]]) -> dict[str, list[Row]]:
    """Rows along training of one network, seed by seed; the other network is spoiled."""
    other = NETS[1 - NETS.index(net)]
    found: dict[str, list[Row]] = {}
    for seed, rows in enumerate(by_seed):
        found[f"{net}-{seed}"] = [{"step": i, "seed": float(seed)} | row for i, row in enumerate(rows)]
        found[f"{other}-{seed}"] = [{"step": i, "seed": float(seed)} | SPOILED for i in range(3)]
    return found


def ended(*ends: Row) -> list[list[Row]]:
    """Trainings of which only the last row counts: one for each seed, with these changes of a good end."""
    return [[SPOILED, SPOILED, GOOD | end] for end in ends]


def fig2(net: str, by_seed: Sequence[Sequence[Row]], tables: Sequence[Row] = (), unmet: Sequence[str] = (), **summary: Any) -> Run:
    """A run at §6.1's values."""
    parts = courses(net, by_seed) | {f"table-{seed}": [{"seed": float(seed), **row}] for seed, row in enumerate(tables)}
    count = max(len(by_seed), len(tables), 1)
    whole = {"unmet": list(unmet), "binary": {"clean_test": 0.5}, "fine": {"clean_test": 0.5}} | summary
    return made("clusters-fig2", parts, whole, seeds=list(range(count)), test_points=100)


def assumption(
    net: str, flows: Sequence[Sequence[Row]], starts: Sequence[Sequence[Row]] = (), unmet: Sequence[str] = (), **summary: Any
) -> Run:
    """A run at Assumption 4.3, by default with a window for T that is open for this network only."""
    parts = courses(net, flows)
    for seed in range(len(flows)):
        rows = starts[seed] if starts else [GOOD, GOOD, GOOD]
        parts[f"start-{net}-{seed}"] = [{"step": i, "seed": float(seed)} | row for i, row in enumerate(rows)]
        parts[f"start-{NETS[1 - NETS.index(net)]}-{seed}"] = [{"step": i, "seed": float(seed)} | SPOILED for i in range(3)]
    whole: Row = {
        "unmet": list(unmet),
        "k": 3,
        "n": 100,
        "d": 1024,
        "epsilon": 0.01,
        "learning_rate": 0.5,
        "window": {"least": 1.0 if net == "binary" else 9.0, "least_fine": 1.0 if net == "fine" else 9.0, "most": 4.0},
        "radii": {"averaging": 90.5, "decoupling": 3.2},
    } | summary
    return made("clusters-assumption", parts, whole, seeds=list(range(max(len(flows), len(whole.get("by_seed", [])), 1))), test_points=100)


SWEEPS: dict[str, tuple[str, ...]] = {
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
Fit = tuple[float, float, float]


def scaling(fits: Mapping[tuple[str, str], Fit | None], rows: Mapping[str, Sequence[Row]] | None = None) -> Run:
    """Sweeps with the given fits (low, exponent, high) by sweep and quantity; None is a quantity without a fit. All others straddle every bound."""
    summary: Row = {}
    for sweep, keys in SWEEPS.items():
        exponents = {key: {"exponent": 0.0, "low": -9.0, "high": 9.0} for key in keys}
        for (where, key), fit in fits.items():
            if where == sweep and fit is None:
                del exponents[key]
            elif where == sweep and fit is not None:
                exponents[key] = {"low": fit[0], "exponent": fit[1], "high": fit[2]}
        usual = dict.fromkeys(keys, 1.0) | {
            "n": 120.0,
            "lambda_other_top": 99.0,
            "own_active": 1.0,
            "clean_binary": 0.5,
            "clean_fine": 0.5,
        }
        usual |= {"fine_lambda_other": 0.1, "lambda_min": -9.0, "fine_lambda_min": 1.0}
        given = (rows or {}).get(sweep, [{}, {}, {}])
        summary[sweep] = {"exponents": exponents, "rows": [{"value": 10.0 ** (3 + i), **usual, **row} for i, row in enumerate(given)]}
    return made("clusters-scaling", {}, summary)


def line_proof(part: str, delta: float = -2.0) -> dict[str, torch.Tensor]:
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
    return {f"{part}/{name}": torch.tensor(value, dtype=torch.float64) for name, value in tensors.items()}
