"""Assumption B.3's choices for the network and for the attack's step, as numbers: what `PatchLaw.check`
does for the law."""

from __future__ import annotations

import math

from featscope.core.conditions import Condition, asks_at_least, asks_at_most
from featscope.core.rules import CONSTANT
from featscope.laws.patches import PatchLaw
from featscope.nets.patch_cnn import PatchNetSpec

START_SIZE, THRESHOLD, POLYNOMIAL_START = "B.3 σ0", "B.3 ϱ", "B.3 d large"
POWER, ASCENT = "B.3 q", "B.3 η̃"


def choices(law: PatchLaw, net: PatchNetSpec, step_size: float | None = None) -> list[Condition]:
    """σ0 = 1/√d, ϱ = 1/polylog(d), q ≥ 3 and, with an attack, η̃ = d^c0 for c0 in (0, 1); and, as "d is
    sufficiently large", that training starts in the polynomial part of the activation, as all proofs do.

    What any single number meets (m = polylog(d), N and 1/η = poly(d), P = Θ(1)) is not asked.
    """
    alpha = max(law.of_class("alpha", j).supremum for j in range(law.k))
    start = alpha * net.sigma_0 * math.sqrt(2 * math.log(2 * net.width))
    log_d = math.log(law.d)
    size = abs(math.log(net.sigma_0 * math.sqrt(law.d))) if net.sigma_0 > 0 else math.inf
    found = [
        asks_at_most(START_SIZE, "σ0 = 1/√d up to a constant: |log(σ0√d)|", size, math.log(CONSTANT)),
        asks_at_most(THRESHOLD, "ϱ = 1/polylog(d): ϱ log d", net.rho * log_d, CONSTANT),
        asks_at_most(
            POLYNOMIAL_START,
            "d is large: sup α · σ0 √(2 log 2m) ÷ ϱ, where neurons start",
            start / net.rho,
            1.0,
        ),
        asks_at_least(POWER, "q ≥ 3", float(net.q), 3.0),
    ]
    if step_size is None:
        return found
    power = math.log(step_size) / log_d
    return [*found, asks_at_most(ASCENT, "η̃ = d^c0 with c0 < 1: log η̃ ÷ log d", power, 1.0)]
