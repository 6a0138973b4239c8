"""Facts that AT's growth lemmas start from: the largest of Gaussians (Lemmas B.1 and D.3) and the tensor
power method (Lemma B.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import integrate
from scipy import stats as sps
from torch import Tensor

from featscope.core.store import Rows
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.papers.at.scaling_columns import Initial, Maxima, Power

#: Lemma B.1 is held to account at these t, and at these δ as far as √(2 log 2n) − δ stays positive
DEVIATIONS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def initial_rows(widths: Sequence[int], dimensions: Sequence[int], seeds: Sequence[int]) -> Rows:
    """Lemma D.3: max_r⟨w(0), f⟩ for m and d swept, drawn, beside the exact mean of the largest of m
    Gaussians."""
    rows: Rows = []
    for m in widths:
        exact = expected_maximum(m)
        for d in dimensions:
            for seed in seeds:
                draw = d**-0.5 * torch.randn(m, generator=stream(seed, "largest", m, d), dtype=torch.float64)
                row: dict[str, Any] = {Initial.m: m, Initial.d: d, Initial.seed: seed}
                rows.append({**row, Initial.largest: float(draw.max()), Initial.exact: exact / math.sqrt(d)})
    return rows


def expected_maximum(m: int) -> float:
    """E max of m independent N(0, 1) = ∫ z m φ(z) Φ(z)^{m−1} dz."""

    def density(z: float) -> float:
        return float(z * m * np.exp(sps.norm.logpdf(z) + (m - 1) * sps.norm.logcdf(z)))

    return float(integrate.quad(density, -8, 12, limit=400)[0])


def maxima_rows(widths: Sequence[int]) -> Rows:
    """Lemma B.1 at n = 1 and at every width: P[‖X‖∞ ≤ z] = (1 − 2(1 − Φ(z)))^n needs no sample."""
    rows: Rows = []
    for n in sorted({1, *widths}):
        typical = math.sqrt(2 * math.log(2 * n))
        for deviation in DEVIATIONS:
            place: dict[str, Any] = {Maxima.n: n, Maxima.deviation: deviation}
            rows.append({**place, **_above(n, typical, deviation)})
            if deviation < typical:
                rows.append({**place, **_below(n, typical, deviation)})
    return rows


def _log_all_within(n: int, z: float) -> float:
    """log P[‖X‖∞ ≤ z]."""
    return float(n * np.log1p(-2 * sps.norm.sf(z)))


def _above(n: int, typical: float, t: float) -> dict[str, Any]:
    exact = float(np.log(-np.expm1(_log_all_within(n, typical + t))))
    bound = math.log(0.5) - t**2 / 2
    return {Maxima.side: "above", Maxima.log_exact: exact, Maxima.log_bound: bound}


def _below(n: int, typical: float, delta: float) -> dict[str, Any]:
    bound = -math.exp(delta / 2) / (math.sqrt(2 * math.pi) * (typical + 1))
    exact = _log_all_within(n, typical - delta)
    return {Maxima.side: "below", Maxima.log_exact: exact, Maxima.log_bound: bound}


def power_rows(starts: Sequence[float], relative: float) -> Rows:
    """Lemma B.2: y at the time x reaches 1, over a grid of y0, S and q, with the gap x0 = y0 S^{1/(q−2)} (1 +
    1/log(1/y0))."""
    rows: Rows = []
    grid = [(ratio, y0) for ratio in (0.25, 0.53, 1.0, 4.0) for y0 in starts]
    ratio, y0 = (torch.tensor(column, dtype=torch.float64) for column in zip(*grid, strict=True))
    gap = 1 / (1 / y0).log()
    for q in (3, 4, 5):
        x0 = y0 * ratio ** (1 / (q - 2)) * (1 + gap)
        growth = power_run(x0, y0, ratio, q, relative) / y0
        names = (Power.S, Power.y0, Power.x0, Power.gap, Power.growth)
        cells = zip(*(values.tolist() for values in (ratio, y0, x0, gap, growth)), strict=True)
        rows += [{Power.q: q, **dict(zip(names, cell, strict=True))} for cell in cells]
    return rows


def power_run(x0: Tensor, y0: Tensor, ratio: Tensor, q: int, relative: float, target: float = 1.0) -> Tensor:
    """Iterate the lemma's pairs with steps that move neither sequence by more than ``relative``; return y
    when x reaches the target."""
    pair = co.PowerPair(x0, y0)
    while bool((pair.x < target).any()):
        room = torch.maximum(pair.x ** (q - 2), ratio * pair.y ** (q - 2))
        eta = torch.where(pair.x < target, relative / room, 0.0)
        pair = co.tensor_power_step(q, eta, ratio)(pair, 0)
    return pair.y
