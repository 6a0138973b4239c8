"""Assumptions as numbers: each condition says what was asked, what was found, and whether it is met."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Condition:
    """One assumption of a paper at a finite setting: ``value`` against ``bound``."""

    name: str
    text: str
    value: float
    bound: float
    met: bool

    def as_json(self) -> dict[str, Any]:
        """The condition as a JSON object."""
        return asdict(self)


def asks_at_least(name: str, text: str, value: float, bound: float) -> Condition:
    """The condition value ≥ bound."""
    return Condition(name, text, value, bound, value >= bound)


def asks_at_most(name: str, text: str, value: float, bound: float) -> Condition:
    """The condition value ≤ bound."""
    return Condition(name, text, value, bound, value <= bound)
