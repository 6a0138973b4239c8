"""The runs that AT's claims read, and the hypotheses they share."""

from __future__ import annotations

from featscope.claims.claim import Need
from featscope.papers.at.choices import ASCENT, POLYNOMIAL_START, START_SIZE, THRESHOLD

#: Figure 3 as printed, η = .1, in batches of 5 (inferred), with the patch clip.
FIG3 = Need("patch-fig3")
#: the other settings are judged at their end, at ε, on three seeds: fewer evaluations on the way and no curve
#: over radii
SIDE = {"seeds": [0, 1, 2], "evaluation.every": 500, "evaluation.radii": []}
ALONE = {**SIDE, "arms": ["adversarial"]}
#: AT §2.4 and §2.5: every step on all points, so that an epoch is one step.
FULL_BATCH = Need(
    "patch-fig3",
    {**SIDE, "evaluation.every": 250, "standard.batch_size": None, "adversarial.batch_size": None},
)
#: the same with steps long enough to see both phases in the printed number of them.
LONG_STEPS = Need("patch-fig3", {**ALONE, "adversarial.batch_size": None, "adversarial.learning_rate": 1.0})
#: the displayed formula of Clip, read with scalars.
COORDINATE = Need("patch-fig3", {**ALONE, "adversarial.clip": "coordinate"})
#: the run whose cross-entropy saturates, so that a naive attack reports robustness.
MASKED = Need(
    "patch-fig3",
    {
        **ALONE,
        "adversarial.batch_size": None,
        "adversarial.clip": "coordinate",
        "adversarial.learning_rate": 10.0,
        "adversarial.epochs": 600,
    },
)
#: variants that AT names are looked at until well after the switch
BRIEF = {**SIDE, "standard.epochs": 200, "adversarial.epochs": 400}
#: PGD in place of the single ascent step, which the paper names as future work.
PGD_TRAINING = Need(
    "patch-fig3", {**BRIEF, "arms": ["adversarial"], "seeds": [0], "adversarial.attack_steps": 3}
)
#: AT §2.5: "can be easily extended to other ℓ_p-norm case"; the ball of each patch
EUCLIDEAN = Need("patch-fig3", {**BRIEF, "norm": "L2"})
#: AT §2.5: the ascent on −(F_y − max_j F_j)
ON_MARGIN = Need("patch-fig3", {**BRIEF, "arms": ["adversarial"], "adversarial.objective": "margin"})
#: B.3 takes q ≥ 3. With the printed σ0 = .01 growth takes (1/σ0)^{q−3} times as long: σ0 is B.3's 1/√100
QUARTIC, QUINTIC = (Need("patch-fig3", {**BRIEF, "net.q": q, "net.sigma_0": 0.1}) for q in (4, 5))
#: Assumption 2.3 and all of B.3 but σ0, by full descent with noise
DENSE_LAW = Need("patch-dense")
BATCHES = Need("patch-batches")
MINIMA = Need("patch-minima")
SCALING = Need("patch-scaling")
#: the same lemmas at a law that meets Assumptions 2.3 and B.3: ϱ shrinks and m grows with the logarithm of d,
#: and from d = 10⁹ on training starts in the polynomial part of the activation
ASSUMED = {
    "law.alpha": 12.0,
    "law.patches": 20001,
    "eps": 1.1,
    "rho_power": 2.0,
    "net.width": 1,
    "width_power": 1.0,
    "arms": ["standard", "features-only"],
    "widths": [10],
    "power_starts": [0.01],
}
INSIDE = Need("patch-scaling", {**ASSUMED, "dimensions": [10**i for i in range(9, 16)]})
THREE_SIZES = {**ASSUMED, "dimensions": [10**9, 10**12, 10**15]}
FOUR_SIZES = {**ASSUMED, "dimensions": [10**9, 10**11, 10**13, 10**15], "law.k": 3}
TEN_CLASSES = {**THREE_SIZES, "law.k": 10, "seeds": [0, 1]}
#: more classes cost more: enough runs for a share where training is standard, a few under the attack
INSIDE_THREE = Need("patch-scaling", {**FOUR_SIZES, "seeds": list(range(21)), "arms": ["standard"]})
INSIDE_THREE_ATTACKED = Need(
    "patch-scaling", {**FOUR_SIZES, "seeds": list(range(6)), "arms": ["features-only"]}
)
INSIDE_TEN = Need("patch-scaling", {**TEN_CLASSES, "steps": 3000, "arms": ["standard"]})
INSIDE_TEN_ATTACKED = Need("patch-scaling", {**TEN_CLASSES, "steps": 1600, "arms": ["features-only"]})
#: a gentler ascent: c0 may be any number of (0, 1)
INSIDE_GENTLE = Need("patch-scaling", {**THREE_SIZES, "c0": 0.2, "arms": ["features-only"]})
RECURSION = Need("patch-recursion")
NOISE = Need("patch-noise")
INNER = Need("patch-inner")
DEPTH = Need("patch-depth")
#: enough points that a training sample holds every class
DEPTH_TEN = Need("patch-depth", {"law.k": 10, "train_size": 100})

ASSUMPTION = ("Assumption 2.3 and the choices of B.3",)

#: the conditions of `PatchLaw.check` by name, as the proofs use them. What a proof does not use is not
#: assumed: identities of the recursions hold for any law, and no lemma needs `halfway`.
STRONG, DENSE = "A2.3 strong", "A2.3 dense"
ROOM, NOISE_SIZE = "B.3 room", "B.3 noise"
STRONGER_THAN_RADIUS, RADIUS_REACHES, RADIUS_SIZE = "B.3 α ≫ ε", "B.3 ε > β", "§2.5 ε = Θ(σ_n√d)"
SEPARATED = "2ε-separation"
#: the noiseless lemmas on who grows first (D.9 to D.14; D.23, which ends before the attack weighs) …
GROWTH = (DENSE, ROOM, START_SIZE, THRESHOLD, POLYNOMIAL_START)
#: … and under the attack (D.24 to D.28), which must outweigh β and not α
ATTACKED_GROWTH = (*GROWTH, STRONGER_THAN_RADIUS, RADIUS_REACHES, ASCENT)
#: Theorem D.1 and, with noise, Theorem 4.3: what they stand on
SIMPLIFIED_STANDARD = (STRONG, *GROWTH, STRONGER_THAN_RADIUS, RADIUS_REACHES)
FOR_STANDARD = (*SIMPLIFIED_STANDARD, NOISE_SIZE, RADIUS_SIZE)
#: Theorem D.15, likewise; Theorem 4.4 speaks of robust classification, which needs classes apart
SIMPLIFIED_ADVERSARIAL = (*SIMPLIFIED_STANDARD, ASCENT)
FOR_ADVERSARIAL = (*FOR_STANDARD, ASCENT, SEPARATED)
#: appendix E's lemmas on the noise: they follow the same growth with noise of the assumed size
NOISY_GROWTH = (*GROWTH, NOISE_SIZE)
