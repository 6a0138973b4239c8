"""Where a sweep looks: a grid, random points, or a Latin hypercube; the same points for the same seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy.stats import qmc

from featscope.core.errors import known_as, require
from featscope.sweeps.axes import MOST, SweepAxis

SweepPoint = dict[str, Any]
DesignName = Literal["grid", "random", "lhs"]


def grid(axes: Sequence[SweepAxis], points: int, seed: int) -> list[SweepPoint]:
    """Every value of every axis with every other."""
    rule = "a grid has as many points as its axes say"
    require(points == 0, rule, f"--points {points}", "leave --points away, or use --design random")
    along = [axis.grid() for axis in axes]
    _require_few(math.prod(map(len, along)))
    values = itertools.product(*along)
    return [dict(zip([axis.key for axis in axes], chosen, strict=True)) for chosen in values]


def random(axes: Sequence[SweepAxis], points: int, seed: int) -> list[SweepPoint]:
    """Independent points, uniform in the box (in logarithms where an axis is)."""
    return _scattered(axes, np.random.default_rng(seed).random((_some(points), len(axes))))


def lhs(axes: Sequence[SweepAxis], points: int, seed: int) -> list[SweepPoint]:
    """A Latin hypercube: along every axis one point in each of as many equal pieces."""
    sampler = qmc.LatinHypercube(len(axes), rng=np.random.default_rng(seed))
    return _scattered(axes, sampler.random(_some(points)))


def _some(points: int) -> int:
    require(points > 0, "this design needs a number of points", f"--points {points}", "give --points 100")
    return _require_few(points)


def _require_few(points: int) -> int:
    require(points <= MOST, f"a sweep has at most {MOST} points", f"{points:.3g} points"[:80], "take fewer")
    return points


def _scattered(axes: Sequence[SweepAxis], shares: Any) -> list[SweepPoint]:
    found = [
        {axis.key: axis.at(float(share)) for axis, share in zip(axes, line, strict=True)} for line in shares
    ]
    return list({repr(point): point for point in found}.values())


DESIGNS: Mapping[str, Callable[[Sequence[SweepAxis], int, int], list[SweepPoint]]] = {
    "grid": grid,
    "random": random,
    "lhs": lhs,
}


def design(name: str, axes: Sequence[SweepAxis], points: int = 0, seed: int = 0) -> list[SweepPoint]:
    """The points of a design, in its order."""
    require(len(axes) > 0, "a sweep varies something", "no --vary", "give --vary key=low:high:number")
    keys = [axis.key for axis in axes]
    require(len(set(keys)) == len(keys), "an axis is given twice", ", ".join(keys), "give it once")
    return DESIGNS[known_as("design", name, DESIGNS)](axes, points, seed)
