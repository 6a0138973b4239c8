"""CGRO: *Why Clean Generalization and Robust Overfitting Both Happen in Adversarial Training* (arXiv
2306.01271)."""

from __future__ import annotations

from featscope.papers.cgro import (
    appendix_lemmas,
    built,
    claims_appendix,
    claims_built,
    claims_density,
    claims_image_built,
    claims_landscape,
    claims_lower,
    claims_overfitting,
    claims_phase,
    claims_questions,
    claims_stages,
    claims_training,
    figures_appendix,
    figures_built,
    figures_images,
    figures_phase,
    figures_questions,
    figures_signal,
    figures_sweeps,
    glossary,
    image_built,
    image_flatness,
    image_lambda,
    image_landscape,
    image_overfitting,
    known_density,
    lower_bound,
    phase_signal,
    signal_depth,
    signal_lemmas,
    signal_scaling,
    signal_stages,
)
from featscope.sweeps.nearest import BoxSearch, known

NAME = "CGRO"
TITLE = "Why Clean Generalization and Robust Overfitting Both Happen in Adversarial Training"
SOURCE = "arXiv 2306.01271"
EXPERIMENTS = (
    *signal_stages.EXPERIMENTS,
    *signal_scaling.EXPERIMENTS,
    *signal_lemmas.EXPERIMENTS,
    *signal_depth.EXPERIMENTS,
    *appendix_lemmas.EXPERIMENTS,
    *built.EXPERIMENTS,
    *lower_bound.EXPERIMENTS,
    *known_density.EXPERIMENTS,
    *phase_signal.EXPERIMENTS,
    *image_landscape.EXPERIMENTS,
    *image_flatness.EXPERIMENTS,
    *image_built.EXPERIMENTS,
    *image_lambda.EXPERIMENTS,
    *image_overfitting.EXPERIMENTS,
)
CLAIMS = (
    *claims_stages.CLAIMS,
    *claims_appendix.CLAIMS,
    *claims_training.CLAIMS,
    *claims_built.CLAIMS,
    *claims_lower.CLAIMS,
    *claims_density.CLAIMS,
    *claims_phase.CLAIMS,
    *claims_overfitting.CLAIMS,
    *claims_landscape.CLAIMS,
    *claims_image_built.CLAIMS,
    *claims_questions.CLAIMS,
)
FIGURES = {
    **figures_appendix.FIGURES,
    **figures_signal.FIGURES,
    **figures_sweeps.FIGURES,
    **figures_phase.FIGURES,
    **figures_built.FIGURES,
    **figures_images.FIGURES,
    **figures_questions.FIGURES,
}
GLOSSARY, RULES_HISTORY = glossary.GLOSSARY, glossary.RULES_HISTORY
#: boxes in which a setting is looked for that would make a failing reading hold
SEARCHES = (
    BoxSearch("signal-stages", {"law.gap": [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97]}, (("CG-T4.1", "ball"),)),
    BoxSearch(
        "signal-scaling", {"samples": [[2, 5, 10, 20], [2, 5, 10], [2, 5], [2]]}, (("CG-T4.1", "N=poly"),)
    ),
)
NEAREST = known(SEARCHES)
