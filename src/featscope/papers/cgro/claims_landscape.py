"""CGRO's loss landscapes of real images: Figures 2 and 3 and appendix E, judged from rows.

The rules are written out in docs/images-cgro.md. A verdict over seeds takes Student's interval of the mean
over seeds; correlations are averaged on Fisher's scale. Epochs of one run are not independent, so no interval
is taken over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from featscope.claims.claim import Finding, Judge, Need, Reading, Runs, plain
from featscope.claims.judging import above, at_least, at_most, below, every, explained, vacuous
from featscope.core.rules import CONSTANT, LINEAR_GROWTH, MUCH, RATE_FALLEN
from featscope.core.stats import Interval, correlations, mean_correlation, mean_interval
from featscope.experiments.run import Run
from featscope.images.catalogue import DATASETS
from featscope.papers.cgro.image_flatness import FlatNetworks, ImageFlatness
from featscope.papers.cgro.image_landscape import (
    GRADIENT,
    ImageLandscape,
    LandscapeEpochs,
    LandscapeRadii,
    at_factor,
)
from featscope.papers.cgro.runs import TRAINED, only_if_fitted, stated

LANDSCAPES = {"mnist": Need("image-landscape"), "cifar10": Need("image-landscape-cifar10")}
ANY = ("any network", "data with a smooth density")


def _eps(run: Run) -> float:
    return ImageLandscape.of(run).training.attack.eps


def _frames(run: Run) -> list[pl.DataFrame]:
    """The recorded epochs of each seed at full radius, after the first."""
    spec = ImageLandscape.of(run)
    frames = [run.part("training", seed=seed).sort(LandscapeEpochs.step) for seed in spec.seeds]
    step = pl.col(LandscapeEpochs.step)
    return [frame.filter((step > 0) & (step >= spec.training.attack.ramp.epochs)) for frame in frames]


def _inside(run: Run, frame: pl.DataFrame, name: str) -> list[float]:
    """The largest gradient norm within the training radius, over epochs."""
    place = at_factor(ImageLandscape.of(run).watched, _eps(run), 1.0)
    return [float(values[place]) for values in frame[GRADIENT[name]].to_list()]


def _gaps(frame: pl.DataFrame) -> list[float]:
    """L_adv − L̂_adv over epochs (appendix E)."""
    gaps = frame[LandscapeEpochs.robust_loss_test] - frame[LandscapeEpochs.robust_loss_train]
    return [float(gap) for gap in gaps.to_list()]


def _at(run: Run, seed: int, name: str, factor: float) -> Mapping[str, float]:
    """After the last epoch, the row of the set ``name`` at ``factor`` times the training radius."""
    rows = run.part("radii", seed=seed).filter(pl.col(LandscapeRadii.set) == name).to_dicts()
    return next(row for row in rows if math.isclose(row[LandscapeRadii.radius], factor * _eps(run)))


def _over(a: float, b: float) -> float:
    """a ÷ b.

    NaN where a network that answers the same everywhere has nothing to compare, which no verdict holds with.
    """
    return a / b if b > 0 else math.nan


def _shown(values: Sequence[float]) -> list[float | None]:
    """Numbers as evidence, which has no NaN."""
    return [plain(value) for value in values]


def _growth(run: Run, name: str) -> list[float]:
    """Gradient norm at the last epoch ÷ at the first epoch at full radius, for each seed."""
    curves = [_inside(run, frame, name) for frame in _frames(run)]
    return [_over(curve[-1], curve[0]) for curve in curves]


def landscape_judge(judge: Callable[[Run], Finding], trained: bool) -> Judge:
    """A judge of a landscape run with its accuracies beside.

    What is said of ``trained`` networks is not asked of others.
    """

    def judged(runs: Runs) -> Finding:
        run = runs["run"]
        found = judge(run)
        last = [frame.row(-1, named=True) for frame in _frames(run)]
        columns = (LandscapeEpochs.clean_test, LandscapeEpochs.robust_train, LandscapeEpochs.robust_test)
        shown = {str(key): plain(sum(row[key] for row in last) / len(last)) for key in columns}
        found = explained(found, accuracy=shown)
        if not trained:
            return found
        return only_if_fitted(
            ImageLandscape.of(run).net.classes, [row[LandscapeEpochs.robust_train] for row in last], found
        )

    return judged


def _outside_over_inside(run: Run, what: str) -> Interval:
    outside, inside = (
        [_at(run, seed, "train", factor)[what] for seed in ImageLandscape.of(run).seeds]
        for factor in (2.0, 1.0)
    )
    return mean_interval([_over(a, b) for a, b in zip(outside, inside, strict=True)])


def much_sharper(run: Run) -> Finding:
    """Loss change and gradient norm at 2ε against ε on training images, by the rule for ≫."""
    columns = (LandscapeRadii.change, LandscapeRadii.gradient)
    return every({str(what): at_least(_outside_over_inside(run, what), MUCH) for what in columns})


def sharper(run: Run) -> Finding:
    """The loss change at 2ε against ε on training images: more than a constant gradient would give."""
    return above(_outside_over_inside(run, LandscapeRadii.change), LINEAR_GROWTH)


def falls_at_training(run: Run) -> Finding:
    """The gradient norm within ε at training images, last epoch ÷ first at full radius."""
    return below(mean_interval(_growth(run, "train")), 1.0)


def rises_at_test(run: Run) -> Finding:
    """The same at test images."""
    return above(mean_interval(_growth(run, "test")), 1.0)


def _faster(run: Run) -> Interval:
    return mean_interval(
        [_over(g, h) for g, h in zip(_growth(run, "test"), _growth(run, "train"), strict=True)]
    )


def global_faster(run: Run) -> Finding:
    """The gradient norm at test images grows, and its growth ÷ growth at training images is above 1."""
    parts = {"grows": above(mean_interval(_growth(run, "test")), 1.0), "faster": above(_faster(run), 1.0)}
    return every(parts, local=_shown(_growth(run, "train")), everywhere=_shown(_growth(run, "test")))


def global_much_faster(run: Run) -> Finding:
    """The same by the rule for ≫."""
    return at_least(_faster(run), MUCH)


def gap_follows(run: Run) -> Finding:
    """Correlation, over epochs, of L_adv − L̂_adv with the gradient norm at test images.

    Mean and interval over seeds on Fisher's scale.
    """
    pairs = [correlations(_gaps(frame), _inside(run, frame, "test")) for frame in _frames(run)]
    kinds = {"pearson": [pair.pearson for pair in pairs], "spearman": [pair.spearman for pair in pairs]}
    parts = {kind: above(mean_correlation(found), 0.0, seeds=_shown(found)) for kind, found in kinds.items()}
    return every(parts, epochs=_frames(run)[0].height)


def gap_follows_over_networks(runs: Runs) -> Finding:
    """Correlation, over the networks of a seed, of L_adv − L̂_adv with the gradient norm at test images.

    Mean and interval over seeds on Fisher's scale.
    """
    run = runs["run"]
    spec, c = ImageFlatness.of(run), FlatNetworks
    frames = [run.part("network", seed=seed) for seed in spec.seeds]
    pairs = [
        correlations(
            (frame[c.robust_loss_test] - frame[c.robust_loss_train]).to_list(),
            frame[c.gradient_test].to_list(),
        )
        for frame in frames
    ]
    kinds = {"pearson": [pair.pearson for pair in pairs], "spearman": [pair.spearman for pair in pairs]}
    parts = {kind: above(mean_correlation(found), 0.0, seeds=_shown(found)) for kind, found in kinds.items()}
    found = every(parts, networks=len(spec.sizes) * len(spec.lengths))
    return only_if_fitted(spec.net.classes, run.part("network")[c.robust_train].to_list(), found)


def _shares(run: Run) -> list[float]:
    """(L_adv − L̂_adv) ÷ (δ·global flatness) at the last epoch, for each seed."""
    return [_over(_gaps(frame)[-1], _eps(run) * _inside(run, frame, "test")[-1]) for frame in _frames(run)]


def printed_rate(run: Run) -> Finding:
    """The printed bound with its rate N^{−1/(D+2)}; VACUOUS while the rate has not halved."""
    spec = ImageLandscape.of(run)
    n = spec.train - max(1, round(spec.training.held_out * spec.train))
    pixels, eps = spec.net.channels * spec.net.side**2, _eps(run)
    rate = n ** (-1 / (pixels + 2))
    evidence = {
        "N": n,
        "D": pixels,
        "rate": rate,
        "log10_N_that_halves_it": (pixels + 2) * math.log10(2),
        "log10_of_term_II_at_this_radius": -0.5 * math.log10(n) - 0.5 * pixels * math.log10(eps),
    }
    found = at_most(mean_interval([share * eps / rate for share in _shares(run)]), CONSTANT, **evidence)
    return (
        vacuous(f"N^(−1/(D+2)) = {rate:.4f} with N = {n}, D = {pixels}", found)
        if rate > RATE_FALLEN
        else found
    )


def lower_constant(column: str) -> Callable[[Run], Finding]:
    """Proposition E.2's constant (L_adv − L_clean) ÷ (δ·E‖∇L(X)‖_q) on test images, against Ω's 1/3."""

    def judge(run: Run) -> Finding:
        spec = ImageLandscape.of(run)

        def constant(seed: int, radius: float) -> float:
            row = _at(run, seed, "test", radius / _eps(run))
            return _over(row[column], radius * row[LandscapeRadii.slope])

        means = [
            sum(constant(seed, radius) for seed in spec.seeds) / len(spec.seeds) for radius in spec.radii
        ]
        over = dict(zip([f"{radius:.4g}" for radius in spec.radii], _shown(means), strict=True))
        found = mean_interval([constant(seed, _eps(run)) for seed in spec.seeds])
        return at_least(found, 1 / CONSTANT, constant_over_radii=over)

    return judge


def _readings(
    *wanted: tuple[str, str, Callable[[Run], Finding]],
    sets: Sequence[str] = ("mnist", "cifar10"),
    trained: bool = True,
) -> tuple[Reading, ...]:
    """Each reading on each data set."""
    return tuple(
        Reading(
            f"{data}-{name}",
            f"{DATASETS[data].title}: {text}",
            {"run": LANDSCAPES[data]},
            landscape_judge(judge, trained),
        )
        for name, text, judge in wanted
        for data in sets
    )


CLAIMS = (
    stated(
        "CG-F2",
        "CGRO §6, Figure 2",
        "After adversarial training the loss is flat within the training radius around training images "
        "and sharp outside; within it, training curves fall with epochs, and on CIFAR-10 test curves rise.",
        (
            *_readings(
                (
                    "much-sharper",
                    f"loss change and gradient norm at 2ε are {MUCH:g} times those at ε",
                    much_sharper,
                ),
                (
                    "sharper",
                    "the loss change at 2ε is more than twice that at ε, which a constant gradient gives",
                    sharper,
                ),
                (
                    "train-descends",
                    "gradient norm within ε at training images, last epoch ÷ first at full radius, "
                    "is below 1",
                    falls_at_training,
                ),
            ),
            *_readings(
                (
                    "test-ascends",
                    "gradient norm within ε at test images, last epoch ÷ first at full radius, is above 1",
                    rises_at_test,
                ),
                sets=("cifar10",),
            ),
        ),
        TRAINED,
    ),
    stated(
        "CG-F3",
        "CGRO appendix E, Figure 3",
        "Global flatness grows much faster than local flatness, and the robust generalisation gap grows with "
        "it.",
        (
            *_readings(
                (
                    "faster",
                    "the gradient norm at test images grows, and its growth ÷ that at training images is "
                    "above 1",
                    global_faster,
                ),
                ("much-faster", f"the same is at least {MUCH:g}", global_much_faster),
                (
                    "gap-follows",
                    "correlation over epochs of L_adv − L̂_adv with the gradient norm at test images is "
                    "positive",
                    gap_follows,
                ),
            ),
            Reading(
                "mnist-networks",
                "MNIST: correlation over networks of other sizes and lengths of training, instead of epochs, "
                "of L_adv − L̂_adv with the gradient norm at test images is positive",
                {"run": Need("image-flatness")},
                gap_follows_over_networks,
            ),
        ),
        TRAINED,
    ),
    stated(
        "CG-E.1",
        "CGRO Theorem E.1, appendix F",
        "The robust generalisation gap is bounded by N^{−1/(D+2)} times global flatness.",
        (
            *_readings(
                ("printed", f"the bound with its rate in N and a constant of {CONSTANT:g}", printed_rate),
                trained=False,
            ),
        ),
        ANY,
    ),
    stated(
        "CG-E.2",
        "CGRO Proposition E.2",
        "L_adv − L_clean is at least a constant times δ·E‖∇L(X)‖_q.",
        (
            *_readings(
                (
                    "ball",
                    "(L_adv − L_clean) ÷ (δ·E‖∇L‖) on test images, over the whole ball, is at least 1/3",
                    lower_constant(LandscapeRadii.change_free),
                ),
                ("images", "the same with pixels in [0, 1]", lower_constant(LandscapeRadii.change)),
                trained=False,
            ),
        ),
        ANY,
    ),
)
