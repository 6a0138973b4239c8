"""AT's statements in the paper's letters, what a failure of each would mean, and which rules were
changed after
numbers had been seen (docs/rules-history.md)."""

from __future__ import annotations

from featscope.claims.gloss import Gloss

_ROUTE = (
    "The recursion would not be gradient descent: a mistake in the lemma, or in one of the two routes here."
)
_ORDER = "The order of growth that the proof of {} builds on would not hold at this exponent."
_NOISE = (
    "The noise would enter what is learned; the proof of {} carries the noiseless lemmas over "
    "only if it does not."
)
_LOGIT = "Outputs of other classes would not stay small, and the loss would not fall as the proofs say."
_LOGIT_ATTACKED = (
    "Outputs of other classes would not stay small at X̃: the perturbation turns correlations below zero, "
    "which no lemma bounds, into answers."
)
_END = "An item of Theorem {} would fail."

GLOSSARY = {
    "AT-A2.3": Gloss(
        "∀(p, p′) ∈ J_R × J_NR: α_p ≫ β_p′;  ∃τ ≥ 0: Σ_{J_R} α_p^τ ≪ Σ_{J_NR} β_p^τ;  ‖X − X′‖_∞ ≫ "
        "ε for y ≠ y′",
        "The paper's own simulation lies outside its assumption, so theorems read there are out of scope.",
    ),
    "AT-AB.3": Gloss(
        "d = poly(k) ≫ 2k, σ_0 = σ_n = 1/√d, α ≫ ε > β, m = polylog(d), N = poly(d), q = τ = 3, ϱ "
        "= 1/polylog(d), "
        "η = 1/poly(d), η̃ = d^{c_0}",
        "The simulation does not make the choices that the proofs make.",
    ),
    "AT-P3.1": Gloss(
        "w_{i,1} = γ v_i:  lim_{γ→∞} L_CE = o(1), and P[∃Δ: ‖Δ‖_∞ ≤ ε, argmax_i F_i(X + Δ) ≠ y] → 1 − o(1)",
        "The network of non-robust features would not be the fragile minimum that the paper opens with.",
    ),
    "AT-P3.2": Gloss(
        "w_{i,1} = γ u_i:  lim_{γ→∞} L_CE = o(1), and P[∃Δ: ‖Δ‖_∞ ≤ ε, argmax_i F_i(X + Δ) ≠ y] → o(1)",
        "The network of robust features would not be robust: an attack may write ε u_j on all P "
        "patches, which the "
        "proof bounds as if it were one.",
    ),
    "AT-L5.1": Gloss(
        "A_{i,r}^{(t+1)} = A_{i,r}^{(t)} + (η/k) E[(1 − logit_i) Σ_{J_R} σ̃′(α_p A_{i,r}^{(t)}) "
        "α_p], and B likewise "
        "over J_NR with β_p",
        _ROUTE,
    ),
    "AT-LD.4": Gloss(
        "A, B, C and D follow the projections of the gradient step on u_i, v_i, u_y, v_y", _ROUTE
    ),
    "AT-LD.2": Gloss(
        "w_{i,r}^{(t)} = w^⊥ + A u_i + B v_i + Σ_{y≠i} (C_y u_y + D_y v_y)",
        "Weights would leave the span of the features without noise: the decomposition is an identity.",
    ),
    "AT-LD.16": Gloss("w^{(t)} ∈ span(F, w_{i,r}^{(0)}) under adversarial training", _ROUTE),
    "AT-LD.17": Gloss("x̃_p = x_p − Σ_j c_{p,j} f_j with coefficients clipped at ε", _ROUTE),
    "AT-LD.18": Gloss("A, B, C, D and E follow their recursion at X̃^{(t)}", _ROUTE),
    "AT-L5.2": Gloss(
        "A^{(t+1)} ≈ A + Θ(η) A^{q−1} E[Σ_{J_R} α_p^q (1 − min{ε/α_p, Θ̃(η̃) Σ_s A_s^q})^q], and B likewise",
        "The closed formula misses what the ascent step does to the initial directions; its phases "
        "need another "
        "argument.",
    ),
    "AT-LD.7": Gloss(
        "max_r C_{i,r,y}^{(t)} = O(max_r C^{(0)}), max_r D^{(t)} = O(max_r D^{(0)}) for y ≠ i",
        "Features of other classes would be learned, which the logit approximations exclude.",
    ),
    "AT-LD.21": Gloss(
        "the same under adversarial training", "Features of other classes would be learned under attack."
    ),
    "AT-LD.3": Gloss(
        "max_r ⟨w_{i,r}^{(0)}, f⟩ = Θ(log m/√d)",
        "A slip in the lemma: the maximum of m Gaussians grows like √(2 log m), as its own Lemma B.1 says.",
    ),
    "AT-LB.2": Gloss(
        "x_0 ≥ y_0 S^{1/(q−2)}(1 + Θ(1/polylog d)) ⇒ y_{T_x} = O(y_0 polylog d)",
        "Who starts ahead would not win the race that all growth lemmas run.",
    ),
    "AT-LD.9": Gloss(
        "at T_y, the first t with max_r B ≥ ϱ/β:  max_r A^{(T_y)} = O(polylog(d)/√d)",
        _ORDER.format("Theorem 4.3"),
    ),
    "AT-LD.10": Gloss(
        "at T′_y, the first t with F_y ≥ log d:  T′_y = poly(d) ≥ T_y, max_r A^{(T′_y)} = O(polylog(d)/√d)",
        _ORDER.format("Theorem 4.3"),
    ),
    "AT-LD.11": Gloss(
        "for T′_y ≤ t = O(poly d):  F_y^{(t)}(X) = O(log d), max_r A^{(t)} = O(polylog(d)/√d)",
        "The output would not come to rest in polynomial time.",
    ),
    "AT-LD.23": Gloss(
        "at the first t with Σ_s B_s^q ≥ Θ̃(η̃^{−1}):  max_r A = O(polylog(d)/√d)", _ORDER.format("Theorem 4.4")
    ),
    "AT-LD.24": Gloss(
        "at T′_y, the first t with max_r A ≥ ϱ/α:  T′_y = O(poly d), max_r B = O(d^{−c_0})",
        "The attack would not hold the non-robust part down to d^{−c_0}; the balance of both gives "
        "d^{−c_0/q}.",
    ),
    "AT-LD.25": Gloss(
        "at T″_y, the first t with F_y(X̃) ≥ log d:  T″_y = poly(d) ≥ T_y, max_r B = O(polylog d/d^{c_0})",
        _ORDER.format("Theorem 4.4"),
    ),
    "AT-LD.26": Gloss(
        "for T″_y ≤ t = O(poly d):  F_y(X̃) = O(log d), max_r B = O(polylog(d)/d^{c_0})",
        _ORDER.format("Theorem 4.4"),
    ),
    "AT-LB.1": Gloss(
        "P[‖X‖_∞ ≥ √(2 log 2n) + t] ≤ ½ e^{−t²/2}, and P[‖X‖_∞ ≤ √(2 log 2n) − δ] ≤ "
        "exp{−e^{δ/2}/(√(2π)(√(2 log 2n) + 1))}",
        "The start of training would not be of the size that every growth lemma starts from.",
    ),
    "AT-LD.5": Gloss(
        "F_y ≥ c log d ⇒ 1 − logit_y(F, X) = Θ(1) if c = 0, O(d^{−c}) if c > 0",
        _LOGIT,
    ),
    "AT-LD.6": Gloss("F_y ≥ c log d ⇒ logit_i(F, X) = Θ(1/k) if c = 0, O(d^{−c}) if c > 0, i ≠ y", _LOGIT),
    "AT-LD.8": Gloss(
        "A^{(t+1)} = A + Θ(η) A^{q−1} E[Σ_{J_R} α_p^q], and B likewise, for t ≤ T_0",
        "The race of the tensor power method would have another clock: 1 − logit_y slows A and B alike, "
        "so that who wins does not change.",
    ),
    "AT-LD.19": Gloss("Lemma D.5 at X̃^{(t)}, max_r A = O(log d), max_r B = o(1)", _LOGIT_ATTACKED),
    "AT-LD.20": Gloss("Lemma D.6 at X̃^{(t)}, max_r A = O(log d), max_r B = o(1)", _LOGIT_ATTACKED),
    "AT-TD.1": Gloss(
        "σ_n = 0, T = Θ(poly(d)/η):  P_{D_{F_NR}}[argmax F ≠ y] = 0;  P_D[argmax F ≠ y] = 0;  "
        "P_D[argmax F(X + Δ(X, y)) ≠ y] = 1",
        "Standard training would not end at the non-robust minimum even without noise.",
    ),
    "AT-LD.12": Gloss("F_y^{(T)}(X) > F_i^{(T)}(X), i ≠ y, (X, y) ∼ D", _END.format("D.1")),
    "AT-LD.13": Gloss("F_y^{(T)}(X) > F_i^{(T)}(X), i ≠ y, (X, y) ∼ D_{F_NR}", _END.format("D.1")),
    "AT-LD.14": Gloss(
        "F_{y′}^{(T)}(X + Δ(X, y)) > F_i^{(T)}(X + Δ(X, y)), i ≠ y′, δ_p = −β_p v_y + ε v_{y′} on J_NR",
        _END.format("D.1"),
    ),
    "AT-TD.15": Gloss(
        "σ_n = 0, T = Θ(poly(d)/η):  P_{D_{F_R}}[argmax F ≠ y] = o(1);  "
        "P_D[∃‖Δ‖_∞ ≤ ε: argmax F(X + Δ) ≠ y] = o(1)",
        "Adversarial training would not end at the robust minimum even without noise: P patches of ε u_j "
        "outweigh one of α − ε, as in Proposition 3.2.",
    ),
    "AT-LD.27": Gloss("F_y^{(T)}(X) > F_i^{(T)}(X), i ≠ y, (X, y) ∼ D_{F_R}", _END.format("D.15")),
    "AT-LD.28": Gloss(
        "∀‖Δ‖_∞ ≤ ε: argmax_i F_i^{(T)}(X + Δ) = y, (X, y) ∼ D_{F_R}",
        "As for Proposition 3.2: the bound on F_j counts one patch of ε u_j where there are P.",
    ),
    "AT-LE.11": Gloss(
        "max_r A = Θ(log d), max_r B = Õ(d^{−c_0}), max_r C, D = O(polylog(d)/√d) at T = Θ(poly d)",
        "The end state of Theorem 4.4 would be another one.",
    ),
    "AT-LE.2": Gloss(
        "w_{i,r}^{(t)} = w^⊥ + A u_i + B v_i + Σ (C u_y + D v_y) + Σ_{X,p} σ_{X,p} ξ_p",
        "Weights would leave the span of features and noise; an identity wherever d is larger than it.",
    ),
    "AT-LE.3": Gloss("⟨w_{i,r}^{(t)}, ξ_p⟩ = Õ(1/√d) for t = O(poly d)", _NOISE.format("Theorem 4.3")),
    "AT-LE.4": Gloss(
        "⟨w^{(t+1)}, ξ_p⟩ = ⟨w^{(t)}, ξ_p⟩ + (own term) ± η·Õ(1/√d)", _NOISE.format("Lemma E.3")
    ),
    "AT-LE.5": Gloss(
        "max_{Z_i} F_y ≥ log d ⇒ F_y(X) = Θ(F_y(X′)) for X, X′ ∈ Z_i",
        "Points of one class would be learned at different rates.",
    ),
    "AT-LE.6": Gloss("Σ_{t≥T_0} E[1 − logit_y(F^{(t)}, X)] = Õ(η^{−1})", "The loss would not be summable."),
    "AT-LE.7": Gloss(
        "max_r B = Θ(log d), max_r A, C, D = O(polylog(d)/√d) at T = Θ(poly d)",
        "The end state of Theorem 4.3 would be another one.",
    ),
    "AT-LE.9": Gloss("Lemma E.2 under adversarial training", "As for Lemma E.2."),
    "AT-LE.10": Gloss(
        "⟨w_{i,r}^{(t)}, ξ_p⟩ = Õ(1/√d) under adversarial training", _NOISE.format("Theorem 4.4")
    ),
    "AT-T4.3": Gloss(
        "F_y > F_i on Z;  P_{D_{F_NR}}[argmax F ≠ y] = o(1);  P_D[argmax F ≠ y] = o(1);  "
        "P_D[argmax F(X + Δ(X, y)) ≠ y] = 1 − o(1), δ_p = −β_p v_y + ε v_{y′} on J_NR",
        "Standard training would not end at the non-robust minimum.",
    ),
    "AT-T4.4": Gloss(
        "∀‖Δ‖_∞ ≤ ε: F_y(X + Δ) > F_i(X + Δ) on Z;  P_{D_{F_R}}[argmax F ≠ y] = o(1);  "
        "P_D[∃‖Δ‖_∞ ≤ ε: argmax F(X + Δ) ≠ y] = o(1)",
        "Adversarial training by one ascent step would not give robustness over the ball: look at "
        "which threat "
        "fails, from X̃ through the features' span to the whole ball.",
    ),
    "AT-F3": Gloss(
        "max_r⟨w_{i,r}, u_i⟩ and max_r⟨w_{i,r}, v_i⟩ along training, k = 2, d = 100, P = 16",
        "The figure does not come out with the values that the paper prints.",
    ),
    "AT-R2.5": Gloss(
        "Δ* = argmin_{‖Δ‖_∞ ≤ ε} F_y(X + Δ) = Σ_p argmin_{‖δ_p‖_∞ ≤ ε} Σ_r σ̃(⟨w_{y,r}, x_p + δ_p⟩), "
        "in place of Clip(η̃ ∇_X L)",
        "The switch of phase would come from one step that does not converge, not from the min-max problem.",
    ),
    "AT-depth": Gloss(
        "P[argmax F(X_f) = y] on D_{F_R} and D_{F_NR}, and P[argmax F(X + Δ(X, y)) ≠ y], for deeper F",
        "The order of learning would belong to the two-layer network, not to the data.",
    ),
    "AT-T1": Gloss(
        "feature learning accuracy P[argmax F(X_f) = y] on D̂_R and D̂_NR",
        "The table's ordering is not found on these images.",
    ),
    "AT-F4": Gloss("the same along epochs", "The curves are not ordered as printed."),
    "AT-T2": Gloss(
        "success rates of NRF-PGD and RF-PGD, targeted, ε = 8/255",
        "Attacks through one kind of features do not behave as the table says.",
    ),
}
RULES_HISTORY = frozenset(
    [
        "AT-F3",
        "AT-R2.5",
        "AT-depth",
        "AT-LB.2",
        "AT-LD.11",
        "AT-LD.23",
        "AT-P3.2",
        "AT-L5.2",
        "AT-LD.3",
        "AT-LD.21",
        "AT-LD.26",
        "AT-TD.15",
        "AT-T4.3",
        "AT-T4.4",
        "AT-LE.2",
        "AT-LE.5",
        "AT-T1",
        "AT-F4",
        "AT-T2",
    ]
)
