"""From which k on FA's statements say something, with unit constants in O, Ω and Θ.

d = k^10, n = k^7, η = d^−2, m = k/2.

Each opening is the least k from which on a condition holds; the conditions fail below it and hold above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from featscope.core.rules import SMALL, SPEAKS
from featscope.laws.cluster_properties import epsilon

#: beyond this k nothing opens that is worth naming
FURTHEST = 10**30


def least(opens: Callable[[int], bool], first: int = 2) -> int | None:
    """The least k ≥ ``first`` at which ``opens`` holds; None if it does not up to FURTHEST.

    What opens stays open.
    """
    high = first
    while not opens(high):
        high *= 2
        if high > FURTHEST:
            return None
    low = max(first, high // 2)
    if opens(low):
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if opens(middle) else (middle, high)
    return high


def log_window(k: int, fine: bool) -> float:
    """ln of the longest time allowed, exp(√k), less ln of the least, 1/η or k^8/η: negative where no T is
    allowed."""
    return math.sqrt(k) - (28 if fine else 20) * math.log(k)


@cache
def window_opens(fine: bool) -> int | None:
    """The k from which on T can be at least 1/η (k-class: k^8/η) and at most exp(√k)."""
    return least(lambda k: log_window(k, fine) >= 0)


def assumed_epsilon(k: int) -> float:
    """ε of Lemma B.7 at d = k^10, n = k^7."""
    return epsilon(float(k), float(k) ** 10, float(k) ** 7)


@cache
def bound_opens(constant: float, power: int = 0) -> int | None:
    """The k from which on constant · k^power · ε(k) is at most SPEAKS."""
    return least(lambda k: constant * float(k) ** power * assumed_epsilon(k) <= SPEAKS)


def trivial_radius(d: float) -> float:
    """√(d/2), half the distance of two centres: every classifier that is right on both fails beyond it."""
    return math.sqrt(d / 2)


def radius_opens(factor: float) -> int:
    """The k from which on factor · √(d/k) is below √(d/2), whatever d is."""
    return math.floor(2 * factor**2) + 1


def radii_part(factor: float, share: float) -> int:
    """The k from which on factor · √(d/k) is below share · √d."""
    return math.floor((factor / share) ** 2) + 1


def activation_failure(m: float, k: float, n: float) -> float:
    """m^−0.01 + 2mk exp(−n/(9km²)): what Proposition A.12 allows to fail."""
    return math.pow(m, -0.01) + 2 * m * k * math.exp(-n / (9 * k * m**2))


@cache
def activation_opens() -> int | None:
    """The k from which on A.12 allows at most 1 − SMALL of the draws to fail, m = k/2."""
    return least(lambda k: activation_failure(k / 2, k, float(k) ** 7) <= 1 - SMALL)


def fine_activation_failure(h: float, k: float, n: float) -> float:
    """(hk)^−0.01 + 2hk² exp(−n/(9k³h²)): what Proposition C.3 allows to fail."""
    return math.pow(h * k, -0.01) + 2 * h * k**2 * math.exp(-n / (9 * k**3 * h**2))


@cache
def fine_activation_opens() -> int | None:
    """The k from which on C.3 allows at most 1 − SMALL of the draws to fail, h = 1."""
    return least(lambda k: fine_activation_failure(1, k, float(k) ** 7) <= 1 - SMALL)


def activation_limit(m: float, k: float) -> float:
    """The probability with which A.12's event fails where n → ∞: 1 − (1 − 1/(3m²))^(2mk).

    A neuron is then activated by the share Φ(g) of a cluster, g = ⟨w, μ_j⟩/(σ_w√d) ~ N(0, 1), independent for
    the 2m neurons and k clusters, so that Φ(g) is uniform and falls below 1/(3m²) with that probability.
    """
    return -math.expm1(2 * m * k * math.log1p(-1 / (3 * m**2)))


@cache
def activation_breaks() -> int | None:
    """The k from which on that probability is above what A.12 allows, m = k/2 and n → ∞."""
    return least(lambda k: activation_limit(k / 2, k) > (k / 2) ** -0.01, first=4)
