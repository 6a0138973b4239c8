"""EP's statements in the talk's letters, what a failure of each would mean, and which rules were
changed after
numbers had been seen (docs/rules-history.md)."""

from __future__ import annotations

from featscope.claims.gloss import Gloss

GLOSSARY = {
    "EP-train": Gloss(
        "∃ReLU network with Õ(N d) parameters and zero robust training error",
        "Memorising would cost more than N d.",
    ),
    "EP-train-lower": Gloss(
        "Ω(√(N d)) parameters are needed for zero robust training error",
        "Balls would hold fewer points than the argument says.",
    ),
    "EP-f*": Gloss(
        "f*(x) = (d(x, B) − d(x, A))/(d(x, B) + d(x, A)) is ε^{−1}-Lipschitz and robust at δ < ε",
        "The classifier behind the upper bounds would not be robust.",
    ),
    "EP-lower": Gloss(
        "m(d) = Ω(exp(d)): robust test error ≥ Ω(1) for every classifier of F_{m(d)}",
        "Robust generalisation would be cheap on this law.",
    ),
    "EP-manifold": Gloss(
        "exp(O(k)) parameters suffice and exp(Ω(k)) are needed on a k-dimensional manifold",
        "The cost would depend on d, not on k.",
    ),
    "EP-table": Gloss(
        "Ω(√(N d)) … Õ(N d) for training, exp(Ω(d)) … exp(O(d)) in general, exp(Ω(k)) … exp(O(k)) "
        "on manifolds",
        "A lower bound would exceed an upper one: one of them is wrong.",
    ),
    "EP-architecture": Gloss(
        "mean over ε of acc_ε(transformer) − acc_ε(LeNet-5) > 0, equal parameters, images and epochs",
        "Attention would be no way to robustness here: a convolutional network withstands as much.",
    ),
    "EP-sep": Gloss(
        "d(A, B) ≥ 2ε, ℓ_∞, train-train and test-train",
        "Balls around real images of different labels would meet.",
    ),
    "EP-sep-svhn": Gloss(
        "d(A, B) ≥ 2ε, ℓ_∞, train-train and test-train, SVHN",
        "The table's line is of images without their identical pairs, or of other files.",
    ),
}
RULES_HISTORY = frozenset({"EP-f*", "EP-lower"})
