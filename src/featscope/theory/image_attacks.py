"""Claims that attacks on networks of real images decide: AT-T2 (Table 2) and FA-F3mc (Figure 3, middle and right).

What is compared is paired by seed, and the interval is Student's over seeds. The rules were written before the `cpu` runs were made (docs/images-at.md, docs/images-fa.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from featscope.core.stats import mean_interval, wilson
from featscope.core.store import Run
from featscope.experiments.image_feature_attacks import PRINTED
from featscope.experiments.image_fine_labels import PAIRS, area
from featscope.theory.claim import CONSTANT, MUCH, SMALL, Claim, Finding, Judge, Need, Reading, Runs, at_least, at_most, out_of_scope
from featscope.theory.parts import above, every

TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
#: A network has learned its task if it is at least this share of the way from chance to perfect (the rule for Θ). Others are OUT_OF_SCOPE.
LEARNED = 1 / CONSTANT


def threshold(classes: int) -> float:
    """The clean accuracy from which on a network has learned a task of so many classes: .4 for ten, .667 for two."""
    return 1 / classes + LEARNED * (1 - 1 / classes)


def _scoped(unmet: Sequence[str], finding: Finding) -> Finding:
    return out_of_scope(unmet, finding) if unmet else finding


# Table 2


def _feature_scope(run: Run, dataset: str) -> list[str]:
    """Networks that have not learned, and adversarially trained ones that lose more than two thirds of their accuracy to PGD."""
    accuracy = run.summary["datasets"][dataset]["accuracy"]
    clean = {method: min(values["clean_test"]) for method, values in accuracy.items()}
    unmet = [f"clean accuracy ({method}) ≥ {threshold(10):.3g}: {value:.3f}" for method, value in clean.items() if value < threshold(10)]
    pairs = zip(accuracy["adversarial"]["robust_test"], accuracy["adversarial"]["clean_test"], strict=True)
    kept = min(robust / max(value, 1e-12) for robust, value in pairs)
    return unmet + ([f"robust ÷ clean accuracy (adversarial) ≥ {LEARNED:.3g}: {kept:.3f}"] if kept < LEARNED else [])


def rates(run: Run, dataset: str, attack: str, column: str) -> list[float]:
    """The mean over class pairs, for each seed."""
    parts = [run.part(f"rates-{dataset}-{seed}").filter(pl.col("attack") == attack) for seed in run.spec["spec"]["seeds"]]
    return [float(part[column].to_numpy().mean()) for part in parts]


def _shown(run: Run, dataset: str) -> dict[str, Any]:
    """All cells of the table, the controls, and what is printed."""
    cells = {f"{a} on {m}": rates(run, dataset, a, m) for m in ("standard", "adversarial") for a in ("NRF", "RF", "noise")}
    checks = {f"{a} {c}": rates(run, dataset, a, c) for a in ("NRF", "RF") for c in ("own_head", "distance")}
    printed = {f"{a} on {m}": sum(v) / len(v) for m, row in PRINTED.items() for a, v in row.items()}
    return {"by_seed": cells, "searches": checks, "printed_cifar10": printed, "seeds": len(run.spec["spec"]["seeds"])}


def _contrast(dataset: str, column: str, high: str, low: str, factor: float, judge: Callable[..., Finding]) -> Judge:
    """``high`` − factor·``low`` on the networks of one training, paired by seed, against 0."""

    def decide(runs: Runs) -> Finding:
        run = runs["run"]
        pairs = zip(rates(run, dataset, high, column), rates(run, dataset, low, column), strict=True)
        gap = mean_interval([a - factor * b for a, b in pairs])
        return _scoped(_feature_scope(run, dataset), judge(gap, 0.0, **_shown(run, dataset)))

    return decide


def _low(dataset: str) -> Judge:
    """CONSTANT times each attack's rate on the adversarially trained networks is at most NRF-PGD's on the standard ones."""

    def decide(runs: Runs) -> Finding:
        run = runs["run"]
        usual = rates(run, dataset, "NRF", "standard")
        parts = {}
        for attack in ("NRF", "RF"):
            found = rates(run, dataset, attack, "adversarial")
            parts[attack] = at_most(mean_interval([CONSTANT * a - u for a, u in zip(found, usual, strict=True)]), 0.0)
        return _scoped(_feature_scope(run, dataset), every(parts, **_shown(run, dataset)))

    return decide


def _small(dataset: str) -> Judge:
    """Each attack's rate on the adversarially trained networks is at most SMALL."""

    def decide(runs: Runs) -> Finding:
        run = runs["run"]
        parts = {a: at_most(mean_interval(rates(run, dataset, a, "adversarial")), SMALL) for a in ("NRF", "RF")}
        return _scoped(_feature_scope(run, dataset), every(parts, **_shown(run, dataset)))

    return decide


