"""Panels over two measured axes, and how they are written in Vega-Lite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featscope.plots.axes import Axis
from featscope.plots.palette import Look
from featscope.plots.series import Band, Bracket, Curve, OverSeeds, Rule, Values

VegaSpec = dict[str, Any]
Series = OverSeeds | Band | Bracket | Curve

WIDTH, HEIGHT = 260, 200
EVERY_SEED_SWITCH = "every_seed"
#: pixels from one label of a rule to the next
LINE = 13
#: half the length of a line in a legend and the pixels of one unit there
STROKE, UNIT = 1.9, 4.7


@dataclass(frozen=True)
class Panel:
    """Series over two axes. Names in the legend, clicked, are shown alone; shift and click adds; a double
    click
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
    def names(self) -> tuple[str, ...]:
        """The names of the series."""
        return tuple(dict.fromkeys(one.name for one in self.series))

    @property
    def has_legend(self) -> bool:
        """Whether the panel brings a legend of its own."""
        return self.legend and bool(self.series)

    def spec(self, place: int, switch: Switch, most: int) -> VegaSpec:
        """The Vega-Lite of the panel."""
        writer = _Writer(self, switch, most)
        layers = [layer for one in self.series for layer in one.layers(writer.of(one))]
        if layers:
            unit = layers[0].get("layer", layers)[0]
            unit["params"] = [*([switch.picked()] if self.has_legend else []), _zoom(place)]
        layers += writer.rules()
        _keep_first_axes(layers)
        return {
            "title": titled(self.title),
            "width": self.width,
            "height": self.height,
            "layer": layers or [NOTHING],
        }


#: a panel without series is an empty frame: Vega cannot lay out a view without layers
NOTHING: VegaSpec = {"data": {"values": [{}]}, "mark": {"type": "point", "opacity": 0}}


def titled(title: str) -> list[str]:
    """A title as Vega-Lite takes one of several lines."""
    return title.split("\n")


def _keep_first_axes(layers: Sequence[VegaSpec]) -> None:
    """Layers share their axes: what the first says of them need not be said again."""
    for channel in ("x", "y"):
        said = False
        for layer in layers:
            encodings = [
                unit["encoding"] for unit in layer.get("layer", [layer]) if channel in unit["encoding"]
            ]
            for encoding in encodings if said else ():
                encoding[channel].pop("axis", None)
            said = said or bool(encodings)


@dataclass(frozen=True)
class Switch:
    """What a legend switches: the parameter that holds the names that were clicked, and the field of the
    names.

    Vega-Lite takes a click in a legend for a click in all legends of one field: panels with the same names
    have the same
    field, and are switched together.
    """

    shown: str
    field: str

    def picked(self) -> VegaSpec:
        """The parameter."""
        return {"name": self.shown, "select": {"type": "point", "fields": [self.field]}, "bind": "legend"}

    def opacity(self, strength: float, seeds: bool = False) -> VegaSpec:
        """Nothing is left of a name that is switched off, nor of seeds if they are."""
        shown: VegaSpec = {"param": self.shown}
        test = {"and": [shown, EVERY_SEED_SWITCH]} if seeds else shown
        return {"condition": {"test": test, "value": strength}, "value": 0}


