"""EP-sep: the separation of real data in the talk."""

from __future__ import annotations

import math

import numpy as np

from featscope.claims.claim import Claim, Finding, Judge, Need, Reading, Runs, plain
from featscope.claims.judging import exactly, out_of_scope
from featscope.core.rules import MUCH
from featscope.experiments.run import Run
from featscope.papers.ep.certificates import pair_separation

#: the talk prints three digits after the point
PRINTED_DIGITS = 3
_SEPARATION = {"run": Need("image-separation")}


def _cells(run: Run, dataset: str) -> dict[str, float]:
    """Train-train and test-train separation, each recomputed from the pair that attains it; NaN if the pair proves nothing."""
    found = {}
    for other in ("train", "test"):
        part = f"closest-{dataset}-{other}"
        left, right, labels = (run.tensors[f"{part}/{key}"].numpy() for key in ("left", "right", "labels"))
        again = pair_separation(left, right, labels)
        row = run.part(part).to_dicts()[0]
        found[other] = again if again is not None and abs(again - row["separation"]) < 1e-12 else math.nan
    return found


def _line(run: Run, dataset: str) -> dict[str, float]:
    return next(dict(line) for line in run.summary["table"] if line["dataset"] == dataset)


def _shown(cells: dict[str, float]) -> dict[str, float | None]:
    """The separations as evidence, which has no NaN."""
    return {f"{other}_train": plain(value) for other, value in cells.items()}


def _judged(run: Run, dataset: str, finding: Finding) -> Finding:
    """A part of a data set has no pair closer than the whole may have, so it proves nothing about the whole."""
    if _line(run, dataset)["whole"]:
        return finding
    return out_of_scope([f"{dataset} was not searched as a whole"], finding)


def _separated(dataset: str, factor: float) -> Judge:
    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        cells, eps = _cells(run, dataset), _line(run, dataset)["eps"]
        smallest = min(cells.values()) if not any(math.isnan(v) for v in cells.values()) else math.nan
        # Two equal images of different labels are no distance apart.
        share = factor * eps / smallest if smallest != 0 else math.inf
        evidence = {"separation": plain(smallest), "eps": eps, **_shown(cells), "pair": "re-verified"}
        return _judged(run, dataset, exactly(share, 1.0, **evidence))

    return judge


def _as_printed(dataset: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        cells, line = _cells(run, dataset), _line(run, dataset)
        gaps = [abs(round(cells[other], PRINTED_DIGITS) - line[f"{other}_train_printed"]) for other in cells]
        # NumPy's maximum keeps NaN, Python's loses it. Rounded numbers are equal or differ by at least one digit of the last place: half of it separates the two.
        return _judged(run, dataset, exactly(float(np.max(gaps)), 0.5 * 10**-PRINTED_DIGITS, **_shown(cells)))

    return judge


def _readings(dataset: str, title: str) -> tuple[Reading, ...]:
    return (
        Reading(
            f"{dataset}-separated",
            f"2ε ÷ the smallest ℓ∞ distance between {title} images of different labels is at most 1, so balls of radius ε do not meet",
            _SEPARATION,
            _separated(dataset, 2.0),
        ),
        Reading(
            f"{dataset}-far",
            f"the distance is far beyond ε: {MUCH:g}ε ÷ distance is at most 1 (the rule for ≫)",
            _SEPARATION,
            _separated(dataset, MUCH),
        ),
        Reading(
            f"{dataset}-table",
            "both numbers of the talk's table, rounded as printed, are ours",
            _SEPARATION,
            _as_printed(dataset),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "EP-sep",
        "ep",
        "talk, table of separations (after Yang et al. 2020)",
        "Real images of different labels are much further apart than the perturbations they should withstand.",
        ("the whole data set is searched",),
        (*_readings("mnist", "MNIST"), *_readings("cifar10", "CIFAR-10")),
    ),
)
