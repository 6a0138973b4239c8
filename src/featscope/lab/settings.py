"""Settings that come from the page or a link: known names, inside the sliders' ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from featscope.core.errors import known_as, require, require_number
from featscope.lab.controls import CONTROLS, Choice, LabModel, Slider, defaults


def model_named(name: Any) -> LabModel:
    """The model of that name."""
    return known_as("model of the lab", name, CONTROLS)  # type: ignore[return-value]


def checked(model: LabModel, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a model, those given instead of the defaults; anything a slider cannot say is
    refused."""
    known = {control.key: control for control in CONTROLS[model]}
    for key, value in given.items():
        control = known[known_as(f"setting of {model}", key, known)]
        _check_choice(control, value) if isinstance(control, Choice) else _check_number(control, value)
    found = defaults(model) | dict(given)
    if model == "fa":
        _check_groups(found)
    return found


def _check_choice(control: Choice, value: Any) -> None:
    known_as(f"value of {control.key}", value, control.options)


def _check_number(control: Slider, value: Any) -> None:
    name = control.letter or control.key
    require_number(name, value)
    said, remedy = f"{name}={value}", f"use {control.low:g} … {control.high:g}"
    require(control.low <= value <= control.high, f"{name} must be on its slider", said, remedy)
    whole = control.scale in ("linear", "log") or value == int(value)
    require(whole, f"{name} must be a whole number", said, remedy)


def _check_groups(s: Mapping[str, Any]) -> None:
    k, said = s["k"], f"k={s['k']:g}, |J₊|={s['plus']:g}, g={s['groups']:g}"
    require(s["plus"] < k, "both labels need a cluster", said, "raise k or lower |J₊|")
    require(
        s["groups"] <= k, "there are at most as many label groups as clusters", said, "lower g or raise k"
    )
