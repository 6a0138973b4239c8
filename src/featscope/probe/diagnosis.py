"""Part 6: the diagnosis. Four mechanisms side by side, each with its number and interval, where that number
lies among networks that this package trained, and one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from featscope.probe import known
from featscope.probe.known import CommonGround, Position

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
    """One theory's answer: the number with its interval, the answer in a word, a sentence, and where the
    number lies among the reference networks, in words and by name."""

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
    position: dict[str, Any] | None

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        return asdict(self)


def diagnose(entries: Mapping[str, Any], setting: CommonGround) -> dict[str, Any]:
    """The mechanisms of a probe's parts; a part that could not be measured cannot tell."""
    mechanisms = [mechanism(entries, setting, *asked) for asked in ASKED]
    return {
        "title": "The diagnosis",
        "mechanisms": [one.as_json() for one in mechanisms],
        "references": [row["name"] for row in known.references() if known.setting_of(row).meets(setting)],
    }


def mechanism(
    entries: Mapping[str, Any],
    setting: CommonGround,
    part: str,
    paper: str,
    question: str,
    path: Sequence[str],
) -> Mechanism:
    """One theory's answer."""
    found = entries.get(part) or {"skipped": "not measured"}
    if "skipped" in found:
        return Mechanism(
            part, paper, question, NUMBERS[part], None, None, None,
            "cannot tell", f"not measured: {found['skipped']}", "", None,
        )  # fmt: skip
    value, low, high = interval(found, path)
    answer = found.get("answer") or limited(found)
    where: Position = known.position(known.references(), setting, part, low, high)
    return Mechanism(
        part, paper, question, NUMBERS[part], value, low, high,
        answer, found["sentence"], str(where), where.as_json(),
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
