"""CG-F1: robust overfitting of real images, judged from `image-overfitting` and its budgets on CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from featscope.claims.claim import Finding, Judge, Need, Reading, Runs
from featscope.claims.judging import above, at_least, at_most, every, scoped
from featscope.core.rules import MUCH, SMALL
from featscope.core.stats import Interval, mean_interval
from featscope.papers.cgro.image_overfitting import BUDGETS, Compared, ImageOverfitting
from featscope.papers.cgro.runs import TRAINED, only_if_fitted, stated

OVERFITTING = {"run": Need("image-overfitting")}


def compared(value: Callable[[Mapping[str, float]], float], judge: Callable[[Interval], Finding]) -> Judge:
    """Judge a number of each seed."""

    def judged(runs: Runs) -> Finding:
        run = runs["run"]
        rows = run.part("compared").to_dicts()
        found = judge(mean_interval([value(row) for row in rows]))
        return only_if_fitted(
            ImageOverfitting.of(run).net.classes, [row[Compared.robust_train_last] for row in rows], found
        )

    return judged


def gap(row: Mapping[str, float]) -> float:
    """Robust accuracy, training minus test, after the last epoch."""
    return row[Compared.gap_last]


def fall(row: Mapping[str, float]) -> float:
    """Robust test accuracy, best epoch by held-out images minus last."""
    return row[Compared.lost_by_training_on]


GAP = compared(gap, lambda found: at_least(found, SMALL))
FALLS = compared(fall, lambda found: above(found, 0.0))


def on_cifar10() -> tuple[Reading, ...]:
    """Gap and fall of each budget."""
    wanted = (
        ("gap", f"robust accuracy, training minus test, is at least {SMALL:g}", GAP),
        ("falls", "robust test accuracy, best epoch (by held-out images) minus last, is positive", FALLS),
    )
    return tuple(
        Reading(
            f"cifar10-{name} ({kept} images)",
            f"CIFAR-10, {kept} images trained on and a quarter as many held out: {text}",
            {"run": Need("image-overfitting-cifar10", {"train": drawn})},
            judge,
        )
        for kept, drawn in BUDGETS.items()
        for name, text, judge in wanted
    )


#: what §1 says of Figure 1
PRINTED_CLEAN, PRINTED_ROBUST = 0.8, 0.5


def as_printed(runs: Runs) -> Finding:
    """Clean test accuracy above 80 %, robust test accuracy about 50 %: within SMALL of it."""
    run = runs["run"]
    rows, spec = run.part("compared").to_dicts(), ImageOverfitting.of(run)
    clean = mean_interval([row[Compared.clean_test_last] for row in rows])
    robust = mean_interval([row[Compared.robust_test_last] for row in rows])
    found = every(
        {
            "clean test accuracy": above(clean, PRINTED_CLEAN),
            "robust test accuracy, not more": at_most(robust, PRINTED_ROBUST + SMALL),
            "robust test accuracy, not less": at_least(robust, PRINTED_ROBUST - SMALL),
        }
    )
    fitted = only_if_fitted(spec.net.classes, [row[Compared.robust_train_last] for row in rows], found)
    if spec.dataset == "cifar10":
        return fitted
    return scoped([f"the figure is of CIFAR-10, the run of {spec.dataset}"], fitted)


CLAIMS = (
    stated(
        "CG-F1",
        "CGRO Figure 1, §1",
        "Adversarial training fits the attacked training images and classifies clean test images well, but "
        "not attacked ones.",
        (
            Reading(
                "gap",
                f"robust accuracy, training minus test, after the last epoch is at least {SMALL:g}",
                OVERFITTING,
                GAP,
            ),
            Reading(
                "falls",
                "robust test accuracy of the best epoch (by held-out images) minus that of the last is "
                "positive",
                OVERFITTING,
                FALLS,
            ),
            Reading(
                "clean-gap-smaller",
                "the gap of robust accuracy minus the gap of clean accuracy is positive",
                OVERFITTING,
                compared(
                    lambda row: row[Compared.gap_last] - row[Compared.clean_gap_last],
                    lambda found: above(found, 0.0),
                ),
            ),
            Reading(
                "clean-gap-much-smaller",
                f"the gap of robust accuracy minus {MUCH:g} gaps of clean accuracy is not negative",
                OVERFITTING,
                compared(
                    lambda row: row[Compared.gap_last] - MUCH * row[Compared.clean_gap_last],
                    lambda found: at_least(found, 0.0),
                ),
            ),
            Reading(
                "printed",
                "on CIFAR-10, clean test accuracy is above .8 and robust test accuracy within "
                f"{SMALL:g} of .5, as §1 says of the figure",
                OVERFITTING,
                as_printed,
            ),
            *on_cifar10(),
        ),
        TRAINED,
    ),
)
