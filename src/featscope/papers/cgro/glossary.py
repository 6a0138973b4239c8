"""CGRO's statements in the paper's letters, what a failure of each would mean, and which rules were
changed after
numbers had been seen (docs/rules-history.md)."""

from __future__ import annotations

from featscope.claims.gloss import Gloss

_STEP = "The step of the proof of Theorem 4.1 that uses it would not go through at this setting."
_FIGURE = "The figure does not come out on these images."

GLOSSARY = {
    "PH-signal": Gloss(
        "N = N*(1 − γ) = σ²d·v_0/((α(1 − γ))³u_p), for every λ",
        "The critical number of samples would not say where robust overfitting ends.",
    ),
    "CG-LA.1": Gloss(
        "m z_t² ≤ z_{t+1} − z_t ≤ M z_t² ⇒ z_t ≥ v for t ≥ 3/(m z_0) + (8M/m)⌈log₂(v/z_0)⌉",
        "The tensor-power lemma would be false.",
    ),
    "CG-LA.2": Gloss(
        "|z_t − z_0 − A Σ_{s<t} z_s²| ≤ C ≤ z_0/2 ⇒ z_t ≥ v for t ≥ 8⌈log₂(v/z_0)⌉ + 21/(A z_0)",
        "The tensor-power lemma would be false.",
    ),
    "CG-LA.3": Gloss(
        "z_{t+1} ≤ z_t − A z_t² ⇒ z_t ≤ 1/(A t)", "The rate of the descent lemma would be false."
    ),
    "CG-LA.4": Gloss(
        "P[|Σ_j Σ_r ⟨v_r, ξ_j⟩³| ≥ Ω̃(σ³)] ≥ 1 − O(d)/2^{1/d}",
        "A cubic of Gaussians is small more often than claimed; a constant probability is what remains.",
    ),
    "CG-LC.5": Gloss(
        "|v_{i,j,r}^{(t)} − v_{i,j,r}^{(t_0)} − Θ(ησ²d/N) Σ_s ψ̃_i^{(s)} (v_{i,j,r}^{(s)})²| ≤ "
        "Õ(ληα³(1−γ)³/N) Σ_s Σ_i ψ(y_i f(X_i^adv)) + Õ(Pσ²α^{−1}√d)",
        _STEP,
    ),
    "CG-LC.7": Gloss("V_i^{(t)} ≥ Ω̃(1) for all i and t ∈ [T_1, T], T_1 = Θ(N/(ησ_0σ³d^{3/2}))", _STEP),
    "CG-LD.2": Gloss("|q(x) − x²| ≤ ε on [0, 1], size and depth O(log(1/ε))", "f_S would cost more in ℓ2."),
    "CG-LD.3": Gloss(
        "|x ×̃ y − xy| ≤ ε on [0, B]², 0 where xy = 0, O(log²(B/ε)) parameters",
        "The paper's f_S would need another product; ours needs none.",
    ),
    "CG-PD.5": Gloss("linear regions ≤ 2^n", "The region that Theorem 5.3 takes might not be there."),
    "CG-L4.2": Gloss("u_r^{(t+1)} ≥ u_r^{(t)} + Θ(ηα³) ψ(α³ Σ_k (u_k^{(t)})³) (u_r^{(t)})²", _STEP),
    "CG-L4.3": Gloss(
        "max_r u_r^{(t)} ≤ Õ(α^{−1}) + Õ(ηα³(1 − γ)³/N) Σ_s Σ_i ψ(V_i^{(s)}) for t ∈ [T_0, T]", _STEP
    ),
    "CG-L4.4": Gloss(
        "v_{i,j,r}^{(t)} ≥ v_{i,j,r}^{(0)} + Θ(ησ²d/N) Σ_s ψ(V_i^{(s)}) (v_{i,j,r}^{(s)})² − Õ(Pσ²α^{−1}√d)",
        _STEP,
    ),
    "CG-HC.1": Gloss(
        "max_r u_r^{(t)} ≤ Õ(α^{−1}), |v_{i,j,r}^{(t)}| ≤ Õ(1) for t < T",
        "The induction hypothesis of all of appendix C would not hold.",
    ),
    "CG-LC.8": Gloss("‖∇_W L̂_adv(W^{(t)})‖₂ ≥ Ω̃(1) L̂_adv(W^{(t)}) for t ≥ T_1", _STEP),
    "CG-LC.9": Gloss("L̂_adv(W^{(t)}) ≤ Õ(1)/(η(t − T_1 + 1)) for t ≥ T_1", _STEP),
    "CG-LC.10": Gloss(
        "(λ/N) Σ_s Σ_i ψ(y_i f(X_i^adv)) ≤ Õ(η^{−1}σ_0^{−1})",
        "The sum depends on N, which the bound does not have: N must stay below N*.",
    ),
    "CG-T4.1": Gloss(
        "U^{(T)} = Θ(α^{−3}), V_i^{(T)} = Θ(1);  clean test and robust training error o(1), robust "
        "test error ≥ ½ − o(1)",
        "Robust overfitting would not be what training ends in: look at which threat fails, and at "
        "N against N*.",
    ),
    "CG-C": Gloss(
        "f_S(X) = f_clean(X)(1 − 1{X ∈ ∪_i B_p(X_i, δ)}) + Σ_i y_i 1{X ∈ B_p(X_i, δ)}",
        "The classifier that the paper opens with would not do what it is for.",
    ),
    "CG-T5.2": Gloss(
        "f_S ∈ ReLU networks of poly(D) + Õ(N D) parameters", "Memory would cost more than claimed."
    ),
    "CG-T5.3": Gloss(
        "∃D satisfying Assumption 5.1: robust test error ≥ Ω(1) for fewer than Ω(exp(D)) parameters",
        "The base of the exponential is smaller than e: exp(Ω(D)) is what the count gives.",
    ),
    "CG-F1": Gloss("robust and clean accuracy on training and test images over epochs", _FIGURE),
    "CG-F2": Gloss("E max_{‖ξ‖≤δ} ‖∇_X L(X + ξ)‖ and E max |L(X + ξ) − L(X)| over δ", _FIGURE),
    "CG-F3": Gloss("global against local flatness, and L_adv − L̂_adv, over epochs", _FIGURE),
    "CG-E.1": Gloss(
        "L_adv − L̂_adv ≤ O(N^{−1/(D+2)} E max_{‖ξ‖_p≤δ} ‖∇_X L(X + ξ)‖_q)",
        "The bound would not hold; at an image's D its rate says nothing.",
    ),
    "CG-E.2": Gloss(
        "L_adv − L_clean ≥ Ω(δ E‖∇_X L(X)‖_q)", "The loss would not grow with its gradient in the ball."
    ),
    "CG-E.1-density": Gloss(
        "L_adv − L̂_adv ≤ O(N^{−1/(D+2)} E max_{‖ξ‖_p≤δ} ‖∇_X L(X + ξ)‖_q)",
        "The proof's terms (I) and (II) carry no flatness, and its bandwidth is δ: printed, it is too much.",
    ),
    "CG-E.2-density": Gloss(
        "L_adv − L_clean ≥ Ω(δ E‖∇_X L(X)‖_q)", "The loss is bounded where its gradient need not be."
    ),
    "CG-fS": Gloss(
        "f_adv ≈ f_S: R_adv(train) − R_adv(test), R_adv(ε) − R_adv(2ε) on S, max_{‖ξ‖≤ε} L(X + ξ) − L(X) on "
        "test points, each in units of f_S's",
        "Adversarial training does more than memorise balls: it carries robustness to unseen images.",
    ),
    "CG-depth": Gloss(
        "clean test error o(1), training error at X^adv o(1), test error at X^adv ≥ ½ − o(1), more layers",
        "The picture would belong to the one-layer cubic network.",
    ),
    "CG-lambda": Gloss(
        "(1 − λ) L(X) + λ L(X^adv): gap at λ = .9 against 0, clean accuracy at .9 against 1",
        "The weight of attacked points would not be what decides.",
    ),
    "CG-lambda-images": Gloss(
        "(1 − λ) L(X) + λ L(X^adv): gap at λ = .9 against 0, clean accuracy at .9 against 1",
        "Real images do not follow the signal law in this.",
    ),
}
RULES_HISTORY = frozenset(
    [
        "CG-fS",
        "CG-depth",
        "CG-LD.2",
        "CG-E.1-density",
        "CG-T4.1",
        "CG-LC.10",
        "CG-L4.4",
        "CG-L4.2",
        "CG-T5.2",
        "CG-T5.3",
        "CG-C",
        "CG-F1",
        "PH-signal",
        "CG-F2",
        "CG-F3",
        "CG-E.1",
        "CG-E.2",
    ]
)
