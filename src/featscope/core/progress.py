"""What shows the progress of work to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Progress(Protocol):
    """What shows the work's progress to a person."""

    def report(self, label: str, step: int, steps: int, facts: Mapping[str, float]) -> None:
        """Show that ``step`` of ``steps`` is reached, with the quantities that matter."""
        ...


class Silent:
    """No progress shown."""

    def report(self, label: str, step: int, steps: int, facts: Mapping[str, float]) -> None:
        """Show nothing."""
