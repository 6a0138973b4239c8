"""A network of plain layers in NumPy: its outputs at points, and bounds of them over balls.

Written from the definitions of the layers, for the re-verification of probes; nothing here is shared with
what searched or certified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from featscope.certificates.arrays import REMEDY
from featscope.core.errors import BadInput

Array = NDArray[np.float64]
LowHigh = tuple[Array, Array]


def _normal_share(at: Array) -> Array:
    share: Array = np.vectorize(math.erf, otypes=[np.float64])(at / math.sqrt(2)) / 2 + 0.5
    return share


def _gelu(at: Array, approximate: str) -> Array:
    if approximate == "tanh":
        curve: Array = at / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (at + 0.044715 * at**3)))
        return curve
    return at * _normal_share(at)


def _elu(at: Array, alpha: float) -> Array:
    curve: Array = np.where(at > 0, at, alpha * np.expm1(np.minimum(at, 0)))
    return curve


def _logistic(at: Array) -> Array:
    share: Array = np.exp(-np.logaddexp(0, -at))
    return share


#: activations of which only the slope is bounded
SLOPED: dict[str, Callable[..., Array]] = {
    "leaky_relu": lambda at, negative_slope: np.where(at > 0, at, negative_slope * at),
    "elu": _elu,
    "gelu": _gelu,
    "silu": lambda at: at * _logistic(at),
    "mish": lambda at: at * np.tanh(np.logaddexp(0, at)),
    "selu": lambda at: 1.0507009873554805 * _elu(at, 1.6732632423543772),
    "hardswish": lambda at: at * np.clip(at + 3, 0, 6) / 6,
    "softsign": lambda at: at / (1 + np.abs(at)),
    "abs": lambda at: np.abs(at),
    "clip": lambda at, low, high: np.clip(at, low, high),
}


def _two(value: Any) -> tuple[int, int]:
    return (int(value[0]), int(value[1])) if isinstance(value, list | tuple) else (int(value), int(value))


class Plain:
    """Layers as a probe writes them: kind, what each reads (0 is the input), arrays, sizes."""

    def __init__(self, layers: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> None:
        self.layers = layers
        self.arrays = {name: value.astype(np.float64) for name, value in arrays.items()}

    def array(self, number: int, name: str) -> Array | None:
        """An array of a layer, if it has it."""
        return self.arrays.get(f"{number}.{name}")

    def values(self, x: Array) -> list[Array]:
        """The input and every layer's result."""
        found = [x.astype(np.float64)]
        for number, layer in enumerate(self.layers):
            found.append(self.one(number, [found[read] for read in layer["reads"]]))
        return found

    def outputs(self, x: Array, batch: int = 100) -> Array:
        """The logits of many points."""
        return np.concatenate([self.values(x[at : at + batch])[-1] for at in range(0, len(x), batch)])

    def one(self, number: int, given: list[Array]) -> Array:
        """One layer's result."""
        layer = self.layers[number]
        kind, options = layer["kind"], layer["options"]
        if kind == "add":
            return given[0] + given[1]
        if kind == "relu":
            return np.maximum(given[0], 0)
        if kind == "tanh":
            return np.tanh(given[0])
        if kind == "sigmoid":
            return 1 / (1 + np.exp(-given[0]))
        if kind == "softplus":
            return np.logaddexp(0, given[0])
        if kind in SLOPED:
            bent: Array = SLOPED[kind](given[0], **options)
            return bent
        if kind == "max":
            cut, _ = _windows(
                given[0], options["kernel_size"], options["stride"], options["padding"], -np.inf
            )
            most: Array = cut.max(axis=(-2, -1))
            return most
        return self.linear(number, given[0], absolute=False) + self.constant(number)

    def constant(self, number: int) -> Array:
        """What an affine layer adds, for one example."""
        bias = self.array(number, "bias")
        if bias is None:
            return np.zeros(())
        return bias.reshape(1, -1, 1, 1) if self.layers[number]["kind"] == "conv" else bias

    def linear(self, number: int, value: Array, absolute: bool) -> Array:
        """An affine layer without what it adds; ``absolute`` with its absolute weights."""
        layer = self.layers[number]
        kind, options = layer["kind"], layer["options"]
        if kind == "reshape":
            return value.reshape(len(value), *options["shape"])
        if kind == "average":
            size, stride = options["kernel_size"], options.get("stride", options["kernel_size"])
            cut, _ = _windows(value, size, stride, options.get("padding", 0), 0.0)
            mean: Array = cut.mean(axis=(-2, -1))
            return mean
        weight = self.array(number, "weight")
        if weight is None:
            raise BadInput("a layer of the certificate has no weights", f"{kind}, number {number}", REMEDY)
        weight = np.abs(weight) if absolute else weight
        if kind == "linear":
            product: Array = value @ weight.T
            return product
        if kind == "scale":
            return value * weight
        if kind == "conv":
            return _convolved(value, weight, options)
        raise BadInput("a layer of an unknown kind", str(kind), REMEDY)


def _windows(
    value: Array, size: Any, stride: Any, padding: Any, fill: float, dilation: Any = 1
) -> tuple[Array, tuple[int, int]]:
    """Windows of the last two axes, (n, c, h, w, *size)."""
    (tall, wide), (down, right), (top, side), (far, apart) = map(_two, (size, stride, padding, dilation))
    padded = np.pad(value, ((0, 0), (0, 0), (top, top), (side, side)), constant_values=fill)
    cut = sliding_window_view(padded, ((tall - 1) * far + 1, (wide - 1) * apart + 1), axis=(2, 3))
    return cut[:, :, ::down, ::right, ::far, ::apart], (tall, wide)


def _convolved(value: Array, weight: Array, options: Mapping[str, Any]) -> Array:
    groups = int(options.get("groups", 1))
    cut, _ = _windows(
        value, list(weight.shape[2:]), options["stride"], options["padding"], 0.0, options["dilation"]
    )
    per, out = cut.shape[1] // groups, weight.shape[0] // groups
    parts = [
        np.einsum(
            "nchwij,ocij->nohw",
            cut[:, g * per : (g + 1) * per],
            weight[g * out : (g + 1) * out],
            optimize=True,
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, axis=1)
