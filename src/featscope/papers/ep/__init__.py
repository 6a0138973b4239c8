"""EP: Li, Jin, Zhong, Hopcroft and Wang, *Why Robust Generalization in Deep Learning is Difficult* (arXiv
2205.13863), and the talk."""

from __future__ import annotations

from featscope.papers.ep import (
    bounds,
    built,
    claims_architecture,
    claims_bounds,
    claims_built,
    claims_separation,
    comparisons,
    figures_architecture,
    figures_built,
    figures_separation,
    glossary,
    image_architecture,
    image_separation,
    manifold,
)

NAME = "EP"
TITLE = "Why Robust Generalization in Deep Learning is Difficult"
SOURCE = "Li, Jin, Zhong, Hopcroft and Wang, arXiv 2205.13863, and the talk"
EXPERIMENTS = (
    *built.EXPERIMENTS,
    *bounds.EXPERIMENTS,
    *manifold.EXPERIMENTS,
    *image_separation.EXPERIMENTS,
    *image_architecture.EXPERIMENTS,
)
CLAIMS = (*claims_built.CLAIMS, *claims_bounds.CLAIMS, *claims_separation.CLAIMS, *claims_architecture.CLAIMS)
COMPARISONS = comparisons.COMPARISONS
FIGURES = {**figures_built.FIGURES, **figures_separation.FIGURES, **figures_architecture.FIGURES}
GLOSSARY, RULES_HISTORY = glossary.GLOSSARY, glossary.RULES_HISTORY
