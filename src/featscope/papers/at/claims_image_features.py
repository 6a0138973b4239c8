"""Claims about real images: AT-T1 (Table 1) and AT-F4 (Figures 4 and 5).

The paper's three statements — standard training learns non-robust features rather than robust ones;
adversarial training suppresses the non-robust and strengthens the robust ones — are differences of feature
learning accuracies over paired seeds. The paper does not say which networks read the sets, so every statement
is read for three relations between them and those that the sets were made from. The rules were fixed before
any feature accuracy of the `cpu` profile was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Need, Reading, Runs, plain
from featscope.claims.judging import at_least, at_most, largest, number, scoped, smallest
from featscope.core.rules import FEATURE_ERROR, OWN_SET_READ, PRINTED_SHARE_REACHED, SMALL
from featscope.core.stats import Interval, mean_interval
from featscope.experiments.run import Run
from featscope.papers.at.image_feature_columns import FEATURE, FeatureCurve, SetRead, Tested
from featscope.papers.at.image_features import METHODS, SETS, ImageFeatures, differences
from featscope.papers.at.image_relations import OTHER_START, READER_IS_REFERENCE, RELATIONS, start_means
from featscope.papers.at.printed import TABLE_1, Accuracies

IMAGE_FEATURES = Need("image-features")
#: other inversions of the same networks, whose robust accuracy is counted in the run above; fewer images,
#: because they only ask whether the inversion decides
_FEWER = {"images": 50, "attacked": 0}
STARTS = {
    start: Need("image-features", {**_FEWER, "inversion.start": start})
    for start in ("grey", "black", "image")
}
#: from noise in a tenth of the step, which ends at a larger feature error
SMALL_STEPS = Need("image-features", {**_FEWER, "inversion.step_size": 0.05})
#: the same few images at three widths, and the paper's other data: end of a reading's name → run, what it is
OTHERS = {
    **{
        f"-few-images-width-{width}": (
            Need("image-features-widths", {"network.net.width": width}),
            f"MNIST, few images, networks of width {width}",
        )
        for width in (8, 16, 32)
    },
    "-cifar10": (Need("image-features-cifar10"), "CIFAR-10"),
    "-svhn": (Need("image-features-svhn"), "SVHN"),
}

HYPOTHESES = (
    "the data are the published ones",
    f"every network reaches {PRINTED_SHARE_REACHED:g} of the printed clean accuracy, "
    f"the adversarially trained ones {PRINTED_SHARE_REACHED:g} of the printed robust accuracy",
    f"every reference reads {OWN_SET_READ:g} of its own set, which has a mean relative feature error of at "
    f"most {FEATURE_ERROR:g}",
)
STATEMENTS = {
    "standard-non-robust": (
        "standard_reads_non_robust_more",
        "a standard network reads D̂_NR better than D̂_R",
    ),
    "suppressed": (
        "adversarial_suppresses_non_robust",
        "an adversarially trained network reads D̂_NR worse than a standard one",
    ),
    "strengthened": (
        "adversarial_strengthens_robust",
        "an adversarially trained network reads D̂_R better than a standard one",
    ),
}

Values = dict[str, list[float]]
Over = Callable[[Sequence[float], Sequence[float]], float]


def _curve(run: Run, relation: str, method: str, seed: int) -> dict[str, list[float]]:
    rows = run.part("curve", relation=relation, method=method, seed=seed).sort(FeatureCurve.step)
    return {key: [float(v) for v in rows[key].to_list()] for key in (FeatureCurve.step, *FEATURE.values())}


def over_starts(run: Run, by_seed: Sequence[float]) -> Interval:
    """Student's interval; the networks of one start count as one value, their mean."""
    return mean_interval(start_means(by_seed, ImageFeatures.of(run).networks_per_start))


def _printed(run: Run) -> Mapping[str, Accuracies] | None:
    return TABLE_1.get(ImageFeatures.of(run).network.dataset)


def _own(run: Run) -> pl.DataFrame:
    """What the references read of their own sets."""
    own = [
        (pl.col(SetRead.set) == name) & (pl.col(SetRead.method) == method) for name, method in SETS.items()
    ]
    return run.part("read", relation=READER_IS_REFERENCE).filter(pl.any_horizontal(*own))


