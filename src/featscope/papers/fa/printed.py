"""Numbers that FA prints or shows, as data."""

from __future__ import annotations

from typing import NamedTuple

# --- real images


class RobustCurves(NamedTuple):
    """Robust accuracy read off a published plot."""

    radii: tuple[float, ...]
    fine: tuple[float, ...]
    binary: tuple[float, ...]


#: Figure 3, middle and right
FIGURE_3 = {
    "mnist": RobustCurves((0.0, 1.0, 1.6, 2.0), (0.995, 0.88, 0.55, 0.28), (0.99, 0.75, 0.24, 0.07)),
    "cifar10": RobustCurves((0.0, 0.4, 0.6, 0.8), (0.984, 0.79, 0.61, 0.435), (0.972, 0.675, 0.47, 0.31)),
}
