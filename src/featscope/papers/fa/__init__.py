"""FA: Li, Pan, Lyu and Li, *Feature Averaging* (arXiv 2410.10322)."""

from __future__ import annotations

from featscope.papers.fa import (
    claims_built,
    claims_elementary,
    claims_embeddings,
    claims_figures,
    claims_fine_labels,
    claims_granularity,
    claims_granularity_images,
    claims_induction,
    claims_past,
    claims_phase,
    claims_plane,
    claims_start,
    claims_theorems,
    claims_training,
    clusters_ablations,
    clusters_adversarial,
    clusters_attack,
    clusters_built,
    clusters_elementary,
    clusters_fig3_settings,
    clusters_figures,
    clusters_granularity,
    clusters_kkt,
    clusters_limit,
    clusters_plane,
    clusters_properties,
    clusters_regimes,
    clusters_routes,
    clusters_scaling,
    clusters_width,
    comparisons,
    embedding_granularity,
    figures_clusters,
    figures_embeddings,
    figures_fine_labels,
    figures_granularity_images,
    figures_past,
    figures_phase,
    figures_plane,
    glossary,
    glossary_past,
    image_embeddings,
    image_fine_labels,
    image_fine_labels_cifar10,
    image_granularity,
    phase_clusters,
)
from featscope.sweeps.nearest import BoxSearch, known

NAME = "FA"
TITLE = "Feature Averaging"
SOURCE = "Li, Pan, Lyu and Li, arXiv 2410.10322"
EXPERIMENTS = (
    *clusters_figures.EXPERIMENTS,
    *clusters_ablations.EXPERIMENTS,
    *clusters_scaling.EXPERIMENTS,
    *clusters_properties.EXPERIMENTS,
    *clusters_regimes.EXPERIMENTS,
    *clusters_built.EXPERIMENTS,
    *clusters_routes.EXPERIMENTS,
    *phase_clusters.EXPERIMENTS,
    *clusters_elementary.EXPERIMENTS,
    *clusters_plane.EXPERIMENTS,
    *clusters_fig3_settings.EXPERIMENTS,
    *clusters_attack.EXPERIMENTS,
    *clusters_granularity.EXPERIMENTS,
    *clusters_kkt.EXPERIMENTS,
    *clusters_adversarial.EXPERIMENTS,
    *clusters_limit.EXPERIMENTS,
    *clusters_width.EXPERIMENTS,
    *image_embeddings.EXPERIMENTS,
    *image_fine_labels.EXPERIMENTS,
    *image_fine_labels_cifar10.EXPERIMENTS,
    *image_granularity.EXPERIMENTS,
    *embedding_granularity.EXPERIMENTS,
)
CLAIMS = (
    *claims_start.CLAIMS,
    *claims_elementary.CLAIMS,
    *claims_training.CLAIMS,
    *claims_induction.CLAIMS,
    *claims_theorems.CLAIMS,
    *claims_built.CLAIMS,
    *claims_phase.CLAIMS,
    *claims_plane.CLAIMS,
    *claims_figures.CLAIMS,
    *claims_embeddings.CLAIMS,
    *claims_fine_labels.CLAIMS,
    *claims_granularity.CLAIMS,
    *claims_granularity_images.CLAIMS,
    *claims_past.CLAIMS,
)
COMPARISONS = comparisons.COMPARISONS
FIGURES = {
    **figures_clusters.FIGURES,
    **figures_phase.FIGURES,
    **figures_plane.FIGURES,
    **figures_past.FIGURES,
    **figures_embeddings.FIGURES,
    **figures_fine_labels.FIGURES,
    **figures_granularity_images.FIGURES,
}
GLOSSARY = {**glossary.GLOSSARY, **glossary_past.GLOSSARY_PAST, **glossary_past.GLOSSARY_IMAGES}
RULES_HISTORY = glossary.RULES_HISTORY | glossary_past.HISTORY_PAST
#: boxes in which a setting is looked for that would make a failing reading hold
SEARCHES = (
    BoxSearch(
        "clusters-assumption",
        {"sizes": [[2, 3], [3, 4]], "init": ["literal", "lemma"]},
        tuple(("FA-T4.5", f"assumption/{part}") for part in ("clean", "weights", "robust")),
    ),
)
NEAREST = known(SEARCHES)
