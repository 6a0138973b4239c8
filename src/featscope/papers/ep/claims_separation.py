"""EP-sep: the separation of real data in the talk."""

from __future__ import annotations

import math
from collections.abc import Callable

from featscope.certificates.ep import pair_separation
from featscope.claims.claim import Claim, Finding, Judge, Need, Reading, Runs, plain
from featscope.claims.judging import exactly, explained, largest, number, one_run, scoped, smallest
from featscope.core.rules import MUCH, RECOMPUTED
from featscope.experiments.run import Run
from featscope.papers.ep.image_separation import PAIRS, Apart, Closest
from featscope.papers.ep.printed import SEPARATION_DIGITS

_SEPARATION = {"run": Need("image-separation")}


def _read(run: Run, dataset: str, column: str) -> dict[str, float]:
    """A column of the table's line, train-train and test-train."""
    closest = {pair: run.part("closest", dataset=dataset, pair=pair) for pair in PAIRS.values()}
    return {pair: number(rows[column].item() if column in rows else None) for pair, rows in closest.items()}


def _cells(run: Run, dataset: str) -> dict[str, float]:
    """Both separations, each recomputed from the pair that attains it; NaN if the pair proves nothing."""
    found = {}
    for pair, written in _read(run, dataset, Closest.separation).items():
        left, right, labels = (
            run.tensor("closest", key, dataset=dataset, pair=pair).numpy()
            for key in ("left", "right", "labels")
        )
        again = pair_separation(left, right, labels)
        found[pair] = again if again is not None and abs(again - written) < RECOMPUTED else math.nan
    return found


def _shown(cells: dict[str, float]) -> dict[str, float | None]:
    """The separations as evidence, which has no NaN."""
    return {pair.replace("-", "_"): plain(value) for pair, value in cells.items()}


def _judged(run: Run, dataset: str, finding: Finding) -> Finding:
    """A part of a data set proves nothing about the whole, which may have closer pairs."""
    whole = all(searched == 1 for searched in _read(run, dataset, Closest.whole).values())
    return scoped([] if whole else [f"{dataset} was not searched as a whole"], finding)


def _separated(dataset: str, factor: float) -> Judge:
    """A multiple of ε ÷ the smallest distance, recomputed from the pair that attains it, is at most 1."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        cells, eps = _cells(run, dataset), largest(_read(run, dataset, Closest.eps).values())
        least = smallest(cells.values())
        # Two equal images of different labels are no distance apart.
        share = factor * eps / least if least != 0 else math.inf
        evidence = {"separation": plain(least), "eps": plain(eps), **_shown(cells), "pair": "re-verified"}
        return _judged(run, dataset, exactly(share, 1.0, **evidence))

    return judge


def _as_printed(dataset: str) -> Judge:
    """The largest difference from the printed numbers, rounded as they are, is 0."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        cells, printed = _cells(run, dataset), _read(run, dataset, Closest.printed)
        gaps = [abs(round(cells[pair], SEPARATION_DIGITS) - printed[pair]) for pair in cells]
        # Rounded numbers are equal or differ by at least one digit of the last place: half of it separates
        # the two.
        return _judged(run, dataset, exactly(largest(gaps), 0.5 * 10**-SEPARATION_DIGITS, **_shown(cells)))

    return judge


def _readings(dataset: str, title: str) -> tuple[Reading, ...]:
    return (
        Reading(
            f"{dataset}-separated",
            f"2ε ÷ the smallest ℓ∞ distance between {title} images of different labels is at most 1, so "
            "balls of radius ε do not meet",
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


# --- SVHN, whose pixels may not be passed on: judged from rows alone


def _svhn(judge: Callable[[Run], Finding]) -> Judge:
    """Out of scope where the files are not the published ones or not the whole of them."""

    def judged(runs: Runs) -> Finding:
        run = runs["run"]
        unmet = []
        if not all(value == 1 for value in _apart(run, Apart.published).values()):
            unmet.append("the files are not the published ones by their hash")
        if not all(value == 1 for value in _apart(run, Apart.whole).values()):
            unmet.append("svhn was not searched as a whole")
        counts = {pair: plain(value) for pair, value in _apart(run, Apart.twins).items()}
        return scoped(unmet, explained(judge(run), identical_pairs=counts))

    return judged


def _apart(run: Run, column: str, part: str = "apart") -> dict[str, float]:
    rows = {pair: run.part(part, dataset="svhn", pair=pair) for pair in PAIRS.values()}
    return {pair: number(found[column].item() if column in found else None) for pair, found in rows.items()}


def _cell(pair: str, part: str) -> Callable[[Run], Finding]:
    """One number of the table, rounded as printed."""

    def judge(run: Run) -> Finding:
        ours, printed = _apart(run, Apart.separation, part)[pair], _apart(run, Apart.printed)[pair]
        gap = abs(round(ours, SEPARATION_DIGITS) - printed) if math.isfinite(ours) else math.nan
        return exactly(gap, 0.5 * 10**-SEPARATION_DIGITS, ours=plain(ours), printed=plain(printed))

    return judge


def _balls_apart(run: Run) -> Finding:
    """2ε ÷ the smallest distance without identical images is at most 1."""
    least = smallest(_apart(run, Apart.separation).values())
    eps = largest(_apart(run, Apart.eps).values())
    share = 2 * eps / least if least != 0 else math.inf
    return exactly(share, 1.0, separation=plain(least), eps=plain(eps))


_SVHN = Need("image-separation", {"datasets": ["svhn"]})
_SVHN_READINGS = (
    one_run(
        "test-train",
        "the table's test-train distance, as printed",
        _SVHN,
        _svhn(_cell("test-train", "apart")),
    ),
    one_run(
        "train-train",
        "the table's train-train distance, as printed",
        _SVHN,
        _svhn(_cell("train-train", "closest")),
    ),
    one_run(
        "train-train without identical images",
        "the same without images that are identical to one of another label",
        _SVHN,
        _svhn(_cell("train-train", "apart")),
    ),
    one_run(
        "separated without identical images",
        "2ε ÷ the smallest distance, without them, is at most 1",
        _SVHN,
        _svhn(_balls_apart),
    ),
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "EP-sep",
        "ep",
        "talk, table of separations (after Yang et al. 2020)",
        "Real images of different labels are much further apart "
        "than the perturbations they should withstand.",
        ("the whole data set is searched",),
        (*_readings("mnist", "MNIST"), *_readings("cifar10", "CIFAR-10")),
    ),
    Claim(
        "EP-sep-svhn",
        "ep",
        "talk, table of separations, SVHN",
        "SVHN's images of different labels are as far apart as the table says, and further than twice ε.",
        ("the whole data set is searched", "the published files"),
        _SVHN_READINGS,
    ),
)
