"""When a network of real images has learned enough for a claim about it to be judged."""

from __future__ import annotations

from collections.abc import Sequence

from featscope.claims.claim import CONSTANT, Finding, out_of_scope

TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
#: A network has learned its task if it is at least this share of the way from chance to perfect (the rule for Θ). Others are OUT_OF_SCOPE.
LEARNED = 1 / CONSTANT


def threshold(classes: int) -> float:
    """The clean accuracy from which on a network has learned a task of so many classes: .4 for ten, .667 for two."""
    return 1 / classes + LEARNED * (1 - 1 / classes)


def scoped(unmet: Sequence[str], finding: Finding) -> Finding:
    """The finding, or OUT_OF_SCOPE with what it would be."""
    return out_of_scope(unmet, finding) if unmet else finding
