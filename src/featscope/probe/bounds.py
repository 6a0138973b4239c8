"""Certified radii: bounds on the logits' differences over a whole ball, propagated through the layers, and
the largest radius at which they keep their sign, by bisection.

Values between layers are bounded by intervals, narrow layers and the first one by linear bounds; the final
differences F_y − F_j are bounded by a linear function of the input (bounds go backward through the layers; an
active or dead ReLU is a linear map, an undecided one lies between two lines). On a linear network that is
exact. All in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from featscope.attacks.threat import Threat
from featscope.probe.layers import ACTIVATIONS, Layer, layer_values

#: entries before an activation, times all entries before them, up to which linear functions bound them
NARROW = 300_000
#: entries of the matrix of an affine beginning up to which its rows are measured
BEGINNING = 4_000_000
#: the bisection looks no lower than this share of where it begins
LEAST = 1e-4
Interval = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Region:
    """A ball around each example, of its own radius, cut with the bounds of the inputs."""

    x: Tensor
    radius: Tensor
    linf: bool
    bounds: tuple[float, float] | None
    #: for a ball: the norms of the rows of what the first layers do, where they are affine
    rows: dict[int, Tensor] = field(default_factory=dict)

    @property
    def box(self) -> Interval:
        """The least box that holds it."""
        reach = self.radius.view(-1, *([1] * (self.x.dim() - 1)))
        low, high = self.x - reach, self.x + reach
        if self.bounds is not None:
            low, high = low.clamp(min=self.bounds[0]), high.clamp(max=self.bounds[1])
        return low, high

    def least(self, slope: Tensor) -> Tensor:
        """The minimum of ⟨slope, x + Δ⟩ over the region, or a bound below it; slopes (n, s, *shape)."""
        flat = slope.flatten(2)
        low, high = (end.flatten(1)[:, None] for end in self.box)
        over_box = (flat.clamp(min=0) * low + flat.clamp(max=0) * high).sum(-1)
        if self.linf:
            return over_box
        over_ball = (flat * self.x.flatten(1)[:, None]).sum(-1) - self.radius[:, None] * flat.norm(dim=-1)
        return torch.maximum(over_box, over_ball)


def margins(layers: list[Layer], region: Region, y: Tensor) -> Tensor:
    """For each example a bound below min_{j≠y} F_y − F_j over its region."""
    known = _intervals(layers, region)
    classes = known[-1][0].shape[1]
    slope = functional.one_hot(y, classes).double()[:, None] - torch.eye(classes, dtype=torch.float64)
    values = _below(layers, len(layers), slope, known, region)
    values[torch.arange(len(y)), y] = torch.inf
    return values.amin(1)


def _intervals(layers: list[Layer], region: Region) -> list[Interval]:
    """Bounds of the input and of every layer's result."""
    known: list[Interval] = [region.box]
    narrow = _narrow(layers, [value[0].numel() for value in layer_values(layers, region.x[:1])])
    for number, layer in enumerate(layers, 1):
        low, high = _interval(layer, [known[read] for read in layer.reads])
        if number in region.rows:
            reach = region.radius.view(-1, *([1] * (low.dim() - 1))) * region.rows[number]
            centre = layer_values(layers[:number], region.x)[-1]
            low, high = torch.maximum(low, centre - reach), torch.minimum(high, centre + reach)
        if number in narrow and number not in region.rows:
            width = low[0].numel()
            slope = torch.eye(width, dtype=torch.float64).view(1, width, *low.shape[1:])
            slope = slope.expand(len(low), *slope.shape[1:])
            part = layers[:number]
            low = torch.maximum(low, _below(part, number, slope, known, region).view_as(low))
            high = torch.minimum(high, -_below(part, number, -slope, known, region).view_as(high))
        known.append((low, high))
    return known


def _interval(layer: Layer, given: list[Interval]) -> Interval:
    low, high = given[0]
    if layer.affine:
        middle, reach = layer((low + high) / 2), layer.linear_part((high - low) / 2, absolute=True)
        return middle - reach, middle + reach
    if layer.kind == "add":
        return low + given[1][0], high + given[1][1]
    return layer(low), layer(high)


