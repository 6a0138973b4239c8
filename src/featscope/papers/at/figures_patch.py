"""Figures of the patch model (AT) beside Figure 3: minima, scaling with d, the recursion, noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from featscope.core.rules import SAME, STILL, USUAL
from featscope.experiments.run import Run
from featscope.papers.at.patch_columns import Trajectory
from featscope.papers.at.patch_minima import ALONG_GAMMA, ALONG_NOISE, Minima
from featscope.papers.at.patch_noise import NOISY_DESCENT, NoisyDescent
from featscope.papers.at.patch_recursion import APPROXIMATIONS, BOTH_ROUTES, BothRoutes
from featscope.papers.at.patch_scaling import PatchScaling
from featscope.papers.at.scaling_columns import (
    CURVES,
    EVENTS,
    AttackedEvent,
    Curves,
    Events,
    StandardEvent,
)
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.palette import ATTACKED, CLEAN, NON_ROBUST, REFERENCE, ROBUST, THEORY
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Band, Curve, OverSeeds, Rule, Values, by_seed
from featscope.plots.sheet import side_by_side

#: name and look of the descents that the recursions are held against
RECURSION_LOOKS = {
    "standard": ("standard", NON_ROBUST),
    "adversarial": ("adversarial, Lemma D.17's clip", ROBUST),
    "patch": ("adversarial, patch clip", ATTACKED),
    "coordinate": ("adversarial, coordinate clip", ATTACKED.variant(1)),
}


def minima(run: Run) -> Picture:
    """Propositions 3.1 and 3.2: accuracy along γ, and along the noise at the largest γ."""
    rows, feature = run.part(ALONG_GAMMA), pl.col(Minima.feature)
    robust, other = rows.filter(feature == "robust"), rows.filter(feature == "non-robust")
    noisy = run.part(ALONG_NOISE).filter(feature == "robust")
    largest = rows[Minima.gamma].to_numpy().max()
    panels = [
        _along(other, Minima.gamma, "Prop. 3.1: w = γv", "scale γ of the weights"),
        _along(robust, Minima.gamma, "Prop. 3.2: w = γu", "scale γ of the weights"),
        _along(noisy, Minima.sigma_n, f"Prop. 3.2 at γ = {largest:g}", "noise σₙ"),
    ]
    return Picture(
        title="Two minima of the clean loss, and what attacks leave of them",
        caption=(
            "Networks whose weights are a multiple γ of the non-robust features (left) or of the robust ones "
            "(middle), and "
            "the latter at the largest γ under less and less noise (right). Accuracy is exact at every "
            "sampled point, "
            "under the attack that lowers the true class's output alone and over the whole ball."
        ),
        alt=(
            "Line charts of test accuracy: against the scale γ for both networks, and against the noise; "
            "clean, under the "
            "attack on the own logit, and over the full ball."
        ),
        spec=side_by_side(panels),
        claims=("AT-P3.1", "AT-P3.2"),
    )


def _along(rows: pl.DataFrame, x: str, title: str, label: str) -> Panel:
    lines = [
        (Minima.clean, CLEAN, "clean"),
        (Minima.own_logit, ATTACKED, "attack lowers F_y only"),
        (Minima.full_ball, ATTACKED.variant(1), "full ball, exact"),
    ]
    series = [OverSeeds(name, look, *by_seed(rows, column, x)) for column, look, name in lines]
    return Panel(title, Axis(label, "log"), replace(ACCURACY, title="test accuracy"), series)


def scaling(run: Run) -> Picture:
    """The loser's correlation when the winner reaches its threshold, against d; where it does not, the
    winner's correlation at rest."""
    arms = PatchScaling.of(run).arms
    return Picture(
        title="How much of the other feature is learned, as the dimension grows",
        caption=(
            "The largest correlation with the feature that loses, at the moment when the one that wins "
            "reaches its threshold, "
            "over seeds and classes: median, and the range from the 10 % to the 90 % quantile. Where too few "
            "reach it, what "
            "the robust feature comes to rest at. The titles say how many do; dotted and dashed lines only "
            "show slopes."
        ),
        alt=(
            "One chart for each way of training: correlation against the dimension d, both logarithmic, with "
            "bands over "
            "seeds and lines of the slopes that the lemmas speak of."
        ),
        spec=side_by_side([_scaled(run, arm) for arm in arms], columns=min(2, len(arms))),
        claims=("AT-LD.10", "AT-LD.11", "AT-LD.24", "AT-LD.25", "AT-LD.26"),
    )


