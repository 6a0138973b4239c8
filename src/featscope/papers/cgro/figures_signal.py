"""Figures of the signal/noise model: the three stages, and robustness by reading."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from featscope.core.columns import Column
from featscope.core.rows import last_rows
from featscope.experiments.run import Run
from featscope.papers.cgro.signal_robustness import BALL, NOISE_BALL, Conflict, RobustBracket
from featscope.papers.cgro.signal_stages import SignalStages
from featscope.papers.cgro.stages_columns import Stages, Training
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.grids import Categories, Group
from featscope.plots.palette import (
    ATTACKED,
    CATEGORIES,
    CLEAN,
    NON_ROBUST,
    REFERENCE,
    ROBUST,
    THEORY,
    Look,
)
from featscope.plots.panels import Panel, Series
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, OverSeeds, Rule, by_seed, points
from featscope.plots.sheet import side_by_side

STEP = Axis("step", "log", floor=0.5)
TRAIN, TEST = CATEGORIES[0], CATEGORIES[1]
WIDTH, HEIGHT = 320, 260


def _line(run: Run, key: Column, look: Look, name: str) -> OverSeeds:
    """A column over the steps: every early one, then those that were recorded."""
    c = Training
    parts = [run.part(part).select(c.seed, c.step, key) for part in ("opening", "training")]
    return OverSeeds(name, look, *by_seed(pl.concat(parts).unique([c.seed, c.step]), key, c.step))


def _known(run: Run, key: str) -> list[float]:
    """A column of the stages without gaps; a column that is empty in all rows is not there."""
    rows = run.part("stages")
    return [float(value) for value in rows[key].drop_nulls()] if key in rows.columns else []


def _stage_lines(run: Run) -> list[Rule]:
    """Where the stages end, medians over the seeds that reached them."""
    # The T₁ are close to each other: one label for all, beside the first.
    marks = (
        (Stages.T0, "T₀"),
        (Stages.T1_first, "T₁: first, median, last"),
        (Stages.T1_median, ""),
        (Stages.T1_last, ""),
    )
    times = [(name, _known(run, key)) for key, name in marks]
    return [Rule(max(float(np.median(known)), 1), name) for name, known in times if known]


def stages(run: Run) -> Picture:
    """α³U and V_i against the step, the stages marked, the predicted plateau beside; accuracies; loss."""
    marks = _stage_lines(run)
    accuracies = [
        _line(run, Training.clean_test, CLEAN, "clean, test"),
        _line(run, Training.gta_train, ATTACKED.variant(1), "at (A), train"),
        _line(run, Training.gta_test, ATTACKED, "at (A), test"),
    ]
    loss = [_line(run, Training.loss, CATEGORIES[0], "objective (O)")]
    panels = [
        _components(run, marks),
        Panel("accuracy", STEP, ACCURACY, accuracies, marks, width=WIDTH, height=HEIGHT),
        Panel("loss", STEP, Axis("value of (O)", "log"), loss, marks, width=WIDTH, height=HEIGHT),
    ]
    return Picture(
        title="Signal first, then memorised noise: the stages of adversarial training",
        caption=(
            "Left: the signal's share α³U of the output and the memorised noise V_i of training points, with "
            "the level at which "
            "the signal should come to rest. Middle: accuracy, clean and at the attack's points (A). Dotted: "
            "when the signal "
            "is learned (T₀) and when the first, half and all of the points are memorised (T₁). Thin lines "
            "are seeds, thick "
            "ones their median."
        ),
        alt=(
            "Three line charts over steps on a logarithmic axis: components of the output, accuracies and "
            "loss, with lines "
            "where the stages end."
        ),
        spec=side_by_side(panels),
        claims=("CG-T4.1", "CG-L4.2", "CG-L4.3", "CG-L4.4"),
    )


def _components(run: Run, marks: list[Rule]) -> Panel:
    c = Training
    drawn: list[Series] = [
        _line(run, c.signal, ROBUST, "signal α³U"),
        _line(run, c.V_median, NON_ROBUST.dashed(0), "noise V_i: median"),
        _line(run, c.V_min, NON_ROBUST.dashed(1), "V_i: least"),
        _line(run, c.V_max, NON_ROBUST.dashed(2), "V_i: largest"),
        _line(run, c.V_fresh_rms, REFERENCE, "V of fresh points, rms"),
    ]
    level = _known(run, Stages.plateau_predicted)
    if level:
        ends = [STEP.floor or 1.0, float(run.part("training")[c.step].to_numpy().max())]
        drawn.append(Curve("plateau predicted", THEORY, ends, 2 * [float(np.median(level))], points=False))
    return Panel(
        "signal and memorised noise",
        STEP,
        Axis("components of y·f"),
        drawn,
        marks,
        width=WIDTH,
        height=HEIGHT,
    )


def robustness(run: Run) -> Picture:
    """Attacked and certified accuracy over the ball's radius, and every reading at its radius."""
    return Picture(
        title="What robust means decides: accuracy by reading",
        caption=(
            "Left: robust accuracy over the ℓ2 ball lies between the certified and the attacked line; at δ, "
            "what any classifier "
            "can have at most. Right: accuracy on clean points, at the attack's points (A), around these on "
            "the noise patches, "
            "and over the whole ball of radius δ. Lines and bars are medians over seeds."
        ),
        alt=(
            "A line chart of robust accuracy against the radius, attacked and certified, for training and "
            "test points, and "
            "grouped bars of accuracy by reading."
        ),
        spec=side_by_side([_over_ball(run), _by_reading(run)]),
        claims=("CG-T4.1",),
    )


