"""Coefficients on their way, with the first time of each event and A and B then."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from featscope.dynamics import patch_recursion as co

#: the entries of an event that has not come
NOT_YET = -1.0
#: events are looked for every so many small steps: each moves a coefficient by at most 2 %, so values at
#: events are good to a few per cent
LOOK = 4


class EventRun(NamedTuple):
    """Coefficients, and for each event and class when it came and A and B then (runs, events, k, 3); −1
    before."""

    u: Tensor
    v: Tensor
    e: Tensor
    gram: Tensor
    time: Tensor
    events: Tensor

    def coefficients(self) -> co.Coefficients:
        """The coefficients alone."""
        return co.Coefficients(self.u, self.v, self.e, self.gram, self.time)


def waiting(c: co.Coefficients, events: int, classes: int) -> EventRun:
    """The start of all runs: nothing has come."""
    return EventRun(*c, torch.full((len(c.time), events, classes, 3), NOT_YET, dtype=torch.float64))


def noted(state: EventRun, c: co.Coefficients, reached: Tensor, a: Tensor, b: Tensor) -> EventRun:
    """The next state: events that hold now for the first time (runs, events, k) are noted with the largest A
    and B of each class (runs, k)."""
    now = torch.stack([c.time[:, None].expand(a.shape), a, b], -1)
    new = reached & (state.events[..., 0] == NOT_YET)
    return EventRun(*c, torch.where(new[..., None], now[:, None], state.events))
