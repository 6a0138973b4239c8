"""From which k on FA's statements say something, a second time: as roots of smooth functions of k."""

import math
from functools import cache

from scipy.optimize import brentq
from second_reading import empty, rows

from featscope.core.rules import SPEAKS

#: m^−0.01 = .95 here, where what is added to it has long vanished
NEARLY_ALL = 0.95**-100


def proof(run):
    """The numbers of a run that the proofs' bounds are made of."""
    return rows(run, "proof")[0]


def stays(found, where, why, **opens_at):
    """Empty where that is so and the statement is met; what is missed stays missed."""
    return empty(found, why, **opens_at) if where and found.verdict == "HOLDS" else found


@cache
def window_opens(fine):
    """T lies between d² = k^20 (times k^8 for k classes) and exp(√k)."""
    power = 28 if fine else 20
    return math.ceil(brentq(lambda k: math.sqrt(k) - power * math.log(k), 1e3, 1e9))


def _epsilon(k):
    """At d = k^10, n = k^7: n/k = k^6, 4√d ln d · k²/d = 40 ln k/k³, k²/n = k^−5."""
    log = math.log(k)
    return max(12 * log / (k**3 - 6 * log), 40 * log / k**3, k**-5)


@cache
def bound_opens(constant, power=0):
    """Above k = e every multiple falls in k as far as k^power ln k/k³ does, power ≤ 2."""
    excess = lambda k: constant * k**power * _epsilon(k) - SPEAKS  # noqa: E731
    return math.ceil(brentq(excess, 3.0, 1e12))


def radius_opens(factor):
    """The least whole k above 2·factor²."""
    return math.floor(2 * factor * factor) + 1


def window(run, found, fine):
    """Empty where no T is at least the one and at most the other bound."""
    p = proof(run)
    first, final = p["least_steps_fine" if fine else "least_steps"], p["most_steps"]
    if not first > final:
        return found
    keys = ("k", "averaging_radius", "decoupling_radius", "epsilon")
    told = type(found)(**{**found.__dict__, "evidence": {**found.evidence, **{key: p[key] for key in keys}}})
    opens = window_opens(fine)
    why = f"T must be at least {first:.3g} and at most exp(√k) = {final:.3g}: no T is both before k = {opens}"
    return empty(told, why, k=opens)


def at_radius(law, factor, found):
    """Empty where factor·√(d/k) is √(d/2), half the distance of two centres, or more."""
    radius, half, opens = factor * math.sqrt(law.d / law.k), math.sqrt(law.d / 2), radius_opens(factor)
    why = (
        f"the radius {radius:.1f} exceeds half the distance of two centres, {half:.1f}, where no "
        f"classifier is robust; it does not from k = {opens} on"
    )
    return stays(found, radius >= half, why, k=opens)
