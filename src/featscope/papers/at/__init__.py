"""AT: Li and Li, *Adversarial Training Can Provably Improve Robustness* (arXiv 2410.08503)."""

from __future__ import annotations

from featscope.papers.at import (
    claims_depth,
    claims_feature_attacks,
    claims_image_features,
    claims_inner,
    claims_law,
    claims_logits,
    claims_noise,
    claims_phase,
    claims_recursion,
    claims_scaling,
    claims_simplified,
    claims_training,
    comparisons,
    figures_beyond,
    figures_image_attacks,
    figures_images,
    figures_patch,
    figures_phase,
    figures_training,
    glossary,
    image_feature_attacks,
    image_features,
    image_features_variants,
    image_inversion,
    patch_batches,
    patch_dense,
    patch_depth,
    patch_fig3,
    patch_inner,
    patch_minima,
    patch_noise,
    patch_race,
    patch_recursion,
    patch_scaling,
    patch_sensitivity,
    phase_patch,
)
from featscope.sweeps.nearest import BoxSearch, known

NAME = "AT"
TITLE = "Adversarial Training Can Provably Improve Robustness"
SOURCE = "Li and Li, arXiv 2410.08503"
EXPERIMENTS = (
    *patch_fig3.EXPERIMENTS,
    *patch_batches.EXPERIMENTS,
    *patch_dense.EXPERIMENTS,
    *patch_minima.EXPERIMENTS,
    *patch_scaling.EXPERIMENTS,
    *patch_recursion.EXPERIMENTS,
    *patch_noise.EXPERIMENTS,
    *patch_inner.EXPERIMENTS,
    *patch_depth.EXPERIMENTS,
    *patch_race.EXPERIMENTS,
    *phase_patch.EXPERIMENTS,
    *patch_sensitivity.EXPERIMENTS,
    *image_features.EXPERIMENTS,
    *image_features_variants.EXPERIMENTS,
    *image_inversion.EXPERIMENTS,
    *image_feature_attacks.EXPERIMENTS,
)
CLAIMS = (
    *claims_law.CLAIMS,
    *claims_recursion.CLAIMS,
    *claims_scaling.CLAIMS,
    *claims_logits.CLAIMS,
    *claims_simplified.CLAIMS,
    *claims_noise.CLAIMS,
    *claims_training.CLAIMS,
    *claims_inner.CLAIMS,
    *claims_depth.CLAIMS,
    *claims_phase.CLAIMS,
    *claims_image_features.CLAIMS,
    *claims_feature_attacks.CLAIMS,
)
COMPARISONS = comparisons.COMPARISONS
FIGURES = {
    **figures_training.FIGURES,
    **figures_patch.FIGURES,
    **figures_beyond.FIGURES,
    **figures_phase.FIGURES,
    **figures_images.FIGURES,
    **figures_image_attacks.FIGURES,
}
GLOSSARY, RULES_HISTORY = glossary.GLOSSARY, glossary.RULES_HISTORY
#: boxes in which a setting is looked for that would make a failing reading hold
SEARCHES = (
    BoxSearch(
        "patch-minima",
        {"law.alpha": "2:64:6:log", "law.sigma_n": [0.1, 0.001]},
        (("AT-P3.2", "full-ball"), ("AT-P3.2", "own-logit")),
    ),
    BoxSearch(
        "patch-fig3",
        {"law.alpha": "2:32:5:log"},
        (("AT-T4.4", "full-ball"),),
        settings={"evaluation.points": 100},
    ),
)
NEAREST = known(SEARCHES)
