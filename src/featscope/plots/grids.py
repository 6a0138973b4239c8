"""Panels without two measured axes: heat maps, categories, rows of images, tables of text."""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from featscope.plots.axes import Axis
from featscope.plots.palette import HEAT, REFERENCE, Look
from featscope.plots.panels import HEIGHT, WIDTH, Switch, VegaSpec, legend_for, quoted, titled
from featscope.plots.series import Values, as_values, median_over_seeds, short

#: a heat map of more cells than this a side is to be averaged over ``blocks`` first
MOST_CELLS = 40
#: a heat map of at most so many cells a side shows its numbers
NUMBERED = 12


@dataclass(frozen=True)
class HeatScale:
    """The one colour scale of all heat maps of a picture: what is shown, and the values where the colours
    begin and end."""

    title: str
    low: float
    high: float

    def colour(self, legend: bool) -> VegaSpec:
        """The Vega-Lite encoding."""
        scale = {"domain": [self.low, self.high], "scheme": HEAT, "clamp": True}
        shown = {"gradientLength": 120, "format": "~g"} if legend else None
        return {
            "field": "value",
            "type": "quantitative",
            "title": self.title,
            "scale": scale,
            "legend": shown,
        }


def coarsened(matrix: ArrayLike, most: int = MOST_CELLS) -> Values:
    """A square matrix averaged over equal blocks, so that at most ``most`` a side are left; the last may be
    smaller."""
    values = as_values(matrix)
    edges = np.unique(np.linspace(0, len(values), min(most, len(values)) + 1).astype(int))
    pieces = [slice(a, b) for a, b in itertools.pairwise(edges.tolist())]
    return np.array([[values[rows, columns].mean() for columns in pieces] for rows in pieces])


@dataclass(frozen=True)
class HeatMap:
    """A table as colours, first row on top; NaN is left blank. All heat maps of a picture share one
    ``scale``.

    ``rows`` and ``columns`` are the labels (numbers from 1 if not given), ``x`` and ``y`` say what they are.
    Numbers
    stand in the cells of small tables.
    """

    title: str
    table: ArrayLike
    scale: HeatScale
    x: str | None
    y: str | None
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    cell: tuple[int, int] = (28, 24)
    digits: int = 2
    legend: bool = True
    lines = 0
    has_legend = False
    names = ()

    def spec(self, place: int, switch: Switch, most: int) -> VegaSpec:
        """The Vega-Lite of the panel."""
        table = as_values(self.table)
        height, width = table.shape
        rows = self.rows or [str(i + 1) for i in range(height)]
        columns = self.columns or [str(j + 1) for j in range(width)]
        cells = [
            {"row": i, "column": j, "value": short(float(f"{table[i, j]:.4g}"))}
            for i in range(height)
            for j in range(width)
        ]
        places = {
            "x": _labelled("column", columns, self.x, angle=-40 if max(map(len, columns)) > 5 else 0),
            "y": _labelled("row", rows, self.y),
        }
        layers: list[VegaSpec] = [
            {
                "mark": "rect",
                "encoding": {**places, "color": self.scale.colour(self.legend), "tooltip": self._tips()},
            }
        ]
        if max(height, width) <= NUMBERED:
            known = [{"filter": "isValid(datum.value)"}, {"calculate": self._written(), "as": "written"}]
            mark = {"type": "text", "fontSize": 9}
            layers.append({"transform": known, "mark": mark, "encoding": {**places, **self._numbers()}})
        size = {"width": self.cell[0] * width, "height": self.cell[1] * height}
        return {"title": titled(self.title), **size, "data": {"values": cells}, "layer": layers}

    def _tips(self) -> list[VegaSpec]:
        return [
            {"field": "row", "type": "ordinal", "title": self.y or "row"},
            {"field": "column", "type": "ordinal", "title": self.x or "column"},
            {"field": "value", "type": "quantitative", "title": self.scale.title},
        ]

    def _written(self) -> str:
        """A number without the 0 before its point, which leaves room for a sign, and no negative zero."""
        number = f"replace(format(datum.value, '.{self.digits}f'), regexp('^(−?)0\\\\.'), '$1.')"
        zero = f"abs(datum.value) < {0.5 * 10**-self.digits}"
        return f"{zero} ? '{'.' + '0' * self.digits if self.digits else '0'}' : {number}"

    def _numbers(self) -> VegaSpec:
        light = f"datum.value > {self.scale.low + 0.6 * (self.scale.high - self.scale.low)}"
        return {
            "text": {"field": "written", "type": "nominal"},
            "color": {"condition": {"test": light, "value": "black"}, "value": "white"},
        }


