"""What the judges of FA's phase diagram must say."""

from __future__ import annotations

from judging import Table, judged
from phase_rows import edge_table

FACTORS = {"start and step": 3.0, "points and signal": 1.5, "cosine and clusters": 1.5}


@judged("PH-clusters", *FACTORS)
def edges(name: str) -> Table:
    return edge_table("phase-clusters", name, FACTORS[name])
