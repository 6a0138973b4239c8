"""All experiments by name."""

from __future__ import annotations

from typing import Any

from featscope.core.errors import unknown
from featscope.experiments import (
    built,
    clusters_all,
    image_embeddings,
    image_feature_attacks,
    image_features,
    image_fine_labels,
    image_inversion,
    image_landscape,
    image_network,
    image_overfitting,
    image_separation,
    packing,
    patch_fig3,
    patch_minima,
    patch_noise,
    patch_recursion,
    patch_scaling,
    signal_lemmas,
    signal_scaling,
)
from featscope.experiments import signal as signal_stages
from featscope.experiments.spec import Experiment

_ALL: tuple[Experiment[Any], ...] = (
    *patch_fig3.EXPERIMENTS,
    *patch_minima.EXPERIMENTS,
    *patch_scaling.EXPERIMENTS,
    *patch_recursion.EXPERIMENTS,
    *patch_noise.EXPERIMENTS,
    *clusters_all.EXPERIMENTS,
    *signal_stages.EXPERIMENTS,
    *signal_scaling.EXPERIMENTS,
    *signal_lemmas.EXPERIMENTS,
    *built.EXPERIMENTS,
    *packing.EXPERIMENTS,
    *image_network.EXPERIMENTS,
    *image_embeddings.EXPERIMENTS,
    *image_features.EXPERIMENTS,
    *image_feature_attacks.EXPERIMENTS,
    *image_fine_labels.EXPERIMENTS,
    *image_inversion.EXPERIMENTS,
    *image_separation.EXPERIMENTS,
    *image_landscape.EXPERIMENTS,
    *image_overfitting.EXPERIMENTS,
)

EXPERIMENTS: dict[str, Experiment[Any]] = {plan.name: plan for plan in _ALL}


def experiment(name: str) -> Experiment[Any]:
    """Return the experiment of that name; an unknown name lists the nearest."""
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
