"""What `image-fine-labels` writes: the columns of its parts, and the curves that are compared."""

from __future__ import annotations

from featscope.core.columns import Columns, column


class FineLabelCurve(Columns):
    """One row for each data set, seed and ℓ2 radius: shares of test images that withstand an attack."""

    dataset = column("the data set")
    seed = column("the networks' seed")
    radius = column("the ℓ2 radius")
    binary = column("2-class network, PGD on its margin")
    fine_own_loss = column("10-class network, PGD on its own loss, every iterate counted")
    fine_readout = column("10-class network, PGD on the margin of the read-out (sum over a group)")
    fine_worst = column("the smaller of own loss and read-out, image by image")
    fine_largest = column("10-class network, PGD on the margin of the largest class of each group")
    binary_last = column("2-class network, standard PGD, last iterate only")
    fine_last = column("10-class network, standard PGD on the own loss, last iterate only")
    fine_last_within = column("of those, the share that moved to a wrong class of its own group")


class Point(Columns):
    """One row for each data set, seed and image: the smallest radius at which each attack fools it."""

    dataset = column("the data set")
    seed = column("the networks' seed")
    point = column("index among the attacked images")
    label = column("the class")
    group = column("the 2-class label")
    binary = column("2-class network, PGD on its margin")
    fine_own_loss = column("10-class network, PGD on its own loss")
    fine_readout = column("10-class network, PGD on the margin of the read-out")
    fine_largest = column("10-class network, PGD on the margin of the largest class of each group")
    fine_worst = column("the smaller of own loss and read-out")


class Check(Columns):
    """One row for each data set, network and checked radius of the first seed: what stronger attacks add."""

    dataset = column("the data set")
    seed = column("the networks' seed")
    net = column("binary or fine")
    radius = column("the ℓ2 radius")
    images = column("images looked at again")
    left = column("of those, images that the curves' attacks left robust")
    fooled = column("of those, images that APGD or Square fools")
    warnings = column("what the evaluation says of its attacks")
    left_after_apgd_entropy = column("of the images left, those that withstand APGD on cross-entropy")
    left_after_apgd_margin = column("of the images left, those that withstand APGD on the margin")
    left_after_square = column("of the images left, those that withstand Square")


CURVES = (
    FineLabelCurve.binary,
    FineLabelCurve.fine_own_loss,
    FineLabelCurve.fine_readout,
    FineLabelCurve.fine_worst,
    FineLabelCurve.fine_largest,
    FineLabelCurve.binary_last,
    FineLabelCurve.fine_last,
)
#: each reading of the comparison: the curve of the 10-class network and that of the 2-class network
PAIRS = {
    "own_loss": (FineLabelCurve.fine_own_loss, FineLabelCurve.binary),
    "readout": (FineLabelCurve.fine_readout, FineLabelCurve.binary),
    "worst": (FineLabelCurve.fine_worst, FineLabelCurve.binary),
    "largest": (FineLabelCurve.fine_largest, FineLabelCurve.binary),
    "last": (FineLabelCurve.fine_last, FineLabelCurve.binary_last),
}
