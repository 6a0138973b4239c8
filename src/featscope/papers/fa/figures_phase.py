"""Phase diagrams of FA: where the 2-class network averages, with the lines of the model's sizes."""

from __future__ import annotations

from featscope.experiments.run import Run
from featscope.papers.fa.phase_clusters import COSINE, INIT, NOISE, PhaseClusters
from featscope.plots.axes import Axis
from featscope.plots.grids import HeatScale
from featscope.plots.phase import phase_map
from featscope.plots.picture import Picture
from featscope.plots.sheet import side_by_side

#: panel → title and axes
PANELS = {
    INIT: ("least ÷ largest own coefficient", Axis("η", "log"), Axis("σ_w", "log")),
    NOISE: ("cosine with own features ÷ √(2/k)", Axis("α ÷ σ", "log"), Axis("n ÷ k", "log")),
    COSINE: ("median exact radius ÷ √(d/k)", Axis("k"), Axis("cosine of two features")),
}


def phases(run: Run) -> Picture:
    """All panels that were made."""
    scale = HeatScale("order parameter", 0, 1)
    names = PhaseClusters.of(run).panels
    maps = [phase_map(run, name, *PANELS[name], scale, name == names[-1]) for name in names]
    return Picture(
        title="Where the 2-class network averages its clusters",
        caption="Colours are the mean over seeds of what the panel's title names; cells are cut where it "
        "crosses "
        "½ (√½ in the panel over α ÷ σ). The dashed line is the prediction: σ_w = η√d/(4√2·mk), n/k = "
        "(σ/α)², "
        "cosine ¾. Dots are the measured edge with its interval over seeds.",
        alt="Heat maps over learning rate and initial scale, signal and points, clusters and cosine, with "
        "dashed "
        "predicted lines and dots along the measured edges.",
        spec=side_by_side(maps, columns=3),
        claims=("PH-clusters",),
    )


FIGURES = {"phase-clusters": {"phases": phases}}
