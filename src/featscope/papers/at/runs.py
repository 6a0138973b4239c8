"""The runs that AT's claims read, and the hypotheses they share."""

from __future__ import annotations

from featscope.claims.claim import Need
from featscope.papers.at import printed

#: η = 1 and the patch clip: the setting in which the phases are visible.
FIG3 = Need("patch-fig3")
#: the other adversarial settings are judged at their end, at ε: fewer evaluations on the way and no curve
#: over radii
SIDE = {"arms": ["adversarial"], "evaluation.every": 500, "evaluation.radii": []}
#: η and T as AT §6.1 prints them.
LITERAL = Need(
    "patch-fig3",
    {
        **SIDE,
        "adversarial.learning_rate": printed.FIGURE_3_LEARNING_RATE,
        "adversarial.steps": printed.FIGURE_3_STEPS,
    },
)
#: the displayed formula of Clip, read with scalars.
COORDINATE = Need("patch-fig3", {**SIDE, "adversarial.clip": "coordinate"})
#: the run whose cross-entropy saturates, so that a naive attack reports robustness.
MASKED = Need(
    "patch-fig3",
    {**SIDE, "adversarial.clip": "coordinate", "adversarial.learning_rate": 10.0, "adversarial.steps": 600},
)
#: PGD in place of the single ascent step, which the paper names as future work.
PGD_TRAINING = Need(
    "patch-fig3", {**SIDE, "seeds": [0], "adversarial.attack_steps": 3, "adversarial.steps": 600}
)
MINIMA = Need("patch-minima")
SCALING = Need("patch-scaling")
RECURSION = Need("patch-recursion")
NOISE = Need("patch-noise")
INNER = Need("patch-inner")
DEPTH = Need("patch-depth")
DEPTH_TEN = Need("patch-depth", {"law.k": 10})

ASSUMPTION = ("Assumption 2.3 and the choices of B.3",)