def _short_networks(tested: Run, seed: int, printed: Mapping[str, Accuracies]) -> list[str]:
    """Networks that do not reach the printed accuracies."""
    missed = []
    for method, goal in printed.items():
        row = tested.part("tested", method=method, seed=seed).to_dicts()[0]
        asked = {Tested.clean_test: goal.clean_test}
        asked |= {Tested.robust_test: goal.robust_test} if method == "adversarial" else {}
        for key, level in asked.items():
            found = number(row.get(key))
            if not found >= PRINTED_SHARE_REACHED * level:
                below = f"below {PRINTED_SHARE_REACHED:g}·{level:g}"
                missed.append(f"{method} network of seed {seed}: {key} {found:.3f}, {below}")
    return missed


def _short_sets(run: Run, seed: int) -> list[str]:
    """Sets that do not hold their reference's features."""
    missed = []
    for row in _own(run).filter(pl.col(SetRead.seed) == seed).to_dicts():
        name, read, error = row[SetRead.set], row[SetRead.accuracy], row[SetRead.error_mean]
        if not read >= OWN_SET_READ:
            missed.append(
                f"reference of seed {seed} reads {read:.3f} of its set {name}, below {OWN_SET_READ:g}"
            )
        if not error <= FEATURE_ERROR:
            missed.append(f"set {name} of seed {seed}: feature error {error:.3f}, above {FEATURE_ERROR:g}")
    return missed


def _unmet(run: Run, tested: Run) -> list[str]:
    """What this run, and the networks tested in that one, lack for saying anything, with numbers."""
    printed = _printed(run)
    if printed is None:
        return ["the paper has no table of this data"]
    rows = tested.part("tested")
    known = Tested.published in rows and bool(rows[Tested.published].fill_null(False).all())
    files = [] if known else ["the files are not the published ones by their hash"]
    return files + [
        text
        for seed in ImageFeatures.of(run).seeds
        for text in (*_short_networks(tested, seed, printed), *_short_sets(run, seed))
    ]


def _judged(runs: Runs, finding: Finding) -> Finding:
    return scoped(_unmet(runs["run"], runs["tested"]), finding)


def _summed(run: Run, relation: str, over: Over) -> dict[str, Values]:
    """For each training and set one number a seed: ``over`` the epochs and the curve."""
    cells: dict[str, Values] = {method: {} for method in METHODS}
    for method in METHODS:
        curves = [_curve(run, relation, method, seed) for seed in ImageFeatures.of(run).seeds]
        for key in FEATURE.values():
            cells[method][str(key)] = [over(curve[FeatureCurve.step], curve[key]) for curve in curves]
    return cells


def at_the_end(steps: Sequence[float], values: Sequence[float]) -> float:
    """After the last epoch."""
    return values[-1]


def late(steps: Sequence[float], values: Sequence[float]) -> float:
    """The mean over the epochs of the second half of the training, when the radius has its full size."""
    chosen = [v for t, v in zip(steps, values, strict=True) if 2 * t > steps[-1]]
    return sum(chosen) / len(chosen)


def _inversion(run: Run) -> dict[str, object]:
    """How the sets were made, and the errors that they were left with."""
    how, own = ImageFeatures.of(run).inversion, _own(run).sort(SetRead.seed)
    errors = {name: own.filter(pl.col(SetRead.set) == name)[SetRead.error_mean].to_list() for name in SETS}
    return {"start": how.start, "layer": how.layer, "steps": how.steps, "mean_error": plain(errors)}


def difference(key: str, relation: str, over: Over) -> Judge:
    """A difference over paired seeds is at least SMALL, judged with Student's interval over starts."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        cells = _summed(run, relation, over)
        values = differences(cells)[key]
        shown = {"by_seed": plain(values), "cells": plain(cells), "inversion": _inversion(run)}
        return _judged(runs, at_least(over_starts(run, values), SMALL, **shown))

    return judge


def _ordered(relation: str) -> Judge:
    """The smallest difference of standard training's two curves over the second half, by seed."""

    def judge(runs: Runs) -> Finding:
        least = []
        for seed in ImageFeatures.of(runs["run"]).seeds:
            curve = _curve(runs["run"], relation, "standard", seed)
            steps, upper, lower = (
                curve[key] for key in (FeatureCurve.step, FeatureCurve.feature_NR, FeatureCurve.feature_R)
            )
            least.append(
                smallest(a - b for t, a, b in zip(steps, upper, lower, strict=True) if 2 * t > steps[-1])
            )
        return _judged(runs, at_least(over_starts(runs["run"], least), 0.0, by_seed=plain(least)))

    return judge


