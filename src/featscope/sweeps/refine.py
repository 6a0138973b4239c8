"""Boundaries found by splitting: cells whose corners disagree are cut in halves until they are small.

A cell is a box of the grid; its corners are looked at once, whoever shares them. What is asked of a point
is a label: a verdict, a winner, on which side of a level a number is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

Place = tuple[Fraction, ...]
Look = Callable[[Sequence[Place]], Sequence[Hashable]]


@dataclass(frozen=True)
class Cell:
    """A box in shares of the axes: its lower corner and its sides; a side of 0 is never cut."""

    corner: Place
    sides: Place

    def corners(self) -> list[Place]:
        """Its corners, each once."""
        ends = [(c,) if not s else (c, c + s) for c, s in zip(self.corner, self.sides, strict=True)]
        return list(itertools.product(*ends))

    def halves(self, width: Fraction) -> Iterator[Cell]:
        """Its parts after a cut in the middle of every side that is longer than ``width``."""
        cut = [side > width for side in self.sides]
        sides = tuple(s / 2 if c else s for s, c in zip(self.sides, cut, strict=True))
        starts = [(c, c + s) if k else (c,) for c, s, k in zip(self.corner, sides, cut, strict=True)]
        for corner in itertools.product(*starts):
            yield Cell(corner, sides)

    @property
    def middle(self) -> tuple[float, ...]:
        """Its centre."""
        return tuple(float(c + s / 2) for c, s in zip(self.corner, self.sides, strict=True))


def cells_of(counts: Sequence[int], fixed: Sequence[bool] = ()) -> list[Cell]:
    """The cells of a grid with so many points along each axis; along a fixed one a cell is a single place."""
    kept = [*fixed, *[False] * (len(counts) - len(fixed))]
    steps = [Fraction(1, count - 1) if count > 1 else Fraction(0) for count in counts]
    places = [
        [step * i for i in range(count if keep or count == 1 else count - 1)]
        for step, count, keep in zip(steps, counts, kept, strict=True)
    ]
    sides = tuple(Fraction(0) if keep else step for step, keep in zip(steps, kept, strict=True))
    return [Cell(corner, sides) for corner in itertools.product(*places)]


@dataclass
class Boundary:
    """What a refinement found: the label of every place that was looked at, the cells that the boundary goes
    through, and the leaves: all cells that were not cut."""

    seen: dict[Place, Hashable] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    leaves: list[Cell] = field(default_factory=list)

    def parts(self, cell: Cell) -> bool:
        """Whether the corners of a cell disagree; a corner without a label agrees with any."""
        return len({self.seen[corner] for corner in cell.corners() if self.seen[corner] is not None}) > 1


def refine(counts: Sequence[int], look: Look, width: float, fixed: Sequence[bool] = ()) -> Boundary:
    """Look at a grid, then cut every cell whose corners disagree, until those cells are at most ``width`` of
    each axis' range wide; axes that are ``fixed`` are not cut, and each of their places is looked at by
    itself."""
    found, least = Boundary(), Fraction(width).limit_denominator(10**6)
    cells = cells_of(counts, fixed)
    while cells:
        new = list(dict.fromkeys(p for cell in cells for p in cell.corners() if p not in found.seen))
        found.seen.update(zip(new, look(new), strict=True))
        torn = [cell for cell in cells if found.parts(cell)]
        small = {cell for cell in torn if max(cell.sides) <= least}
        found.cells += [cell for cell in torn if cell in small]
        cut = [cell for cell in torn if cell not in small]
        left = set(cut)
        found.leaves += [cell for cell in cells if cell not in left]
        cells = [half for cell in cut for half in cell.halves(least)]
    return found
