"""Readings at the law that meets Assumptions 2.3 and B.3, for several numbers of classes."""

from __future__ import annotations

from featscope.claims.claim import Judge, Reading
from featscope.papers.at.runs import (
    INSIDE,
    INSIDE_GENTLE,
    INSIDE_TEN,
    INSIDE_TEN_ATTACKED,
    INSIDE_THREE,
    INSIDE_THREE_ATTACKED,
)

LAW = "α = 12, β = 1, ε = 1.1, P = 20001, ϱ = (log d)^−2, m = log d, d from 10⁹ to 10¹⁵"
STANDARD = {"k = 2": INSIDE, "k = 3": INSIDE_THREE, "k = 10": INSIDE_TEN}
ATTACKED = {"k = 2": INSIDE, "k = 3": INSIDE_THREE_ATTACKED, "k = 10": INSIDE_TEN_ATTACKED}


def inside(judge: Judge, text: str, name: str = "", *, attacked: bool = False) -> tuple[Reading, ...]:
    """One judge of standard or of adversarial training at the law for k = 2, 3 and 10; ``name`` tells it from
    others of its claim."""
    label = f"{name} " if name else ""
    return tuple(
        Reading(f"{label}inside ({classes})", f"{text}; {LAW}, {classes}", {"run": need}, judge)
        for classes, need in (ATTACKED if attacked else STANDARD).items()
    )


def gentle(judge: Judge, text: str, name: str = "") -> Reading:
    """The same for k = 2 with a gentler ascent."""
    label = f"{name} " if name else ""
    place = f"{text}; {LAW}, k = 2, c0 = 0.2"
    return Reading(f"{label}inside (c0 = 0.2)", place, {"run": INSIDE_GENTLE}, judge)
