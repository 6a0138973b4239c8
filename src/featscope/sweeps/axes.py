"""What is varied: a setting over a range or over a list, as it is typed or given.

law.alpha=1:4:7          seven values from 1 to 4
law.d=100:1000000:5:log  five values in equal ratios, whole numbers where the setting is whole
training=standard,two-sided
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from featscope.core.errors import require, require_number, require_whole
from featscope.core.settings import kinds
from featscope.experiments.keys import full_key, leaves, parse_value
from featscope.experiments.spec import Experiment


@dataclass(frozen=True)
class SweepAxis:
    """One setting and its values: ``low`` … ``high`` in ``count`` equal steps (of logarithms if ``log``), or
    the list ``values``."""

    key: str
    low: float = math.nan
    high: float = math.nan
    count: int = 0
    log: bool = False
    whole: bool = False
    values: tuple[Any, ...] = ()

    @property
    def is_range(self) -> bool:
        """Whether values lie between two ends."""
        return not self.values

    def at(self, share: float) -> Any:
        """The value at a share 0 … 1 of the way; of a list, the value whose turn it is."""
        if self.values:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        if self.log:
            value = math.exp(math.log(self.low) * (1 - share) + math.log(self.high) * share)
        else:
            value = self.low * (1 - share) + self.high * share
        return round(value) if self.whole else float(f"{value:.12g}")

    def grid(self) -> list[Any]:
        """All values of the axis, each once."""
        if self.values:
            return list(self.values)
        require(self.count > 0, "a grid needs a number of values", self.told, "write key=low:high:number")
        shares = [0.0] if self.count == 1 else [i / (self.count - 1) for i in range(self.count)]
        return list(dict.fromkeys(self.at(share) for share in shares))

    @property
    def told(self) -> str:
        """The axis as it is typed."""
        if self.values:
            return f"{self.key}={','.join(map(str, self.values))}"
        ends = f"{self.low:g}:{self.high:g}" + (f":{self.count}" if self.count else "")
        return f"{self.key}={ends}" + (":log" if self.log else "")

    def as_json(self) -> dict[str, Any]:
        """What identifies the axis."""
        if self.values:
            return {"key": self.key, "values": list(self.values)}
        return {"key": self.key, "low": self.low, "high": self.high, "count": self.count, "log": self.log}


#: values of an axis: a sweep of more is not a picture any more
MOST = 100_000
REMEDY = "write key=low:high:number, key=low:high:number:log or key=a,b,c"


def parse_axis(experiment: Experiment[Any], text: str) -> SweepAxis:
    """An axis as it is typed after --vary."""
    key, sep, body = (part.strip() for part in text.partition("="))
    require(bool(sep and key and body), "--vary needs key=values", repr(text), REMEDY)
    return axis_of(experiment, key, body)


def axis_of(
    experiment: Experiment[Any], key: str, given: str | Sequence[Any] | Mapping[str, Any]
) -> SweepAxis:
    """An axis from a text such as 1:4:7, from a list of values, or from a table of low, high, count and
    log."""
    place = full_key(experiment.spec, key)
    require(place != "seeds", "seeds are no axis", f"--vary {key}", "give --seeds N")
    allowed = kinds(leaves(experiment.spec)[place].annotation)
    whole = int in allowed and float not in allowed
    if isinstance(given, str):
        return _typed(place, given, whole)
    if isinstance(given, Mapping):
        known = {"low", "high", "count", "log"}
        extra = sorted(set(given) - known)
        fits = not extra and {"low", "high"} <= set(given)
        require(fits, "an axis has low, high, count and log", f"{key}: {sorted(given)}", REMEDY)
        return _range(
            place, given["low"], given["high"], given.get("count", 0), bool(given.get("log")), whole
        )
    listed = isinstance(given, Sequence)
    require(listed, "an axis is a text, a list or a table", f"{key}: {type(given).__name__}", REMEDY)
    return _listed(place, list(given))


def _typed(key: str, body: str, whole: bool) -> SweepAxis:
    if ":" not in body or body.lstrip().startswith(("{", "[", '"')):
        return _listed(key, _split(body))
    parts = [part.strip() for part in body.split(":")]
    log = parts[-1] == "log"
    numbers = [_number(part) for part in (parts[:-1] if log else parts)]
    fits = len(numbers) in (2, 3) and all(isinstance(n, int | float) for n in numbers)
    require(fits, "a range is low:high:number", f"{key}={body}", REMEDY)
    count = numbers[2] if len(numbers) == 3 else 0
    require(isinstance(count, int), "a range has a whole number of values", f"{key}={body}", REMEDY)
    return _range(key, numbers[0], numbers[1], count, log, whole)


def _number(text: str) -> Any:
    """A number as it is typed, also .5 and 8/255."""
    found = parse_value(text)
    if isinstance(found, str):
        with contextlib.suppress(ValueError):
            return float(found)
    return found


def _split(body: str) -> list[Any]:
    """Values between commas; one JSON value where it holds commas itself."""
    whole = parse_value(body)
    if isinstance(whole, list):
        return whole
    return [whole] if isinstance(whole, dict) else [parse_value(part.strip()) for part in body.split(",")]


def _range(key: str, low: float, high: float, count: int, log: bool, whole: bool) -> SweepAxis:
    for end in (low, high):
        small = not isinstance(end, int) or abs(end) < 10**300
        require(small, "an end of a range is a number", f"{key}={end}"[:60], "lower it")
    low, high = float(require_number(key, low)), float(require_number(key, high))
    require(low < high, "a range goes upwards", f"{key}={low:g}:{high:g}", "name the smaller end first")
    require(not log or low > 0, "a range in equal ratios starts above 0", f"{key}={low:g}", "raise it")
    require_whole(f"number of values of {key}", count, 0)
    require(count <= MOST, f"an axis has at most {MOST} values", f"{key}: {count}", "take fewer")
    return SweepAxis(key, low, high, count, log, whole)


def _listed(key: str, values: list[Any]) -> SweepAxis:
    require(len(values) > 0, "an axis needs at least one value", key, REMEDY)
    for value in values:
        plain = isinstance(value, str | int | float | list | tuple | dict | None)
        require(plain, "a value of an axis is of no kind that a setting has", f"{key}: {value}"[:60], REMEDY)
        require(value != "", "a value of an axis is empty", key, REMEDY)
    once = list({repr(value): value for value in values}.values())
    return SweepAxis(key, values=tuple(once))