def _any_classifier(run: Run) -> float:
    return float(run.part("conflict")[Conflict.any_classifier][0])


def _over_ball(run: Run) -> Panel:
    c = RobustBracket
    ball = run.part("robustness").filter(pl.col(c.reading) == BALL)
    drawn: list[Series] = []
    for sample, look in (("train", TRAIN), ("test", TEST)):
        rows = ball.filter(pl.col(c.sample) == sample)
        drawn.append(OverSeeds(f"{sample}, attacked", look, *by_seed(rows, c.attacked, c.radius)))
        drawn.append(
            OverSeeds(f"{sample}, certified", look.variant(1), *by_seed(rows, c.certified, c.radius))
        )
    delta = float(ball[c.radius].to_numpy().max())
    drawn.append(points("any classifier, at most", THEORY, [delta], [_any_classifier(run)]))
    return Panel(
        "over the ℓ2 ball",
        Axis("radius", "log"),
        ACCURACY,
        drawn,
        [Rule(delta, "δ")],
        width=WIDTH,
        height=HEIGHT,
    )


def _values(run: Run, sample: str, reading: str, key: Column) -> list[float | None]:
    """A reading's bound for each seed; the ball is that of the largest radius."""
    c = RobustBracket
    rows = run.part("robustness").filter((pl.col(c.sample) == sample) & (pl.col(c.reading) == reading))
    if reading == BALL:
        rows = rows.filter(pl.col(c.share) == max(SignalStages.of(run).radii))
    return rows[key].to_list()


def _by_reading(run: Run) -> Categories:
    c, last = RobustBracket, last_rows(run.part("training"))
    keys = {
        "train": (Training.clean_train, Training.gta_train),
        "test": (Training.clean_test, Training.gta_test),
    }
    groups = [
        Group(
            sample,
            look,
            [
                *(last[key].to_list() for key in keys[sample]),
                *(_values(run, sample, reading, c.attacked) for reading in (NOISE_BALL, BALL)),
            ],
        )
        for sample, look in (("train", TRAIN), ("test", TEST))
    ]
    sure = [_values(run, "train", reading, c.certified) for reading in (NOISE_BALL, BALL)]
    groups.append(Group("train, certified", TRAIN.variant(1), [[], [], *sure]))
    groups.append(Group("any classifier, at most", THEORY, [[], [], [], [_any_classifier(run)]]))
    names = ["clean", "at (A)", "(A) + noise ball", "ball δ"]
    return Categories("at the end of training", names, ACCURACY, groups, width=420, height=HEIGHT)


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "signal-stages": {"stages": stages, "robustness": robustness},
}
