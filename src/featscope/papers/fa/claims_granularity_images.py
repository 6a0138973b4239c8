"""FA-granularity-images: does the radius follow the sizes of label groups on real images and embeddings?

A seed gives one number: the slope of log radius over log law, across its groupings. The law is the prediction
of averaging inside groups, √((s₊ + s₋)/(s_own + s_rival)) in units of the radius for two labels. A slope of 1
is the law, 0 a radius that labels do not change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from featscope.claims.claim import Claim, Finding, Judge, Kind, Need, Reading, Runs
from featscope.claims.judging import (
    above,
    at_least,
    at_most,
    numbers,
    one_run,
    over_seeds,
    scoped,
    smallest,
    threshold,
)
from featscope.core.rules import AS_GOOD, BEND, ONE_DIRECTION
from featscope.core.stats import mean_interval
from featscope.experiments.run import Run
from featscope.images.catalogue import ENCODERS
from featscope.papers.fa.embedding_granularity import HUNDRED, AverageAttack, EmbeddingGranularity
from featscope.papers.fa.image_granularity import ImageGroupNet
from featscope.papers.fa.label_groups import slope

HUNDRED_SETTINGS: Mapping[str, Any] = {"dataset": "cifar100", "groupings": list(HUNDRED), "train": 2000}
NEEDS: dict[str, tuple[Need, str]] = {
    "MNIST networks": (Need("image-granularity"), "ResNet-18s of width 8, G = 2, 5, 10, attacked radii"),
    "CIFAR-10 embeddings": (
        Need("embedding-granularity"),
        "one neuron a group on centred embeddings, G = 2, 5, 6, 10",
    ),
    "CIFAR-10 embeddings, raw": (
        Need("embedding-granularity", {"kind": "raw", "each": 6}),
        "six neurons a group on embeddings as they are, G = 2, 5, 6, 10",
    ),
    "CIFAR-100 embeddings": (
        Need("embedding-granularity", HUNDRED_SETTINGS),
        "one neuron a group on centred embeddings, G = 2, 20, 100",
    ),
}
EMBEDDED = tuple(name for name, (need, _) in NEEDS.items() if need.experiment == "embedding-granularity")


def unmet(run: Run) -> list[str]:
    """Networks whose 2-class decision has not been learned; an encoder at another side than its own."""
    level, least = threshold(2), smallest(numbers(run.part("net")[ImageGroupNet.clean]).tolist())
    told = [] if least >= level else [f"2-class accuracy ≥ {level:.3g}: {least:.3f}"]
    if isinstance(run.settings, EmbeddingGranularity):
        known, side = ENCODERS[run.settings.encoder].side, run.settings.side
        if side not in (None, known):
            told.append(f"images have side {side} where the encoder was trained on {known}")
    return told


def slopes(run: Run) -> list[float]:
    """The slope of each seed."""
    c, found = ImageGroupNet, []
    for seed in run.settings.seeds:
        rows = run.part("net", seed=seed).sort(c.count)
        found.append(slope(numbers(rows[c.law]).tolist(), numbers(rows[c.radius]).tolist()))
    return found


def _by_seed(run: Run) -> dict[str, Any]:
    rows, c = run.part("net").sort(ImageGroupNet.count, ImageGroupNet.seed), ImageGroupNet
    return {
        f"G = {count}": {str(key): part[key].to_list() for key in (c.law, c.radius, c.clean)}
        for (count,), part in rows.group_by(c.count, maintain_order=True)
    }


def _grows(runs: Runs) -> Finding:
    """The slope, Student's interval over seeds, is above 0."""
    run, found = runs["run"], slopes(runs["run"])
    return scoped(unmet(run), above(mean_interval(found), 0.0, slopes=found, groups=_by_seed(run)))


def _law(runs: Runs) -> Finding:
    """Every seed's slope is within BEND of 1."""
    run, found = runs["run"], slopes(runs["run"])
    away = [abs(value - 1) for value in found]
    return scoped(unmet(run), at_most(over_seeds(away), BEND, slopes=found, groups=_by_seed(run)))


def _medians(run: Run, key: str) -> list[float]:
    """The median of a column over the points of each seed."""
    parts = [numbers(run.part("average", seed=seed)[key]) for seed in run.settings.seeds]
    return [float(np.median(part)) if len(part) else math.nan for part in parts]


def _as_good(runs: Runs) -> Finding:
    """Each seed's median of the radius along the proofs' direction over the exact one is at most AS_GOOD."""
    run = runs["run"]
    return scoped(unmet(run), at_most(over_seeds(_medians(run, AverageAttack.ratio)), AS_GOOD))


def _cosine(runs: Runs) -> Finding:
    """Each seed's median cosine of the exact minimal perturbation with it is at least ONE_DIRECTION."""
    run = runs["run"]
    return scoped(unmet(run), at_least(over_seeds(_medians(run, AverageAttack.cosine)), ONE_DIRECTION))


def _readings(judges: Mapping[str, tuple[str, Judge]], on: tuple[str, ...]) -> tuple[Reading, ...]:
    return tuple(
        one_run(f"{word} ({name})", f"{NEEDS[name][1]}: {text}", NEEDS[name][0], judge)
        for name in on
        for word, (text, judge) in judges.items()
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="FA-granularity-images",
        paper="fa",
        named_kind=Kind.QUESTION,
        reference="between Theorems 4.5 and 4.7, on real images: labels in G groups of classes",
        statement="On real images, too, training on labels in groups of classes averages inside the groups: "
        "read as two classes, the radius grows as √((s₊ + s₋)/(s_own + s_rival)).",
        hypotheses=("groups lie inside one half", "every network has learned the two classes"),
        readings=_readings(
            {
                "grows": ("the slope of log radius over log law is above 0", _grows),
                "law": (f"every seed's slope is within {BEND:g} of 1", _law),
            },
            tuple(NEEDS),
        ),
    ),
    Claim(
        id="FA-average-images",
        paper="fa",
        named_kind=Kind.QUESTION,
        reference="the perturbation of Theorem D.2's proof, on embeddings of real images",
        statement="On embeddings of real images the perturbation −y(Σ₊μ − Σ₋μ), μ the class means, is nearly "
        "the smallest that fools a head trained with two labels.",
        hypotheses=("the head has learned the two classes",),
        readings=_readings(
            {
                "radius": (f"the median ratio to the exact radius is at most {AS_GOOD:g}", _as_good),
                "cosine": (
                    f"the median cosine with the minimal perturbation is at least {ONE_DIRECTION:g}",
                    _cosine,
                ),
            },
            EMBEDDED,
        ),
    ),
)
