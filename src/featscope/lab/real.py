"""Run it for real: full descent and measured radii as events, one after the other, for the page to draw.

The events of a run: `start` (the settings as they were run, and the inner products of its first weights, from
which the page's recursion begins), `row` (one for each recorded step), `radii` (a table, and where they are
one number a point the points), `done`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from featscope.lab.controls import LabModel
from featscope.lab.real_at import run_at
from featscope.lab.real_cgro import run_cgro
from featscope.lab.real_fa import run_fa
from featscope.lab.settings import checked, model_named

Event = dict[str, Any]
RUNS: dict[LabModel, Callable[[Mapping[str, Any]], Iterator[Event]]] = {
    "at": run_at,
    "fa": run_fa,
    "cgro": run_cgro,
}


def run_for_real(model: Any, settings: Mapping[str, Any]) -> Iterator[Event]:
    """The events of a run; settings are checked before the first."""
    named = model_named(model)
    return RUNS[named](checked(named, settings))
