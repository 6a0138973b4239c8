"""CG-fS: does adversarial training look like f_S, judged from the rows of `image-built`.

f_S makes three predictions that a network need not share: memory (robust at training images, not at test
images), a fall right outside the training radius, and no flatness at test images. Each is a ratio that is 1
for f_S and 0 for a network that does the opposite; a network looks like f_S where it is nearer to f_S.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Kind, Need, Reading, Runs
from featscope.claims.judging import at_least, every, number, one_run, reaches, smallest
from featscope.core.rules import USUAL
from featscope.core.stats import mean_interval
from featscope.experiments.run import Run
from featscope.papers.cgro.image_built import BuiltNets, BuiltRadii, ImageBuilt
from featscope.papers.cgro.runs import TRAINED, only_if_fitted

Measure = Callable[[Run, int, int], float]


def at(run: Run, size: int, seed: int, net: str, which: str, factor: float, column: str) -> float:
    """A number of one network around one set at ``factor`` times the training radius."""
    c, radius = BuiltRadii, factor * ImageBuilt.of(run).training.attack.eps
    rows = run.part("radii", size=size, seed=seed)
    rows = rows.filter((pl.col(c.net) == net) & (pl.col(c.set) == which))
    return next(
        (number(row.get(column)) for row in rows.to_dicts() if math.isclose(row[c.radius], radius)), math.nan
    )


def _over(value: float, scale: float) -> float:
    """NaN where f_S itself shows nothing to compare with."""
    return value / scale if scale > 0 else math.nan


def memory(run: Run, size: int, seed: int) -> float:
    """Robust accuracy at ε, training minus test, over the same of f_S."""

    def gap(net: str) -> float:
        train, test = (at(run, size, seed, net, s, 1.0, BuiltRadii.robust) for s in ("train", "test"))
        return train - test

    return _over(gap("adversarial"), gap("built"))


def fall(run: Run, size: int, seed: int) -> float:
    """Robust accuracy at training images, at ε minus at 2ε, over the same of f_S."""

    def lost(net: str) -> float:
        inside, outside = (at(run, size, seed, net, "train", f, BuiltRadii.robust) for f in (1.0, 2.0))
        return inside - outside

    return _over(lost("adversarial"), lost("built"))


def sharp_at_test(run: Run, size: int, seed: int) -> float:
    """The loss change within ε of test images over that of f_S."""
    change = BuiltRadii.change
    return _over(
        at(run, size, seed, "adversarial", "test", 1.0, change),
        at(run, size, seed, "built", "test", 1.0, change),
    )


def _alike(measure: Measure, place: int) -> Judge:
    """The ratio to f_S over seeds, for the fewest or the most images."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        spec = ImageBuilt.of(run)
        size = spec.sizes[place]
        ratios = [measure(run, size, seed) for seed in spec.seeds]
        found = at_least(mean_interval(ratios), USUAL, by_seed=ratios, images=size)
        fitted = [at(run, size, seed, "adversarial", "train", 1.0, BuiltRadii.robust) for seed in spec.seeds]
        return only_if_fitted(spec.net.classes, fitted, found)

    return judge


def is_cgro(runs: Runs) -> Finding:
    """f_S itself: certified on every training ball, no attack gets in, and right at test images as its clean
    network is."""
    run, c = runs["run"], BuiltNets
    spec = ImageBuilt.of(run)
    built, clean = (run.part("nets").filter(pl.col(c.net) == name) for name in ("built", "clean"))
    kept = [
        number(b) - number(a)
        for a, b in zip(clean[c.clean_test].to_list(), built[c.clean_test].to_list(), strict=True)
    ]
    attacked = [
        at(run, size, seed, "built", "train", 1.0, BuiltRadii.robust)
        for size in spec.sizes
        for seed in spec.seeds
    ]
    return every(
        {
            "certified on training balls": reaches(smallest(built[c.certified_train].to_list()), 1.0),
            "attacked on training balls": reaches(smallest(attacked), 1.0),
            "clean test accuracy kept": reaches(smallest(kept), 0.0),
        }
    )


NEED = Need("image-built")
#: what f_S does, in words
PREDICTIONS: dict[str, tuple[str, Measure]] = {
    "memory": ("robust accuracy within ε, training minus test images", memory),
    "falls outside": ("robust accuracy of training images lost from ε to 2ε", fall),
    "sharp at test images": ("largest loss change within ε of test images", sharp_at_test),
}


def _readings() -> tuple[Reading, ...]:
    sizes = {"few images": (0, "the fewest"), "more images": (-1, "the most")}
    return tuple(
        one_run(
            f"{name}, {told}",
            f"{text}: at least {USUAL:g} of f_S's, with {many} training images",
            NEED,
            _alike(measure, place),
        )
        for name, (text, measure) in PREDICTIONS.items()
        for told, (place, many) in sizes.items()
    )


CLAIMS = (
    Claim(
        "CG-fS",
        "cgro",
        "CGRO §1, §6: the conjecture",
        "Networks trained adversarially on real images look like f_S: they memorise balls around training "
        "images and stay open elsewhere.",
        TRAINED,
        (
            one_run(
                "f_S",
                "f_S around a trained network is robust on all training balls, by certificate and under "
                "attack, and as good at clean test images as the network",
                NEED,
                is_cgro,
            ),
            *_readings(),
        ),
        named_kind=Kind.QUESTION,
    ),
)
