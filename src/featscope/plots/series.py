"""What a panel can show along its axes: seeds, bands, curves, points, brackets and reference lines.

A series is data with a name and a look; ``panels.Panel`` turns it into layers of a Vega-Lite spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from featscope.plots.palette import REFERENCE, Look

Values = NDArray[np.float64]
Rows = list[dict[str, Any]]

#: a line with at most so many points shows them
SPARSE = 25
#: with more seeds than this their range is drawn instead of every one
EVERY_SEED = 10


class Layer(Protocol):
    """What ``panels`` gives a series to make a layer of: a mark, rows, and which rows' fields are x and y."""

    @property
    def most(self) -> int:
        """How many points a line may have."""
        ...

    @property
    def log(self) -> bool:
        """Whether x is drawn on a logarithmic axis."""
        ...

    def __call__(self, mark: Mapping[str, Any], rows: Rows, **options: Any) -> dict[str, Any]:
        """The layer."""
        ...


def as_values(values: Any) -> Values:
    """Floats, with NaN for what is missing or not finite."""
    found = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def short(value: float) -> float | int | None:
    """A number as a spec holds it: six digits, whole numbers as they are, None for NaN."""
    if np.isnan(value):
        return None
    return int(value) if value == int(value) and abs(value) < 1e15 else float(f"{value:.6g}")