def _as_printed(relation: str) -> Judge:
    """Each of the four feature accuracies is within SMALL of the printed one.

    The worst cell decides, interval over starts.
    """

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        cells, printed = _summed(run, relation, at_the_end), _printed(run)
        gaps = {}
        for method in METHODS:
            for key, values in cells[method].items():
                centre = getattr(printed[method], key) if printed else float("nan")
                gaps[f"{method} {key}"] = _distance(over_starts(run, values), centre)
        worst = Interval(*(largest([gap[i] for gap in gaps.values()]) for i in range(3)))
        shown = {"gaps": plain({key: gap.value for key, gap in gaps.items()}), "cells": plain(cells)}
        return _judged(runs, at_most(worst, SMALL, **shown))

    return judge


def _distance(found: Interval, centre: float) -> Interval:
    """How far an interval is from a number: its value, its nearest and its furthest point."""
    nearest = largest([centre - found.high, found.low - centre, 0.0])
    furthest = largest([found.high - centre, centre - found.low])
    return Interval(abs(found.value - centre), nearest, furthest)


def _three(
    need: Need, tested: Need, relation: str, end: str, when: str, over: Over = at_the_end
) -> tuple[Reading, ...]:
    """The three statements; a reading's name says statement, relation and run."""
    needs = {"run": need, "tested": tested}
    return tuple(
        Reading(
            f"{name}-{relation}{end}",
            f"{text}, by at least {SMALL:g}: {when}; {RELATIONS[relation]}",
            needs,
            difference(key, relation, over),
        )
        for name, (key, text) in STATEMENTS.items()
    )


def _table(need: Need, relation: str, end: str, when: str) -> tuple[Reading, ...]:
    """The three statements and the four printed numbers of a run."""
    far = f"{when}; the four printed feature accuracies: the largest distance of ours is at most {SMALL:g}"
    needs = {"run": need, "tested": need}
    printed = Reading(f"table-{relation}{end}", f"{far}; {RELATIONS[relation]}", needs, _as_printed(relation))
    return (*_three(need, need, relation, end, f"{when}, after training"), printed)


def _other_inversions() -> tuple[Reading, ...]:
    found: list[Reading] = []
    for start, need in STARTS.items():
        when = f"MNIST, after training, inversion from {start}"
        found += _three(need, IMAGE_FEATURES, OTHER_START, f"-{start}", when)
    when = "MNIST, after training, inversion from noise in steps of .05"
    return (*found, *_three(SMALL_STEPS, IMAGE_FEATURES, OTHER_START, "-small-steps", when))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "AT-T1",
        "at",
        "AT Table 1 (§6.2, A.1)",
        "On real images standard training learns non-robust features rather than robust ones; "
        "adversarial training suppresses the former and strengthens the latter.",
        HYPOTHESES,
        (
            *(r for relation in RELATIONS for r in _table(IMAGE_FEATURES, relation, "", "MNIST")),
            *_other_inversions(),
            *(
                reading
                for end, (need, what) in OTHERS.items()
                for relation in RELATIONS
                for reading in _table(need, relation, end, what)
            ),
        ),
    ),
    Claim(
        "AT-F4",
        "at",
        "AT Figures 4 and 5",
        "The same along training: the curves of feature learning accuracy over epochs are ordered so.",
        HYPOTHESES,
        tuple(
            reading
            for relation, meaning in RELATIONS.items()
            for reading in (
                *_three(
                    IMAGE_FEATURES,
                    IMAGE_FEATURES,
                    relation,
                    "",
                    "MNIST, mean over the second half of the epochs",
                    late,
                ),
                Reading(
                    f"standard-ordered-{relation}",
                    "MNIST: in standard training the curve of D̂_NR is above that of D̂_R at every epoch "
                    f"of the second half: the smallest difference is at least 0; {meaning}",
                    {"run": IMAGE_FEATURES, "tested": IMAGE_FEATURES},
                    _ordered(relation),
                ),
            )
        ),
    ),
)
