"""What a person wants to read of a run: an experiment declares its key numbers, each with its meaning.

    highlights=(
        Highlight("adversarial/clean_test", "clean accuracy on fresh points, adversarial training", "share"),
        Highlight("adversarial/robust_test/*/upper", "robust accuracy at most, threat {}", "share"),
    )

`*` stands for every name at its level and takes the place of `{}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

#: longer lists are shown by their ends
LONGEST = 6


@dataclass(frozen=True)
class Highlight:
    """Where in the summary a key number is, what it means (with the paper's letter), and whether it is a
    share, shown in percent."""

    key: str
    meaning: str
    kind: Literal["number", "share"] = "number"

    def of(self, summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Meaning and value of every number that the key names; those that a run does not have are left
        out."""
        for names, value in _found(summary, self.key.split("/")):
            yield self.meaning.format(*names), _told(value, self.kind == "share")


def key_numbers(highlights: Sequence[Highlight], summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """All key numbers of a summary as texts."""
    return [pair for highlight in highlights for pair in highlight.of(summary)]


def _found(
    body: Any, levels: Sequence[str], names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not levels:
        yield names, body
        return
    first, *rest = levels
    if first == "*":
        for name, inner in _named(body):
            yield from _found(inner, rest, (*names, name))
    elif isinstance(body, Mapping) and first in body:
        yield from _found(body[first], rest, names)


def _named(body: Any) -> Iterator[tuple[str, Any]]:
    """The items of an object, or of a list whose items say what they are of."""
    if isinstance(body, Mapping):
        yield from body.items()
    elif isinstance(body, list):
        for index, item in enumerate(body):
            said = (
                [item[key] for key in ("value", "dataset", "seed") if key in item]
                if isinstance(item, Mapping)
                else []
            )
            yield (
                (f"{said[0]:g}" if isinstance(said[0], float) else str(said[0])) if said else str(index),
                item,
            )


def _told(value: Any, share: bool) -> str:
    if isinstance(value, Mapping):
        ends = value.get("interval")
        spread = f" ({_number(ends[0], share)} to {_number(ends[1], share)})" if ends else ""
        return _told(value.get("mean"), share) + spread
    if isinstance(value, list):
        shown = value if len(value) <= LONGEST else [value[0], "…", value[-1]]
        return ", ".join(item if item == "…" else _told(item, share) for item in shown)
    return _number(value, share)


def _number(value: Any, share: bool) -> str:
    if value is None:
        return "none"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if share:
        return f"{100 * value:.1f} %"
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:.4g}"
