"""What the judges of CGRO's phase diagram must say."""

from __future__ import annotations

from judging import Table, judged
from phase_rows import edge_table


@judged("PH-signal", "samples", "tradeoff")
def edges(name: str) -> Table:
    return edge_table("phase-signal", name, 1.5)
