"""Numbers that AT prints, as data."""

from __future__ import annotations

from typing import NamedTuple

#: AT §6.1, Figure 3: learning rate η and length T of both trainings, in the figure's epochs.
FIGURE_3_LEARNING_RATE = 0.1
FIGURE_3_EPOCHS = 1000
#: AT §6.1: where adversarial training changes its phase, "nearly".
FIGURE_3_SWITCH_EPOCH = 150
#: AT §6.1: the step size η̃ of the training attack, and the radius ε of training and test.
FIGURE_3_ATTACK_STEP_SIZE = 1000.0
FIGURE_3_EPS = 1.2
# --- real images


class Accuracies(NamedTuple):
    """A row of Table 1: clean and robust test accuracy, accuracy on D̂_NR and on D̂_R."""

    clean_test: float
    robust_test: float
    feature_NR: float
    feature_R: float


#: data set → training → row
TABLE_1 = {
    "mnist": {
        "standard": Accuracies(0.9956, 0.0004, 0.8811, 0.4461),
        "adversarial": Accuracies(0.9941, 0.9443, 0.3949, 0.6919),
    },
    "cifar10": {
        "standard": Accuracies(0.9574, 0.0, 0.9179, 0.6126),
        "adversarial": Accuracies(0.8628, 0.4513, 0.1088, 0.6788),
    },
    "svhn": {
        "standard": Accuracies(0.9684, 0.0016, 0.7391, 0.6538),
        "adversarial": Accuracies(0.9199, 0.5855, 0.3550, 0.7704),
    },
}
#: Table 2's class pairs: cat → dog, dog → cat, car → plane, plane → car
TABLE_2_PAIRS = ((3, 5), (5, 3), (1, 0), (0, 1))
#: Table 2 (CIFAR-10, WideResNet-34-10, five seeds): training → attack → rates in the order of the pairs
TABLE_2 = {
    "standard": {"NRF": (0.7141, 0.8036, 0.5408, 0.7674), "RF": (0.1130, 0.0958, 0.0124, 0.0263)},
    "adversarial": {"NRF": (0.0960, 0.1516, 0.0034, 0.0040), "RF": (0.1938, 0.2600, 0.0264, 0.0196)},
}
#: the ± that it prints, in the same order
TABLE_2_SPREAD = {
    "standard": {"NRF": (0.0117, 0.0028, 0.0099, 0.0077), "RF": (0.0055, 0.0058, 0.0010, 0.0013)},
    "adversarial": {"NRF": (0.0018, 0.0023, 0.0004, 0.0000), "RF": (0.0029, 0.0067, 0.0018, 0.0013)},
}
