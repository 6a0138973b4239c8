"""What is said of an experiment before it runs and after: the size of its settings, and its key numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_training import activations, training_size

if TYPE_CHECKING:
    from featscope.papers.at.image_feature_attacks import ImageFeatureAttacks
    from featscope.papers.at.patch_fig3 import PatchFig3
    from featscope.papers.at.patch_scaling import PatchScaling


def fig3_size(spec: PatchFig3) -> Size:
    """Samples and weights of every seed; each step meets every point with every neuron."""
    law, runs = spec.law, len(spec.seeds) * len(spec.arms)
    points = (spec.train_size + spec.test_size) * law.patches * law.d
    weights = law.k * spec.net.width * law.d
    steps = spec.standard.steps + spec.adversarial.steps * (1 + spec.adversarial.attack_steps)
    looks = steps / spec.evaluation.every * spec.evaluation.steps * spec.evaluation.restarts
    products = spec.train_size * steps + spec.evaluation.points * looks
    return Size(runs * (points + 3 * weights), runs * products * law.patches * weights)


def scaling_size(spec: PatchScaling) -> Size:
    """Coefficients of all dimensions and seeds at once; their number does not depend on d."""
    runs = len(spec.seeds) * len(spec.dimensions)
    held = runs * spec.law.k * spec.net.width * 2 * spec.law.k
    return Size(held + max(spec.widths) * len(spec.seeds), held * spec.steps * len(spec.arms))


def feature_attacks_size(spec: ImageFeatureAttacks) -> Size:
    """The largest of the networks, and the attacks on every pair."""
    networks = [getattr(spec, name).network for name in spec.datasets]
    held = max(training_size(network).numbers for network in networks)
    looks = len(spec.pairs) * spec.images * spec.steps * len(spec.seeds)
    return Size(held, looks * sum(activations(network.net) for network in networks))


FIG3_HIGHLIGHTS = (
    Highlight("standard/clean_test", "clean accuracy on fresh points, standard training", "share"),
    Highlight("standard/u", "max ⟨w, u⟩ of each class, robust feature, standard training"),
    Highlight("standard/v", "max ⟨w, v⟩ of each class, non-robust feature, standard training"),
    Highlight(
        "standard/robust_test/*/upper",
        "robust accuracy at most, standard training, threat {}",
        "share",
    ),
    Highlight("adversarial/clean_test", "clean accuracy on fresh points, adversarial training", "share"),
    Highlight("adversarial/u", "max ⟨w, u⟩ of each class, robust feature, adversarial training"),
    Highlight("adversarial/v", "max ⟨w, v⟩ of each class, non-robust feature, adversarial training"),
    Highlight(
        "adversarial/robust_test/*/upper",
        "robust accuracy at most, adversarial training, threat {}",
        "share",
    ),
    Highlight("adversarial/phase_switch", "step at which the robust feature takes over"),
    Highlight("any_classifier/upper", "robust accuracy of any classifier at most, full ball", "share"),
)

SCALING_HIGHLIGHTS = (
    Highlight("standard/event 1/*/share", "runs whose outputs reach ln d, standard training, {}", "share"),
    Highlight(
        "features-only/event 1/*/share",
        "runs that learn the robust feature, features-only clip, {}",
        "share",
    ),
    Highlight("two-sided/event 1/*/share", "runs that learn the robust feature, two-sided clip, {}", "share"),
    Highlight(
        "as-printed/event 1/*/share",
        "runs that learn the robust feature, clip as printed, {}",
        "share",
    ),
)

FEATURE_ATTACKS_HIGHLIGHTS = (Highlight("datasets/*/accuracy/*/*", "{}, {} training, {} by seed", "share"),)
