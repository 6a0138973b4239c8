"""What settings cost before they run: an experiment says how many numbers it holds and how many products it
forms, and the measured time of its profile is scaled by that.

These are sizes, not promises: they tell a second from a week and a megabyte from more than the machine has.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from featscope.core.errors import require

#: an interpreter with torch, in bytes
BARE = 4e8
#: a step holds its inputs, what it computes and the gradients of it
COPIES = 3
#: what nobody means to wait for, in seconds
LONGEST = 30 * 86400.0
#: products a second that no single machine of today exceeds, for profiles that nobody has timed
FASTEST = 1e14


def as_float(number: float) -> float:
    """The number as a float; whole numbers grow beyond every float, to infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Size:
    """How many numbers an experiment holds at a time, how many products it forms in all, and how many of them
    in a second at least where they are many: small runs spend their time otherwise."""

    numbers: float
    work: float
    rate: float = 1e9

    def __post_init__(self) -> None:
        for name in ("numbers", "work"):
            object.__setattr__(self, name, as_float(getattr(self, name)))


@dataclass(frozen=True)
class Cost:
    """Expected memory in bytes and time in seconds; None where nobody has measured or estimated it."""

    memory: float | None
    seconds: float | None
    #: no machine is faster than this
    least: float = 0.0

    def __str__(self) -> str:
        memory = "unknown memory" if self.memory is None else f"about {in_bytes(self.memory)} of memory"
        time = "unknown time" if self.seconds is None else f"about {in_time(self.seconds)} on two cores"
        return f"{time}, {memory}"


def in_bytes(count: float) -> str:
    """Bytes in the unit that reads well."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.2g} {unit}" if count / size < 10 else f"{count / size:.0f} {unit}"
    return f"{count / 1e3:.0f} kB"


def in_time(seconds: float) -> str:
    """Seconds in the unit that reads well."""
    for unit, size in (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{max(seconds, 1):.0f} s"


def expected(size: Size, usual: Size, measured: float | None, width: int) -> Cost:
    """What settings will take, from their size, the size of the profile's own settings and the time measured
    for these; ``width`` is the bytes of a number."""
    seconds = None if measured is None else _scaled(measured, usual, size)
    return Cost(BARE + COPIES * width * size.numbers, seconds, size.work / FASTEST)


def _scaled(measured: float, usual: Size, size: Size) -> float:
    if size.work <= usual.work:
        return measured * max(size.work, 1) / max(usual.work, 1)
    return measured + (size.work - usual.work) / max(usual.work / measured, size.rate)


def machine_memory() -> float | None:
    """The memory of this machine in bytes, where the system tells."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return None


def require_affordable(name: str, cost: Cost) -> None:
    """Refuse settings that this machine cannot hold, or that nobody can wait for."""
    there = machine_memory()
    if cost.memory is not None and there is not None:
        require(
            cost.memory <= there,
            "these settings need more memory than the machine has",
            f"{name}: about {in_bytes(cost.memory)}, here are {in_bytes(there)}",
            "lower the sizes, or use --profile quick",
        )
    seconds = cost.least if cost.seconds is None else cost.seconds
    require(
        seconds <= LONGEST,
        "these settings would take more than a month",
        f"{name}: {'at least' if cost.seconds is None else 'about'} {in_time(seconds)}",
        "lower steps, sizes or seeds",
    )
