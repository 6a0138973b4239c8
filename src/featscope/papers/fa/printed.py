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

# --- constants of Lemmas B.7 to B.24 (2-class) and C.10 to C.24 (k-class, with powers of k)


class Multiple(NamedTuple):
    """constant · k^power, a multiple of the proof's ε(k)."""

    constant: float
    power: int = 0


class ProofConstants(NamedTuple):
    """Multiples of ε(k) that bound gaps of q̂ (inside a cluster, anywhere), margin gaps, ratios of loss
    derivatives less one (inside a cluster, anywhere), ratios of σ less one and ratios of λ less one."""

    hat_gap_cluster: Multiple
    hat_gap: Multiple
    margin_gap: Multiple
    slope_ratio_cluster: Multiple
    slope_ratio: Multiple
    sigma_ratio: Multiple
    lambda_ratio: Multiple


PROOF = {
    "binary": ProofConstants(*map(Multiple, (5, 63, 65, 14, 130, 200, 204))),
    "fine": ProofConstants(
        Multiple(5, 1),
        Multiple(32, 2),
        Multiple(33, 2),
        Multiple(14, 1),
        Multiple(67, 2),
        Multiple(200, 2),
        Multiple(204, 2),
    ),
}
#: a derivative is at most this times exp(−(n/2k)σ), and at least this times exp(−(2n/k)σ) (B.21); C.21 has 2k
#: and 1/2
SLOPE_ABOVE, SLOPE_BELOW, FINE_SLOPE_ABOVE, FINE_SLOPE_BELOW = 2.0, 1 / 3, 2.0, 1 / 2
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
