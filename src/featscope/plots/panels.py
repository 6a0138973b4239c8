"""Panels over two measured axes, and how they are written in Vega-Lite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from featscope.plots.palette import Look
from featscope.plots.series import Band, Bracket, Curve, OverSeeds, Rule, numbers

Spec = dict[str, Any]
Series = OverSeeds | Band | Bracket | Curve

WIDTH, HEIGHT = 260, 200
EVERY_SEED_SWITCH = "every_seed"
#: a line in a legend, long enough to show its dash
STROKE = "M-1.8,0L1.8,0"


@dataclass(frozen=True)
class Axis:
    """What an axis measures, with its unit, and how.

    ``kind`` is linear, log or symlog (linear below ``constant``). Zeros and negative values on a log axis are drawn at
    its ``floor`` (a decade below the least positive value if not given), and the title says so. ``limits`` fixes the
    ends, ``ticks`` where labels stand, ``shared`` nothing: every panel has its own scales.
    """

    title: str | None
    kind: Literal["linear", "log", "symlog"] = "linear"
    limits: tuple[float, float] | None = None
    ticks: Sequence[float] | None = None
    floor: float | None = None
    constant: float = 1.0
    zero: bool = False

    def floor_for(self, values: np.ndarray) -> float | None:
        """Where values that a log axis cannot show are drawn, None if there are none."""
        shown = values[~np.isnan(values)]
        if self.kind != "log" or (shown > (self.floor or 0.0)).all():
            return None
        positive = shown[shown > 0]
        least = positive.min() if len(positive) else 1.0
        return self.floor or float(10.0 ** (math.ceil(math.log10(least)) - 1))

    def encoding(self, channel: str, name: str, floor: float | None) -> Spec:
        """The Vega-Lite encoding of a field along this axis."""
        scale: Spec = {"type": self.kind, "padding": 6} if channel == "x" else {"type": self.kind}
        if self.kind == "symlog":
            scale["constant"] = self.constant
        if self.kind == "linear":
            scale["zero"] = self.zero
        scale |= {"nice": False} if channel == "x" else {}
        if self.limits is not None:
            scale |= {"domain": list(self.limits), "nice": False}
        title = self.title if floor is None else f"{self.title} (0 drawn at {floor:g})"
        ticks: Spec = {"values": list(self.ticks)} if self.ticks is not None else {"tickCount": 5}
        ticks |= {"labelExpr": "format(datum.value, '~g')", "labelOverlap": True, "labelFlush": False}
        return {"field": name, "type": "quantitative", "title": title, "scale": scale, "axis": ticks}


ACCURACY = Axis("accuracy", limits=(-0.03, 1.03), ticks=(0, 0.25, 0.5, 0.75, 1))


@dataclass(frozen=True)
class Panel:
    """Series over two axes. Names in the legend, clicked, are shown alone; shift and click adds; a double click
    brings all back.

    Series of one name are one entry and must have one look. ``legend=False`` leaves it to the panel before.
    """

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    rules: Sequence[Rule] = ()
    legend: bool = True
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def lines(self) -> int:
        """How many lines share the picture's rows."""
        return sum(one.lines for one in self.series)

    @property
    def has_legend(self) -> bool:
        """Whether the panel brings a legend of its own."""
        return self.legend and bool(self.series)

    def spec(self, place: int, legend_of: int, most: int) -> Spec:
        """The Vega-Lite of the panel."""
        writer = _Writer(self, legend_of, most)
        layers = [layer for one in self.series for layer in one.layers(writer.of(one))]
        if layers:
            unit = layers[0].get("layer", layers)[0]
            unit["params"] = [*([picked(place)] if self.has_legend else []), _zoom(place)]
        layers += writer.rules()
        return {"title": self.title, "width": self.width, "height": self.height, "layer": layers}


def picked(place: int) -> Spec:
    """The parameter that holds which names of a panel's legend were clicked."""
    return {"name": f"shown_{place}", "select": {"type": "point", "fields": ["series"]}, "bind": "legend"}


