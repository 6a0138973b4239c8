"""Bounds of a network of plain layers over balls, in NumPy: does every point of a ball keep its class?

Intervals go forward; a linear function below the difference of two logits goes backward. A certificate may
name values that are worth bounding by linear functions too: a hint, which cannot make a bound wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featscope.certificates.layers import Array, LowHigh, Plain, _two, _windows

BENT = ("relu", "tanh", "sigmoid", "softplus")


def least_margin(
    net: Plain,
    x: Array,
    label: int,
    radius: float,
    norm: str,
    bounds: Sequence[float] | None,
    hints: Sequence[int],
) -> float:
    """A bound below min_{j≠y} F_y − F_j over the ball of one point ``x`` (1, *shape)."""
    ball = _Ball(x.astype(np.float64), radius, norm, bounds)
    known = _known(net, ball, set(hints))
    classes = known[-1][0].shape[1]
    slope = np.eye(classes)[label][None] - np.eye(classes)
    found = _below(net, len(net.layers), slope, known, ball)
    return float(np.delete(found, label).min())


class _Ball:
    """The points within a radius of one point, inside the bounds of the inputs."""

    def __init__(self, x: Array, radius: float, norm: str, bounds: Sequence[float] | None) -> None:
        self.x, self.radius, self.norm = x, radius, norm
        self.low, self.high = x - radius, x + radius
        if bounds is not None:
            self.low, self.high = np.maximum(self.low, bounds[0]), np.minimum(self.high, bounds[1])

    def least(self, slope: Array) -> Array:
        """A bound below ⟨slope, point⟩, for slopes (s, *shape)."""
        flat, low, high = slope.reshape(len(slope), -1), self.low.ravel(), self.high.ravel()
        box: Array = np.where(flat > 0, flat * low, flat * high).sum(1)
        if self.norm == "Linf":
            return box
        round_: Array = flat @ self.x.ravel() - self.radius * np.sqrt((flat**2).sum(1))
        return np.maximum(box, round_)


def _known(net: Plain, ball: _Ball, hints: set[int]) -> list[LowHigh]:
    known: list[LowHigh] = [(ball.low, ball.high)]
    for number, layer in enumerate(net.layers):
        low, high = _forward(net, number, layer, [known[read] for read in layer["reads"]])
        if number + 1 in hints:
            width = low.size
            for begin in range(0, width, 512):
                chosen = np.arange(begin, min(begin + 512, width))
                slope = np.zeros((len(chosen), width))
                slope[np.arange(len(chosen)), chosen] = 1
                slope = slope.reshape(len(chosen), *low.shape[1:])
                below = _below(net, number + 1, slope, known, ball)
                above = -_below(net, number + 1, -slope, known, ball)
                low.reshape(-1)[chosen] = np.maximum(low.reshape(-1)[chosen], below)
                high.reshape(-1)[chosen] = np.minimum(high.reshape(-1)[chosen], above)
        known.append((low, high))
    return known


def _forward(net: Plain, number: int, layer: Mapping[str, Any], given: list[LowHigh]) -> LowHigh:
    low, high = given[0]
    if layer["kind"] == "add":
        return low + given[1][0], high + given[1][1]
    if layer["kind"] in (*BENT, "max"):
        return net.one(number, [low]), net.one(number, [high])
    middle = net.one(number, [(low + high) / 2])
    reach = net.linear(number, (high - low) / 2, absolute=True)
    return middle - reach, middle + reach


def _below(net: Plain, last: int, slope: Array, known: list[LowHigh], ball: _Ball) -> Array:
    """A bound below ⟨slope, value number ``last``⟩ over the ball, for slopes (s, *shape)."""
    waiting, constant = {last: slope}, np.zeros(len(slope))
    for number in range(last, 0, -1):
        here = waiting.pop(number, None)
        if here is None:
            continue
        layer = net.layers[number - 1]
        for read, (piece, extra) in zip(layer["reads"], _back(net, number - 1, here, known), strict=True):
            waiting[read] = waiting[read] + piece if read in waiting else piece
            constant = constant + extra
    return constant + ball.least(waiting[0])


def _back(net: Plain, number: int, slope: Array, known: list[LowHigh]) -> list[tuple[Array, Array | float]]:
    """For each value that the layer reads its slope, and what is constant."""
    layer = net.layers[number]
    if layer["kind"] == "add":
        return [(slope, 0.0), (slope, 0.0)]
    low, high = known[layer["reads"][0]]
    if layer["kind"] == "max":
        return [_back_max(layer["options"], slope, low, high)]
    if layer["kind"] in BENT:
        (under, under_at), (over, over_at) = _lines(net, number, layer["kind"], low, high)
        up, down = np.maximum(slope, 0), np.minimum(slope, 0)
        extra = (up * under_at + down * over_at).reshape(len(slope), -1).sum(1)
        return [(up * under + down * over, extra)]
    constant = (slope * net.constant(number)).reshape(len(slope), -1).sum(1)
    return [(_pulled(net, number, slope, low.shape[1:]), constant)]


def _lines(
    net: Plain, number: int, kind: str, low: Array, high: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Slope and value at 0 of a line below and one above an increasing activation."""
    if kind == "relu":
        mixed = (low < 0) & (high > 0)
        chord = np.where(mixed, high / np.where(mixed, high - low, 1.0), (low >= 0).astype(np.float64))
        under = np.where(mixed, (high >= -low).astype(np.float64), (low >= 0).astype(np.float64))
        return (under, np.zeros_like(low)), (chord, np.where(mixed, -chord * low, 0.0))
    at_low, at_high = net.one(number, [low]), net.one(number, [high])
    # Each derivative is least at an end of an interval: it rises to its top and falls, or only rises.
    slope = np.minimum(_steepness(kind, low), _steepness(kind, high))
    return (slope, at_low - slope * low), (slope, at_high - slope * high)


