"""Networks that this package trained and probed, and where a number lies among them.

The table ships with the package (`reference.json`, made by `tools/reference_networks.py`). A number is
compared only with networks of the same data, norm and radius; otherwise it is said why it is not compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

TABLE = "reference.json"


@dataclass(frozen=True)
class CommonGround:
    """What two probes must share for their numbers to be comparable; data without a name have none."""

    data: str | None
    norm: str
    eps: float

    def meets(self, other: CommonGround) -> bool:
        """Whether numbers of the two can be compared; radii are equal to six digits."""
        named = self.data is not None and self.data == other.data
        return named and self.norm == other.norm and math.isclose(self.eps, other.eps, rel_tol=1e-6)

    def __str__(self) -> str:
        return f"{self.data or 'data without a known name'} at {self.norm} {self.eps:.3g}"


@dataclass(frozen=True)
class Position:
    """Names of the networks whose interval meets the number's, lies below it, or above it; ``reason`` says
    why there are none to compare with."""

    like: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        return {
            "like": list(self.like), "above": list(self.over), "below": list(self.under),
            "not_comparable": self.reason or None,
        }  # fmt: skip

    def __str__(self) -> str:
        if self.reason:
            return f"not comparable: {self.reason}"
        words = (("like", self.like), ("above", self.over), ("below", self.under))
        return "; ".join(f"{word} {' and '.join(names)}" for word, names in words if names)


@cache
def references() -> tuple[Mapping[str, Any], ...]:
    """The rows of the table that ships with the package; none where it has not been made."""
    place = resources.files("featscope.probe") / TABLE
    if not place.is_file():
        return ()
    return tuple(json.loads(place.read_text(encoding="utf-8"))["networks"])


def setting_of(row: Mapping[str, Any]) -> CommonGround:
    """Of what data, norm and radius a row is."""
    return CommonGround(row["data"], row["norm"], float(row["eps"]))


def position(
    rows: Sequence[Mapping[str, Any]], setting: CommonGround, part: str, low: float, high: float
) -> Position:
    """Where the interval [low, high] of a part's number lies among the table's; touching ends meet.

    >>> row = {"name": "A", "data": "mnist", "norm": "Linf", "eps": 0.3}
    >>> row["averaging"] = {"low": 0.1, "high": 0.3}
    >>> print(position([row], CommonGround("mnist", "Linf", 0.3), "averaging", 0.4, 0.5))
    above A
    >>> print(position([row], CommonGround("mnist", "L2", 0.3), "averaging", 0.4, 0.5))
    not comparable: the table has mnist at Linf 0.3, this is mnist at L2 0.3
    """
    same = [row for row in rows if setting_of(row).meets(setting)]
    if not same:
        settings = dict.fromkeys(str(setting_of(row)) for row in rows)
        return Position(reason=f"the table has {', '.join(settings) or 'no network'}, this is {setting}")
    known = [(row["name"], row[part]) for row in same if row.get(part)]
    if not known:
        return Position(reason="this was not measured on the table's networks")
    return Position(
        tuple(name for name, other in known if other["low"] <= high and low <= other["high"]),
        tuple(name for name, other in known if other["high"] < low),
        tuple(name for name, other in known if other["low"] > high),
    )
