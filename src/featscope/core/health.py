"""When a number of a training is still a number: the one rule for all dynamics.

*Overflowed*: infinite or not a number. *Saturated*: finite, but larger than 1/ε of its dtype (4.5·10¹⁵ in
float64, 8.4·10⁶ in float32). Beyond that a difference of one is lost in rounding, and one is the scale on
which a cross-entropy tells logits apart: the next step is what rounding made it, an accuracy read off there
is no finding. Clocks and times may be as large as they like.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from featscope.core.errors import FeatscopeError

How = Literal["overflowed", "saturated"]


class Diverged(FeatscopeError):
    """A training left the numbers; the message says where and what to do."""


def bound(dtype: torch.dtype) -> float:
    """The largest size of a number that is not saturated."""
    return 1 / torch.finfo(dtype).eps


def ailments(tensors: Iterable[Tensor], runs: int) -> list[How | None]:
    """For each of ``runs`` along the first axis what is wrong with its numbers, if anything; overflow goes
    before saturation."""
    overflowed, saturated = torch.zeros(runs, dtype=torch.bool), torch.zeros(runs, dtype=torch.bool)
    for t in tensors:
        if t.is_floating_point() and t.numel():
            size = t.detach().reshape(runs, -1).abs().amax(-1).cpu()
            overflowed |= ~size.isfinite()
            saturated |= size > bound(t.dtype)
    return [
        "overflowed" if over else "saturated" if much else None
        for over, much in zip(overflowed.tolist(), saturated.tolist(), strict=True)
    ]


def without_gaps(value: Any, key: str = "") -> tuple[Any, list[str]]:
    """JSON data with null for every number that is not finite, and the keys where that was so."""
    if isinstance(value, float) and not math.isfinite(value):
        return None, [key]
    if isinstance(value, Mapping):
        pairs = {name: without_gaps(item, f"{key}.{name}".lstrip(".")) for name, item in value.items()}
        return {name: item for name, (item, _) in pairs.items()}, [
            gap for _, gaps in pairs.values() for gap in gaps
        ]
    if isinstance(value, list | tuple):
        items = [without_gaps(item, f"{key}.{index}".lstrip(".")) for index, item in enumerate(value)]
        return [item for item, _ in items], [gap for _, gaps in items for gap in gaps]
    return value, []


def each_lost(diverged: Mapping[str, Any], how: Mapping[str, str]) -> list[str]:
    """For each run that left the numbers when and how; an only run may have no name."""
    named = {run: f"run {run} " if run else "" for run in diverged}
    return [f"{named[run]}{how.get(run, 'overflowed')} at step {step}" for run, step in diverged.items()]


def told(notes: Mapping[str, Any]) -> str:
    """A part's note in words: which runs left the numbers, when and how."""
    runs = each_lost(notes.get("diverged", {}), notes.get("how", {}))
    rest = [f"{key}: {value}" for key, value in notes.items() if key not in ("diverged", "how")]
    return "; ".join(([", ".join(runs) + ", in no mean"] if runs else []) + rest)
