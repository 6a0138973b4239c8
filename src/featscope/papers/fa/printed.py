"""Numbers that are printed in FA, or read off its plots."""

from __future__ import annotations

from typing import NamedTuple

# --- Figure 3 (left): robust accuracy against the ℓ2 radius


class PrintedCurve(NamedTuple):
    """Robust accuracies at radii, read off a plot."""

    radii: tuple[float, ...]
    accuracies: tuple[float, ...]


#: network → its curve
FIGURE_3_LEFT = {
    "binary": PrintedCurve((12.0, 14.0, 16.0, 18.0), (1.0, 0.91, 0.31, 0.02)),
    "fine": PrintedCurve((34.0, 36.0, 38.0, 40.0, 42.0, 44.0), (1.0, 0.87, 0.35, 0.14, 0.04, 0.0)),
}
#: a curve read off that plot is good to this much in radius
FIGURE_3_LEFT_PRECISION = 1.0

# --- constants of Lemmas B.7, B.24 (2-class) and C.10, C.24 (k-class, where each is multiplied by k²)


class ProofConstants(NamedTuple):
    """Multiples of the proof's ε(k) that bound margin gaps, ratios of loss derivatives less one, and ratios
    of λ less one."""

    margin_gap: float
    slope_ratio: float
    lambda_ratio: float


PROOF = {"binary": ProofConstants(65, 130, 204), "fine": ProofConstants(33, 67, 204)}
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
