"""Phase diagrams of CGRO: memorisation against the residual signal, with N*."""

from __future__ import annotations

from featscope.experiments.run import Run
from featscope.papers.cgro.phase_signal import SAMPLES, TRADEOFF, PhaseSignal
from featscope.plots.axes import Axis
from featscope.plots.grids import HeatScale
from featscope.plots.phase import phase_map
from featscope.plots.picture import Picture
from featscope.plots.sheet import side_by_side


def phases(run: Run) -> Picture:
    """Both panels."""
    spec = PhaseSignal.of(run)
    scale = HeatScale("accuracy under (A)", 0.5, 1)
    gap = Axis("1 − γ", "log")
    maps = [
        phase_map(run, SAMPLES, f"λ = {spec.tradeoff:g}", Axis("N", "log"), gap, scale, False),
        phase_map(run, TRADEOFF, f"N = {spec.tradeoff_n}", Axis("λ"), gap, scale, True),
    ]
    return Picture(
        title="Memorisation against the residual signal",
        caption="Accuracy under the attack (A) on fresh points after training by the exact recursion: one "
        "half "
        "where the training points are memorised, one where the residual signal is learned. Every column "
        "is cut "
        "along 1−γ. The dashed line is N* = N; dots are where the mean over seeds is ¾, with its interval.",
        alt="Two heat maps of accuracy over 1−γ, against N and against λ, with a dashed predicted line and "
        "dots "
        "along the measured edge.",
        spec=side_by_side(maps, columns=2),
        claims=("PH-signal",),
    )


FIGURES = {"phase-signal": {"phases": phases}}
