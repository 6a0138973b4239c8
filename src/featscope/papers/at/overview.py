"""The key numbers of experiments whose modules are long."""

from __future__ import annotations

from featscope.experiments.highlights import Highlight

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
