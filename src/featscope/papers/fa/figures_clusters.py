"""Figures of FA's cluster model, in the layout of the paper where it has one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from featscope.claims.judging import fitted
from featscope.core.columns import Column
from featscope.core.rules import SMALL
from featscope.core.stored import Label
from featscope.experiments.run import Run
from featscope.papers.fa.clusters import Course
from featscope.papers.fa.clusters_ablations import AblationSpec, sweeps
from featscope.papers.fa.clusters_built import BiasedRow, BuiltSpec
from featscope.papers.fa.clusters_figures import Fig3Curve
from featscope.papers.fa.clusters_regimes import BinaryFlow, RegimeSpec
from featscope.papers.fa.clusters_scaling import Swept
from featscope.papers.fa.printed import FIGURE_3_LEFT
from featscope.plots import series
from featscope.plots.axes import Axis
from featscope.plots.grids import HeatMap, HeatScale
from featscope.plots.palette import CATEGORIES, NON_ROBUST, REFERENCE, ROBUST, Look
from featscope.plots.panels import Panel, Series
from featscope.plots.picture import Picture
from featscope.plots.series import Bracket, OverSeeds, Values, by_seed, points
from featscope.plots.sheet import side_by_side

SWEEPS = {
    "points": "training points n",
    "rate": "learning rate η",
    "init": "initial scale σ_w = σ_b",
    "snr": "signal to noise α/σ",
    "cosine": "cos(μᵢ, μⱼ)",
}
FEATURES, WEIGHTS = "feature μᵢ", "weight wⱼ"
COSINES = HeatScale("cosine", 0, 1)
PERCENT = Axis("robust test accuracy (%)", limits=(-3, 103), ticks=(0, 25, 50, 75, 100))
PUBLISHED = "published, read off the plot"


def heat_map(table: Values, title: str, scale: HeatScale = COSINES) -> HeatMap:
    """Cosine of feature i (row) with weight j (column)."""
    return HeatMap(title, table, scale, WEIGHTS, FEATURES, cell=(27, 21))


def percent(drawn: tuple[Values, Values]) -> tuple[Values, Values]:
    """The x and the runs of a series of shares, in percent."""
    return drawn[0], 100 * drawn[1]


def _seeds(run: Run, part: str, **labels: Label) -> list[int]:
    """The seeds that a part has rows of: those whose training stayed with the numbers."""
    found: list[int] = run.part(part, **labels)[Course.seed].unique().sort().to_list()
    return found


def _mean_table(run: Run, name: str, **labels: Label) -> Values:
    """The mean over seeds of a heat map."""
    tables = [
        run.tensor("table", name, **labels, seed=seed).double().numpy()
        for seed in _seeds(run, "table", **labels)
    ]
    return np.asarray(np.mean(tables, axis=0))


def fig2(run: Run) -> Picture:
    """Figure 2 (a, b): the mean over seeds of both heat maps."""
    names = {"binary": "(a) trained with 2-class labels", "fine": "(b) trained with k-class labels"}
    return Picture(
        title="Which features the neurons learn from coarse and from fine labels",
        caption=(
            "Each cell is the cosine between a cluster's feature and a weight vector after training, mean "
            "over seeds. A "
            "weight that averages is equally close to all features of its class; one that decouples is close "
            "to a "
            "single feature."
        ),
        alt=(
            "Two heat maps of cosines, features by weights: the network trained with 2-class labels on the "
            "left, the one "
            "trained with k-class labels on the right."
        ),
        spec=side_by_side([heat_map(_mean_table(run, key), title) for key, title in names.items()]),
        claims=("FA-F2", "FA-T4.5", "FA-T4.7"),
        reproduces="FA Figure 2 (a, b)",
    )


def fig3(run: Run) -> Picture:
    """Figure 3 (left): robust accuracy against the radius: exact, attacked, certified and published."""
    rows = run.part("curve")
    lines = (
        (Fig3Curve.binary_exact, NON_ROBUST.dashed(0), "2-class, exact"),
        (Fig3Curve.binary_own_loss, NON_ROBUST.dashed(2), "2-class, PGD (own loss = margin)"),
        (Fig3Curve.fine_certified, ROBUST.dashed(3), "k-class, certified"),
        (Fig3Curve.fine_readout, ROBUST.dashed(0), "k-class, PGD on the read-out"),
        (Fig3Curve.fine_own_loss, ROBUST.dashed(1), "k-class, PGD on the own loss"),
        (Fig3Curve.fine_own_loss_last, ROBUST.dashed(6), "k-class, own loss, last iterate"),
    )
    drawn: list[Series] = [
        OverSeeds(name, look, *percent(by_seed(rows, column, Fig3Curve.radius)))
        for column, look, name in lines
    ]
    for radii, values in FIGURE_3_LEFT.values():
        drawn.append(points(PUBLISHED, REFERENCE, radii, 100 * np.asarray(values)))
    panel = Panel("synthetic data", Axis("ℓ2 radius"), PERCENT, drawn, width=560, height=260)
    return Picture(
        title="Robust accuracy of the networks trained with coarse and with fine labels",
        caption=(
            "Red: the network trained with 2-class labels; blue: the one trained with k-class labels and "
            "read as a 2-class "
            "classifier. A certified curve is a lower bound, an attacked one an upper bound, of the exact "
            "one. Thin lines are "
            "seeds, thick ones their median; grey crosses are read off the paper's plot."
        ),
        alt=(
            "Line chart: robust test accuracy in percent against the ℓ2 radius, two networks, by exact, "
            "certified and attacked "
            "radii, with points of the published curves."
        ),
        spec=side_by_side([panel]),
        claims=("FA-F3", "FA-T4.5", "FA-T4.7"),
        reproduces="FA Figure 3 (left)",
    )


def ablations(run: Run) -> Picture:
    """Figures 5 to 9, a row each, values in the paper's order."""
    maps = [
        replace(
            heat_map(
                _mean_table(run, "table", sweep=sweep, at=at),
                f"{SWEEPS[sweep]} = {np.format_float_positional(at, trim='-')}",
            ),
            cell=(25, 19),
        )
        for sweep, settings in sweeps(AblationSpec.of(run)).items()
        for at, _, _ in settings
    ]
    return Picture(
        title="Feature averaging when one setting is changed at a time",
        caption=(
            "A row for each of the paper's Figures 5 to 9, its values in the paper's order; everything else "
            "is the setting of "
            "Figure 2 (a). Cells are cosines between features and weights of the network trained with "
            "2-class labels, "
            "mean over seeds."
        ),
        alt=(
            "Five rows of three heat maps of cosines, features by weights: along training points, learning "
            "rate, initial "
            "scale, signal to noise, and cosine of the features."
        ),
        spec=side_by_side(maps, columns=3),
        claims=("FA-F5", "FA-F6", "FA-F7", "FA-F8", "FA-F9"),
        reproduces="FA Figures 5 to 9",
    )


