"""The Lipschitz constant of a network of plain layers, in NumPy: how large a perturbation a margin outlasts.

Activations are measured, not looked up: their largest slope is that of a fine grid, with room for what lies
between two of its points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from featscope.certificates.balls import _pulled
from featscope.certificates.layers import Array, Plain, _two

#: where slopes are measured; between two points, h apart, a slope is larger by some h² of its curvature
GRID, BETWEEN = np.linspace(-30.0, 30.0, 600_001), 1 + 2e-8


def safe_radii(net: Plain, x: Array, y: np.ndarray, norm: str) -> Array:
    """For each point a radius within which its class stays ``y``; not positive where it is not."""
    outputs = net.outputs(x)
    rows = np.arange(len(y))
    gaps = outputs[rows, y][:, None] - outputs
    per_unit = _changes(net, net.values(x[:1]), norm)[y]
    reach = gaps / np.maximum(per_unit, 1e-300)
    reach[rows, y] = np.inf
    least: Array = reach.min(1)
    return least


def _changes(net: Plain, values: list[Array], norm: str) -> Array:
    """(y, j): how much F_y − F_j changes, at most, for each unit of a perturbation's norm."""
    found, last, classes = _stretched(net, values), net.layers[-1], values[-1].shape[1]
    if last["kind"] == "linear":
        weight = net.array(len(net.layers) - 1, "weight")
        assert weight is not None
        apart = weight[:, None] - weight[None]
        linf, l2 = found[last["reads"][0]]
        by_linf, by_l2 = linf * np.abs(apart).sum(-1), l2 * np.sqrt((apart**2).sum(-1))
    else:
        linf, l2 = found[-1]
        by_linf, by_l2 = np.full((classes, classes), 2 * linf), np.full((classes, classes), np.sqrt(2) * l2)
    wider = np.sqrt(values[0].size) if norm == "Linf" else 1.0
    least: Array = np.minimum(by_linf, wider * by_l2)
    return least


def _stretched(net: Plain, values: list[Array]) -> list[tuple[float, float]]:
    """Of the input and every layer's result the ℓ∞ and the ℓ2 constant."""
    found = [(1.0, 1.0)]
    for number, layer in enumerate(net.layers):
        before = [found[read] for read in layer["reads"]]
        if layer["kind"] == "add":
            found.append((before[0][0] + before[1][0], before[0][1] + before[1][1]))
            continue
        linf, l2 = _constants(net, number, layer, values[layer["reads"][0]], values[number + 1])
        found.append((before[0][0] * linf, before[0][1] * l2))
    return found


def _constants(
    net: Plain, number: int, layer: Mapping[str, Any], given: Array, made: Array
) -> tuple[float, float]:
    kind, options = layer["kind"], layer["options"]
    if kind == "reshape":
        return 1.0, 1.0
    if kind == "max":
        (tall, wide), (down, right) = _two(options["kernel_size"]), _two(options["stride"])
        return 1.0, float(np.sqrt(np.ceil(tall / down) * np.ceil(wide / right)))
    if kind in ("linear", "conv", "scale", "average"):
        rows = net.linear(number, np.ones_like(given[:1]), absolute=True).max()
        plain = Plain(net.layers, {name: np.abs(value) for name, value in net.arrays.items()})
        columns = _pulled(plain, number, np.ones_like(made[:1]), given.shape[1:]).max()
        l2 = np.sqrt(rows * columns)
        weight = net.array(number, "weight")
        if kind == "linear" and weight is not None:
            # The largest eigenvalue of the smaller Gram matrix is the spectral norm's square.
            gram = weight @ weight.T if len(weight) < weight.shape[1] else weight.T @ weight
            l2 = min(l2, np.sqrt(np.linalg.eigvalsh(gram)[-1])) if len(gram) <= 2000 else l2
        return float(rows), float(l2)
    slope = (np.abs(np.diff(net.one(number, [GRID]))) / np.diff(GRID)).max() * BETWEEN
    return float(slope), float(slope)