def thinned(x: Values, lines: Sequence[Values], most: int, log: bool = False) -> NDArray[np.intp]:
    """Which points to keep of lines over one ascending x so that about ``most`` are left and nothing seen is
    lost.

    The axis, as it is drawn (``log`` or not), is cut into equal pieces; of each the least and the largest
    value of
    every line stay, and one gap if there is one; so do the ends.
    """
    if len(x) <= most:
        return np.arange(len(x))
    drawn = (
        np.log(np.maximum(x, np.min(x[x > 0], initial=np.inf, where=True))) if log and (x > 0).any() else x
    )
    pieces = max(1, most // (2 * len(lines)) - 1)
    place = np.clip((drawn - drawn[0]) / max(drawn[-1] - drawn[0], 1e-300) * pieces, 0, pieces - 1).astype(
        int
    )
    kept = {0, len(x) - 1}
    for piece in np.unique(place):
        inside = np.flatnonzero(place == piece)
        for line in lines:
            gaps = inside[np.isnan(line[inside])]
            kept.update(gaps[:1].tolist())
            if len(gaps) < len(inside):
                kept.update(
                    {int(inside[np.nanargmin(line[inside])]), int(inside[np.nanargmax(line[inside])])}
                )
    return np.array(sorted(kept))


def _rows(x: Values, columns: Mapping[str, Values], **fixed: Any) -> Rows:
    return [
        {"x": short(at), **{key: short(values[i]) for key, values in columns.items()}, **fixed}
        for i, at in enumerate(x)
    ]


def by_seed(rows: pl.DataFrame, value: str | pl.Expr, x: str, seed: str = "seed") -> tuple[Values, Values]:
    """x and (seeds, points) of a column or an expression of rows, for ``OverSeeds(name, look, *by_seed(…))``.

    An x at which no seed has a value is left out: what is measured now and then has points now and then. A
    seed that
    lacks a value at one of the others (it diverged, it stopped) has NaN there.
    """
    expression = pl.col(value) if isinstance(value, str) else value
    kept = rows.select(pl.col(x).alias("x"), pl.col(seed).alias("seed"), expression.alias("y"))
    kept = kept.filter(pl.col("y").is_not_null())
    if kept.is_empty():
        return np.empty(0), np.empty((0, 0))
    wide = kept.pivot(on="seed", index="x", values="y", aggregate_function="first").sort("x")
    return wide["x"].to_numpy().astype(float), as_values(wide.drop("x").to_numpy().T)


def median_over_seeds(runs: Values) -> Values:
    """The median at each point, where at least half of the seeds were measured; else NaN: seeds that stopped
    are not
    forgotten."""
    measured = (~np.isnan(runs)).sum(0)
    middle = np.full(runs.shape[1], np.nan)
    enough = (2 * measured >= len(runs)) & (measured > 0)
    middle[enough] = np.nanmedian(runs[:, enough], axis=0)
    return middle


@dataclass(frozen=True)
class OverSeeds:
    """Every seed as a thin line and their median as a thick one; more than ``EVERY_SEED`` as a range.

    ``runs`` is (seeds, points) over the ascending ``x``; None or NaN where a seed was not measured, which
    leaves a gap.
    """

    name: str
    look: Look
    x: Sequence[float] | Values
    runs: ArrayLike

    def _runs(self) -> Values:
        return np.atleast_2d(as_values(self.runs))

    @property
    def lines(self) -> int:
        """How many lines share the rows that a picture may have."""
        seeds = len(self._runs())
        return 1 if seeds == 1 else 3 if seeds > EVERY_SEED else 1 + seeds

    @property
    def has_points(self) -> bool:
        """Whether the points are marked."""
        return len(self.x) <= SPARSE

    def extent(self, axis: str) -> Values:
        """All values along an axis."""
        return as_values(self.x) if axis == "x" else self._runs().ravel()

    def layers(self, layer: Layer) -> Iterator[dict[str, Any]]:
        """Seeds behind, median in front."""
        x, runs = as_values(self.x), self._runs()
        if len(runs) > EVERY_SEED:
            yield from Band(
                self.name, self.look, x, np.nanmin(runs, 0), median_over_seeds(runs), np.nanmax(runs, 0)
            ).layers(layer)
            return
        if len(runs) > 1:
            rows: Rows = []
            for seed, line in enumerate(runs):
                kept = thinned(x, [line], layer.most, layer.log)
                rows += _rows(x[kept], {"y": line[kept]}, seed=seed)
            yield layer({"type": "line", "strokeWidth": 1, "clip": True}, rows, seeds=True)
        yield from Curve(self.name, self.look, x, median_over_seeds(runs)).layers(layer)


@dataclass(frozen=True)
class Band:
    """A line within a shaded range: ``low``, ``mid``, ``high`` over x (a median with quantiles, say)."""

    name: str
    look: Look
    x: Sequence[float] | Values
    low: ArrayLike
    mid: ArrayLike
    high: ArrayLike
    lines = 3

    @property
    def has_points(self) -> bool:
        """Whether the points are marked."""
        return len(self.x) <= SPARSE

    def extent(self, axis: str) -> Values:
        """All values along an axis."""
        return as_values(self.x) if axis == "x" else as_values([*as_values(self.low), *as_values(self.high)])

    def layers(self, layer: Layer) -> Iterator[dict[str, Any]]:
        """The range behind, the line in front."""
        yield from Bracket(self.name, self.look, self.x, self.low, self.high).layers(layer)
        yield from Curve(self.name, self.look, self.x, self.mid).layers(layer)


@dataclass(frozen=True)
class Bracket:
    """The area between ``low`` and ``high`` alone: what lies between a certified and an attacked bound,
    say."""

    name: str
    look: Look
    x: Sequence[float] | Values
    low: ArrayLike
    high: ArrayLike
    lines = 2
    has_points = False

    def extent(self, axis: str) -> Values:
        """All values along an axis."""
        return as_values(self.x) if axis == "x" else as_values([*as_values(self.low), *as_values(self.high)])

    def layers(self, layer: Layer) -> Iterator[dict[str, Any]]:
        """One area."""
        x, low, high = as_values(self.x), as_values(self.low), as_values(self.high)
        kept = thinned(x, [low, high], layer.most, layer.log)
        rows = _rows(x[kept], {"y": low[kept], "high": high[kept]})
        yield layer({"type": "area", "clip": True}, rows, area=True)


@dataclass(frozen=True)
class Curve:
    """One line, with its points where they are at most ``SPARSE``; ``points`` decides otherwise.

    ``solid=False`` leaves the line out: points alone. Missing values are gaps.
    """

    name: str
    look: Look
    x: Sequence[float] | Values
    y: ArrayLike
    points: bool | None = None
    solid: bool = True
    lines = 1

    def extent(self, axis: str) -> Values:
        """All values along an axis."""
        return as_values(self.x if axis == "x" else self.y)

    @property
    def has_points(self) -> bool:
        """Whether the points are marked."""
        return not self.solid or (len(self.x) <= SPARSE if self.points is None else self.points)

    def layers(self, layer: Layer) -> Iterator[dict[str, Any]]:
        """The line and its points."""
        x, y = as_values(self.x), as_values(self.y)
        kept = thinned(x, [y], layer.most, layer.log) if self.solid else np.arange(len(x))
        rows = _rows(x[kept], {"y": y[kept]})
        if self.solid:
            yield layer({"type": "line", "strokeWidth": 2, "clip": True}, rows, hover=not self.has_points)
        if self.has_points:
            yield layer({"type": "point", "filled": True, "size": 34, "clip": True}, rows)


def points(name: str, look: Look, x: Sequence[float] | Values, y: ArrayLike) -> Curve:
    """Points without a line."""
    return Curve(name, look, x, y, points=True, solid=False)


@dataclass(frozen=True)
class Rule:
    """A reference line across the panel at one value of an axis, with its label beside it; not in the
    legend."""

    at: float
    label: str = ""
    axis: str = "x"
    look: Look = REFERENCE
