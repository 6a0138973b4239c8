"""Part 6: the diagnosis. Four mechanisms side by side, each with its number and interval, where that number
lies among networks that this package trained, and one sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

#: (part, paper, what is asked, where its number stands in the part)
ASKED = (
    ("data_limits", "EP", "Do the data forbid robustness?", ("bound",)),
    ("feature_use", "AT", "Which features does it read?", ("share",)),
    ("averaging", "FA", "Does it average features?", ("cosine",)),
    ("memorising", "CGRO", "Does it memorise?", ("gap",)),
)
#: what each number is
NUMBERS = {
    "data_limits": "most that any classifier reaches on these examples",
    "feature_use": "share of its features that a robust network reads",
    "averaging": "cosine of the cheapest perturbation with the difference of class means",
    "memorising": "robust accuracy on training − on test examples",
}


@dataclass(frozen=True)
class Mechanism:
    """One theory's answer: the number with its interval, the answer in a word, a sentence, and the reference
    networks whose intervals meet it, or on which side of all of them it lies."""

    part: str
    paper: str
    question: str
    number: str
    value: float | None
    low: float | None
    high: float | None
    answer: str
    sentence: str
    among: str

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        return asdict(self)


@cache
def references() -> tuple[Mapping[str, Any], ...]:
    """The networks that this package trained and probed, from the table that ships with it."""
    place = resources.files("featscope.probe") / "reference.json"
    if not place.is_file():
        return ()
    return tuple(json.loads(place.read_text(encoding="utf-8"))["networks"])


def diagnose(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The mechanisms of a probe's parts; a part that could not be measured cannot tell."""
    mechanisms = [mechanism(entries, *asked) for asked in ASKED]
    return {
        "title": "The diagnosis",
        "mechanisms": [one.as_json() for one in mechanisms],
        "references": [entry["name"] for entry in references()],
    }


def mechanism(
    entries: Mapping[str, Any], part: str, paper: str, question: str, path: Sequence[str]
) -> Mechanism:
    """One theory's answer."""
    found = entries.get(part) or {"skipped": "not measured"}
    if "skipped" in found:
        return Mechanism(
            part, paper, question, NUMBERS[part], None, None, None,
            "cannot tell", f"not measured: {found['skipped']}", "",
        )  # fmt: skip
    value, low, high = interval(found, path)
    answer = found.get("answer") or limited(found)
    return Mechanism(
        part, paper, question, NUMBERS[part], value, low, high,
        answer, found["sentence"], among(part, low, high),
    )  # fmt: skip


def limited(found: Mapping[str, Any]) -> str:
    """EP's answer from the matching bound and the separations."""
    if found["bound"] < 1:
        return "yes"
    return "no" if found["ratio"] is not None and found["ratio"] > 1 else "cannot tell"


def interval(found: Mapping[str, Any], path: Sequence[str]) -> tuple[float, float, float]:
    """A number with its interval; a number that is exact is its own."""
    for key in path:
        found = found[key]
    if isinstance(found, Mapping):
        return found["value"], found["low"], found["high"]
    return found, found, found


def among(part: str, low: float | None, high: float | None) -> str:
    """Which reference networks have an interval that meets this one; otherwise on which side it lies."""
    known = [(entry["name"], entry[part]) for entry in references() if entry.get(part)]
    if not known or low is None or high is None:
        return ""
    like = [name for name, other in known if other["low"] <= high and low <= other["high"]]
    if like:
        return "like " + ", ".join(like)
    above = [name for name, other in known if other["low"] > high]
    below = [name for name, other in known if other["high"] < low]
    sides = [("below", above), ("above", below)]
    return "; ".join(f"{word} {', '.join(names)}" for word, names in sides if names)
