"""AT-T2 (Table 2): targeted attacks through robust and non-robust features.

What is compared is paired, and the interval is Student's: over networks, each seed with its own; over draws
of the target images with the networks of the first seed, as the small spreads of the printed table suggest;
or over networks at the smallest radius at which the robust reference can be moved. The rules are in
docs/images-at.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Need, Reading, Runs, plain
from featscope.claims.judging import above, at_least, at_most, every, numbers, scoped, smallest, threshold
from featscope.core.columns import Column
from featscope.core.rules import CONSTANT, LEARNED, MUCH, SMALL, USUAL
from featscope.core.stats import mean_interval
from featscope.experiments.run import Run
from featscope.images.catalogue import DATASETS
from featscope.papers.at.feature_attack_columns import RATE, Learned, Rates
from featscope.papers.at.feature_attack_search import ATTACKS, SEARCHED
from featscope.papers.at.image_feature_attacks import ImageFeatureAttacks
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


@dataclass(frozen=True)
class Seen:
    """The rows that a reading compares, one frame for each value of its interval."""

    frames: list[pl.DataFrame]
    #: what the values belong to: seed or draw
    unit: str
    unmet: list[str] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)

    def rates(self, attack: str, key: Column) -> list[float]:
        """The mean over class pairs, for each unit."""
        chosen = [frame.filter(pl.col(Rates.attack) == attack) for frame in self.frames]
        return [float(numbers(frame[key]).mean()) for frame in chosen]

    def on(self, attack: str, method: str) -> list[float]:
        """An attack's rate on the networks of a training, for each unit."""
        return self.rates(attack, RATE[method][0])

    def facts(self) -> dict[str, Any]:
        """All cells of the table, the controls, and what is printed."""
        cells = {f"{a} on {m}": self.on(a, m) for m in METHODS for a in SEARCHED}
        checks = {f"{a} {c}": self.rates(a, c) for a in ATTACKS for c in (Rates.own_head, Rates.distance)}
        printed = {f"{a} on {m}": sum(v) / len(v) for m, row in TABLE_2.items() for a, v in row.items()}
        counted = {f"by_{self.unit}": plain(cells), "searches": plain(checks), "printed_cifar10": printed}
        return {**counted, f"{self.unit}s": len(self.frames), **self.shown}


View = Callable[[Run, str], Seen]


def by_network(run: Run, dataset: str) -> Seen:
    """Every seed with networks of its own."""
    seeds = ImageFeatureAttacks.of(run).seeds
    return Seen([run.part("rates", dataset=dataset, seed=seed) for seed in seeds], "seed")


def by_draw(run: Run, dataset: str) -> Seen:
    """The networks of the first seed, and every draw of the target images."""
    spec = ImageFeatureAttacks.of(run)
    where: dict[str, Any] = {"dataset": dataset, "seed": spec.seeds[0]}
    others = [run.part("redrawn", **where, draw=again) for again in range(1, spec.draws)]
    return Seen([run.part("rates", **where), *others], "draw")


def where_moved(run: Run, dataset: str) -> Seen:
    """The smallest of the further radii at which the robust reference's own head follows RF-PGD in USUAL of
    the images, in every seed; the largest, and out of scope, where there is none."""
    spec = ImageFeatureAttacks.of(run)
    found = {
        eps: Seen([run.part("reach", dataset=dataset, eps=eps, seed=seed) for seed in spec.seeds], "seed")
        for eps in spec.reach or ()
    }
    follows = {eps: smallest(seen.rates("RF", Rates.own_head)) for eps, seen in found.items()}
    moved = [eps for eps, share in follows.items() if share >= USUAL]
    radius = moved[0] if moved else max(found)
    rule = f"RF-PGD moves its own reference (own head ≥ {USUAL:g} in every seed) at a radius that was tried"
    unmet = [] if moved else [f"{rule}: {follows[radius]:.3f} at {radius:.3g}"]
    shown = {"radius": radius, "own_head_by_radius": plain({f"{e:.3g}": v for e, v in follows.items()})}
    return Seen(found[radius].frames, "seed", unmet, shown)


def _judged(run: Run, dataset: str, seen: Seen, finding: Finding) -> Finding:
    return scoped([*_feature_scope(run, dataset), *seen.unmet], finding)