def _table_readings(dataset: str) -> tuple[Reading, ...]:
    need = {"run": Need("image-feature-attacks", {"datasets": [dataset]})}
    title = TITLES[dataset]
    plain, much = _contrast(dataset, "standard", "NRF", "RF", 1.0, above), _contrast(dataset, "standard", "NRF", "RF", MUCH, at_least)
    order = _contrast(dataset, "adversarial", "RF", "NRF", 1.0, above)
    return (
        Reading(
            f"{dataset}-standard", f"{title}: on standard networks NRF-PGD succeeds more often than RF-PGD (difference > 0)", need, plain
        ),
        Reading(f"{dataset}-standard-much", f"{title}: {MUCH:g} times as often (the rule for ≫)", need, much),
        Reading(
            f"{dataset}-adversarial-low",
            f"{title}: on adversarially trained networks both are low: {CONSTANT:g} times the rate is at most NRF-PGD's on standard ones",
            need,
            _low(dataset),
        ),
        Reading(f"{dataset}-adversarial-small", f"{title}: both rates there are at most {SMALL:g}", need, _small(dataset)),
        Reading(f"{dataset}-adversarial-order", f"{title}: there RF-PGD succeeds more often, as in the table's last rows", need, order),
    )


# Figure 3, middle and right


def curves(run: Run, dataset: str) -> list[pl.DataFrame]:
    """The curves of each seed, by radius."""
    return [run.part(f"curve-{dataset}-{seed}").sort("radius") for seed in run.spec["spec"]["seeds"]]


def _fine_scope(run: Run, dataset: str) -> list[str]:
    """Networks whose 2-class decision has not been learned."""
    clean = {key: min(float(c[key][0]) for c in curves(run, dataset)) for key in ("binary", "fine_readout")}
    return [f"clean accuracy ({key}) ≥ {threshold(2):.3g}: {value:.3f}" for key, value in clean.items() if value < threshold(2)]


def _area(dataset: str, pair: str) -> Judge:
    fine, binary = PAIRS[pair]

    def decide(runs: Runs) -> Finding:
        run = runs["run"]
        areas = [area(c["radius"].to_list(), (c[fine] - c[binary]).to_list()) for c in curves(run, dataset)]
        note = "attacked accuracies: upper bounds, nothing is certified"
        return _scoped(_fine_scope(run, dataset), above(mean_interval(areas), 0.0, by_seed=areas, note=note))

    return decide


def _everywhere(dataset: str, pair: str) -> Judge:
    fine, binary = PAIRS[pair]

    def decide(runs: Runs) -> Finding:
        run = runs["run"]
        found = curves(run, dataset)
        gaps = {f"{r:g}": [float(c[fine][i] - c[binary][i]) for c in found] for i, r in enumerate(found[0]["radius"]) if r > 0}
        parts = {radius: at_least(mean_interval(values), 0.0) for radius, values in gaps.items()}
        return _scoped(_fine_scope(run, dataset), every(parts, by_seed=gaps))

    return decide


def _searched(dataset: str) -> Judge:
    """Of all images looked at again, the share that APGD or Square fools although the curves' attacks did not, for each network and radius."""

    def decide(runs: Runs) -> Finding:
        run = runs["run"]
        rows = run.part(f"check-{dataset}-{run.spec['spec']['seeds'][0]}")
        parts = {
            f"{row['net']} at {row['radius']:g}": at_most(wilson(int(row["fooled"]), int(row["images"])), SMALL) for row in rows.to_dicts()
        }
        return _scoped(_fine_scope(run, dataset), every(parts, rows=rows.to_dicts()))

    return decide


def _figure_readings(dataset: str) -> tuple[Reading, ...]:
    need, title = {"run": Need("image-fine-labels", {"datasets": [dataset]})}, TITLES[dataset]
    attacks = {
        "own_loss": "PGD on each network's own loss, every iterate counted",
        "readout": "PGD on the 2-class margin of the read-out",
        "worst": "the stronger of both, image by image",
        "last": "standard PGD on the own loss, last iterate only",
    }
    areas = [
        Reading(
            f"{dataset}-{pair.replace('_', '-')}", f"{title}, {text}: the area between the curves is above 0", need, _area(dataset, pair)
        )
        for pair, text in attacks.items()
    ]
    radii = [
        Reading(
            f"{dataset}-{pair.replace('_', '-')}-everywhere",
            f"{title}, {attacks[pair]}: at no radius is the 10-class network below",
            need,
            _everywhere(dataset, pair),
        )
        for pair in ("own_loss", "readout", "worst")
    ]
    text = (
        f"{title}: APGD and Square fool at most {SMALL:g} more of the images than the curves' attacks, on either network at either radius"
    )
    return (*areas, *radii, Reading(f"{dataset}-searched", text, need, _searched(dataset)))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "AT-T2",
        "at",
        "Table 2, A.2",
        "Targeted attacks through non-robust features succeed on standard networks and those through robust features hardly do; adversarial training makes both rare.",
        ("the networks have learned the ten classes", "the adversarially trained ones are robust"),
        (*_table_readings("mnist"), *_table_readings("cifar10")),
    ),
    Claim(
        "FA-F3mc",
        "fa",
        "Figure 3 (middle, right), §6.2",
        "Networks trained with 10-class labels and read as 2-class classifiers have higher robust accuracy than those trained with 2-class labels.",
        ("both networks have learned the two classes",),
        (*_figure_readings("mnist"), *_figure_readings("cifar10")),
    ),
)
