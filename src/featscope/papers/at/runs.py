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

ASSUMPTION = ("Assumption 2.3 and the choices of B.3",)

#: the conditions of `PatchLaw.check` by name, as the proofs use them. What a proof does not use is not
#: assumed: identities of the recursions hold for any law, and no lemma needs `halfway`.
STRONG, DENSE = "A2.3 strong", "A2.3 dense"
ROOM, NOISE_SIZE = "B.3 room", "B.3 noise"
STRONGER_THAN_RADIUS, RADIUS_REACHES, RADIUS_SIZE = "B.3 α ≫ ε", "B.3 ε > β", "§2.5 ε = Θ(σ_n√d)"
SEPARATED = "2ε-separation"
#: Theorem 4.3 and what it stands on
STANDARD = (STRONG, DENSE, ROOM, NOISE_SIZE, STRONGER_THAN_RADIUS, RADIUS_REACHES, RADIUS_SIZE)
#: Theorem 4.4 speaks of robust classification, which needs classes apart
ADVERSARIAL = (*STANDARD, SEPARATED)
#: the noiseless lemmas on who grows first (D.9 to D.11) …
GROWTH = (DENSE, ROOM)
#: … and with the attack (D.23 to D.26), which must outweigh β and not α
ATTACKED_GROWTH = (*GROWTH, STRONGER_THAN_RADIUS, RADIUS_REACHES)
#: appendix E's lemmas on the noise: they follow the same growth with noise of the assumed size
NOISY_GROWTH = (*GROWTH, NOISE_SIZE)
