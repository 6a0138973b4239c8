"""What a budget allows: minutes are read, shared out among the parts, and turned into numbers of examples and
steps from the cost of one example. A plan is made once and kept."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import Any

from featscope.core.errors import BadInput, require

#: each part's share of the budget
SHARES = {"robustness": 0.45, "data_limits": 0.05, "feature_use": 0.25, "averaging": 0.1, "memorising": 0.15}
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 60.0}
#: examples that are attacked, at most and at least
MOST, LEAST = 1000, 20


def seconds(budget: str | float) -> float:
    """A budget in seconds: 10m, 90s, 1.5h, or minutes as a number."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([smh]?)\s*", str(budget))
    try:
        assert found is not None
        given = float(found[1]) * UNITS[found[2]]
    except (AssertionError, ValueError):
        raise BadInput("a budget is a time", str(budget), "write 10m, 90s or 1h") from None
    require(0 < given < math.inf, "a budget is a time", str(budget)[:60], "write 10m, 90s or 1h")
    return given


@dataclass(frozen=True)
class Effort:
    """How robustness is measured: examples, steps of an ascent, queries of the search without gradients, and
    examples that are certified."""

    examples: int
    steps: int
    queries: int
    expected: float

    def as_json(self) -> dict[str, Any]:
        """As in probe.json; how long it takes is not a result."""
        return {key: value for key, value in asdict(self).items() if key != "expected"}


#: steps and queries, most thorough first
LADDER = ((100, 2000), (50, 1000), (50, 500), (20, 200))


def effort(share: float, cost: float, available: int, classes: int) -> Effort:
    """The most thorough effort that fits: as many examples as there are up to ``MOST``, then steps."""
    for steps, queries in LADDER:
        each = _each(steps, queries, classes) * cost
        examples = min(available, MOST)
        if examples * each <= share:
            return Effort(examples, steps, queries, examples * each)
    steps, queries = LADDER[-1]
    each = _each(steps, queries, classes) * cost
    examples = max(min(int(share / each), available, MOST), min(LEAST, available))
    return Effort(examples, steps, queries, examples * each)


def _each(steps: int, queries: int, classes: int) -> float:
    """Passes forward and backward that an example takes which withstands everything; a query is a third."""
    rivals = min(classes - 1, 9)
    first, adaptive, nearest, aimed = 20 * 3, 2 * steps, 3 * steps + rivals, 10 * rivals + 3 * steps
    return first + adaptive + nearest + aimed + queries / 3 + 40 * 3 + 200
