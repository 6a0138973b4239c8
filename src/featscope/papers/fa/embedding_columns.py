"""What `image-embeddings` writes: the columns of its parts."""

from __future__ import annotations

from featscope.core.columns import Columns, column


class HeadPath(Columns):
    """One row for each head, kind of embedding, stage, seed and recorded step."""

    net = column("binary or fine")
    kind = column("raw or centred")
    stage = column("paper: §6.1's steps; long: the steps after them")
    seed = column("the seed")
    step = column("steps of this stage")
    time = column("steps of the whole training")
    train_half = column("share of training images whose half is right")
    train_own = column("share of training images whose own label is right")
    test_half = column("share of test images whose half is right")
    test_own = column("share of test images whose own label is right")
    own = column("mean cosine of a class's feature with its own weight")
    half = column("mean cosine with the other weights of its half")
    other = column("mean cosine with the weights of the other half")


class CosineMap(Columns):
    """One row for each head, kind of embedding, stage and seed: cosines at the stage's end."""

    net = column("binary or fine")
    kind = column("raw or centred")
    stage = column("paper or long")
    seed = column("the seed")
    own = column("mean of the diagonal")
    half = column("mean of the rest of the same half")
    other = column("mean of the other half")
    same_half = column("mean of the same half, diagonal and all")
    contrast_half = column("same_half − other")
    contrast_own = column("own − half")
    same_mean = column("same_half by another name")
    same_min = column("smallest cosine of the same half")
    same_max = column("largest cosine of the same half")
    same_other_max = column("largest absolute cosine outside the same half")
    own_mean = column("own by another name")
    own_min = column("smallest cosine of the diagonal")
    own_max = column("largest cosine of the diagonal")
    own_other_max = column("largest absolute cosine outside the diagonal")
    same_gap = column("smallest cosine of the same half − largest of the other, signs and all")
    dead_share = column("share of neurons that no training image activates")
    dead_weights = column("equivalent weights made of such neurons only")
    images_own = column("as own, cosines averaged over images instead of features")
    images_half = column("as half, averaged over images")
    images_other = column("as other, averaged over images")
    images_same_gap = column("as same_gap, averaged over images")
    test_half = column("share of test images whose half is right")
    test_own = column("share of test images whose own label is right")
    train_half = column("share of training images whose half is right")
    train_own = column("share of training images whose own label is right")


class Figure10(Columns):
    """One row for each kind of embedding and seed: cosines of pairs of training images."""

    kind = column("raw or centred")
    seed = column("the seed")
    same = column("mean cosine of two images of one class")
    cross = column("mean cosine of two images of different classes")
    cross_size = column("mean absolute cosine of two images of different classes")
    same_low = column("5 % quantile of the cosines of one class")
    cross_high = column("95 % quantile of the cosines of different classes")
    block_margin = column("least own-class block mean minus the mean of a block with another class")
    blocks_below = column("blocks whose mean exceeds that of one of their classes")
    feature_cosine_largest = column("largest absolute cosine of two class means")
    feature_cosine_mean = column("mean cosine of two class means")
