"""A phase diagram as a panel: the cells of a box as colours, the theory's line over them, the measured "
"edge as
dots with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from featscope.experiments.run import Run
from featscope.plots.axes import Axis
from featscope.plots.grids import HeatScale
from featscope.plots.panels import Switch, VegaSpec, titled
from featscope.sweeps.phases import PHASE_CELLS, PHASE_EDGES, PhaseCells, PhaseEdges

#: drawn over every colour of the map: a dark line with a light rim
INK, RIM = "#111111", "#ffffff"
DASH = (6, 4)
#: what a column at the rim shows beyond its own place, as a share of the way to its neighbour
RIM_SHARE = 0.12


@dataclass(frozen=True)
class PhaseMap:
    """Cells (x_from, x_to, y_from, y_to, value), the predicted line and the measured edge (x, y, low, high)
    over two axes."""

    title: str
    x: Axis
    y: Axis
    cells: Sequence[tuple[float, float, float, float, float | None]]
    line: Sequence[tuple[float, float]]
    edge: Sequence[tuple[float, float, float | None, float | None]]
    scale: HeatScale
    legend: bool = True
    width: int = 250
    height: int = 210
    lines = 0
    has_legend = False
    names = ()

    def spec(self, place: int, switch: Switch, most: int) -> VegaSpec:
        """The Vega-Lite of the panel."""
        layers = [self._cells(), *self._line(), *self._edge()]
        return {"title": titled(self.title), "width": self.width, "height": self.height, "layer": layers}

    def _axes(self) -> VegaSpec:
        x = [value for cell in self._drawn for value in cell[:2]]
        y = [value for cell in self._drawn for value in cell[2:4]]
        fitted = {}
        for channel, axis, values in (("x", self.x, x), ("y", self.y, y)):
            spec = axis.fitted(np.asarray(values, dtype=float)).encoding(channel, channel)
            spec["scale"] = {
                **spec["scale"],
                "domain": [min(values), max(values)],
                "padding": 0,
                "nice": False,
            }
            fitted[channel] = spec
        return fitted

    def _cells(self) -> VegaSpec:
        names = ("x", "x2", "y", "y2", "value")
        rows = [dict(zip(names, cell, strict=True)) for cell in self._drawn]
        axes = self._axes()
        tips = [
            {"field": "x", "type": "quantitative", "title": f"{self.x.title} from", "format": ".3~g"},
            {"field": "y", "type": "quantitative", "title": f"{self.y.title} from", "format": ".3~g"},
            {"field": "value", "type": "quantitative", "title": self.scale.title, "format": ".3~g"},
        ]
        encoding = {**axes, "x2": {"field": "x2"}, "y2": {"field": "y2"}}
        encoding |= {"color": self.scale.colour(self.legend), "tooltip": tips}
        return {"data": {"values": rows}, "mark": {"type": "rect", "clip": True}, "encoding": encoding}

    @property
    def _drawn(self) -> Sequence[tuple[float, float, float, float, float | None]]:
        return self.cells if any(cell[0] < cell[1] for cell in self.cells) else self._widened()

    def _widened(self) -> list[tuple[float, float, float, float, float | None]]:
        """Columns that were looked at by themselves, each as wide as half the way to its neighbours."""
        log = self.x.kind == "log"
        at = sorted({math.log(cell[0]) if log else cell[0] for cell in self.cells})
        half = [(a + b) / 2 for a, b in pairwise(at)]
        gaps = [b - a for a, b in pairwise(at)] or [1.0]
        ends = [at[0] - RIM_SHARE * gaps[0], *half, at[-1] + RIM_SHARE * gaps[-1]]
        back = [math.exp(end) if log else end for end in ends]
        columns = sorted({cell[0] for cell in self.cells})
        sides = {x: (back[i], back[i + 1]) for i, x in enumerate(columns)}
        return [(*sides[cell[0]], *cell[2:]) for cell in self.cells]

    def _line(self) -> list[VegaSpec]:
        if not self.line:
            return []
        data: VegaSpec = {"values": [{"x": x, "y": y, "what": "predicted"} for x, y in self.line]}
        tips = [{"field": "what", "type": "nominal", "title": "line"}]
        marks: list[VegaSpec] = [
            {"type": "line", "color": RIM, "strokeWidth": 4.5, "clip": True},
            {"type": "line", "color": INK, "strokeWidth": 2, "strokeDash": list(DASH), "clip": True},
        ]
        places = self._places()
        return [{"data": data, "mark": mark, "encoding": {**places, "tooltip": tips}} for mark in marks]

    def _places(self) -> VegaSpec:
        found: VegaSpec = {name: dict(spec) for name, spec in self._axes().items()}
        for spec in found.values():
            spec.pop("axis", None)
        return found

    def _edge(self) -> list[VegaSpec]:
        rows: list[dict[str, Any]] = [
            {"x": x, "y": y, "low": low, "high": high} for x, y, low, high in self.edge
        ]
        if not rows:
            return []
        places = self._places()
        span = {**places, "y": {**places["y"], "field": "low"}, "y2": {"field": "high"}}
        tips = [
            {"field": "y", "type": "quantitative", "title": f"measured {self.y.title}", "format": ".3~g"},
            {"field": "low", "type": "quantitative", "title": "from", "format": ".3~g"},
            {"field": "high", "type": "quantitative", "title": "to", "format": ".3~g"},
        ]
        rule: VegaSpec = {"type": "rule", "color": INK, "strokeWidth": 1.2, "clip": True}
        dot: VegaSpec = {
            "type": "point",
            "filled": True,
            "size": 26,
            "color": RIM,
            "stroke": INK,
            "opacity": 1,
        }
        return [
            {"data": {"values": rows}, "mark": rule, "encoding": span},
            {"data": {"values": rows}, "mark": dot | {"clip": True}, "encoding": {**places, "tooltip": tips}},
        ]


def phase_map(run: Run, panel: str, title: str, x: Axis, y: Axis, scale: HeatScale, legend: bool) -> PhaseMap:
    """The panel of a finished diagram."""
    cells, edges = run.part(PHASE_CELLS, panel=panel), run.part(PHASE_EDGES, panel=panel)
    c, e = PhaseCells, PhaseEdges
    where = [_numbers(row, c.x_from, c.x_to, c.y_from, c.y_to) for row in cells.to_dicts()]
    values = [row.get(c.value) for row in cells.to_dicts()]
    found = edges.to_dicts()
    line = [(float(row[e.x]), float(row[e.predicted])) for row in found if row.get(e.predicted) is not None]
    edge = [(float(row[e.x]), float(row[e.measured]), row.get(e.low), row.get(e.high)) for row in found]
    drawn = [(*place, value) for place, value in zip(where, values, strict=True)]
    return PhaseMap(title, x, y, drawn, sorted(line), edge, scale, legend)


def _numbers(row: Mapping[str, Any], *names: str) -> tuple[float, float, float, float]:
    first, second, third, fourth = (float(row[name]) for name in names)
    return first, second, third, fourth
