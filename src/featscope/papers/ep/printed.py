"""Numbers that EP's talk prints, as data."""

from __future__ import annotations

from typing import NamedTuple

# --- real images


class Separation(NamedTuple):
    """A line of the talk's table: ε, train-train and test-train separation."""

    eps: float
    train: float
    test: float


#: the talk's table; ResImageNet (ImageNet at reduced size) is in no source that can be checked here
SEPARATIONS = {
    "mnist": Separation(0.1, 0.737, 0.812),
    "cifar10": Separation(0.031, 0.212, 0.220),
    "svhn": Separation(0.031, 0.094, 0.110),
    "resimagenet": Separation(0.005, 0.180, 0.224),
}
#: digits after the point in that table
SEPARATION_DIGITS = 3


class Trained(NamedTuple):
    """Accuracies of a column of the talk's first table (CIFAR-10, after Raghunathan et al. 2019)."""

    robust_test: float
    robust_train: float | None
    clean_test: float
    clean_train: float


#: the talk's table of clean and adversarial training
RAGHUNATHAN = {
    "clean training": Trained(0.035, None, 0.952, 1.0),
    "adversarial training": Trained(0.458, 1.0, 0.873, 1.0),
}
