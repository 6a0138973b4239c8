"""The questions one step past FA in the paper's letters, and what a no would mean."""

from __future__ import annotations

from featscope.claims.gloss import Gloss

GLOSSARY_PAST = {
    "FA-granularity": Gloss(
        "r(x) = √(d/(s_own + s_rival)), which is √(dG/(2k)) for G groups of one size",
        "Averaging inside groups would not be all that labels decide.",
    ),
    "FA-attack": Gloss(
        "ρ ∝ −y(Σ_{j∈J₊} μ_j − Σ_{l∈J₋} μ_l), f(x + ρ) = f(x) + ⟨∇f, ρ⟩, ‖∇f‖ = Ω(√(kd))",
        "What fools f_FA would not be what fools the trained network.",
    ),
    "FA-kkt": Gloss(
        "cos(w_r, Σ_{j∈J_s} μ_j) → 1 before θ/‖θ‖ → −∇L/‖∇L‖ and Σ λ_i (q_i/q_min − 1) → 0",
        "Averaging would be a property of the limit, as Frei et al. have it, and not of training.",
    ),
    "FA-adversarial": Gloss(
        "min_θ mean max_{‖Δ‖ ≤ ε} ℓ(y f_θ(x + Δ)), ε = 0.3√d",
        "Training against this attack would not find the robust network that exists.",
    ),
    "FA-width": Gloss(
        "m ∈ [max{|J₊|, |J₋|}, k] for f_{θ_dec}", "Fewer neurons would do, and the remark asks for too many."
    ),
    "FA-limit": Gloss(
        "n = k^p, d = k^q: √d‖w − λΣμ/‖μ‖²‖, max|q_i − q_j| and sup|C f_FA − f| as k → ∞",
        "The limit would need what is assumed there.",
    ),
}
HISTORY_PAST = frozenset(GLOSSARY_PAST)
#: the same questions on real images; no rule was changed after numbers were seen
GLOSSARY_IMAGES = {
    "FA-granularity-images": Gloss(
        "r(x) ∝ √((s₊ + s₋)/(s_own + s_rival)), which is √(G/2) for G groups of one size",
        "On real images labels would not decide the radius by averaging inside groups alone.",
    ),
    "FA-average-images": Gloss(
        "ρ ∝ −y(Σ_{j∈J₊} μ_j − Σ_{l∈J₋} μ_l), μ_j the mean embedding of class j",
        "What fools f_FA would not be what fools a head on real embeddings.",
    ),
}
