"""Figures of the questions one step past FA."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import polars as pl

from featscope.claims.claim import Verdict
from featscope.claims.judging import at_most, fitted
from featscope.core.columns import Column
from featscope.core.rules import BEND, SMALL
from featscope.experiments.run import Run
from featscope.laws.cluster_groups import parse_groups
from featscope.papers.fa.claims_past import LIMITS, ROBUST_AT
from featscope.papers.fa.clusters_adversarial import AdversarialSpec, RobustEnd
from featscope.papers.fa.clusters_attack import GradientSize, ProofAttack
from featscope.papers.fa.clusters_granularity import GranularitySpec, GroupedNet
from featscope.papers.fa.clusters_kkt import KktCourse, KktSpec
from featscope.papers.fa.clusters_limit import LimitRow, LimitSpec
from featscope.papers.fa.clusters_width import WidthRow, WidthSpec, laws
from featscope.plots.axes import Axis
from featscope.plots.grids import Categories, Group, HeatMap, HeatScale
from featscope.plots.palette import (
    ATTACKED,
    CATEGORIES,
    CERTIFIED,
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

TIME = Axis("time τ, times d", "log")
#: Assumption 4.3's powers of k for n and d
ASSUMED = (7.0, 10.0)


def granularity(run: Run) -> Picture:
    """Radii along the number of groups at each dimension, and what other labels do."""
    spec = GranularitySpec.of(run)
    panels = [_along_groups(run, spec, d) for d in spec.dimensions]
    return Picture(
        title="The radius follows the number of groups that the labels tell apart",
        caption=(
            "Labels in G groups of twelve clusters, read as two classes. Left: the median radius found and "
            "the certified one against √(G/(2k)), which joins averaging (G = 2) to decoupling (G = k). "
            "Right: radius found over the prediction for wrong labels, labels by k-means and groups of "
            "several sizes. Dots are seeds."
        ),
        alt=(
            "Line charts of the median radius over the root of d against the number of groups, found, "
            "certified and predicted, one for each dimension; a bar chart of ratios to the prediction for "
            "other kinds of labels."
        ),
        spec=side_by_side([*panels, _other_labels(run, spec)]),
        claims=("FA-granularity",),
    )


def _along_groups(run: Run, spec: GranularitySpec, d: int) -> Panel:
    rows = run.part("net", d=d, labels="groups").filter(pl.col(GroupedNet.groups).is_in(list(spec.equal)))
    counts = sorted({parse_groups(text).count for text in spec.equal})
    formula = rows.group_by(GroupedNet.count).agg(pl.col(GroupedNet.predicted).first()).sort(GroupedNet.count)
    drawn: list[Series] = [
        Curve(
            "√(G/(2k))", THEORY, formula[GroupedNet.count].to_list(), formula[GroupedNet.predicted].to_list()
        ),
        OverSeeds("found", ATTACKED, *by_seed(rows, GroupedNet.found, GroupedNet.count)),
        OverSeeds("certified", CERTIFIED, *by_seed(rows, GroupedNet.certified, GroupedNet.count)),
    ]
    height = Axis("median radius ÷ √d", "log", ticks=(0.3, 0.4, 0.5, 0.7))
    return Panel(
        f"d = {d:.0e}".replace("e+0", " · 10^"), Axis("groups G", "log", ticks=counts), height, drawn
    )


def _other_labels(run: Run, spec: GranularitySpec) -> Categories:
    places: list[tuple[str, dict[str, str | float]]] = [
        (text, {"groups": text, "labels": "groups", "d": spec.dimensions[0]}) for text in spec.unequal
    ]
    for text in spec.spoilt:
        count = parse_groups(text).count
        places += [
            (f"{count}: {share:.0%}", {"groups": text, "labels": "noisy", "wrong": share})
            for share in spec.wrong
        ]
        places.append((f"{count}: means", {"groups": text, "labels": "k-means"}))
    values = [run.part("net", **place)[GroupedNet.found_ratio].to_list() for _, place in places]
    return Categories(
        "other labels: G, then the share that is wrong, or k-means",
        [name for name, _ in places],
        Axis("radius found ÷ prediction", zero=True),
        [Group("found ÷ predicted", ATTACKED, values)],
        width=560,
    )


def attack(run: Run) -> Picture:
    """Radii over the exact ones, and the gradient along k."""
    rows, sizes = run.part("points"), run.part("gradient")
    seeds = sorted(rows[ProofAttack.seed].unique().to_list())
    ratios = Categories(
        "radius ÷ exact radius, medians",
        ["the paper's direction", "PGD"],
        Axis("ratio − 1", zero=True),
        [
            Group(
                "2-class network",
                NON_ROBUST,
                [
                    [_median(rows.filter(pl.col(ProofAttack.seed) == seed), key) - 1 for seed in seeds]
                    for key in (ProofAttack.ratio, ProofAttack.pgd_ratio)
                ],
            )
        ],
        width=180,
    )
    k = sorted(sizes[GradientSize.k].unique().to_list())
    drawn: list[Series] = [
        OverSeeds("at x", ROBUST, *by_seed(sizes, GradientSize.gradient, GradientSize.k)),
        OverSeeds("at x + ρ", NON_ROBUST, *by_seed(sizes, GradientSize.gradient_moved, GradientSize.k)),
        Curve("√k", THEORY, k, [math.sqrt(v) for v in k]),
    ]
    gradient = Panel(
        "size of the gradient, d = 10⁶", Axis("clusters k", "log", ticks=k), Axis("‖∇f‖ √d ÷ λ", "log"), drawn
    )
    return Picture(
        title="The perturbation of the paper's proofs against trained networks",
        caption=(
            "Left: how much longer than the smallest perturbation the one along −y(Σ₊μ − Σ₋μ) and PGD's "
            "are, median over test points of §6.1's networks, a dot for each seed. Right: the gradient "
            "of the trained network in units in which that of the averaging one is √k, at test points and "
            "where the perturbation has activated both classes' neurons."
        ),
        alt=(
            "Bar chart of the excess over the exact radius for two attacks; line chart of the gradient's "
            "size along the number of clusters with the curve of √k."
        ),
        spec=side_by_side([ratios, gradient]),
        claims=("FA-attack",),
    )


def _median(rows: pl.DataFrame, key: Column) -> float:
    return float(np.median(rows[key].to_numpy()))


def kkt(run: Run) -> Picture:
    """Averaging and the KKT conditions over time, one panel for each choice of layers, and the margin."""
    titles = {"first": "second layer fixed", "both": "both layers trained"}
    panels = [_kkt_errors(run, layers, title) for layers, title in titles.items()]
    margin: list[Series] = [
        Curve(titles[layers], look.dashed(place), *_course(run, layers, seed, KktCourse.normalised_margin))
        for place, (layers, look) in enumerate((("first", CATEGORIES[0]), ("both", CATEGORIES[1])))
        for seed in KktSpec.of(run).seeds
    ]
    height = Axis("q_min ÷ (‖θ‖^L √d)")
    panels.append(Panel("normalised margin", TIME, height, margin))
    return Picture(
        title="Averaging comes before the KKT point",
        caption=(
            "Gradient flow from a small start. How far neurons are from averaging their class's features "
            "(1 − mean cosine), and the errors of both KKT conditions of the margin problem, with the "
            f"multipliers of the loss; the line is at {SMALL:g}. Slackness is drawn from when all training "
            "points are right. Each seed is a line. Right: the normalised margin."
        ),
        alt=(
            "Line charts over logarithmic time: distance from averaging and errors of stationarity and "
            "slackness for a network with its second layer fixed and one with both trained; the "
            "normalised margin of both."
        ),
        spec=side_by_side(panels),
        claims=("FA-kkt",),
    )


def _course(run: Run, layers: str, seed: int, value: str | pl.Expr) -> tuple[np.ndarray, np.ndarray]:
    rows = (
        run.part("course", layers=layers, seed=seed).filter(pl.col(KktCourse.time) > 0).sort(KktCourse.time)
    )
    shown = rows.select(x=pl.col(KktCourse.time), y=pl.col(value) if isinstance(value, str) else value)
    return shown["x"].to_numpy(), shown["y"].fill_null(math.nan).to_numpy()


def _kkt_errors(run: Run, layers: str, title: str) -> Panel:
    right = pl.when(pl.col(KktCourse.slackness) >= 0).then(pl.col(KktCourse.slackness))
    lines: dict[str, tuple[Look, pl.Expr]] = {
        "1 − averaging": (ROBUST, 1 - pl.col(KktCourse.averaging)),
        "stationarity": (NON_ROBUST, pl.col(KktCourse.stationarity)),
        "slackness": (CERTIFIED, right),
    }
    drawn: list[Series] = [
        Curve(name, look, *_course(run, layers, seed, value), points=False)
        for name, (look, value) in lines.items()
        for seed in KktSpec.of(run).seeds
    ]
    return Panel(title, TIME, Axis("error", "log", limits=(1e-4, 3)), drawn, [Rule(SMALL, f"{SMALL:g}", "y")])


def adversarial_radii(run: Run) -> Picture:
    """Phases over attack and radius: the exact radius."""
    k = AdversarialSpec.of(run).law.k
    return Picture(
        title="How robust adversarial training makes the 2-class network",
        caption=(
            "Median exact radius over test points, mean over seeds. Averaging gives "
            f"√(1/k) = {1 / math.sqrt(k):.2f}, single features without biases "
            f"√(1/(1 + k/2)) = {1 / math.sqrt(1 + k / 2):.2f}. {ATTACKS_TOLD}"
        ),
        alt="Heat map of the exact robust radius over the attack used in training and its radius.",
        spec=side_by_side([_phases(run, RobustEnd.radius, HeatScale("radius ÷ √d", 0, 0.6))]),
        claims=("FA-adversarial",),
    )


def adversarial_neurons(run: Run) -> Picture:
    """Phases over attack and radius: averaging against decoupling."""
    return Picture(
        title="Whether neurons average or decouple under adversarial training",
        caption=(
            "The neurons' mean cosine with their nearest own feature, minus that with the sum of the own "
            f"features: positive where they decouple, negative where they average. {ATTACKS_TOLD}"
        ),
        alt="Heat map of decoupling over the attack used in training and its radius.",
        spec=side_by_side([_phases(run, RobustEnd.decoupling, HeatScale("decoupling", -0.7, 0.7))]),
        claims=("FA-adversarial",),
    )


ATTACKS_TOLD = (
    "`proof` is the direction of the paper's proofs, `ramp` is PGD whose radius grows over the first half of "
    "training."
)


def _phases(run: Run, key: Column, scale: HeatScale) -> HeatMap:
    spec = AdversarialSpec.of(run)
    columns = [f"{eps:g}" for eps in spec.radii]
    across, down = "ε of training ÷ √d", "attack in training"
    table = _phase(run, spec, key)
    return HeatMap(scale.title, table, scale, across, down, list(spec.attacks), columns, cell=(46, 34))


def _phase(run: Run, spec: AdversarialSpec, key: Column) -> np.ndarray:
    return np.array(
        [
            [
                run.part("end", attack=attack).filter(pl.col(RobustEnd.eps) == eps)[key].to_numpy().mean()
                for eps in spec.radii
            ]
            for attack in spec.attacks
        ]
    )


def width(run: Run) -> Picture:
    """Radius over width for each law, built and searched."""
    panels = []
    for place, law in enumerate(laws(WidthSpec.of(run))):
        rows = run.part("width", k=law.k, positive=law.plus, cosine=law.cosine).sort(WidthRow.width)
        at = rows[WidthRow.width].to_list()
        drawn: list[Series] = [Curve("built", ROBUST, at, rows[WidthRow.built].to_list())]
        if (rows[WidthRow.searched] >= 0).any():
            drawn.append(points("searched", NON_ROBUST, at, rows[WidthRow.searched].to_list()))
        rules = [
            Rule(float(rows[WidthRow.bound][0]), "no classifier above", "y"),
            Rule(ROBUST_AT, "√d/3", "y"),
        ]
        title = f"k = {law.k}, |J₊| = {law.plus}, cosine {law.cosine:g}"
        height = Axis("least radius of a centre ÷ √d", limits=(0, 0.8))
        panels.append(
            Panel(title, Axis("neurons"), height, drawn, rules, legend=place == 0, width=220, height=150)
        )
    return Picture(
        title="How robust a network of few neurons can be",
        caption=(
            "The least exact radius over the cluster centres. Built: neurons for groups of clusters, two-"
            "sided or of one class against a constant, at most this wide. Searched: ascent of the least "
            "radius from random starts, exactly this wide. The remark's width is one neuron a cluster."
        ),
        alt="Line charts of the radius against the number of neurons, one for each law, with the largest "
        "possible radius and the one of Theorem D.3.",
        spec=side_by_side(panels, columns=3),
        claims=("FA-width",),
    )


def limit(run: Run) -> Picture:
    """Where each quantity falls along k, in the plane of powers, with the paper's assumption."""
    panels = [_plane(run, key, told, first=not place) for place, (key, told) in enumerate(LIMITS.items())]
    return Picture(
        title="Along which joint limits the averaging becomes exact",
        caption=(
            "n = k^p training points in d = k^q dimensions. A point falls if the interval of the exponent in "
            f"k lies below −{BEND:g}, rises or stays if it lies above, and is undecided otherwise. The cross "
            "is what Assumption 4.3 asks for; memorised noise alone falls right of p = 2."
        ),
        alt="Three charts of points in the plane of the powers of k that n and d are, marked by whether a "
        "quantity falls along k, with a cross at the paper's assumption.",
        spec=side_by_side(panels),
        claims=("FA-limit",),
    )


