"""All experiments on FA's cluster model, in the order of the paper."""

from __future__ import annotations

from typing import Any

from featscope.experiments import (
    clusters_ablations,
    clusters_built,
    clusters_figures,
    clusters_properties,
    clusters_regimes,
    clusters_scaling,
)
from featscope.experiments.spec import Experiment

EXPERIMENTS: tuple[Experiment[Any], ...] = (
    *clusters_figures.EXPERIMENTS,
    *clusters_ablations.EXPERIMENTS,
    *clusters_scaling.EXPERIMENTS,
    *clusters_properties.EXPERIMENTS,
    *clusters_regimes.EXPERIMENTS,
    *clusters_built.EXPERIMENTS,
)
