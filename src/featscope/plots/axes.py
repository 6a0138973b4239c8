"""Axes: what is measured along them, how it is scaled, where the labels stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from featscope.plots.series import Values

#: numbers as people write them: 0.01, 100, and 10⁻⁷ for powers of ten far from 1
LABEL = (
    "datum.value != 0 && abs(log(abs(datum.value))) >= 4 * LN10"
    " && abs(log(abs(datum.value)) / LN10 - round(log(abs(datum.value)) / LN10)) < 1e-6"
    " ? (datum.value < 0 ? '−10' : '10') + (abs(datum.value) < 1 ? '⁻' : '')"
    " + (abs(round(log(abs(datum.value)) / LN10)) > 9"
    " ? slice('⁰¹²³⁴⁵⁶⁷⁸⁹', floor(abs(round(log(abs(datum.value)) / LN10)) / 10),"
    " floor(abs(round(log(abs(datum.value)) / LN10)) / 10) + 1) : '')"
    " + slice('⁰¹²³⁴⁵⁶⁷⁸⁹', abs(round(log(abs(datum.value)) / LN10)) % 10,"
    " abs(round(log(abs(datum.value)) / LN10)) % 10 + 1)"
    " : format(datum.value, '~g')"
)
#: labels that fit along an axis
MOST_LABELS = 6


@dataclass(frozen=True)
class Axis:
    """What an axis measures, with its unit, and how.

    ``kind`` is linear, log or symlog (linear within ±``constant``). Zeros and negative values on a log axis
    are drawn
    at its ``floor`` (a decade below the least positive value if not given), and the title says so; their
    tooltips
    have the true value. ``limits`` fixes the ends, ``ticks`` where labels stand. ``zero`` makes a linear axis
    begin at 0.
    """

    title: str | None
    kind: Literal["linear", "log", "symlog"] = "linear"
    limits: tuple[float, float] | None = None
    ticks: Sequence[float] | None = None
    floor: float | None = None
    constant: float = 1.0
    zero: bool = False

    def fitted(self, values: Values) -> Axis:
        """The axis with what depends on the values: the floor of a log axis, its ends and its labels."""
        shown = values[~np.isnan(values)]
        if self.kind == "linear" or not len(shown):
            return self
        if self.kind == "symlog":
            return replace(
                self, ticks=_both_sides(shown, self.constant) if self.ticks is None else self.ticks
            )
        floor = self._floor(shown)
        low, high = self.limits or (float(max(shown.min(), floor or 0)), float(max(shown.max(), floor or 0)))
        title = self.title if floor is None else f"{self.title} (0 drawn at {floor:g})"
        ticks = _along_logs(low, high) if self.ticks is None else self.ticks
        return replace(self, title=title, floor=floor, limits=(low, high), ticks=ticks)

    def with_room(self, share: float, values: Values) -> Axis:
        """The axis with a share of its length left free at its upper end, for labels."""
        shown = values[~np.isnan(values)]
        if not share or self.kind == "symlog" or (self.limits is None and not len(shown)):
            return self
        low, high = self.limits or (float(shown.min()), float(shown.max()))
        if self.kind == "log":
            return replace(self, limits=(low, high * (high / low) ** (share / (1 - share))))
        low = min(low, 0.0) if self.zero else low if self.limits else low - 0.04 * (high - low)
        return replace(self, limits=(low, high + (high - low or 1.0) * share / (1 - share)))

    def _floor(self, shown: Values) -> float | None:
        """Where values that a log axis cannot show are drawn, None if there are none."""
        if (shown > (self.floor or 0.0)).all():
            return None
        positive = shown[shown > 0]
        least = positive.min() if len(positive) else 1.0
        return self.floor or float(10.0 ** (math.ceil(math.log10(least)) - 1))

    def share(self, value: float, values: Values) -> float:
        """How far along the axis a value stands, 0 to 1."""
        shown = values[~np.isnan(values)]
        low, high = self.limits or (shown.min(initial=value), shown.max(initial=value))
        if self.kind == "log":
            low, high, value = (math.log(max(v, self.floor or 1e-300)) for v in (low, high, value))
        return 0.5 if high == low else (value - low) / (high - low)

    def encoding(self, channel: str, name: str) -> dict[str, Any]:
        """The Vega-Lite encoding of a field along this axis."""
        scale: dict[str, Any] = {"type": self.kind}
        if channel == "x" or self.kind != "linear":
            scale |= {"padding": 6, "nice": False}
        if self.kind == "symlog":
            scale["constant"] = self.constant
        if self.kind == "linear":
            scale["zero"] = self.zero
            if not self.zero and self.limits is None:
                scale["padding"] = 6  # points at the ends are whole
        if self.limits is not None:
            scale |= {"domain": list(self.limits), "nice": False}
        ticks: dict[str, Any] = {"tickCount": 5} if self.ticks is None else {"values": list(self.ticks)}
        label = "format(datum.value, '~g')" if self.kind == "linear" else LABEL
        ticks |= {"labelExpr": label, "labelOverlap": "greedy", "labelFlush": False}
        return {"field": name, "type": "quantitative", "title": self.title, "scale": scale, "axis": ticks}


def _along_logs(low: float, high: float) -> list[float]:
    """1, 2 and 5 within each decade, or powers of ten if they are many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if last - first <= 2:
        found = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    else:
        step = math.ceil((last - first) / MOST_LABELS)
        found = [10.0**e for e in range(first, last + 1) if e % step == 0]
    kept = [float(f"{value:.6g}") for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    return kept if len(kept) > 1 else [low, high]


def _both_sides(shown: Values, constant: float) -> list[float]:
    """0 and powers of ten of the constant, on the sides where there are values."""
    ends = [max(0.0, -float(shown.min())), max(0.0, float(shown.max()))]
    decades = [max(0, math.floor(math.log10(end / constant))) if end > constant else 0 for end in ends]
    step = max(1, math.ceil(sum(decades) / MOST_LABELS))
    sides = [
        [constant * 10.0**e for e in range(0, decade + 1, step)] if end >= constant else []
        for end, decade in zip(ends, decades, strict=True)
    ]
    return [*(-value for value in reversed(sides[0])), 0.0, *sides[1]]


ACCURACY = Axis("accuracy", limits=(-0.03, 1.03), ticks=(0, 0.25, 0.5, 0.75, 1))