def _plane(run: Run, key: Column, told: str, first: bool) -> Panel:
    spec = LimitSpec.of(run)
    found: dict[Verdict, list[tuple[float, float]]] = {verdict: [] for verdict in FALLING}
    for p in spec.points_powers:
        for q in spec.dimension_powers:
            rows = run.part("net", p=p, q=q)
            fit = fitted(rows[LimitRow.k].to_list(), rows[key].to_list())
            found[at_most(fit, -BEND).verdict].append((p, q))
    drawn: list[Series] = [
        points(name, look, [p for p, _ in found[verdict]], [q for _, q in found[verdict]])
        for verdict, (name, look) in FALLING.items()
        if found[verdict]
    ]
    drawn.append(points("Assumption 4.3", REFERENCE, [ASSUMED[0]], [ASSUMED[1]]))
    across, up = Axis("p: n = k^p", limits=(1, 7.5)), Axis("q: d = k^q", limits=(1, 11))
    return Panel(told, across, up, drawn, [Rule(2.0, "p = 2")], legend=first, width=240)


FALLING = {
    Verdict.HOLDS: ("falls", ROBUST),
    Verdict.FAILS: ("does not fall", NON_ROBUST),
    Verdict.INCONCLUSIVE: ("undecided", CERTIFIED),
}

FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "clusters-granularity": {"granularity": granularity},
    "clusters-attack": {"attack": attack},
    "clusters-kkt": {"kkt": kkt},
    "clusters-adversarial": {"radii": adversarial_radii, "neurons": adversarial_neurons},
    "clusters-width": {"width": width},
    "clusters-limit": {"limit": limit},
}
