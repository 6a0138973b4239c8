"""Figures of the networks built by hand: memory, f*, lower bounds, manifolds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from featscope.experiments.packing import Illustration, Packing, PackingCount
from featscope.experiments.run import Run
from featscope.papers.ep.bounds import CountGrowth, RobustSizes, TableLine
from featscope.papers.ep.built import MEMORISING_KINDS, Memorising, RobustClassifier
from featscope.papers.ep.manifold import BehindChart
from featscope.plots import palette
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.built import INDICATORS
from featscope.plots.grids import TextTable
from featscope.plots.panels import Panel, Series
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, OverSeeds, Rule, by_seed, points
from featscope.plots.sheet import side_by_side

PARAMETERS = Axis("parameters", "log")


def memorise(run: Run) -> Picture:
    """Parameters of the memorising network against N·d with the talk's lower order."""
    c, rows = Memorising, run.part("memorise")
    sizes = (rows[c.n] * rows[c.D]).to_numpy()
    drawn: list[Series] = []
    for kind in MEMORISING_KINDS:
        name, look = INDICATORS[kind]
        chosen = rows.filter(pl.col(c.kind) == kind)
        count = (chosen[c.n] * chosen[c.D]).to_numpy()
        drawn.append(points(name, look, count, chosen[c.parameters].to_numpy()))
    ends = np.array([sizes.min(), sizes.max()], dtype=float)
    drawn.append(Curve("6·N·d", palette.REFERENCE, ends, 6 * ends, points=False))
    drawn.append(Curve("√(N·d), lower order", palette.THEORY, ends, np.sqrt(ends), points=False))
    panel = Panel("memorising networks", Axis("N·d", "log"), PARAMETERS, drawn, width=380, height=260)
    return Picture(
        title="The size of networks that memorise every training ball",
        caption=(
            "Each point is a network whose robustness on all training balls is certified: its stored weights "
            "and biases against "
            "the number of points times the dimension. The lines are the order that is enough and the order "
            "that is needed."
        ),
        alt="Scatter chart, both axes logarithmic: parameters against N·d for two constructions, with two "
        "reference lines.",
        spec=side_by_side([panel]),
        claims=("EP-train",),
    )


def fstar(run: Run) -> Picture:
    """The grid network's exponential count, and how sharp the Lipschitz bound is."""
    c, rows = RobustClassifier, run.part("fstar")
    dimension = Axis("dimension d", ticks=rows[c.d].unique().sort().to_list())
    counts = [
        OverSeeds("grid network", palette.NON_ROBUST, *by_seed(rows, c.parameters, c.d)),
        OverSeeds("(K+1)^d hats", palette.REFERENCE, *by_seed(rows, c.hats, c.d)),
    ]
    shares = (
        (rows[c.slope] / rows[c.slope_bound], palette.ROBUST, "largest slope ÷ ε⁻¹"),
        (rows[c.error] / rows[c.error_bound], palette.ATTACKED, "largest error ÷ bound"),
        (rows[c.slack], palette.CERTIFIED, "certified margin of the network"),
        (rows[c.f_star_on_balls], palette.CLEAN, "least y·f* on the balls"),
    )
    drawn = [points(name, look, rows[c.d].to_numpy(), values.to_numpy()) for values, look, name in shares]
    limit = Rule(1, "bounds", "y")
    panels = [
        Panel("f* on a grid", dimension, PARAMETERS, counts, width=300),
        Panel(
            "what is guaranteed",
            dimension,
            Axis("share of the bound, or margin", limits=(0, 1.15)),
            drawn,
            [limit],
            width=300,
        ),
    ]
    return Picture(
        title="The robust classifier f*, and a network that computes it",
        caption=(
            "Left: what a network that copies f* on a grid costs as the dimension grows. Right: measured "
            "slope and error as shares "
            "of their bounds, at most 1, and margins on the balls, above 0; a point for each seed."
        ),
        alt=(
            "A line chart of parameters against the dimension, logarithmic, and a scatter chart of slope, "
            "error and margins "
            "against the dimension."
        ),
        spec=side_by_side(panels),
        claims=("EP-f*",),
    )


def packing(run: Run) -> Picture:
    """The VC count against D for several δ, beside f_S; and the trainability illustration."""
    return Picture(
        title="How many parameters robust generalisation needs",
        caption=(
            "Left: the least number of parameters, by counting, of a network with a small robust error on "
            "the packing law, beside "
            "the networks that memorise and the clean classifier. Right, as an illustration only: what Adam "
            "reaches on "
            "robust training, which is no bound."
        ),
        alt=(
            "A line chart of parameters on a logarithmic axis against the dimension, and a line chart of "
            "robust training accuracy "
            "against the width for several dimensions and depths."
        ),
        spec=side_by_side([_counts(run), _illustration(run)]),
        claims=("EP-lower", "CG-T5.3"),
    )


def _counts(run: Run) -> Panel:
    c, spec = PackingCount, Packing.of(run)
    rows = run.part("count").filter(pl.col(c.mu) == spec.shown_mu).sort(c.D)
    drawn = []
    for delta, look in zip(spec.deltas, palette.CATEGORIES, strict=False):
        chosen = rows.filter(pl.col(c.delta) == delta)
        drawn.append(
            Curve(f"needed, δ = {delta:g}", look, chosen[c.D].to_numpy(), chosen[c.needed].to_numpy())
        )
    one = rows.filter(pl.col(c.delta) == spec.shown_delta)
    d = one[c.D].to_numpy()
    drawn.append(Curve(f"f_S, ℓ∞, N = {spec.n}", palette.CATEGORIES[3], d, one[c.cgro].to_numpy()))
    drawn.append(Curve("clean classifier, D + 1", palette.CLEAN, d, d + 1))
    title = f"for a robust error below μ = {spec.shown_mu:g}"
    return Panel(title, Axis("dimension D"), PARAMETERS, drawn, width=340, height=260)


