"""Figures of the signal/noise model's sweeps: over N, λ and d, and over the attack of training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from featscope.core.columns import Column
from featscope.experiments.run import Run
from featscope.papers.cgro.signal_scaling import (
    AttackSweep,
    DimensionSweep,
    Ended,
    SampleSweep,
    SignalScaling,
    TradeoffSweep,
)
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.grids import Categories, Group, HeatMap, HeatScale
from featscope.plots.palette import ATTACKED, CLEAN, NON_ROBUST, ROBUST, THEORY, Look
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, OverSeeds, Rule, Values, by_seed
from featscope.plots.sheet import side_by_side

LINES: tuple[tuple[Column, Look, str], ...] = (
    (Ended.gta_test, ATTACKED, "at (A), test"),
    (Ended.gta_train, ATTACKED.variant(1), "at (A), train"),
    (Ended.clean_test, CLEAN, "clean, test"),
)
WIDTH = 320


def sweeps(run: Run) -> Picture:
    """Accuracy against N with the predicted N*, against λ, and T1 and the plateau against d."""
    return Picture(
        title="More points, other weights of attacked points, larger dimensions",
        caption=(
            "Above: accuracy at the end of training along the training points N, with the N* at which robust "
            "generalisation "
            "should begin, and for several weights λ of attacked points. Below: when half of the points are "
            "memorised, beside "
            "its predicted order, and the signal learned, along the dimension. Thin lines and dots are "
            "seeds, thick lines and "
            "bars their median."
        ),
        alt=(
            "Line chart of accuracies against N; grouped bars of accuracies by λ; line charts of the time of "
            "memorisation and of "
            "the signal α³U against the dimension."
        ),
        spec=side_by_side([_samples(run), _tradeoffs(run), *_dimensions(run)], columns=2),
        claims=("CG-T4.1", "CG-L4.4"),
    )


def _swept(axis: str, values: pl.Series) -> Axis:
    """A logarithmic axis with a label at each swept value."""
    return Axis(axis, "log", ticks=values.unique().sort().to_list())


def _samples(run: Run) -> Panel:
    c, rows = SampleSweep, run.part("samples")
    drawn = [OverSeeds(name, look, *by_seed(rows, key, c.n)) for key, look, name in LINES]
    critical = Rule(float(rows[c.critical_samples][0]), "N* predicted")
    title = f"N across N*, d = {SignalScaling.of(run).samples_d}, 1−γ = 1/√d"
    return Panel(title, _swept("training points N", rows[c.n]), ACCURACY, drawn, [critical], width=WIDTH)


def _tradeoffs(run: Run) -> Categories:
    lam, rows = TradeoffSweep.tradeoff, run.part("tradeoffs")
    values = rows[lam].unique().sort().to_list()
    groups = [
        Group(name, look, [rows.filter(pl.col(lam) == value)[key].to_list() for value in values])
        for key, look, name in LINES
    ]
    names = [f"{value:g}" for value in values]
    return Categories("the trade-off λ", names, ACCURACY, groups, "λ", width=WIDTH)


def _dimensions(run: Run) -> list[Panel]:
    c, rows = DimensionSweep, run.part("dimensions")
    # −1 is a time that was not reached.
    reached = pl.when(pl.col(c.median_memorised) >= 0).then(pl.col(c.median_memorised))
    times = OverSeeds("median T₁", NON_ROBUST, *by_seed(rows, reached, c.d))
    ratio = rows.select((reached / pl.col(c.T1_order)).median()).to_series()[0]
    orders = rows.group_by(c.d).agg(pl.col(c.T1_order).first()).sort(c.d)
    d = orders[c.d].to_numpy().astype(float)
    order = Curve(
        f"{ratio or 1:.2f}·N/(ησ₀σ³d^1.5)",
        THEORY,
        d,
        (ratio or 1) * orders[c.T1_order].to_numpy(),
        points=False,
    )
    signal = OverSeeds("α³U at the end", ROBUST, *by_seed(rows, c.signal, c.d))
    dimension = _swept("dimension d", rows[c.d])
    return [
        Panel("growing d, η ∝ α⁻²", dimension, Axis("steps", "log"), [times, order], width=WIDTH),
        Panel("the signal's plateau", dimension, Axis("α³U", zero=True), [signal], width=WIDTH),
    ]


def training_attacks(run: Run) -> Picture:
    """Other attacks in training: final accuracies by reading."""
    rows, radii = run.part("attacks"), SignalScaling.of(run).attack_radii
    trained = {pair: _trained(rows, *pair) for pair in _pairs(rows)}
    names = [_attack_name(mine, *pair) for pair, mine in trained.items()]
    readings = ["clean", "at (A)", *(f"ball {share:g}·δ" for share in radii)]
    scale = HeatScale("accuracy", 0, 1)
    maps = [
        HeatMap(
            f"read on {sample} points",
            np.array([_accuracies(mine, sample, len(radii)) for mine in trained.values()]),
            scale,
            "reading",
            "attack in training" if sample == "train" else None,
            names,
            readings,
            cell=(44, 28),
        )
        for sample in ("train", "test")
    ]
    return Picture(
        title="Training with other attacks, and how its networks are read",
        caption=(
            "The objective (O) with the attack of the row in training; accuracy at its end in the reading of "
            "the column, median "
            "over seeds. Over balls it is accuracy under attack, an upper bound. Blank rows diverged."
        ),
        alt="Two heat maps of accuracy, on training and on test points: attacks in training by readings of "
        "robustness.",
        spec=side_by_side(maps),
        claims=("CG-T4.1",),
    )


def _trained(rows: pl.DataFrame, attack: str, share: float) -> pl.DataFrame:
    return rows.filter((pl.col(AttackSweep.attack) == attack) & (pl.col(AttackSweep.share) == share))


def _attack_name(rows: pl.DataFrame, attack: str, share: float) -> str:
    if attack == "gta":
        return "(A)"
    ran_away = rows[AttackSweep.blown_up].all()
    return f"{attack.upper()}, {share:g}·δ" + (", weights blow up" if ran_away else "")


def _accuracies(rows: pl.DataFrame, sample: str, radii: int) -> Values:
    """Medians of one training attack on one sample: clean, at (A), in each ball; NaN if diverged."""
    c = AttackSweep
    if c.clean not in rows.columns:
        return np.full(2 + radii, np.nan)
    mine = rows.filter(pl.col(c.sample) == sample)
    balls = [mine[c.ball].list.get(index) for index in range(radii)]
    middles = [values.median() for values in (mine[c.clean], mine[c.gta], *balls)]
    return np.array([np.nan if middle is None else middle for middle in middles], dtype=float)


def _pairs(rows: pl.DataFrame) -> list[tuple[str, float]]:
    """The training attacks with their radii, in the order of the spec."""
    found = rows.select(AttackSweep.attack, AttackSweep.share).unique().rows()
    return sorted(found, key=lambda pair: (("gta", "fgsm", "pgd").index(pair[0]), pair[1]))


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "signal-scaling": {"sweeps": sweeps, "training-attacks": training_attacks},
}
