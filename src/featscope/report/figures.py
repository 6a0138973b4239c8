"""Which functions draw which experiment's figures: what the papers' rooms say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from featscope.experiments.registry import rooms
from featscope.experiments.run import Run
from featscope.plots.picture import Picture

Draw = Callable[[Run], Picture]


def drawings(experiment: str) -> Mapping[str, Draw]:
    """The functions that draw an experiment's figures, by the figure's name."""
    found: dict[str, Draw] = {}
    for room in rooms().values():
        found |= room.FIGURES.get(experiment, {})
    return found


def figures(run: Run) -> dict[str, Picture]:
    """Draw all figures of a run."""
    return {name: draw(run) for name, draw in drawings(run.experiment).items()}
