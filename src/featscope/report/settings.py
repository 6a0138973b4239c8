"""What a run was told: the profile it comes from, what differs from it, and the command that makes it
again."""

from __future__ import annotations

import json
import shlex
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import BaseModel

from featscope.core.frozen import json_form
from featscope.experiments.registry import experiments
from featscope.experiments.run import Run
from featscope.experiments.spec import PROFILES, resolve
from featscope.report.values import printed_number

#: profiles in the order in which a run is compared with them; `cpu` is the usual one
LIKELY = ("cpu", *(name for name in PROFILES if name != "cpu"))
#: changes that a title has room for
IN_TITLE = 4


def flat(body: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings with dots between the levels."""
    found: dict[str, Any] = {}
    for key, value in body.items():
        found.update(flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value})
    return found


def settings_of(run: Run) -> dict[str, Any]:
    """The settings as they were written, so that a run of an older form is shown, too."""
    return flat(run.identity["spec"])


def meanings(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Dotted key → what the setting means, with the paper's letter where it has one."""
    found: dict[str, str] = {}
    for name, info in model.model_fields.items():
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        letter = f" ({extra['letter']})" if extra.get("letter") else ""
        found[prefix + name] = f"{info.description or ''}{letter}".strip()
        for option in (info.annotation, *typing.get_args(info.annotation)):
            if isinstance(option, type) and issubclass(option, BaseModel):
                found |= meanings(option, f"{prefix}{name}.")
    return found


@dataclass(frozen=True)
class Told:
    """A run's settings as a profile and changes of it."""

    experiment: str
    profile: str
    changes: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The changes, as short as a title needs them."""
        named = [f"{key} = {_short(value)}" for key, value in self.changes.items()]
        more = f" and {len(named) - IN_TITLE} more" if len(named) > IN_TITLE else ""
        return ", ".join(named[:IN_TITLE]) + more

    @property
    def brief(self) -> str:
        """The first two of them with the last part of their keys, for a list."""
        named = [f"{key.rpartition('.')[2]} = {_short(value)}" for key, value in self.changes.items()]
        return ", ".join(named[:2]) + (" …" if len(named) > 2 else "")

    @property
    def command(self) -> str:
        """The command that makes the run again."""
        parts = ["featscope", "run", self.experiment, "--profile", self.profile]
        for key, value in self.changes.items():
            if key == "seeds" and value == list(range(len(value))):
                parts += ["--seeds", str(len(value))]
            else:
                written = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
                parts += ["--set", f"{key}={written}"]
        return shlex.join(parts)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return printed_number(value)
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return written if len(written) <= 32 else written[:31] + "…"


@cache
def _usual(experiment: str, profile: str) -> dict[str, Any]:
    return flat(json_form(resolve(experiments()[experiment], profile)))


def settings_told(run: Run) -> Told:
    """The profile that a run is nearest to, and what it changes of it."""
    if run.experiment not in experiments():
        return Told(run.experiment, "cpu", {})
    mine = settings_of(run)
    candidates = [
        Told(run.experiment, profile, _changes(mine, _usual(run.experiment, profile))) for profile in LIKELY
    ]
    return min(candidates, key=lambda candidate: len(candidate.changes))


def _changes(mine: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mine.items() if key not in usual or usual[key] != value}


def distinguished(variants: Sequence[Told]) -> list[Told]:
    """The same, with what tells a run from others of its experiment in front."""
    return [replace(one, changes=_telling_first(one, _siblings(one, variants))) for one in variants]


def _siblings(one: Told, variants: Sequence[Told]) -> list[Mapping[str, Any]]:
    return [other.changes for other in variants if other is not one and other.experiment == one.experiment]


def _telling_first(one: Told, others: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The changes in such an order that each next leaves as few others alike as can be."""
    left, ordered = dict(one.changes), dict[str, Any]()
    while left:
        alike = {key: [o for o in others if key in o and o[key] == value] for key, value in left.items()}
        key = min(alike, key=lambda key: len(alike[key]))
        ordered[key] = left.pop(key)
        others = alike[key]
    return ordered
