"""Activations for which only the largest slope is used: with them a network has no linear bounds here, but a
Lipschitz constant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Sloped(NamedTuple):
    """An activation, its parameters with what they are if not given, and its largest slope."""

    function: Callable[..., Tensor]
    parameters: Mapping[str, Any]
    slope: Callable[..., float]


def _cut(value: Tensor, low: float, high: float) -> Tensor:
    return value.clamp(low, high)


#: kind ↦ activation. The largest slopes of GELU (1.12904 exact, 1.12899 by tanh), SiLU (1.09984), Mish
#: (1.08851) and SELU (1.0507 · 1.67326) are rounded up.
SLOPED: dict[str, Sloped] = {
    "leaky_relu": Sloped(
        functional.leaky_relu, {"negative_slope": 0.01}, lambda negative_slope: max(1.0, abs(negative_slope))
    ),
    "elu": Sloped(functional.elu, {"alpha": 1.0}, lambda alpha: max(1.0, abs(alpha))),
    "gelu": Sloped(functional.gelu, {"approximate": "none"}, lambda approximate: 1.13),
    "silu": Sloped(functional.silu, {}, lambda: 1.1),
    "mish": Sloped(functional.mish, {}, lambda: 1.09),
    "selu": Sloped(functional.selu, {}, lambda: 1.7582),
    "hardswish": Sloped(functional.hardswish, {}, lambda: 1.5),
    "softsign": Sloped(functional.softsign, {}, lambda: 1.0),
    "abs": Sloped(torch.abs, {}, lambda: 1.0),
    "clip": Sloped(_cut, {"low": -1.0, "high": 1.0}, lambda low, high: 1.0),
}
_OTHER_NAMES = {"leakyrelu": "leaky_relu", "absolute": "abs", "swish": "silu"}


def slope_of(
    name: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[str, dict[str, Any]] | None:
    """The kind of an activation and its parameters, if it is one of these."""
    if name in ("relu6", "hardtanh", "clamp", "clip"):
        ends = _ends(name, target, args, kwargs)
        return None if ends is None else ("clip", {"low": ends[0], "high": ends[1]})
    kind = _OTHER_NAMES.get(name.rstrip("_"), name.rstrip("_"))
    if kind not in SLOPED:
        return None
    found = dict(SLOPED[kind].parameters)
    if isinstance(target, nn.Module):
        return kind, {key: getattr(target, key, value) for key, value in found.items()}
    found |= dict(zip(found, args[1:], strict=False)) | {key: v for key, v in kwargs.items() if key in found}
    return kind, found


def _ends(
    name: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[float, float] | None:
    """Where a value is cut off below and above; none if that is not two numbers."""
    if name == "relu6":
        return 0.0, 6.0
    keys = ("min_val", "max_val") if name == "hardtanh" else ("min", "max")
    given: dict[str, Any] = dict(zip(keys, (-1.0, 1.0), strict=True)) if name == "hardtanh" else {}
    if isinstance(target, nn.Module):
        given = {key: getattr(target, key) for key in keys}
    else:
        given |= dict(zip(keys, args[1:], strict=False)) | {k: v for k, v in kwargs.items() if k in keys}
    # One-sided cuts have no number at the other end.
    low, high = given.get(keys[0]), given.get(keys[1])
    ends = (-1e300 if low is None else low, 1e300 if high is None else high)
    numbers = all(isinstance(end, int | float) for end in ends)
    return (float(ends[0]), float(ends[1])) if numbers else None