def _below(layers: list[Layer], last: int, slope: Tensor, known: list[Interval], region: Region) -> Tensor:
    """A bound below ⟨slope, value number ``last``⟩ over the region, for slopes (n, s, *shape), (n, s)."""
    slopes: dict[int, Tensor] = {last: slope}
    constant = torch.zeros(slope.shape[:2], dtype=slope.dtype)
    for number in range(last, 0, -1):
        if number not in slopes:
            continue
        layer, here = layers[number - 1], slopes.pop(number)
        pieces, extra = _backward(layer, here, [known[read] for read in layer.reads])
        constant = constant + extra
        for read, piece in zip(layer.reads, pieces, strict=True):
            slopes[read] = slopes[read] + piece if read in slopes else piece
    return constant + region.least(slopes[0])


def _backward(layer: Layer, slope: Tensor, given: list[Interval]) -> tuple[list[Tensor], Tensor]:
    """Slopes of what the layer reads, and the constant, of a function below ⟨slope, result⟩."""
    if layer.kind == "add":
        return [slope, slope], torch.zeros(slope.shape[:2], dtype=slope.dtype)
    low, high = given[0]
    if layer.affine:
        return [_transposed(layer, slope, low.shape[1:])], (slope * layer.constant(slope)[None]).flatten(
            2
        ).sum(-1)
    if layer.kind == "max":
        return _pooled(layer, slope, low, high)
    lower, lower_at, upper, upper_at = (line[:, None] for line in _lines(layer.kind, low, high))
    up, down = slope.clamp(min=0), slope.clamp(max=0)
    return [up * lower + down * upper], (up * lower_at + down * upper_at).flatten(2).sum(-1)


def _transposed(layer: Layer, slope: Tensor, shape: torch.Size) -> Tensor:
    """The slopes pulled through the linear part, by autograd of the layer itself."""
    n, s = slope.shape[:2]
    with torch.enable_grad():
        leaf = torch.zeros(n * s, *shape, dtype=slope.dtype, requires_grad=True)
        (pulled,) = torch.autograd.grad(layer.linear_part(leaf), leaf, slope.reshape(n * s, *slope.shape[2:]))
    return pulled.view(n, s, *shape)


