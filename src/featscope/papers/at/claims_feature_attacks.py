"""AT-T2 (Table 2): targeted attacks through robust and non-robust features.

What is compared is paired by seed, and the interval is Student's over seeds. The rules are in docs/images-
at.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Need, Reading, Runs, plain
from featscope.claims.judging import above, at_least, at_most, every, numbers, scoped, smallest, threshold
from featscope.core.columns import Column
from featscope.core.rules import CONSTANT, LEARNED, MUCH, SMALL
from featscope.core.stats import mean_interval
from featscope.experiments.run import Run
from featscope.images.catalogue import DATASETS
from featscope.papers.at.feature_attack_columns import RATE, Learned, Rates
from featscope.papers.at.image_feature_attacks import ATTACKS, SEARCHED, ImageFeatureAttacks
from featscope.papers.at.image_features import METHODS
from featscope.papers.at.printed import TABLE_2


def _learned(run: Run, dataset: str, method: str, key: Column) -> np.ndarray:
    """An accuracy of each network; one that was not measured is NaN, which reaches nothing."""
    rows = run.part("learned", dataset=dataset).filter(pl.col(Learned.method) == method).sort(Learned.seed)
    return numbers(rows[key]) if key in rows else np.full(rows.height, np.nan)


def _feature_scope(run: Run, dataset: str) -> list[str]:
    """Networks that have not learned, and adversarially trained ones that lose two thirds to PGD."""
    learned = threshold(10)
    unmet = []
    for method in METHODS:
        clean = smallest(_learned(run, dataset, method, Learned.clean_test))
        if not clean >= learned:
            unmet.append(f"clean accuracy ({method}) ≥ {learned:.3g}: {clean:.3f}")
    robust, clean_ = (
        _learned(run, dataset, "adversarial", key) for key in (Learned.robust_test, Learned.clean_test)
    )
    kept = smallest(robust / np.maximum(clean_, 1e-12))
    return unmet + (
        [] if kept >= LEARNED else [f"robust ÷ clean accuracy (adversarial) ≥ {LEARNED:.3g}: {kept:.3f}"]
    )


def rates(run: Run, dataset: str, attack: str, key: Column) -> list[float]:
    """The mean over class pairs, for each seed."""
    seeds = ImageFeatureAttacks.of(run).seeds
    rows = run.part("rates", dataset=dataset).filter(pl.col(Rates.attack) == attack)
    return [float(numbers(rows.filter(pl.col(Rates.seed) == seed)[key]).mean()) for seed in seeds]


def _on(run: Run, dataset: str, attack: str, method: str) -> list[float]:
    """An attack's rate on the networks of a training, for each seed."""
    return rates(run, dataset, attack, RATE[method][0])


def _shown(run: Run, dataset: str) -> dict[str, Any]:
    """All cells of the table, the controls, and what is printed."""
    cells = {f"{a} on {m}": _on(run, dataset, a, m) for m in METHODS for a in SEARCHED}
    checks = {
        f"{a} {c}": rates(run, dataset, a, c) for a in ATTACKS for c in (Rates.own_head, Rates.distance)
    }
    printed = {f"{a} on {m}": sum(v) / len(v) for m, row in TABLE_2.items() for a, v in row.items()}
    seeds = len(ImageFeatureAttacks.of(run).seeds)
    return {"by_seed": plain(cells), "searches": plain(checks), "printed_cifar10": printed, "seeds": seeds}


def _contrast(
    dataset: str, method: str, high: str, low: str, factor: float, judge: Callable[..., Finding]
) -> Judge:
    """``high`` − factor·``low`` on the networks of one training, paired by seed, against 0."""

    def decide(runs: Runs) -> Finding:
        run = runs["run"]
        pairs = zip(_on(run, dataset, high, method), _on(run, dataset, low, method), strict=True)
        gap = mean_interval([a - factor * b for a, b in pairs])
        return scoped(_feature_scope(run, dataset), judge(gap, 0.0, **_shown(run, dataset)))

    return decide


def _low(dataset: str) -> Judge:
    """CONSTANT times each rate on adversarially trained networks is at most NRF-PGD's on standard ones."""

    def decide(runs: Runs) -> Finding:
        run = runs["run"]
        usual = _on(run, dataset, "NRF", "standard")
        parts = {}
        for attack in ATTACKS:
            found = _on(run, dataset, attack, "adversarial")
            parts[attack] = at_most(
                mean_interval([CONSTANT * a - u for a, u in zip(found, usual, strict=True)]), 0.0
            )
        return scoped(_feature_scope(run, dataset), every(parts, **_shown(run, dataset)))

    return decide


def _small(dataset: str) -> Judge:
    """Each attack's rate on the adversarially trained networks is at most SMALL."""

    def decide(runs: Runs) -> Finding:
        run = runs["run"]
        parts = {a: at_most(mean_interval(_on(run, dataset, a, "adversarial")), SMALL) for a in ATTACKS}
        return scoped(_feature_scope(run, dataset), every(parts, **_shown(run, dataset)))

    return decide


def _table_readings(dataset: str) -> tuple[Reading, ...]:
    need = {"run": Need("image-feature-attacks", {"datasets": [dataset]})}
    title = DATASETS[dataset].title
    more = _contrast(dataset, "standard", "NRF", "RF", 1.0, above)
    much = _contrast(dataset, "standard", "NRF", "RF", MUCH, at_least)
    order = _contrast(dataset, "adversarial", "RF", "NRF", 1.0, above)
    return (
        Reading(
            f"{dataset}-standard",
            f"{title}: on standard networks NRF-PGD succeeds more often than RF-PGD (difference > 0)",
            need,
            more,
        ),
        Reading(f"{dataset}-standard-much", f"{title}: {MUCH:g} times as often (the rule for ≫)", need, much),
        Reading(
            f"{dataset}-adversarial-low",
            f"{title}: on adversarially trained networks both are low: {CONSTANT:g} times the rate is at "
            "most NRF-PGD's on standard ones",
            need,
            _low(dataset),
        ),
        Reading(
            f"{dataset}-adversarial-small",
            f"{title}: both rates there are at most {SMALL:g}",
            need,
            _small(dataset),
        ),
        Reading(
            f"{dataset}-adversarial-order",
            f"{title}: there RF-PGD succeeds more often, as in the table's last rows",
            need,
            order,
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "AT-T2",
        "at",
        "Table 2, A.2",
        "Targeted attacks through non-robust features succeed on standard networks and those through robust "
        "features hardly do; adversarial training makes both rare.",
        ("the networks have learned the ten classes", "the adversarially trained ones are robust"),
        (*_table_readings("mnist"), *_table_readings("cifar10")),
    ),
)
