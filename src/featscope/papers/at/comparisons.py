"""AT's printed numbers beside a run's own."""

from __future__ import annotations

from collections.abc import Callable

from featscope.claims.comparison import Comparison
from featscope.experiments.run import Run
from featscope.papers.at import printed
from featscope.papers.at.image_feature_attacks import ImageFeatureAttacks
from featscope.papers.at.image_features import METHODS, ImageFeatures
from featscope.papers.at.patch_fig3 import PatchFig3

#: Table 1's cells as the paper heads them
TABLE_1_HEADS = {
    "clean_test": "clean test accuracy",
    "robust_test": "robust test accuracy",
    "feature_NR": "accuracy on D̂_NR",
    "feature_R": "accuracy on D̂_R",
}


def figure_3(run: Run) -> list[Comparison]:
    """The settings that §6.1 prints for Figure 3: the paper prints no number of its outcome."""
    spec = PatchFig3.of(run)
    arms = {"standard training": spec.standard, "adversarial training": spec.adversarial}
    found = [Comparison("§6.1", "radius ε", printed.FIGURE_3_EPS, spec.eps, "a setting")]
    for arm, training in arms.items():
        rate, steps = printed.FIGURE_3_LEARNING_RATE, printed.FIGURE_3_STEPS
        found += [
            Comparison("§6.1", f"learning rate η, {arm}", rate, training.learning_rate, "a setting"),
            Comparison("§6.1", f"steps T, {arm}", steps, training.steps, "a setting"),
        ]
    attack = printed.FIGURE_3_ATTACK_STEP_SIZE
    return [
        *found,
        Comparison("§6.1", "step η̃ of the training attack", attack, spec.adversarial.step_size, "a setting"),
    ]


def table_1(run: Run) -> list[Comparison]:
    """Table 1 of the run's data set."""
    dataset = ImageFeatures.of(run).network.dataset
    ours = run.summary["table"]
    return [
        Comparison(
            "Table 1",
            f"{dataset}, {method} training: {head}",
            getattr(row, key),
            ours[method].get(key, {}).get("mean"),
        )
        for method, row in printed.TABLE_1.get(dataset, {}).items()
        for key, head in TABLE_1_HEADS.items()
    ]


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
    "image-feature-attacks": table_2,
}
