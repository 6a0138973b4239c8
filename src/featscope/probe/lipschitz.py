"""Certified radii from a Lipschitz constant, where bounds cannot be propagated: the constants of the layers
multiply, and a prediction cannot change before its margin is used up.

Operator norms are bounded from above. ℓ∞: the largest row sum of |W|. ℓ2: Schur's test ‖W‖₂² ≤ ‖W‖₁‖W‖_∞, and
for matrices the Frobenius and the spectral norm. All in double precision; ``SLACK`` is far more than its
rounding (a sum of n terms of one sign errs by n·2⁻⁵³ of itself, a singular value by a small power of the
dimension times 2⁻⁵³ of the largest).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.probe.layers import Layer, layer_values
from featscope.probe.slopes import SLOPED

SLACK = 1 + 1e-9
#: entries of a matrix up to which its spectral norm is computed
SPECTRAL = 4_000_000
#: largest slopes of the activations that have linear bounds, too
SLOPES = {"relu": 1.0, "tanh": 1.0, "sigmoid": 0.25, "softplus": 1.0}


class Stretch(NamedTuple):
    """By how much, at most, a change of the input is stretched: measured by ℓ∞ on both sides, and by ℓ2."""

    linf: float
    l2: float


def only_lipschitz(layers: list[Layer]) -> bool:
    """Whether a layer is known by its slope alone."""
    return any(layer.kind in SLOPED for layer in layers)


@torch.no_grad()
def lipschitz_radii(layers: list[Layer], x: Tensor, y: Tensor, norm: str) -> Tensor:
    """For each example a radius within which no perturbation changes its prediction; 0 where it is wrong."""
    x = x.double()
    outputs = layer_values(layers, x)[-1]
    per_unit = _changes(layers, x[:1], outputs.shape[1], norm)[y]
    gaps = outputs.gather(1, y[:, None]) - outputs - 1e-9 * outputs.abs().amax(1, keepdim=True)
    radii = gaps / per_unit.clamp(min=1e-300)
    radii[torch.arange(len(y)), y] = torch.inf
    return radii.amin(1).clamp(min=0)


def _changes(layers: list[Layer], one: Tensor, classes: int, norm: str) -> Tensor:
    """(y, j): how much F_y − F_j changes, at most, for each unit of the perturbation's norm."""
    last = layers[-1]
    if last.kind == "linear":
        stretch = stretches(layers[:-1], one)[last.reads[0]]
        rows = last.arrays["weight"][:, None] - last.arrays["weight"][None]
        by_linf, by_l2 = stretch.linf * rows.abs().sum(-1), stretch.l2 * rows.norm(dim=-1)
    else:
        stretch = stretches(layers, one)[-1]
        full = torch.ones(classes, classes, dtype=torch.float64)
        by_linf, by_l2 = 2 * stretch.linf * full, math.sqrt(2) * stretch.l2 * full
    # A perturbation's ℓ∞ norm is at most its ℓ2 norm, which is at most √d times its ℓ∞ norm.
    wider = math.sqrt(one.numel()) if norm == "Linf" else 1.0
    return torch.minimum(by_linf, wider * by_l2) * SLACK


def stretches(layers: list[Layer], one: Tensor) -> list[Stretch]:
    """Of the input and of every layer's result."""
    values = layer_values(layers, one)
    found = [Stretch(1.0, 1.0)]
    for layer in layers:
        before = [found[read] for read in layer.reads]
        if layer.kind == "add":
            found.append(Stretch(before[0].linf + before[1].linf, before[0].l2 + before[1].l2))
            continue
        own = _own(layer, values[layer.reads[0]])
        found.append(Stretch(before[0].linf * own.linf * SLACK, before[0].l2 * own.l2 * SLACK))
    return found


def _own(layer: Layer, value: Tensor) -> Stretch:
    """One layer's norms."""
    if layer.affine:
        return _norms(layer, value)
    if layer.kind == "max":
        sizes, strides = (_pair(layer.options[key]) for key in ("kernel_size", "stride"))
        # An entry is in at most so many windows.
        windows = math.prod(-(-size // stride) for size, stride in zip(sizes, strides, strict=True))
        return Stretch(1.0, math.sqrt(windows))
    slope = SLOPES[layer.kind] if layer.kind in SLOPES else SLOPED[layer.kind].slope(**layer.options)
    return Stretch(slope, slope)


def _pair(value: int | list[int]) -> tuple[int, int]:
    return (value[0], value[1]) if isinstance(value, list) else (value, value)


def _norms(layer: Layer, value: Tensor) -> Stretch:
    if layer.kind == "reshape":
        return Stretch(1.0, 1.0)
    rows, columns = _sums(layer, value)
    l2 = math.sqrt(rows * columns)
    if layer.kind == "linear":
        weight = layer.arrays["weight"]
        l2 = min(l2, float(weight.norm()))
        if weight.numel() <= SPECTRAL:
            l2 = min(l2, float(torch.linalg.matrix_norm(weight, 2)))
    return Stretch(rows, l2)


def _sums(layer: Layer, value: Tensor) -> tuple[float, float]:
    """The largest row and column sum of the absolute weights: |W| and its transpose at ones."""
    with torch.enable_grad():
        leaf = torch.ones_like(value[:1]).requires_grad_(True)
        rows = layer.linear_part(leaf, absolute=True)
        (columns,) = torch.autograd.grad(rows.sum(), leaf)
    return float(rows.detach().max()), float(columns.max())