def _lines(kind: str, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Slope and value at 0 of a line below and of a line above an activation on [low, high]."""
    if kind == "relu":
        upper = torch.where(low >= 0, 1.0, (high / (high - low).clamp(min=1e-30)).clamp(0, 1))
        upper = torch.where(high <= 0, 0.0, upper)
        lower = torch.where((low >= 0) | ((high > 0) & (high >= -low)), 1.0, 0.0).to(low)
        undecided = (low < 0) & (high > 0)
        return lower, torch.zeros_like(low), upper, torch.where(undecided, -upper * low, 0.0)
    act = ACTIVATIONS[kind]
    slope = torch.minimum(_derivative(act, low), _derivative(act, high))
    return slope, act(low) - slope * low, slope, act(high) - slope * high


def _derivative(act: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = at.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(act(leaf).sum(), leaf)
    return slope


def _pooled(layer: Layer, slope: Tensor, low: Tensor, high: Tensor) -> tuple[list[Tensor], Tensor]:
    """A maximum is at least the entry with the largest lower bound, and equal to it where no other can be
    larger; elsewhere it is at most the largest upper bound."""
    most_low, places = functional.max_pool2d(low, return_indices=True, **layer.options)
    ceiling = layer(high)
    n, s = slope.shape[:2]
    chosen = high.flatten(2).gather(2, places.flatten(2)).view_as(most_low)
    others = _second(layer, high, low)
    decided = (others <= most_low) & (chosen >= ceiling)
    up, down = slope.clamp(min=0), slope.clamp(max=0)
    passed = up + down * decided[:, None]
    where = places.flatten(2)[:, None].expand(n, s, *places.flatten(2).shape[1:])
    flat = torch.zeros(n, s, low.shape[1], low.shape[2] * low.shape[3], dtype=slope.dtype)
    flat.scatter_add_(3, where, passed.flatten(3))
    constant = (down * torch.where(decided, 0.0, ceiling)[:, None]).flatten(2).sum(-1)
    return [flat.view(n, s, *low.shape[1:])], constant


def _second(layer: Layer, high: Tensor, low: Tensor) -> Tensor:
    """In each window the largest upper bound among all entries but the one with the largest lower bound."""
    size, stride, padding = (layer.options[key] for key in ("kernel_size", "stride", "padding"))
    pad = [padding] * 4 if isinstance(padding, int) else [padding[1], padding[1], padding[0], padding[0]]
    n, channels = high.shape[:2]

    def windows(t: Tensor) -> Tensor:
        padded = functional.pad(t, pad, value=-1e30)
        cut = functional.unfold(padded, size, stride=stride)
        return cut.view(n, channels, -1, cut.shape[-1])

    lows, highs = windows(low), windows(high)
    first = lows.argmax(2, keepdim=True)
    rest = highs.scatter(2, first, -torch.inf).amax(2)
    return rest.view(n, channels, *layer(high).shape[2:])


def _rows(layers: list[Layer], x: Tensor) -> dict[int, Tensor]:
    """For the values before the first activations, as long as they are affine in the input, the ℓ2 norm of
    each entry's slope."""
    found: dict[int, Tensor] = {}
    affine, one = {0}, layer_values(layers, x[:1])
    for number, layer in enumerate(layers, 1):
        if not (layer.affine and layer.reads[0] in affine):
            continue
        affine.add(number)
        width = one[number][0].numel()
        bent = any(number in later.reads and not later.affine for later in layers)
        if bent and width * x[0].numel() <= BEGINNING:
            slope = torch.eye(width, dtype=torch.float64).view(1, width, *one[number].shape[1:])
            at = number
            while at:
                slope = _transposed(layers[at - 1], slope, one[layers[at - 1].reads[0]].shape[1:])
                at = layers[at - 1].reads[0]
            found[number] = slope.flatten(2).norm(dim=-1).view(one[number].shape)
    return found


def worth_lines(layers: list[Layer], x: Tensor, ball: bool) -> list[int]:
    """The values that are bounded by linear functions, not by intervals alone."""
    values = layer_values(layers, x[:1])
    found = _narrow(layers, [value[0].numel() for value in values])
    return sorted(found | set(_rows(layers, x.double())) if ball else found)


def _narrow(layers: list[Layer], widths: list[int]) -> set[int]:
    """Values before an activation that are narrow enough."""
    bent = {layer.reads[0] for layer in layers if not layer.affine and layer.kind not in ("add", "max")}
    return {number for number in bent if number and widths[number] * sum(widths[: number + 1]) <= NARROW}


@torch.no_grad()
def bounded_radii(
    layers: list[Layer], x: Tensor, y: Tensor, threat: Threat, beyond: Tensor, rounds: int = 12
) -> Tensor:
    """For each example a radius within which no perturbation changes its prediction, 0 where none was proved;
    ``beyond`` is a radius at which it is known to change, where the bisection (on logarithms) begins."""
    x, linf = x.double(), math.isinf(threat.ball.p)
    sound = torch.zeros(len(y), dtype=torch.float64)
    if not len(y):
        return sound
    outputs = layer_values(layers, x)[-1]
    right = outputs.argmax(1) == y
    high = beyond.double().clone()
    low = high * LEAST

    rows = {} if linf else _rows(layers, x)

    def holds(radius: Tensor) -> Tensor:
        bound = margins(layers, Region(x, radius, linf, threat.bounds, rows), y)
        return right & (bound > 1e-9 * outputs.abs().amax(1))

    for number in range(rounds + 1):
        middle = low if number == 0 else (low * high).sqrt()
        proved = holds(middle)
        sound = torch.where(proved, middle, sound)
        low, high = torch.where(proved, middle, low), torch.where(proved, high, middle)
    return sound
