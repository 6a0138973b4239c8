"""Claims and verdicts.

A claim is a statement of a paper with one or more readings. A reading names the runs it needs and a pure
function that judges their rows; judges are built from claims/judging.py. The rules that turn "≫", "o(1)" or
"O(f(d))" into an inequality about a finite run are those of core/rules.py. A judge says what the numbers say;
whether the statement's hypotheses are met there is for the ledger, in one place for all papers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from featscope.core.errors import BadInput
from featscope.core.stored import Label
from featscope.experiments.run import Run


class Verdict(StrEnum):
    """What a check can say."""

    HOLDS = "HOLDS"
    FAILS = "FAILS"
    OUT_OF_SCOPE = "OUT_OF_SCOPE"
    VACUOUS = "VACUOUS"
    INCONCLUSIVE = "INCONCLUSIVE"


class Kind(StrEnum):
    """What a statement is in its paper."""

    THEOREM = "theorem"
    PROPOSITION = "proposition"
    LEMMA = "lemma"
    COROLLARY = "corollary"
    CONSTRUCTION = "construction"
    ASSUMPTION = "assumption"
    FIGURE = "figure"
    TABLE = "table"
    #: asked beyond the paper: what it leaves open
    QUESTION = "question"


#: a paper's own experiments and what it supposes: there is no hypothesis to be outside of
UNCONDITIONAL = frozenset({Kind.ASSUMPTION, Kind.FIGURE, Kind.TABLE, Kind.QUESTION})
_KINDS = {
    "theorem": Kind.THEOREM,
    "proposition": Kind.PROPOSITION,
    "lemma": Kind.LEMMA,
    "corollar": Kind.COROLLARY,
    "assumption": Kind.ASSUMPTION,
    "figure": Kind.FIGURE,
    "table": Kind.TABLE,
}


def kind_of(reference: str) -> Kind:
    """The kind that a reference names first: "AT Lemma 5.2 and Lemma D.22" is a lemma."""
    found = re.search("|".join(_KINDS), reference.lower())
    if found is None:
        remedy = "name one in the reference, or give Claim(…, named_kind=Kind.THEOREM)"
        raise BadInput("a claim is a theorem, lemma, figure, …", reference, remedy)
    return _KINDS[found.group()]


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
    """What the numbers say: a verdict with its value, the bound it was held to (``direction`` says from which
    side), the interval over seeds, hypotheses that the judge saw unmet in the rows, and the evidence."""

    verdict: Verdict
    value: float | None
    bound: float | None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    direction: str = ""
    low: float | None = None
    high: float | None = None
    unmet: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A finding is JSON: what is no finite number is null.
        for name in ("value", "bound", "low", "high", "evidence"):
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
    """One way to read a statement, with what it needs and how it is judged.

    ``assumes`` names the conditions of the law that it supposes where that differs from its claim's; ``at``
    the labels of those settings that it reads of a run of several, such as one sweep.
    """

    name: str
    text: str
    needs: Mapping[str, Need]
    judge: Judge
    assumes: tuple[str, ...] | None = None
    at: Mapping[str, Label] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, in our words.

    ``assumes`` names those conditions of its runs' law that the statement or its proof uses; None means all
    that the runs record, and none at all for assumptions, figures and tables. ``named_kind`` is for
    references that do not say what they are.
    """

    id: str
    paper: str
    reference: str
    statement: str
    hypotheses: tuple[str, ...]
    readings: tuple[Reading, ...]
    assumes: tuple[str, ...] | None = None
    named_kind: Kind | None = None

    @property
    def kind(self) -> Kind:
        """What the statement is in its paper."""
        return self.named_kind or kind_of(self.reference)

    def supposed(self, reading: Reading) -> tuple[str, ...] | None:
        """The names of the conditions that a reading stands on; None for all that its runs record."""
        if reading.assumes is not None:
            return reading.assumes
        return () if self.assumes is None and self.kind in UNCONDITIONAL else self.assumes