def scaling(run: Run) -> Picture:
    """Distance to averaging and radii along n, d and k, and coefficients in the talk's setting along d."""
    weights = {Swept.deviation: ("2-class", NON_ROBUST), Swept.fine_deviation: ("k-class", ROBUST)}
    radii = {
        Swept.exact_over_root_dk: ("2-class, exact ÷ √(d/k)", NON_ROBUST),
        Swept.readout_over_root_d: ("k-class, attacked ÷ √d", ROBUST),
        Swept.certified_over_root_d: ("k-class, certified ÷ √d", ROBUST.variant(1)),
    }
    talk = {
        Swept.lambda_min: ("2-class, least λ", NON_ROBUST),
        Swept.lambda_mean: ("2-class, mean λ", NON_ROBUST.variant(1)),
        Swept.fine_lambda_min: ("k-class, least own λ", ROBUST),
        Swept.fine_lambda_other: ("k-class, largest other |λ|", ROBUST.variant(1)),
    }
    distance = Axis("√d · ‖w − λΣμ/‖μ‖²‖, largest", "log", _extent(run, ("n", "d"), weights))
    panels = [
        _swept(run, "n", weights, "distance to averaging along n", "training points n", distance),
        _swept(run, "d", weights, "distance to averaging along d", "dimension d", distance),
        _swept(
            run,
            "k",
            radii,
            "robust radii along k",
            "clusters k",
            Axis("median radius in its unit", zero=True),
        ),
        _swept(
            run,
            "talk",
            talk,
            "the talk's setting: σ_w² = 1/d, η = d^−½",
            "dimension d",
            Axis("coefficients λ", "symlog", constant=0.1),
        ),
    ]
    return Picture(
        title="How far from averaging, and how robust, as the sizes grow",
        caption=(
            "Above: the distance of the weights from the averages (2-class) or single features (k-class) of "
            "the theorems. Below: "
            "median radii in the unit in which the theorems have them constant, and coefficients in the "
            "setting of the talk. "
            "Exponents are fitted over all seeds. Thin lines are seeds, thick ones their median."
        ),
        alt=(
            "Four line charts: distance of the weights from averaging along n and along d, both logarithmic; "
            "median robust "
            "radii along k; coefficients along d in the talk's setting."
        ),
        spec=side_by_side(panels, columns=2),
        claims=("FA-T4.5", "FA-T4.7", "FA-LC.25"),
    )


Lines = Mapping[Column, tuple[str, Look]]


def _extent(run: Run, names: tuple[str, ...], lines: Lines) -> tuple[float, float]:
    """The least and the largest positive value of panels that share an axis."""
    found = [run.part("setting", sweep=sweep)[key].to_numpy() for sweep in names for key in lines]
    positive = [values[values > 0] for values in found]
    return min(float(v.min()) for v in positive), max(float(v.max()) for v in positive)


