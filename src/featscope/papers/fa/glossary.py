"""FA's statements in the paper's letters, what a failure of each would mean, and which rules were
changed after
numbers had been seen (docs/rules-history.md)."""

from __future__ import annotations

from featscope.claims.gloss import Gloss

_ROUTE = "An identity would be broken: a mistake in the lemma, or in one of the two routes here."
_START = "The first step would not find the start that the proof needs."
_COURSE = "The induction that carries Theorem {} would break at this point."
_FIGURE = "The figure does not come out in the setting that the paper prints."

GLOSSARY = {
    "PH-clusters": Gloss(
        "σ_w = η√d/(4√2·mk);  n/k = (σ/α)²;  radius √(d(1 − c)/k)",
        "The sizes of first step, noise and features would not decide where averaging ends.",
    ),
    "FA-PA.6": Gloss(
        "with probability 1 − δ, Δ = 4√d ln d:  |‖ξ_i‖ − √d| ≤ 2 ln d, ‖x_i‖ ≤ 3√d, |⟨ξ_i, ξ_j⟩|, "
        "|⟨μ_j, ξ_i⟩|, "
        "|⟨x_i, x_j⟩| ≤ Δ across, d/2 ≤ ⟨x_i, x_j⟩ ≤ 2d inside, ||I_j| − n/k| ≤ √(2n/k) ln(n/k)",
        "The training set would not be as orthogonal as every later bound assumes.",
    ),
    "FA-L5.1": Gloss(
        "w_{s,r}^{(t)} = w_{s,r}^{(0)} + Σ_j λ_{s,r,j} μ_j‖μ_j‖^{−2} + Σ_i σ_{s,r,i} ξ_i‖ξ_i‖^{−2}", _ROUTE
    ),
    "FA-L5.2": Gloss(
        "λ_{s,r,j}^{(t+1)} = λ_{s,r,j}^{(t)} − (sη/nm) Σ_{i∈I_j} ℓ_i′ 1[⟨w, x_i⟩ + b ≥ 0] ‖μ_j‖², and σ",
        _ROUTE,
    ),
    "FA-CB.4": Gloss("λ_{s,r,j}‖μ_j‖^{−2} = Σ_{i∈I_j} σ_{s,r,i}‖ξ_i‖^{−2}", _ROUTE),
    "FA-LC.6": Gloss("the decomposition of Lemma 5.1 for f_1, …, f_k", _ROUTE),
    "FA-LC.7": Gloss("λ_{j,r,l}‖μ_l‖^{−2} = Σ_{i∈I_l} σ_{j,r,i}‖ξ_i‖^{−2}", _ROUTE),
    "FA-LC.8": Gloss("the updates of Lemma 5.2 with the softmax's derivatives", _ROUTE),
    "FA-PA.10": Gloss(
        "σ_w(√d − 2 ln d) ≤ ‖w_{s,r}^{(0)}‖ ≤ σ_w(√d + 2 ln d), |b_{s,r}^{(0)}| ≤ 2σ_b√(2 ln m)",
        "Gaussian tails would be heavier than they are.",
    ),
    "FA-PA.12": Gloss("|T_{s,r,j}| ≥ n/(3km²) with probability 1 − m^{−0.01} − …", _START),
    "FA-PC.1": Gloss(
        "σ_w(√d − 2 ln d) ≤ ‖w_{s,r}^{(0)}‖ ≤ σ_w(√d + 2 ln d), k-class",
        "Gaussian tails would be heavier than they are.",
    ),
    "FA-PC.3": Gloss("|T_{s,r,j}| ≥ n/(3k³h²) with probability 1 − (hk)^{−0.01} − …", _START),
    "FA-LC.4": Gloss("1/(2k) ≤ ℓ′_{i,s}^{(0)} + 1[x_i ∈ I_s] ≤ 2/k", _START),
    "FA-PA.13": Gloss("|⟨w_{s,r}^{(0)}, x_i⟩ + b_{s,r}^{(0)}| ≤ η√d/(nm)", _START),
    "FA-PA.14": Gloss("−2/3 ≤ y_i ℓ_i′^{(0)} ≤ −1/3", _START),
    "FA-LB.1": Gloss("⟨w_{s,r}^{(1)}, x_i⟩ + b_{s,r}^{(1)} ≥ 0 for all i ∈ I_s, r", _START),
    "FA-LC.5": Gloss("⟨w_{j,r}^{(1)}, x_i⟩ ≥ 0 for all i ∈ I_j, r", _START),
    "FA-L5.3": Gloss("max_{i,j} |y_i f(x_i) − y_j f(x_j)| ≤ ε(k) → 0 for t ≤ T_0", _COURSE.format("4.5")),
    "FA-L5.5": Gloss("1[⟨w_{s,r}^{(t)}, x_i⟩ + b ≥ 0] = 1 for i ∈ I_s, t ≥ 1", _COURSE.format("4.5")),
    "FA-LB.7": Gloss(
        "eight bounds on σ, λ, margins, ℓ′ and activations for t ≤ T_0 = exp(Õ(√k))", _COURSE.format("4.5")
    ),
    "FA-LA.8": Gloss(
        "Pr[|⟨x, ξ⟩| ≥ ‖x‖ ln d] ≤ 2d^{−ln(d)/2}", "Gaussian tails would be heavier than they are."
    ),
    "FA-LA.9": Gloss(
        "Pr[X_min ≤ −√(2 ln l) − t] ≤ ½e^{−t²/2}, "
        "Pr[X_max ≤ √(2 ln l − t)] ≤ exp(−e^{t/2}/(√(2π)(√(2 ln l) + 1)))",
        "Gaussian tails would be heavier than they are.",
    ),
    "FA-LA.15": Gloss("−1 ≤ y_i ℓ_i′^{(t)} ≤ 0", "The derivative of the logistic loss would be another one."),
    "FA-LB.6": Gloss(
        "e^{Δ_q(i,j)/2} ≤ y_j ℓ_j′/y_i ℓ_i′ ≤ e^{Δ_q(i,j)} for q_i ≥ q_j", _COURSE.format("4.5")
    ),
    "FA-LB.10": Gloss("|b_{s,r}^{(t)}| ≤ ε/6", _COURSE.format("4.5")),
    "FA-LB.11": Gloss("|⟨w_{s,r}^{(t)}, μ_j⟩ − λ_{s,r,j}^{(t)}| ≤ ε/6", _COURSE.format("4.5")),
    "FA-LB.12": Gloss("|⟨w_{s,r}^{(t)}, ξ_i⟩ − σ_{s,r,i}^{(t)}| ≤ ε/6", _COURSE.format("4.5")),
    "FA-LB.13": Gloss(
        "|⟨w_{s,r}^{(t)}, x_i⟩ − λ_{s,r,c(i)}^{(t)} − σ_{s,r,i}^{(t)}| ≤ ε/3", _COURSE.format("4.5")
    ),
    "FA-LB.14": Gloss("|q_i^{(t)} − q̂_i^{(t)}| ≤ ε", _COURSE.format("4.5")),
    "FA-CB.15": Gloss("|Δ_q^{(t)}(i, j) − Δ̂_q^{(t)}(i, j)| ≤ 2ε", _COURSE.format("4.5")),
    "FA-LC.17": Gloss("f_s(x_i) ≤ ε for s ≠ c(i)", _COURSE.format("4.7")),
    "FA-LC.18": Gloss(
        "(e^{Δ_q} + k − 1)/(k(1 + 2ε)) ≤ ℓ′_{j,c(j)}/ℓ′_{i,c(i)} ≤ e^{Δ_q}(1 + 2ε) for q_i ≥ q_j",
        _COURSE.format("4.7"),
    ),
    "FA-LB.19": Gloss(
        "(1 − 200ε)σ_{r_2,i_2} − 1/(nd) ≤ σ_{r_1,i_1} ≤ (1 + 200ε)σ_{r_2,i_2} + 1/(nd)", _COURSE.format("4.5")
    ),
    "FA-LB.20": Gloss("(n/2k)σ_{y_i,r,i} − 2ε ≤ q_i ≤ (2n/k)σ_{y_i,r,i} + 2ε", _COURSE.format("4.5")),
    "FA-LB.21": Gloss(
        "⅓ exp(−(2n/k)σ_{y_i,r,i}) ≤ −y_i ℓ_i′ ≤ 2 exp(−(n/2k)σ_{y_i,r,i})", _COURSE.format("4.5")
    ),
    "FA-LB.26": Gloss(
        "|⟨w_{s,r}^{(t)}, ξ⟩| ≤ ε/6 for fresh ξ ~ N(0, I_d)",
        "The clean accuracy of Theorems 4.5 and 4.7 would rest on nothing.",
    ),
    "FA-LB.23": Gloss("ln(Tη)/4 ≤ λ_{s,r,j}^{(T)} ≤ 4 ln(T + 1) for j ∈ J_s", _COURSE.format("4.5")),
    "FA-LB.24": Gloss("λ_{s,r,j}/λ_{s,r′,j′} ≤ 1 + 204ε for j, j′ ∈ J_s", _COURSE.format("4.5")),
    "FA-LC.10": Gloss("the eight bounds for the k-class network", _COURSE.format("4.7")),
    "FA-LC.9": Gloss(
        "λ_{s,r,j} ≥ 0 for j ∈ J_s, λ_{s,r,j} ≤ 0 for j ∈ J_{−s}, at all t",
        "A sign of the dynamics would be wrong.",
    ),
    "FA-LC.23": Gloss("ln(Tη)/4 ≤ λ_{j,r,j}^{(T)} ≤ 4 ln(T + 1)", _COURSE.format("4.7")),
    "FA-LC.24": Gloss("λ_{j,r,j}/λ_{l,r′,l} ≤ 1 + 204k²ε", _COURSE.format("4.7")),
    "FA-LC.25": Gloss("√d ‖w_{j,r} − λ μ_j‖μ_j‖^{−2}‖ = o(1)", _COURSE.format("4.7")),
    "FA-T4.5": Gloss(
        "Acc ≥ 1 − exp(−Ω(log² d));  ‖w_{s,r}^{(T)} − λ^{(T)} Σ_{j∈J_s} μ_j‖μ_j‖^{−2}‖ ≤ o(d^{−1/2});  "
        "Acc_robust(f; Ω(√(d/k))) ≤ exp(−Ω(log² d))",
        "Training on two labels would not average the features, or averaging would not be fragile at √(d/k).",
    ),
    "FA-T4.6": Gloss(
        "inf_C sup_{‖x‖=√d} |C f_FA(x) − f_{θ^{(T)}}(x)| = o(1)",
        "The network would not be f_FA as a function.",
    ),
    "FA-T4.7": Gloss(
        "Acc ≥ 1 − exp(−Ω(log² d));  ‖w_{j,r}^{(T)} − λ^{(T)} μ_j‖μ_j‖^{−2}‖ ≤ o(d^{−1/2});  "
        "Acc_robust(F^binary; O(√d)) ≥ 1 − exp(−Ω(log² d))",
        "Finer labels would not decouple the features, or decoupling would not give robustness at √d.",
    ),
    "FA-P4.8": Gloss(
        "f_j(x) = ReLU⟨μ_j + Σ_{l∈J_s} μ_l, x⟩: perfect clean accuracy, no robust accuracy at Ω(√(d/k))",
        "Perfect fine labels alone would already force robustness.",
    ),
    "FA-TD.4": Gloss(
        "L_CE(F_θ̃) ≤ exp(−Ω(d))", "The fragile network of Proposition 4.8 would not be a good one."
    ),
    "FA-TD.1": Gloss("∃b_±: Acc(f_{θ_avg}) ≥ 1 − o(1)", "θ_avg would not classify."),
    "FA-TD.2": Gloss(
        "∀b_± with Acc ≥ 1 − o(1): Acc_robust(f_{θ_avg}; Ω(√(d/k))) = 0", "Biases could save θ_avg."
    ),
    "FA-TD.3": Gloss("f_{θ_dec} is √d/3-robust", "The robust network that exists would not be this one."),
    "FA-F1": Gloss("f_FA(x) = ⟨Σ_{j∈J_+} μ_j, x⟩ where Σ_j μ_j = 0; f_FD keeps its distance", _FIGURE),
    "FA-Q-simplex": Gloss(
        "⟨μ_i, μ_j⟩ = −d/(k − 1), Σ_j μ_j = 0: is w_{s,r} ∝ Σ_{j∈J_s} μ_j, and the radius that of f_FA?",
        "Features that shun each other part the neurons of a class among them.",
    ),
    "FA-F4": Gloss("x_D = ½ is right on all points and close to all", _FIGURE),
    "FA-F2": Gloss("cos(w_{s,r}, μ_j) after training, k = 10, d = 3072", _FIGURE),
    "FA-F3": Gloss("Acc_robust(δ) of both networks over δ", _FIGURE),
    "FA-F5": Gloss("cos(w, μ_j) for n = 1000, 10000, 50000", _FIGURE),
    "FA-F6": Gloss("cos(w, μ_j) for η = 0.01, 0.001, 0.0001", _FIGURE),
    "FA-F7": Gloss("cos(w, μ_j) for σ_w = 0.001, 0.0001, 0.00001", _FIGURE),
    "FA-F8": Gloss("cos(w, μ_j) for α/σ = 0.5, 1, 2", _FIGURE),
    "FA-F9": Gloss("cos(w, μ_j) for ⟨μ_i, μ_j⟩/d = 0.00001, 0.001, 0.09", _FIGURE),
    "FA-F2cd": Gloss("cos(w_{s,r}, μ_j) with μ_j the mean embedding of class j of CIFAR-10", _FIGURE),
    "FA-F10": Gloss("cos(x_i, x_j) of CLIP embeddings, by class", _FIGURE),
    "FA-F3mc": Gloss("Acc_robust(δ) of ResNet18 with 2 and with 10 labels, MNIST and CIFAR-10", _FIGURE),
}
RULES_HISTORY = frozenset(
    [
        "FA-F2",
        "FA-F3",
        "FA-F5",
        "FA-F6",
        "FA-F7",
        "FA-F8",
        "FA-F9",
        "FA-LB.1",
        "FA-LC.5",
        "FA-L5.5",
        "FA-LC.10",
        "FA-T4.5",
        "FA-T4.6",
        "FA-T4.7",
        "FA-LB.24",
        "FA-F2cd",
        "FA-F10",
        "FA-F3mc",
        "PH-clusters",
    ]
)
