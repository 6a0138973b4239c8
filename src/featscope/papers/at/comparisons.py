"""AT's printed numbers beside a run's own."""

from __future__ import annotations

import math
from collections.abc import Callable

from featscope.claims.comparison import Comparison
from featscope.experiments.run import Run
from featscope.papers.at import printed
from featscope.papers.at.image_feature_attacks import ImageFeatureAttacks
from featscope.papers.at.image_features import METHODS, ImageFeatures
from featscope.papers.at.patch_batches import median_switch
from featscope.papers.at.patch_fig3 import PatchFig3

#: Table 1's cells as the paper heads them
TABLE_1_HEADS = {
    "clean_test": "clean test accuracy",
    "robust_test": "robust test accuracy",
    "feature_NR": "accuracy on D̂_NR",
    "feature_R": "accuracy on D̂_R",
}


def figure_3(run: Run) -> list[Comparison]:
    """What §6.1 prints for Figure 3: its settings, and the epoch at which the phase changes."""
    spec = PatchFig3.of(run)
    arms = {"standard training": spec.standard, "adversarial training": spec.adversarial}
    found = [Comparison("§6.1", "radius ε", printed.FIGURE_3_EPS, spec.eps, "a setting")]
    for arm, training in arms.items():
        rate, epochs = printed.FIGURE_3_LEARNING_RATE, printed.FIGURE_3_EPOCHS
        found += [
            Comparison("§6.1", f"learning rate η, {arm}", rate, training.learning_rate, "a setting"),
            Comparison("§6.1", f"epochs T, {arm}", epochs, training.epochs, "a setting"),
        ]
    attack = printed.FIGURE_3_ATTACK_STEP_SIZE
    by_seed = run.summary.get("adversarial", {}).get("phase_switch_by_seed", [])
    switch = median_switch([epoch for classes in by_seed for epoch in classes]) if by_seed else math.inf
    ours = switch if math.isfinite(switch) else None
    return [
        *found,
        Comparison("§6.1", "epoch of the switch of phase", printed.FIGURE_3_SWITCH_EPOCH, ours),
        Comparison("§6.1", "step η̃ of the training attack", attack, spec.adversarial.step_size, "a setting"),
    ]


def table_1(run: Run) -> list[Comparison]:
    """Table 1 of the run's data set: what the networks reach, and what they read in each relation."""
    dataset = ImageFeatures.of(run).network.dataset
    table = run.summary["table"]
    found = []
    for method, row in printed.TABLE_1.get(dataset, {}).items():
        for key, head in TABLE_1_HEADS.items():
            # Test accuracies do not depend on who reads the sets.
            for relation in table if key.startswith("feature") else list(table)[:1]:
                who = f" ({relation})" if key.startswith("feature") else ""
                ours = table[relation][method].get(key, {}).get("mean")
                what = f"{dataset}, {method} training: {head}{who}"
                found.append(Comparison("Table 1", what, getattr(row, key), ours))
    return found


def table_2(run: Run) -> list[Comparison]:
    """Table 2 on CIFAR-10, pair by pair."""
    tables = run.summary["datasets"].get("cifar10", {}).get("table", {})
    pairs = ImageFeatureAttacks.of(run).pairs
    found = []
    for method in METHODS:
        for attack, rates in printed.TABLE_2[method].items():
            ours = tables.get(method, {}).get(attack, {}).get("pairs", {})
            for (source, target), rate in zip(printed.TABLE_2_PAIRS, rates, strict=True):
                if tables and (source, target) in pairs:
                    what = f"cifar10, {method} training: {attack} attack, class {source} → {target}"
                    mean = ours.get(f"{source}-{target}", {}).get("mean")
                    found.append(Comparison("Table 2", what, rate, mean))
    return found


COMPARISONS: dict[str, Callable[[Run], list[Comparison]]] = {
    "patch-fig3": figure_3,
    "image-features": table_1,
    "image-features-widths": table_1,
    "image-features-cifar10": table_1,
    "image-features-svhn": table_1,
    "image-feature-attacks": table_2,
}
