"""What AT's sweeps over the dimension ask of their list of dimensions."""

from __future__ import annotations

from featscope.core.errors import require


def enough_dimensions(dimensions: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions, if an exponent can be fitted over them and float64 still tells d from d + 1."""
    several, largest = len(set(dimensions)) >= 3, max(dimensions, default=0)
    require(several, "an exponent needs at least three dimensions", f"{dimensions}", "add more")
    require(largest <= 10**15, "dimensions must be at most 10¹⁵", f"{largest}", "float64 ends there")
    return dimensions
