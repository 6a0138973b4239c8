"""Two probes of the same examples side by side: differences with paired intervals.

An example counts for both networks, so the interval is that of the paired difference (McNemar): of the
examples on which the two differ, the share that falls to one side has an exact binomial interval.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.core.files import read_json
from featscope.core.stats import Interval, exact_binomial
from featscope.probe.keep import read_step

#: entries of spec.json that two probes must share for their examples to be pairs
SHARED = ("data", "examples", "norm", "eps", "seed")


@dataclass(frozen=True)
class Line:
    """One quantity of both networks, the difference (second − first) and its interval."""

    quantity: str
    first: float | None
    second: float | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def apart(self) -> str:
        """Whether the interval leaves zero out."""
        if self.low is None or self.high is None:
            return "cannot tell"
        return "yes" if self.low > 0 or self.high < 0 else "cannot tell"

    def cells(self) -> list[str]:
        """As a line of a table."""
        spread = "" if self.low is None or self.high is None else f"{self.low:+.3f} … {self.high:+.3f}"
        difference = "" if self.difference is None else f"{self.difference:+.3f}"
        return [self.quantity, _short(self.first), _short(self.second), difference, spread, self.apart]


@dataclass(frozen=True)
class Comparison:
    """All lines, and what is not paired."""

    first: str
    second: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)

    def as_json(self) -> dict[str, Any]:
        """As `--compare --json` prints it."""
        lines = [{**asdict(line), "apart": line.apart} for line in self.lines]
        return {"first": self.first, "second": self.second, "lines": lines, "notes": list(self.notes)}


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def paired(one: Tensor, other: Tensor) -> Interval:
    """The difference of two shares over the same examples, with its interval.

    With b examples right only in the second and c only in the first, the difference is (b − c)/n; given that
    b + c differ, b is binomial, and its exact interval carries over.
    """
    n, b, c = len(one), int((other & ~one).sum()), int((one & ~other).sum())
    if b + c == 0:
        # Nothing differs: the share of examples that would has an exact interval of its own.
        most = exact_binomial(0, n).high
        return Interval(0.0, -most, most)
    inside = exact_binomial(b, b + c)
    scale = (b + c) / n
    return Interval((b - c) / n, scale * (2 * inside.low - 1), scale * (2 * inside.high - 1))


def compared(one: Path, other: Path) -> Comparison:
    """Read two finished probes and compare them example by example."""
    documents = [
        read_json(path / "probe.json", "give the folder of a finished probe") for path in (one, other)
    ]
    for path, document in zip((one, other), documents, strict=True):
        parts = document if isinstance(document, dict) else {}
        subject, robustness = parts.get("subject"), parts.get("robustness")
        whole = isinstance(subject, dict) and isinstance(robustness, dict) and "verdict" in robustness
        require(whole, "not what a probe writes", str(path / "probe.json"), "make the probe again")
    specs = [document["subject"] for document in documents]
    differs = [key for key in SHARED if specs[0].get(key) != specs[1].get(key)]
    rule = "two probes are compared on the same examples and radius"
    require(
        not differs,
        rule,
        f"they differ in {', '.join(differs)}",
        "probe both with the same data, eps, norm and seed",
    )
    steps = [read_step(path, "robustness-radii") for path in (one, other)]
    for path, step in zip((one, other), steps, strict=True):
        whole = isinstance(step.get("index"), Tensor) and isinstance(step.get("upper"), Tensor)
        require(whole, "not what a probe writes", f"{path}: robustness-radii", "make the probe again")
    shared = _shared(steps[0]["index"], steps[1]["index"])
    uppers = [step["upper"][place] for step, place in zip(steps, shared, strict=True)]
    eps = specs[0]["eps"]
    lines = [
        _line("clean accuracy", *(upper > 0 for upper in uppers)),
        *(
            _line(f"robust accuracy at {factor * eps:.4g}", *(upper > factor * eps for upper in uppers))
            for factor in (0.5, 1.0)
        ),
        _distances(*uppers),
        *_mechanisms(*documents),
    ]
    notes = [
        f"{path}: {document['robustness']['verdict']}"
        for path, document in zip((one, other), documents, strict=True)
    ]
    return Comparison(str(one), str(other), tuple(lines), tuple(notes))


def _shared(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Where the examples of both lie in each."""
    both = sorted(set(one.tolist()) & set(other.tolist()))
    require(bool(both), "two probes need examples in common", "none", "use the same budget")
    places = [{value: place for place, value in enumerate(side.tolist())} for side in (one, other)]
    first, second = (torch.tensor([place[value] for value in both]) for place in places)
    return first, second


def _line(quantity: str, one: Tensor, other: Tensor) -> Line:
    found = paired(one, other)
    first, second = (float(side.double().mean()) for side in (one, other))
    return Line(quantity, first, second, *found)


def _distances(one: Tensor, other: Tensor) -> Line:
    """Medians over examples right in both; told apart by a sign test of the differences."""
    both = (one > 0) & (other > 0)
    if not bool(both.any()):
        return Line("median distance", None, None)
    first, second = one[both], other[both]
    ahead = paired(first > second, second > first)
    medians = [float(side.double().median()) for side in (first, second)]
    known = [value if value < float("inf") else None for value in medians]
    if known[0] is None or known[1] is None:
        return Line("median distance", known[0], known[1])
    # The interval is that of the share of examples that are farther minus nearer, whose sign is the question.
    name = "median distance (difference: share farther − nearer)"
    return Line(name, known[0], known[1], ahead.value, ahead.low, ahead.high)


def _mechanisms(one: dict[str, Any], other: dict[str, Any]) -> list[Line]:
    """The four mechanisms' numbers, which are not paired."""
    sides = [
        {
            entry["question"]: entry.get("value")
            for entry in (document.get("diagnosis") or {}).get("mechanisms", [])
        }
        for document in (one, other)
    ]
    names = [name for name in sides[0] if name in sides[1]]
    return [Line(name, sides[0][name], sides[1][name]) for name in names]
