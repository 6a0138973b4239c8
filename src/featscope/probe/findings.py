"""What a check found: a number, whether it is an alarm, and a sentence for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from featscope.core.stats import Interval, exact_binomial


@dataclass(frozen=True)
class Sign:
    """One check: ``alarm`` where it speaks against the numbers; ``cause`` names what is behind it, ``remedy``
    says what mends it."""

    name: str
    value: float | str | None
    alarm: bool
    sentence: str
    cause: str = ""
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        return asdict(self)


def exact_share(hits: Tensor) -> dict[str, float]:
    """A share with its exact interval, as in probe.json."""
    return as_share(exact_binomial(int(hits.sum()), len(hits)))


def as_share(interval: Interval) -> dict[str, float]:
    """An interval as in probe.json."""
    return {"value": interval.value, "low": interval.low, "high": interval.high}