def _contrast(
    dataset: str, view: View, method: str, high: str, low: str, factor: float, judge: Callable[..., Finding]
) -> Judge:
    """``high`` − factor·``low`` on the networks of one training, paired, against 0."""

    def decide(runs: Runs) -> Finding:
        seen = view(runs["run"], dataset)
        pairs = zip(seen.on(high, method), seen.on(low, method), strict=True)
        gap = mean_interval([a - factor * b for a, b in pairs])
        return _judged(runs["run"], dataset, seen, judge(gap, 0.0, **seen.facts()))

    return decide


def _low(dataset: str, view: View) -> Judge:
    """CONSTANT times each rate on adversarially trained networks is at most NRF-PGD's on standard ones."""

    def decide(runs: Runs) -> Finding:
        seen = view(runs["run"], dataset)
        usual, parts = seen.on("NRF", "standard"), {}
        for attack in ATTACKS:
            pairs = zip(seen.on(attack, "adversarial"), usual, strict=True)
            parts[attack] = at_most(mean_interval([CONSTANT * a - u for a, u in pairs]), 0.0)
        return _judged(runs["run"], dataset, seen, every(parts, **seen.facts()))

    return decide


def _small(dataset: str, view: View) -> Judge:
    """Each attack's rate on the adversarially trained networks is at most SMALL."""

    def decide(runs: Runs) -> Finding:
        seen = view(runs["run"], dataset)
        parts = {a: at_most(mean_interval(seen.on(a, "adversarial")), SMALL) for a in ATTACKS}
        return _judged(runs["run"], dataset, seen, every(parts, **seen.facts()))

    return decide


#: further radii by data set, from that of the training on
REACH = {"mnist": [0.4, 0.5, 0.6, 0.8], "cifar10": [16 / 255, 32 / 255, 64 / 255]}
DRAWS = 5


def _contrasts(dataset: str, view: View, end: str, text: str) -> tuple[Reading, Reading, Reading]:
    """What is compared on standard networks, by how much, and on adversarially trained ones."""
    changes = {"datasets": [dataset], "draws": DRAWS, "reach": REACH[dataset]}
    need = {"run": Need("image-feature-attacks", changes)}
    title = f"{DATASETS[dataset].title}, {text}"
    return (
        Reading(
            f"{dataset}-standard{end}",
            f"{title}: on standard networks NRF-PGD succeeds more often than RF-PGD (difference > 0)",
            need,
            _contrast(dataset, view, "standard", "NRF", "RF", 1.0, above),
        ),
        Reading(
            f"{dataset}-standard-much{end}",
            f"{title}: {MUCH:g} times as often (the rule for ≫)",
            need,
            _contrast(dataset, view, "standard", "NRF", "RF", MUCH, at_least),
        ),
        Reading(
            f"{dataset}-adversarial-order{end}",
            f"{title}: on adversarially trained networks RF-PGD succeeds more often, as in the table's last "
            "rows",
            need,
            _contrast(dataset, view, "adversarial", "RF", "NRF", 1.0, above),
        ),
    )


def _table_readings(dataset: str, view: View, end: str, text: str) -> tuple[Reading, ...]:
    more, much, order = _contrasts(dataset, view, end, text)
    title = f"{DATASETS[dataset].title}, {text}"
    low = (
        f"{title}: on adversarially trained networks both are low: {CONSTANT:g} times the rate is at most "
        "NRF-PGD's on standard ones"
    )
    small = f"{title}: both rates there are at most {SMALL:g}"
    return (
        more,
        much,
        Reading(f"{dataset}-adversarial-low{end}", low, more.needs, _low(dataset, view)),
        Reading(f"{dataset}-adversarial-small{end}", small, more.needs, _small(dataset, view)),
        order,
    )


def _readings(dataset: str) -> tuple[Reading, ...]:
    moved = "at the smallest further radius at which the robust reference can be moved"
    return (
        *_table_readings(dataset, by_network, "", "networks vary"),
        *_table_readings(dataset, by_draw, "-fixed-networks", "networks of one seed, target images vary"),
        *_contrasts(dataset, where_moved, "-moved", moved),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "AT-T2",
        "at",
        "Table 2, A.2",
        "Targeted attacks through non-robust features succeed on standard networks and those through robust "
        "features hardly do; adversarial training makes both rare.",
        ("the networks have learned the ten classes", "the adversarially trained ones are robust"),
        (*_readings("mnist"), *_readings("cifar10")),
    ),
)