def _steepness(kind: str, at: Array) -> Array:
    if kind == "tanh":
        steep: Array = 1 - np.tanh(at) ** 2
        return steep
    bent: Array = 1 / (1 + np.exp(-at))
    return bent if kind == "softplus" else bent * (1 - bent)


def _pulled(net: Plain, number: int, slope: Array, shape: tuple[int, ...]) -> Array:
    """The slopes through the transpose of an affine layer."""
    layer = net.layers[number]
    kind, options = layer["kind"], layer["options"]
    if kind == "reshape":
        return slope.reshape(len(slope), *shape)
    if kind == "average":
        size, stride = options["kernel_size"], options.get("stride", options["kernel_size"])
        (tall, wide), channels = _two(size), shape[0]
        same = np.zeros((channels, 1, tall, wide)) + 1 / (tall * wide)
        sizes = {"stride": stride, "padding": options.get("padding", 0), "dilation": 1, "groups": channels}
        return _spread(slope, same, sizes, shape)
    weight = net.array(number, "weight")
    assert weight is not None
    if kind == "linear":
        product: Array = slope @ weight
        return product
    if kind == "scale":
        return slope * weight
    return _spread(slope, weight, options, shape)


def _spread(slope: Array, weight: Array, options: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    """The transpose of a convolution: each result's slope goes back to the window it came from."""
    (down, right), (top, side), (far, apart) = (
        _two(options[key]) for key in ("stride", "padding", "dilation")
    )
    groups = int(options.get("groups", 1))
    made = np.zeros((len(slope), shape[0], shape[1] + 2 * top, shape[2] + 2 * side))
    tall, wide = slope.shape[2:]
    per, out = shape[0] // groups, weight.shape[0] // groups
    for group in range(groups):
        mine, into = slope[:, group * out : (group + 1) * out], slice(group * per, (group + 1) * per)
        for i in range(weight.shape[2]):
            for j in range(weight.shape[3]):
                part = np.einsum(
                    "nohw,oc->nchw", mine, weight[group * out : (group + 1) * out, :, i, j], optimize=True
                )
                rows = slice(i * far, i * far + (tall - 1) * down + 1, down)
                columns = slice(j * apart, j * apart + (wide - 1) * right + 1, right)
                made[:, into, rows, columns] += part
    return made[:, :, top : top + shape[1], side : side + shape[2]]


def _back_max(options: Mapping[str, Any], slope: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """A maximum is at least its most certain entry, equal to it where no other entry can exceed it, and at
    most the largest upper end."""
    sizes = options["kernel_size"], options["stride"], options["padding"]
    lows, (tall, wide) = _windows(low, *sizes, -np.inf)
    highs, _ = _windows(high, *sizes, -np.inf)
    place = np.arange(low[0, 0].size, dtype=np.float64).reshape(1, 1, *low.shape[2:])
    places, _ = _windows(np.broadcast_to(place, low.shape), *sizes, -1.0)
    lows, highs, places = (cut.reshape(*cut.shape[:4], tall * wide)[0] for cut in (lows, highs, places))
    first = lows.argmax(-1)[..., None]
    others = highs.copy()
    np.put_along_axis(others, first, -np.inf, -1)
    certain = np.take_along_axis(lows, first, -1)[..., 0]
    decided = others.max(-1) <= certain
    where = np.take_along_axis(places, first, -1)[..., 0].astype(np.int64)
    up, down = np.maximum(slope, 0), np.minimum(slope, 0)
    passed = up + down * decided
    made = np.zeros((len(slope), low.shape[1], low[0, 0].size))
    for channel in range(low.shape[1]):
        for row in range(len(slope)):
            np.add.at(made[row, channel], where[channel].ravel(), passed[row, channel].ravel())
    constant = (down * np.where(decided, 0.0, highs.max(-1))).reshape(len(slope), -1).sum(1)
    return made.reshape(len(slope), *low.shape[1:]), constant