def _illustration(run: Run) -> Panel:
    c, rows = Illustration, run.part("illustration")
    drawn = []
    for hidden in rows[c.hidden].unique().sort():
        for dim, look in zip(rows[c.D].unique().sort(), palette.CATEGORIES, strict=False):
            chosen = rows.filter((pl.col(c.D) == dim) & (pl.col(c.hidden) == hidden)).sort(c.width)
            x, y = chosen[c.width].to_numpy(), chosen[c.robust_train].to_numpy()
            drawn.append(Curve(f"D = {dim}, {hidden} hidden", look.dashed(hidden - 1), x, y))
    width = Axis("width", "log", ticks=rows[c.width].unique().sort().to_list())
    return Panel(
        "illustration: what Adam trains",
        width,
        replace(ACCURACY, title="robust training accuracy"),
        drawn,
        width=340,
        height=260,
    )


def manifold(run: Run) -> Picture:
    """Counts over d for each k, and the talk's table in numbers."""
    c, rows = BehindChart, run.part("manifold")
    drawn = []
    for k, look in zip(rows[c.k].unique().sort(), palette.CATEGORIES, strict=False):
        drawn.append(OverSeeds(f"k = {k}", look, *by_seed(rows.filter(pl.col(c.k) == k), c.parameters, c.d)))
    ambient = Axis("ambient dimension d", "log", ticks=rows[c.d].unique().sort().to_list())
    panel = Panel("robust on a k-dimensional manifold", ambient, PARAMETERS, drawn, width=320, height=240)
    return Picture(
        title="Robust generalisation on manifolds",
        caption="The size of networks that are robust on a k-dimensional manifold, along the dimension "
        "around it.",
        alt="A line chart, both axes logarithmic: parameters against the ambient dimension, a line a k.",
        spec=side_by_side([panel]),
        claims=("EP-manifold",),
    )


def bounds(run: Run) -> Picture:
    """Least numbers of parameters along d and along k, and the talk's table in numbers."""
    c, rows = CountGrowth, run.part("growth").sort(CountGrowth.dimension)
    drawn = []
    names = {"general": "general case, along d", "manifold": "manifold, along k"}
    for (kind, name), look in zip(names.items(), palette.CATEGORIES, strict=False):
        chosen = rows.filter(pl.col(c.kind) == kind)
        x = chosen[c.dimension].to_numpy()
        drawn.append(Curve(name, look.dashed(kind == "manifold"), x, chosen[c.needed].to_numpy()))
        drawn.append(
            Curve(
                f"clean linear classifier, {kind}",
                palette.CLEAN.dashed(kind == "manifold"),
                x,
                chosen[c.linear].to_numpy(),
            )
        )
    axis = Axis("dimension d of the space, or k of the manifold")
    panel = Panel("least parameters by counting", axis, PARAMETERS, drawn, width=340, height=240)
    return Picture(
        title="The talk's Table 1 in numbers",
        caption=(
            "Left: the least number of parameters for a small robust error, by counting. Right: lower and "
            "upper bounds on parameters, every cell in one setting."
        ),
        alt=(
            "A line chart, the vertical axis logarithmic: parameters against the dimension; and a table of "
            "bounds by dimension."
        ),
        spec=side_by_side([panel, _talk_table(run)]),
        claims=("EP-table", "EP-lower", "EP-manifold", "EP-train-lower"),
    )


def _power(exponent: float) -> str:
    """The nearest power of ten."""
    return "10" + f"{exponent:.0f}".translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))


def _count(value: float) -> str:
    """A number of parameters, as it is or as a multiple of a power of ten."""
    if value < 1e5:
        return f"{value:.0f}"
    exponent = math.floor(math.log10(value))
    return f"{value / 10.0**exponent:.1f}·{_power(exponent)}"


def _talk_table(run: Run) -> TextTable:
    t, spec = TableLine, RobustSizes.of(run)
    cells = [
        [
            f"{row[t.dimension]:g}",
            f"{row[t.train_lower]:.0f} … {row[t.train_upper]:.0f}",
            f"{_count(row[t.general_lower])} … {_power(row[t.general_upper_log10])}",
            f"{_count(row[t.manifold_lower])} … {_power(row[t.manifold_upper_log10])}",
        ]
        for row in run.part("table").to_dicts()
    ]
    size = f"ℓ∞, N = {spec.n}, ε = {spec.eps:g}, δ = {spec.delta:g}, μ = {spec.mu:g}, k = {spec.intrinsic}"
    head = ["d", "robust training", "robust generalisation", f"manifold, k = {spec.intrinsic}"]
    return TextTable(f"parameters, lower … upper\n({size})", head, cells, cell=(130, 22))


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "built-memorise": {"counts": memorise},
    "built-fstar": {"fstar": fstar},
    "packing": {"packing": packing},
    "manifold": {"manifold": manifold},
    "bounds": {"bounds": bounds},
}
