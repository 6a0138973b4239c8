"""The one loop, cut at the steps that are shown while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

import numpy as np
from torch import Tensor

from featscope.dynamics.trajectory import State, Step, trajectory

S = TypeVar("S", bound=State)


def recorded_steps(steps: int, most: int, log: bool) -> list[int]:
    """At most about ``most`` steps from 0 to ``steps``, evenly spread or evenly in their logarithm."""
    places = np.geomspace(1, max(steps, 1), most) if log else np.linspace(0, steps, most)
    return sorted({0, steps, *(round(place) for place in places.tolist())})


def states(step: Step[S], state: S, at: list[int]) -> Iterator[tuple[int, S]]:
    """The states at the given steps, as they are reached."""
    yield at[0], state
    for low, high in pairwise(at):
        record = trajectory(_from(step, low), state, high - low, _nothing, high - low)
        state = record.healthy("full descent", "lower η").state
        yield high, state


def _from(step: Step[S], low: int) -> Step[S]:
    """The same step, counted from ``low``."""
    return lambda state, t: step(state, low + t)


def _nothing(state: State, t: int) -> dict[str, Tensor | float]:
    return {}


def flat_numbers(tensor: Tensor) -> list[float]:
    """A tensor's entries in order, for JSON."""
    found: list[float] = tensor.detach().double().flatten().tolist()
    return found