def legend_for(names: Sequence[str], width: int) -> VegaSpec:
    """A legend below its panel, in as many columns as fit."""
    columns = max(1, int(width // (7 * max(map(len, names)) + 40)))
    return {
        "orient": "bottom",
        "columns": columns,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
        "symbolSize": 90,
        "offset": 6,
        "labelOffset": 9,
    }


def _zoom(place: int) -> VegaSpec:
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
    switch: Switch
    most: int
    one: Series | None = None

    def __post_init__(self) -> None:
        self.looks: dict[str, Look] = {}
        for one in self.panel.series:
            if self.looks.setdefault(one.name, one.look) != one.look:
                raise ValueError(f"{one.name!r} has two looks in {self.panel.title!r}")
        self.values = {channel: self._values(channel) for channel in "xy"}
        axes = {"x": self.panel.x, "y": self.panel.y}
        self.axes = {channel: axis.fitted(self.values[channel]) for channel, axis in axes.items()}
        self.axes["y"] = self.axes["y"].with_room(self._label_room(), self.values["y"])

    def _label_room(self) -> float:
        """The share of the height that labels of vertical rules take."""
        number = max(
            (place + 1 for place, rule in enumerate(self.panel.rules) if rule.axis == "x"), default=0
        )
        return 0.0 if not number else (LINE * number + 6) / self.panel.height

    def _values(self, channel: str) -> Values:
        """All values along an axis."""
        found = [one.extent(channel) for one in self.panel.series]
        return np.concatenate([*found, [rule.at for rule in self.panel.rules if rule.axis == channel]])

    def of(self, one: Series) -> _Writer:
        """The writer for one series."""
        self.one = one
        return self

    @property
    def log(self) -> bool:
        """Whether x is drawn on a logarithmic axis."""
        return self.panel.x.kind == "log"

    def __call__(self, mark: Mapping[str, Any], rows: list[VegaSpec], **options: Any) -> VegaSpec:
        """A layer of one series; a line to be hovered over has points that are not seen, for it has one
        tooltip only."""
        assert self.one is not None
        fields = {"x": "x", "y": "y"} | ({"y2": "high"} if options.get("area") else {})
        transform: list[VegaSpec] = [{"calculate": quoted(self.one.name), "as": self.switch.field}]
        for channel, name in dict(fields).items():
            floor = self.axes[channel[0]].floor if self.axes[channel[0]].kind == "log" else None
            if floor is not None:
                drawn = f"isValid(datum.{name}) ? max(datum.{name}, {floor!r}) : null"
                transform.append({"calculate": drawn, "as": f"{name}_drawn"})
                fields[channel] = f"{name}_drawn"
        encoding = self._places(fields) | {
            "color": self._named([look.colour for look in self.looks.values()]),
            "opacity": self._opacity(options),
            "tooltip": self._tooltip(options),
        }
        if options.get("seeds"):
            encoding["detail"] = {"field": "seed", "type": "nominal"}
        if mark["type"] == "point":
            encoding["shape"] = self._named(self._shapes())
        dashed = {"strokeDash": list(self.one.look.dash)} if mark["type"] == "line" else {}
        common = {"data": {"values": rows}, "transform": transform}
        seen: VegaSpec = {"mark": {**mark, **dashed}, "encoding": encoding}
        if not options.get("hover"):
            return {**common, **seen}
        unseen = {key: encoding[key] for key in ("x", "y", "color", "tooltip")} | {
            "shape": self._named(self._shapes())
        }
        hovered = {"type": "point", "filled": True, "size": 60, "opacity": 0}
        return {**common, "layer": [seen, {"mark": hovered, "encoding": unseen}]}

    def _places(self, fields: Mapping[str, str]) -> VegaSpec:
        places: VegaSpec = {
            channel: self.axes[channel].encoding(channel, fields[channel]) for channel in "xy"
        }
        return places | ({"y2": {"field": fields["y2"]}} if "y2" in fields else {})

    def _named(self, values: Sequence[str]) -> VegaSpec:
        """A channel whose values go with the names of the series."""
        legend = legend_for(list(self.looks), self.panel.width) if self.panel.has_legend else None
        scale = {"domain": list(self.looks), "range": list(values)}
        return {
            "field": self.switch.field,
            "type": "nominal",
            "title": None,
            "scale": scale,
            "legend": legend,
        }

    def _shapes(self) -> list[str]:
        """What the legend shows for each name: the shape of its points, else its dash, else, of an area, a
        square."""
        found = {}
        for name, look in self.looks.items():
            same = [one for one in self.panel.series if one.name == name]
            areas = all(isinstance(one, Bracket) for one in same)
            found[name] = (
                look.shape
                if any(one.has_points for one in same)
                else "square"
                if areas
                else _stroke(look.dash)
            )
        return list(found.values())

    def _opacity(self, options: Mapping[str, Any]) -> VegaSpec:
        strength = 0.16 if options.get("area") else 0.32 if options.get("seeds") else 1
        return self.switch.opacity(strength, seeds=bool(options.get("seeds")))

    def _tooltip(self, options: Mapping[str, Any]) -> list[VegaSpec]:
        tips: list[VegaSpec] = [{"field": self.switch.field, "type": "nominal", "title": "series"}]
        if options.get("seeds"):  # a line has one tooltip from end to end
            return [*tips, {"field": "seed", "type": "nominal", "title": "seed"}]
        x, y = self.panel.x.title or "x", self.panel.y.title or "y"
        shown = {"y": f"{y}, from", "high": "to"} if options.get("area") else {"y": y}
        return tips + [
            {"field": name, "type": "quantitative", "title": title, "format": ".4~g"}
            for name, title in ({"x": x} | shown).items()
        ]

    def rules(self) -> list[VegaSpec]:
        """The reference lines with their labels: those of vertical ones one below the other, on the side with
        room."""
        layers: list[VegaSpec] = []
        for number, rule in enumerate(self.panel.rules):
            axis = self.axes[rule.axis]
            at = max(rule.at, axis.floor or rule.at) if axis.kind == "log" else rule.at
            place = {rule.axis: axis.encoding(rule.axis, "at")}
            tips = [
                {"field": "label", "type": "nominal"},
                {"field": "at", "type": "quantitative", "title": axis.title},
            ]
            data = {"values": [{"at": float(f"{at:.6g}"), "label": rule.label}]}
            dash = {"strokeDash": list(rule.look.dash), "strokeWidth": 1.5}
            mark = {"type": "rule", "color": rule.look.colour, **dash, "clip": True}
            layers.append({"data": data, "mark": mark, "encoding": place | {"tooltip": tips}})
            late = axis.share(at, self.values[rule.axis]) > 0.6
            beside: VegaSpec = {
                "align": "right" if late else "left",
                "baseline": "top",
                "dx": -4 if late else 4,
                "y": 4 + LINE * number,
            }
            above: VegaSpec = {
                "align": "right",
                "baseline": "top" if late else "bottom",
                "dy": 3 if late else -2,
                "x": self.panel.width - 4,
            }
            text = {"type": "text", "text": rule.label, **(beside if rule.axis == "x" else above)}
            layers += [{"data": data, "mark": text, "encoding": place}] if rule.label else []
        return layers


def _stroke(dash: Sequence[int]) -> str:
    """A dashed line as the path of a legend's symbol."""
    path, at, end, number = "", -STROKE, STROKE, 0
    if not any(dash[1::2]):
        return f"M{at},0L{end},0"
    while at < end:
        on, off = dash[number % len(dash)] / UNIT, dash[(number + 1) % len(dash)] / UNIT
        path += f"M{at:.2f},0L{min(at + on, end):.2f},0"
        at, number = at + on + off, number + 2
    return path


def quoted(text: str) -> str:
    """A text as Vega's expressions write it; one of several lines as the list of them."""
    return json.dumps(text.split("\n") if "\n" in text else text, ensure_ascii=False)
