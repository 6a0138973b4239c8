"""Pictures of one or several panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from featscope.plots.grids import HeatMap
from featscope.plots.panels import EVERY_SEED_SWITCH, Switch, VegaSpec

#: rows that the lines of one picture may have together, and points that each has at least
MOST_ROWS = 3600
FEWEST_POINTS = 16


class Shown(Protocol):
    """Anything that fills a place of a picture."""

    @property
    def lines(self) -> int:
        """How many lines share the picture's rows."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a legend lists."""
        ...

    def spec(self, place: int, switch: Switch, most: int) -> VegaSpec:
        """The Vega-Lite of the panel at a place; the legend of another panel may switch it."""
        ...

    @property
    def has_legend(self) -> bool:
        """Whether the panel brings a legend of its own."""
        ...


def side_by_side(panels: Sequence[Shown], columns: int | None = None) -> VegaSpec:
    """The spec of a picture: panels in reading order, ``columns`` in a row (all, if not given).

    Each has axes of its own; heat maps have one colour scale together, shown beside the last. A page may
    write another
    number of ``columns`` into the spec to fit its width.
    """
    panels = _one_heat_scale(panels)
    most = max(FEWEST_POINTS, MOST_ROWS // max(1, sum(panel.lines for panel in panels)))
    specs = [
        panel.spec(place, switch, most)
        for place, (panel, switch) in enumerate(zip(panels, _switches(panels)))
    ]
    all_seeds = {
        "name": EVERY_SEED_SWITCH,
        "value": True,
        "bind": {"input": "checkbox", "name": "every seed "},
    }
    seeds = any("detail" in layer.get("encoding", {}) for spec in specs for layer in spec.get("layer", ()))
    independent = dict.fromkeys(("color", "shape", "strokeDash", "x", "y", "xOffset"), "independent")
    return {
        **({"params": [all_seeds]} if seeds else {}),
        "concat": specs,
        "columns": columns or len(panels),
        "spacing": 28,
        "resolve": {"scale": independent},
    }


def _switches(panels: Sequence[Shown]) -> list[Switch]:
    """A panel's own legend switches it, else that of the panel before; panels of the same names go
    together."""
    fields: dict[tuple[str, ...], str] = {}
    found: list[Switch] = []
    for place, panel in enumerate(panels):
        if panel.has_legend or not found:
            field = fields.setdefault(panel.names, f"series_{place}")
            found.append(Switch(f"shown_{place}", field))
        else:
            found.append(found[-1])
    return found


def _one_heat_scale(panels: Sequence[Shown]) -> list[Shown]:
    """Leave the colours' legend beside the last heat map; two scales in one picture are refused."""
    maps = [panel for panel in panels if isinstance(panel, HeatMap)]
    if len({panel.scale for panel in maps}) > 1:
        raise ValueError("a picture has one colour scale: give all its heat maps the same HeatScale")
    return [
        replace(panel, legend=panel is maps[-1]) if isinstance(panel, HeatMap) else panel for panel in panels
    ]