def _scaled(run: Run, arm: str) -> Panel:
    spec = PatchScaling.of(run)
    if arm == "standard":
        which, loser, winner, look = int(StandardEvent.NON_ROBUST_ARRIVES), Events.A, "B", ROBUST
    else:
        which, loser, winner, look = int(AttackedEvent.ROBUST_ARRIVES), Events.B, "A", NON_ROBUST
    events = run.part(EVENTS, arm=arm, event=which)
    happened = events.filter(pl.col(Events.happened))
    share = happened.height / max(events.height, 1)
    if share >= USUAL:
        band = _band(happened, pl.col(loser), f"max {loser} when {winner} arrives")
    else:
        rows = run.part(CURVES, arm=arm).sort(Curves.step)
        last = rows.group_by(Curves.d, Curves.seed, maintain_order=True).last()
        band, look = _band(last, pl.col(Curves.u).list.max(), "max A at rest"), ROBUST
    guides = _guides(np.asarray(band.x), None if arm == "standard" or share < USUAL else spec.c0)
    title = f"{arm}: threshold reached in {share:.0%}"
    dimensions = Axis("dimension d", "log")
    return Panel(title, dimensions, Axis("correlation", "log"), [replace(band, look=look), *guides])


def _band(rows: pl.DataFrame, value: pl.Expr, name: str) -> Band:
    """Median with the 10 % and 90 % quantiles at each d."""
    parts = (value.quantile(0.1).alias("low"), value.median().alias("mid"), value.quantile(0.9).alias("high"))
    grouped = rows.group_by(Curves.d).agg(*parts).sort(Curves.d)
    low, mid, high = (grouped[name].to_numpy() for name in ("low", "mid", "high"))
    return Band(name, ROBUST, grouped[Curves.d].to_numpy().astype(float), low, mid, high)


def _guides(d: Values, c0: float | None) -> list[Curve]:
    if c0 is None:
        return [Curve("slope −1/2", REFERENCE, d, 2 / np.sqrt(d), points=False)]
    return [
        Curve("slope −c0/3", REFERENCE, d, d ** (-c0 / 3), points=False),
        Curve("slope −c0 (Lemma D.24)", THEORY, d, d**-c0, points=False),
    ]


def recursion(run: Run) -> Picture:
    """Distance between descent and recursion, and Lemma 5.2's step over the exact one."""
    gaps = [
        OverSeeds(name, look, *by_seed(run.part(BOTH_ROUTES, arm=arm), BothRoutes.gap, BothRoutes.step))
        for arm, (name, look) in RECURSION_LOOKS.items()
    ]
    step = Axis("step of descent")
    left = Panel(
        "recursion against descent",
        step,
        Axis("largest |Δw|", "log"),
        gaps,
        [Rule(SAME, "counted as the same", "y")],
    )
    ratio = Axis("ratio of the two steps", "symlog")
    right = [
        Panel(f"Lemma 5.2, {told}", step, ratio, _ratios(run, arm), [Rule(1, "exact", "y")])
        for arm, told in (("adversarial", "clip as printed"), ("features-only", "clip on features only"))
    ]
    return Picture(
        title="The lemmas' recursions beside gradient descent",
        caption=(
            "Left: the coefficients' recursion, put together to weights, against descent on the weights "
            "themselves, with the clip of the lemma and with those of the algorithm. Right: the step of A "
            "(robust) and of B (non-robust) that Lemma 5.2 approximates, over the exact step, median over "
            "classes; there are gaps where the exact step vanishes. Thin lines are seeds, thick ones their "
            "median."
        ),
        alt=(
            "Three line charts over steps: the largest difference of weights on a logarithmic axis for four "
            "descents, and the ratio of Lemma 5.2's step to the exact one for A and B under two clips."
        ),
        spec=side_by_side([left, *right]),
        claims=("AT-L5.1", "AT-L5.2", "AT-LD.4", "AT-LD.18"),
    )


