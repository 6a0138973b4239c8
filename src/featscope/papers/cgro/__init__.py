"""CGRO: *Why Clean Generalization and Robust Overfitting Both Happen in Adversarial Training* (arXiv
2306.01271)."""

from __future__ import annotations

from featscope.claims.history import anchors
from featscope.papers.cgro import (
    built,
    claims_built,
    claims_images,
    claims_training,
    figures_built,
    figures_images,
    figures_signal,
    image_landscape,
    image_overfitting,
    signal_lemmas,
    signal_scaling,
    signal_stages,
)

#: claims of which a rule, a reading or a setting was changed after numbers were seen (docs/rules-history.md)
RULES_HISTORY = anchors(
    "CG-T4.1",
    "CG-LC.10",
    "CG-L4.4",
    "CG-L4.2",
    "CG-T5.2",
    "CG-C",
    "CG-F1",
    "CG-F2",
    "CG-F3",
    "CG-E.1",
    "CG-E.2",
)
EXPERIMENTS = (
    *signal_stages.EXPERIMENTS,
    *signal_scaling.EXPERIMENTS,
    *signal_lemmas.EXPERIMENTS,
    *built.EXPERIMENTS,
    *image_landscape.EXPERIMENTS,
    *image_overfitting.EXPERIMENTS,
)
CLAIMS = (*claims_training.CLAIMS, *claims_built.CLAIMS, *claims_images.CLAIMS)
FIGURES = {**figures_signal.FIGURES, **figures_built.FIGURES, **figures_images.FIGURES}
