"""What `image-features` and `image-inversion` record of reconstructed sets and of who reads them."""

from __future__ import annotations

from featscope.core.columns import Columns, column


class Originals(Columns):
    """One row for each seed; the tensors are the images and their labels."""

    seed = column("the seed that draws them")
    images = column("test images that are reconstructed")


class InversionPath(Columns):
    """One row for each set, seed and recorded step of the reconstruction."""

    set = column("NR or R")
    seed = column("the reference's seed")
    step = column("steps of the search")
    error_mean = column("relative feature error, mean over images")
    error_max = column("relative feature error, largest over images")


class SetAccuracy(Columns):
    """Accuracy of one network on one reconstructed set, and how the set was made."""

    set = column("NR or R")
    accuracy = column("share of the set that the reader classifies as its originals")
    low = column("lower end of Wilson's interval")
    high = column("upper end of Wilson's interval")
    accuracy_near = column("accuracy on the half with the smaller feature error")
    accuracy_far = column("accuracy on the half with the larger feature error")
    error_mean = column("relative feature error of the set, mean over images")
    error_median = column("median over images")
    error_max = column("largest over images")
    start = column("where the inversion starts")
    layer = column("the layer that is inverted")
    steps = column("steps of the inversion")
    step_size = column("its first step size")


#: how a set was made
HOW = (SetAccuracy.start, SetAccuracy.layer, SetAccuracy.steps, SetAccuracy.step_size)


class SetRead(SetAccuracy):
    """One row for each seed, relation, training of the reader and set."""

    seed = column("the seed of the networks that the sets were made from")
    relation = column("reader-is-reference, same-start or other-start")
    reader = column("the reading network's seed")
    method = column("standard or adversarial: the reading network's training")


class FeatureCurve(Columns):
    """One row for each relation, training, seed and kept epoch of the network that reads."""

    relation = column("reader-is-reference, same-start or other-start")
    method = column("standard or adversarial: the reading network's training")
    seed = column("the seed of the sets")
    reader = column("the reading network's seed")
    step = column("epochs trained")
    clean_test = column("accuracy on test images")
    feature_NR = column("accuracy on D̂_NR")
    feature_R = column("accuracy on D̂_R")


#: set → column
FEATURE = {"NR": FeatureCurve.feature_NR, "R": FeatureCurve.feature_R}


class Tested(Columns):
    """One row for each training and seed: the network after its last epoch."""

    method = column("standard or adversarial")
    seed = column("the network's seed")
    clean_test = column("accuracy on the network's test images")
    published = column("whether the data are the published files, by their hash")
    clean_attacked = column("accuracy on the images that are attacked")
    attacked = column("images attacked")
    eps = column("radius of the attack")
    steps = column("its steps")
    robust_test = column("accuracy under attack")


#: the columns of Table 1
CELLS = (Tested.clean_test, Tested.robust_test, FeatureCurve.feature_NR, FeatureCurve.feature_R)
