"""Claims and verdicts.

A claim is a statement of a paper with one or more readings. A reading names the runs it needs and a pure
function that judges their rows; judges are built from claims/judging.py. The rules that turn "≫", "o(1)" or
"O(f(d))" into an inequality about a finite run are those of core/rules.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from featscope.experiments.run import Run


class Verdict(StrEnum):
    """What a check can say."""

    HOLDS = "HOLDS"
    FAILS = "FAILS"
    OUT_OF_SCOPE = "OUT_OF_SCOPE"
    VACUOUS = "VACUOUS"
    INCONCLUSIVE = "INCONCLUSIVE"


def plain(value: Any) -> Any:
    """Evidence as JSON can hold it: numbers that are not finite become None, arrays become lists."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Finding:
    """A verdict with its value, the bound it was held to, and the evidence."""

    verdict: Verdict
    value: float | None
    bound: float | None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A finding is JSON: what is no finite number is null.
        for name in ("value", "bound", "evidence"):
            object.__setattr__(self, name, plain(getattr(self, name)))


Runs = Mapping[str, Run]
Judge = Callable[[Runs], Finding]


@dataclass(frozen=True)
class Need:
    """An experiment with overrides whose run a reading reads."""

    experiment: str
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """One way to read a statement, with what it needs and how it is judged."""

    name: str
    text: str
    needs: Mapping[str, Need]
    judge: Judge


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, in our words."""

    id: str
    paper: str
    reference: str
    statement: str
    hypotheses: tuple[str, ...]
    readings: tuple[Reading, ...]
