"""Which functions draw which experiment's figures."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from featscope.core.store import Run
from featscope.report import built, clusters, embeddings, image_attacks, image_features, images, patch, signal

Draw = Callable[[Run], Figure]

#: experiment → figure name → function
FIGURES: dict[str, dict[str, Draw]] = {
    **patch.FIGURES,
    **clusters.FIGURES,
    **signal.FIGURES,
    **built.FIGURES,
    **images.FIGURES,
    **image_features.FIGURES,
    **embeddings.FIGURES,
    **image_attacks.FIGURES,
}


def figures(run: Run) -> dict[str, Figure]:
    """Draw all figures of a run."""
    return {name: draw(run) for name, draw in FIGURES.get(run.experiment, {}).items()}