def _labelled(name: str, labels: Sequence[str], title: str | None, angle: int = 0) -> VegaSpec:
    """Places by number, so that two may have one label, with the labels along the axis."""
    texts = "[" + ", ".join(quoted(label) for label in labels) + "]"
    step = max(1, len(labels) // 20)  # a label for each of many does not fit
    axis: VegaSpec = {
        "labelExpr": f"datum.value % {step} ? '' : {texts}[datum.value]",
        "labelLimit": 220,
        "ticks": False,
    }
    if name != "row":
        axis |= {"labelAngle": angle, "labelPadding": 6}
    # A row of missing values has its place too.
    scale = {"domain": list(range(len(labels)))}
    return {"field": name, "type": "ordinal", "title": title, "axis": axis, "scale": scale}


@dataclass(frozen=True)
class Group:
    """One name over all categories: ``values[i]`` holds the seeds' values in category i (one number, or
    none).

    ``printed`` are numbers of the paper, drawn as ticks; None where it prints none.
    """

    name: str
    look: Look
    values: Sequence[Sequence[float | None]]
    printed: Sequence[float | None] = ()


@dataclass(frozen=True)
class Categories:
    """Named places along x; in each a bar and a shape for every group (the median over seeds) and its seeds
    as dots.

    What a paper prints is a tick across the bar.
    """

    title: str
    categories: Sequence[str]
    y: Axis
    groups: Sequence[Group]
    x: str | None = None
    legend: bool = True
    width: int = WIDTH
    height: int = HEIGHT
    lines = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(group.name for group in self.groups)

    @property
    def has_legend(self) -> bool:
        """Whether the panel brings a legend of its own."""
        return self.legend

    def spec(self, place: int, switch: Switch, most: int) -> VegaSpec:
        """The Vega-Lite of the panel."""
        middles, seeds, printed = self._rows(switch.field)
        layers: list[VegaSpec] = [
            self._layer(middles, {"type": "bar"}, switch, 0.3),
            self._layer(middles, {"type": "point", "filled": True, "size": 60}, switch, 1, shaped=True),
        ]
        if any(len(values) > 1 for group in self.groups for values in group.values):
            layers.append(self._layer(seeds, {"type": "point", "filled": True, "size": 12}, switch, 0.7))
        if printed:
            tick = {
                "type": "tick",
                "thickness": 2,
                "orient": "horizontal",
                "bandSize": 14,
                "color": REFERENCE.colour,
            }
            layers.append(self._layer(printed, tick, switch, 1, coloured=False))
        if self.legend:
            layers[0]["params"] = [switch.picked()]
        return {"title": titled(self.title), "width": self.width, "height": self.height, "layer": layers}

    def _rows(self, name: str) -> tuple[list[VegaSpec], list[VegaSpec], list[VegaSpec]]:
        middles, seeds, printed = [], [], []
        for group in self.groups:
            for place, values in enumerate(group.values):
                at = {"place": place, "category": self.categories[place], name: group.name}
                found = as_values(list(values))
                middle = float(median_over_seeds(found[:, None])[0]) if len(found) else np.nan
                middles.append({**at, "what": "median", "y": short(middle)})
                seeds += [
                    {**at, "what": f"seed {seed}", "y": short(value)} for seed, value in enumerate(found)
                ]
            for place, value in enumerate(group.printed):
                if value is not None:
                    at = {"place": place, "category": self.categories[place], name: group.name}
                    printed.append({**at, "what": "printed in the paper", "y": short(value)})
        return middles, seeds, printed

    def _layer(
        self,
        rows: list[VegaSpec],
        mark: VegaSpec,
        switch: Switch,
        strength: float,
        shaped: bool = False,
        coloured: bool = True,
    ) -> VegaSpec:
        names = [group.name for group in self.groups]
        looks = {"color": [group.look.colour for group in self.groups]}
        if shaped:
            looks["shape"] = [group.look.shape for group in self.groups]
        encoding: VegaSpec = {
            "x": _labelled("place", self.categories, self.x),
            "xOffset": {
                "field": switch.field,
                "type": "nominal",
                "sort": names,
                "scale": {"paddingOuter": 0.1, "paddingInner": 0.12},
            },
            "y": self.y.encoding("y", "y"),
            "opacity": switch.opacity(strength),
            "tooltip": [
                {"field": "category", "type": "nominal", "title": self.x or "category"},
                {"field": switch.field, "type": "nominal", "title": "series"},
                {"field": "what", "type": "nominal", "title": "shown"},
                {"field": "y", "type": "quantitative", "title": self.y.title},
            ],
        }
        legend = legend_for(names, self.width) if self.legend else None
        for channel, values in looks.items() if coloured else ():
            scale = {"domain": names, "range": values}
            encoding[channel] = {
                "field": switch.field,
                "type": "nominal",
                "title": None,
                "scale": scale,
                "legend": legend,
            }
        return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


@dataclass(frozen=True)
class ImageRows:
    """Rows of images, each with its label: arrays (images, channels, height, width) with values in [0, 1]."""

    title: str
    rows: Sequence[tuple[str, Any]]
    size: int = 44
    lines = 0
    has_legend = False
    names = ()

    def spec(self, place: int, switch: Switch, most: int) -> VegaSpec:
        """The Vega-Lite of the panel; every row is one PNG, inline."""
        strips = [(label, _strip(images, self.size)) for label, images in self.rows]
        count = max(np.shape(images)[0] for _, images in self.rows)
        width = count * (self.size + 2)
        values = [
            {"row": i, "label": label, "image": _png_uri(strip)} for i, (label, strip) in enumerate(strips)
        ]
        encoding = {
            "x": {"value": width / 2},
            "y": _labelled("row", [label for label, _ in strips], None) | {"scale": {"paddingInner": 0}},
            "url": {"field": "image", "type": "nominal"},
            "tooltip": {"field": "label", "type": "nominal"},
        }
        encoding["y"]["axis"] |= {"domain": False}
        mark = {"type": "image", "width": width, "height": self.size + 2}
        size = {"width": width, "height": len(strips) * (self.size + 4)}
        return {
            "title": self.title,
            **size,
            "data": {"values": values},
            "mark": mark,
            "encoding": encoding,
        } | {"view": {"stroke": None}}


def _strip(images: Any, size: int) -> Values:
    """Images side by side (height, width, channels), enlarged by a whole factor to about ``size``, with
    gaps."""
    found = np.clip(np.asarray(images, dtype=float), 0, 1).transpose(0, 2, 3, 1)
    factor = max(1, round(2 * size / found.shape[1]))
    large = found.repeat(factor, 1).repeat(factor, 2)
    return np.concatenate(
        [np.pad(one, ((2, 2), (2, 2), (0, 0)), constant_values=1.0) for one in large], axis=1
    )


def _png_uri(strip: Values) -> str:
    pixels = np.round(255 * strip).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(
        buffer, "png", optimize=True
    )
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


@dataclass(frozen=True)
class TextTable:
    """A small table of text, its ``head`` on top: for what a paper prints as a table."""

    title: str
    head: Sequence[str]
    cells: Sequence[Sequence[str]]
    cell: tuple[int, int] = (120, 22)
    lines = 0
    has_legend = False
    names = ()

    def spec(self, place: int, switch: Switch, most: int) -> VegaSpec:
        """The Vega-Lite of the panel."""
        values = [
            {"row": i, "column": j, "text": text}
            for i, line in enumerate(self.cells)
            for j, text in enumerate(line)
        ]
        head = _labelled("column", self.head, None)
        head["axis"] |= {"orient": "top"}
        row: Mapping[str, Any] = {"field": "row", "type": "ordinal", "title": None, "axis": None}
        encoding = {"x": head, "y": row, "text": {"field": "text", "type": "nominal"}}
        size = {"width": self.cell[0] * len(self.head), "height": self.cell[1] * len(self.cells)}
        mark = {"type": "text", "fontSize": 11}
        return {
            "title": titled(self.title),
            **size,
            "data": {"values": values},
            "mark": mark,
            "encoding": encoding,
        }