def legend_for(names: Sequence[str], width: int) -> Spec:
    """A legend below its panel, in as many columns as fit."""
    columns = max(1, int(width // (7 * max(map(len, names)) + 40)))
    return {
        "orient": "bottom",
        "columns": columns,
        "symbolStrokeWidth": 2,
        "symbolSize": 90,
        "offset": 6,
        "labelOffset": 9,
    }


def switch_for(legend_of: int, strength: float, seeds: bool = False) -> Spec:
    """Opacity: nothing of a name that is switched off in a panel's legend, nor of seeds if they are."""
    shown: Spec = {"param": f"shown_{legend_of}"}
    test = {"and": [shown, EVERY_SEED_SWITCH]} if seeds else shown
    return {"condition": {"test": test, "value": strength}, "value": 0}


def _zoom(place: int) -> Spec:
    """Control and the wheel zoom, control and dragging move, so that neither keeps a page from scrolling."""
    select = {
        "type": "interval",
        "zoom": "wheel![event.ctrlKey]",
        "translate": "[pointerdown[event.ctrlKey], window:pointerup] > window:pointermove!",
    }
    return {"name": f"zoom_{place}", "select": select, "bind": "scales"}


@dataclass
class _Writer:
    """Turns the series of one panel into layers."""

    panel: Panel
    legend_of: int
    most: int
    one: Series | None = None
    looks: dict[str, Look] = field(init=False)
    floors: dict[str, float | None] = field(init=False)

    def __post_init__(self) -> None:
        self.looks = {}
        for one in self.panel.series:
            if self.looks.setdefault(one.name, one.look) != one.look:
                raise ValueError(f"{one.name!r} has two looks in {self.panel.title!r}")
        self.floors = {}
        for channel, axis in (("x", self.panel.x), ("y", self.panel.y)):
            found = [one.extent(channel) for one in self.panel.series]
            self.floors[channel] = axis.floor_for(numbers(np.concatenate(found) if found else []))

    def of(self, one: Series) -> _Writer:
        """The writer for one series."""
        self.one = one
        return self

    @property
    def log(self) -> bool:
        """Whether x is drawn on a logarithmic axis."""
        return self.panel.x.kind == "log"

    def __call__(self, mark: Mapping[str, Any], rows: list[dict[str, Any]], **options: Any) -> Spec:
        assert self.one is not None
        transform: list[Spec] = [{"calculate": quoted(self.one.name), "as": "series"}]
        fields = {"x": "x", "y": "y"} | ({"y2": "high"} if options.get("area") else {})
        for channel, name in dict(fields).items():
            floor = self.floors[channel[0]]
            if floor is not None:
                drawn = f"isValid(datum.{name}) ? max(datum.{name}, {floor!r}) : null"
                transform.append({"calculate": drawn, "as": f"{name}_drawn"})
                fields[channel] = f"{name}_drawn"
        encoding = self._places(fields) | self._looks(mark) | {"opacity": self._opacity(options)}
        encoding["tooltip"] = self._tooltip(options)
        if options.get("seeds"):
            encoding["detail"] = {"field": "seed", "type": "nominal"}
        common = {"data": {"values": rows}, "transform": transform}
        drawn_layer: Spec = {"mark": dict(mark), "encoding": encoding}
        if not options.get("hover"):
            return {**common, **drawn_layer}
        # A line has one tooltip from end to end: points that are not seen carry the values.
        unseen = {key: encoding[key] for key in ("x", "y", "tooltip")}
        mark_unseen = {"type": "point", "filled": True, "size": 60, "opacity": 0}
        return {**common, "layer": [drawn_layer, {"mark": mark_unseen, "encoding": unseen}]}

    def _places(self, fields: Mapping[str, str]) -> Spec:
        places = {
            "x": self.panel.x.encoding("x", fields["x"], self.floors["x"]),
            "y": self.panel.y.encoding("y", fields["y"], self.floors["y"]),
        }
        return places | ({"y2": {"field": fields["y2"]}} if "y2" in fields else {})

    def _looks(self, mark: Mapping[str, Any]) -> Spec:
        marked = {
            one.name for one in self.panel.series if any(_has_points(each) for each in self._same(one.name))
        }
        shapes = [look.shape if name in marked else STROKE for name, look in self.looks.items()]
        # Where every series has its shape, the legend needs no dash, which would fray the shapes' edges.
        quiet = len(marked) == len(self.looks)
        ranges = {
            "color": [look.colour for look in self.looks.values()],
            "strokeDash": [list(look.dash) for look in self.looks.values()],
            "shape": shapes,
        }
        channels = {"line": ("color", "strokeDash"), "point": ("color", "shape"), "area": ("color",)}
        return {
            channel: {
                "field": "series",
                "type": "nominal",
                "title": None,
                "scale": {"domain": list(self.looks), "range": ranges[channel]},
                "legend": None if quiet and channel == "strokeDash" else self._legend(),
            }
            for channel in channels[mark["type"]]
        }

    def _same(self, name: str) -> list[Series]:
        return [one for one in self.panel.series if one.name == name]

    def _legend(self) -> Spec | None:
        if not self.panel.has_legend:
            return None
        strokes = {"symbolType": STROKE} if not any(_has_points(one) for one in self.panel.series) else {}
        return legend_for(list(self.looks), self.panel.width) | strokes

    def _opacity(self, options: Mapping[str, Any]) -> Spec:
        strength = 0.16 if options.get("area") else 0.32 if options.get("seeds") else 1
        return switch_for(self.legend_of, strength, seeds=bool(options.get("seeds")))

    def _tooltip(self, options: Mapping[str, Any]) -> list[Spec]:
        tips: list[Spec] = [{"field": "series", "type": "nominal", "title": "series"}]
        if options.get("seeds"):  # a line has one tooltip from end to end
            return [*tips, {"field": "seed", "type": "nominal", "title": "seed"}]
        tips.append({"field": "x", "type": "quantitative", "title": self.panel.x.title or "x"})
        y = self.panel.y.title or "y"
        if not options.get("area"):
            return [*tips, {"field": "y", "type": "quantitative", "title": y}]
        return [
            *tips,
            {"field": "y", "type": "quantitative", "title": f"{y}, from"},
            {"field": "high", "type": "quantitative", "title": "to"},
        ]

    def rules(self) -> list[Spec]:
        """The reference lines with their labels, which stand one below the other."""
        layers: list[Spec] = []
        for number, rule in enumerate(self.panel.rules):
            axis = self.panel.x if rule.axis == "x" else self.panel.y
            place = {rule.axis: axis.encoding(rule.axis, "at", self.floors[rule.axis])}
            tips = [
                {"field": "label", "type": "nominal"},
                {"field": "at", "type": "quantitative", "title": axis.title},
            ]
            data = {"values": [{"at": short_number(rule.at), "label": rule.label}]}
            mark = {
                "type": "rule",
                "color": rule.look.colour,
                "strokeDash": list(rule.look.dash),
                "strokeWidth": 1.5,
            }
            layers.append({"data": data, "mark": mark, "encoding": place | {"tooltip": tips}})
            if rule.label:
                text = {"type": "text", "text": rule.label} | (
                    {"align": "left", "baseline": "top", "dx": 4, "y": 4 + 13 * number}
                    if rule.axis == "x"
                    else {"align": "right", "baseline": "bottom", "dy": -2, "x": self.panel.width - 4}
                )
                layers.append({"data": data, "mark": text, "encoding": place})
        return layers


def short_number(value: float) -> float:
    """A number with six digits."""
    return float(f"{value:.6g}")


def quoted(text: str) -> str:
    """A text as Vega's expressions write it; one of several lines as the list of them."""
    return json.dumps(text.split("\n") if "\n" in text else text, ensure_ascii=False)


def _has_points(one: Series) -> bool:
    if isinstance(one, Curve):
        return one.has_points
    return not isinstance(one, Bracket) and len(one.x) <= 25
