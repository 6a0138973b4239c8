"""Statements with several parts: all must hold, one failure fails the whole, and the evidence names every part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from featscope.theory.claim import CONSTANT, Finding, Verdict


def every(parts: Mapping[str, Finding], **evidence: Any) -> Finding:
    """Combine parts: FAILS if one fails, else the weakest verdict; value and bound are those of the deciding part."""
    order = (Verdict.FAILS, Verdict.OUT_OF_SCOPE, Verdict.VACUOUS, Verdict.INCONCLUSIVE, Verdict.HOLDS)
    name = min(parts, key=lambda key: order.index(parts[key].verdict))
    shown = {key: {"verdict": f.verdict.value, "value": f.value, "bound": f.bound, **f.evidence} for key, f in parts.items()}
    chosen = parts[name]
    return Finding(chosen.verdict, chosen.value, chosen.bound, {"decided_by": name, "parts": shown, **evidence})


def soft(d: float) -> float:
    """Õ(1) at a finite d: the constant of O(·) times one logarithm, CONSTANT·ln d (docs/claims-cgro.md)."""
    return CONSTANT * math.log(d)


def least(values: pl.Series) -> float:
    """The smallest value of a column; NaN if there is none, so that a check on it fails."""
    found = values.cast(pl.Float64).to_numpy()
    return float(np.min(found)) if len(found) else math.nan


def most(values: pl.Series) -> float:
    """The largest value of a column; NaN if there is none, so that a check on it fails."""
    found = values.cast(pl.Float64).to_numpy()
    return float(np.max(found)) if len(found) else math.nan
