"""A paper's printed number beside the run's own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """One printed number: where it stands, what it is, what the run found; ``note`` says what differs in how
    they were made."""

    reference: str
    what: str
    printed: float
    ours: float | None
    note: str = ""