def _swept(run: Run, sweep: str, lines: Lines, title: str, label: str, height: Axis) -> Panel:
    """Every seed along a sweep, with the exponent that all seeds together give."""
    rows = run.part("setting", sweep=sweep)
    drawn = []
    for key, (name, look) in lines.items():
        fit = fitted(rows[Swept.at].to_list(), rows[key].to_list())
        shown = f"{name}, exponent {_signed(fit.value)}" if math.isfinite(fit.value) else name
        drawn.append(OverSeeds(shown, look, *by_seed(rows, key, Swept.at)))
    values = rows[Swept.at].unique().sort().to_list()
    return Panel(title, Axis(label, "log", ticks=values), height, drawn, width=320)


def _signed(value: float) -> str:
    """Two digits, with a minus sign and never a negative zero."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


#: what the flows' panels show
RANGES = {
    "margins": (CATEGORIES[0], Course.margin_min, Course.margin_max),
    "own λ": (CATEGORIES[1], Course.lambda_min, Course.lambda_max),
}


def assumption(run: Run) -> Picture:
    """The flow at Assumption 4.3's sizes: margins and coefficients, and who is active, along time."""
    spec = RegimeSpec.of(run)
    panels = [
        _flow(run, net, f"{title}, k = {spec.k}")
        for net, title in (("binary", "2-class network"), ("fine", "k-class network"))
    ]
    return Picture(
        title=f"Training as Assumption 4.3 has it, k = {spec.k}",
        caption=(
            "Gradient flow after the first two literal steps of descent. Left and middle: from the least to "
            "the largest margin "
            "of a training point and own coefficient, and the largest coefficient of another class's "
            "feature. Right: how many "
            "training points activate the neurons of their own class, from step 0 on."
        ),
        alt=(
            "Line charts over the time τ = ηt on a logarithmic axis: ranges of margins and coefficients of "
            "both networks, and "
            "the share of active pairs of points and own neurons."
        ),
        spec=side_by_side([*panels, _active(run)]),
        claims=("FA-L5.3", "FA-L5.5", "FA-LB.7", "FA-LC.10"),
    )


TIME = Axis("time τ = ηt", "log")


def _flow(run: Run, net: str, title: str) -> Panel:
    drawn: list[Series] = []
    for seed in RegimeSpec.of(run).seeds:
        rows = run.part(net, seed=seed).sort(BinaryFlow.time)
        time = rows[BinaryFlow.time].to_numpy()
        for name, (look, low, high) in RANGES.items():
            ends = rows[low].to_numpy(), rows[high].to_numpy()
            drawn.append(Bracket(name, look, time, *ends))
            drawn += [series.Curve(name, look, time, end, points=False) for end in ends]
        other = rows[Course.lambda_other].to_numpy()
        drawn.append(series.Curve("largest other |λ|", CATEGORIES[2], time, other, points=False))
    return Panel(title, TIME, Axis("margin, coefficient λ"), drawn)


def _active(run: Run) -> Panel:
    drawn = []
    for net, look, name in (("binary", NON_ROBUST, "2-class"), ("fine", ROBUST, "k-class")):
        for seed in RegimeSpec.of(run).seeds:
            columns = (BinaryFlow.time, Course.own_active)
            parts = (run.part("start", net=net, seed=seed), run.part(net, seed=seed))
            rows = pl.concat([part.select(columns) for part in parts]).unique(BinaryFlow.time)
            rows = rows.sort(BinaryFlow.time)
            time, active = (rows[key].to_numpy() for key in columns)
            drawn.append(series.Curve(name, look, time, active, points=True))
    share = Axis("share of points × own neurons", limits=(-0.03, 1.05), ticks=(0, 0.25, 0.5, 0.75, 1))
    return Panel("own neurons active", TIME, share, drawn)


def built(run: Run) -> Picture:
    """Exact median radius of θ_avg over its biases, in units of √(d/k), where it classifies well."""
    good = run.part("biased").filter(pl.col(BiasedRow.clean) >= 1 - SMALL)
    values = sorted(BuiltSpec.of(run).biases)
    table = np.full((len(values), len(values)), np.nan)
    for plus, minus, radius in good.select(
        BiasedRow.plus, BiasedRow.minus, BiasedRow.over_root_dk
    ).iter_rows():
        table[values.index(plus), values.index(minus)] = radius
    labels = [f"{value:g}".replace("-", "−") for value in values]
    scale = HeatScale("median radius ÷ √(d/k)", 0, 2)
    shown = HeatMap("θ_avg with biases", table, scale, "b₋ ÷ d", "b₊ ÷ d", labels, labels, cell=(34, 26))
    return Picture(
        title="No bias makes the averaging network robust",
        caption=(
            "The exact median radius of the averaging network θ_avg, over the biases of its two neurons. "
            "Blank: its clean "
            f"accuracy is below {1 - SMALL:.0%}."
        ),
        alt="Heat map of the exact median radius in units of √(d/k), over the bias of the positive and of "
        "the negative neuron.",
        spec=side_by_side([shown]),
        claims=("FA-TD.1", "FA-TD.2"),
    )


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "clusters-fig2": {"fig2": fig2},
    "clusters-fig3": {"fig3": fig3},
    "clusters-ablations": {"ablations": ablations},
    "clusters-scaling": {"scaling": scaling},
    "clusters-assumption": {"flow": assumption},
    "clusters-built": {"biases": built},
}