def _ratios(run: Run, arm: str) -> list[OverSeeds]:
    rows = run.part(BOTH_ROUTES, arm=arm)
    return [
        OverSeeds(f"{kind}: Lemma 5.2 ÷ exact", look, *_ratio(rows, *columns))
        for (kind, columns), look in zip(APPROXIMATIONS.items(), (ROBUST, NON_ROBUST), strict=True)
    ]


def _ratio(rows: pl.DataFrame, guess: str, exact: str) -> tuple[Values, Values]:
    """The median over classes of guessed over exact step, where the exact one does not vanish."""
    long = rows.select(Trajectory.seed, Trajectory.step, guess, exact).explode(guess, exact)
    moving = long.filter(pl.col(exact).abs() > STILL)
    ratios = moving.group_by(Trajectory.seed, Trajectory.step).agg(
        (pl.col(guess) / pl.col(exact)).median().alias("ratio")
    )
    # A step at which a seed stands still is a gap in its line.
    every = (
        long.select(Trajectory.seed, Trajectory.step)
        .unique()
        .join(ratios, on=[Trajectory.seed, Trajectory.step], how="left")
    )
    return by_seed(every.with_columns(pl.col("ratio").fill_null(float("nan"))), "ratio", Trajectory.step)


def noise(run: Run) -> Picture:
    """Noise correlation, winner and loser at the end of standard training against d."""
    rows, step = run.part(NOISY_DESCENT).sort(NoisyDescent.step), pl.col(NoisyDescent.step)
    # A seed that diverged stopped recording before the others, and has no end.
    ended = step.max().over(NoisyDescent.d, NoisyDescent.seed) == step.max().over(NoisyDescent.d)
    of_seed = (
        rows.filter(ended)
        .group_by(NoisyDescent.d, NoisyDescent.seed)
        .agg(
            pl.col(NoisyDescent.v).last().list.min(),
            pl.col(NoisyDescent.u).last().list.max(),
            pl.col(NoisyDescent.noise_max).max(),
        )
    )
    series = [
        OverSeeds(name, look, *by_seed(of_seed, column, NoisyDescent.d))
        for column, look, name in (
            (NoisyDescent.v, NON_ROBUST, "smallest max B"),
            (NoisyDescent.u, ROBUST, "largest A"),
            (NoisyDescent.noise_max, REFERENCE, "largest |⟨w, ξ⟩| over training"),
        )
    ]
    d = np.asarray(series[0].x)
    guide = Curve("slope −1/2", THEORY, d, 3 / np.sqrt(d), points=False)
    dimension, height = Axis("dimension d", "log"), Axis("correlation", "log")
    panel = Panel(
        "standard training on a compact copy", dimension, height, [*series, guide], width=360, height=260
    )
    return Picture(
        title="Features and noise at the end of standard training",
        caption=(
            "Correlations at the end of standard training with non-robust features (B), robust ones (A), and "
            "the largest one "
            "with a noise patch at any time, as the dimension grows. The dashed line only shows a slope. "
            "Thin lines are seeds, "
            "thick ones their median."
        ),
        alt="Line chart, both axes logarithmic: correlations with both features and with noise against the "
        "dimension d.",
        spec=side_by_side([panel]),
        claims=("AT-LE.2", "AT-LE.3"),
    )


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "patch-minima": {"minima": minima},
    "patch-scaling": {"scaling": scaling},
    "patch-recursion": {"recursion": recursion},
    "patch-noise": {"noise": noise},
}
