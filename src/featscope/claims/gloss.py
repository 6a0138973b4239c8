"""What a reader wants beside a statement: the same in its paper's letters, and what it would mean if
it failed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gloss:
    """A statement in its paper's letters, and what a failure inside its hypotheses would mean."""

    letters: str
    failure: str
