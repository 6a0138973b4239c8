"""Identical images with different labels, against all pairs."""

import numpy as np
import pytest

from featscope.images.twins import twins


def all_pairs(left, right=None):
    """Every pair, one after the other."""
    (a, y), (b, z) = left, right or left
    pairs = [
        (i, j)
        for i in range(len(a))
        for j in range(len(b))
        if (right is not None or i < j) and y[i] != z[j] and np.array_equal(a[i], b[j])
    ]
    if right is None:
        members = sorted({k for pair in pairs for k in pair})
        return len(pairs), members, members
    return len(pairs), sorted({i for i, _ in pairs}), sorted({j for _, j in pairs})


def few_contents(n, seed):
    """Images of which many are equal."""
    rng = np.random.default_rng(seed)
    contents = rng.integers(0, 255, (5, 2, 2, 3), dtype=np.uint8)
    return contents[rng.integers(0, 5, n)], rng.integers(0, 3, n).astype(np.uint8)


@pytest.mark.parametrize("seed", range(3))
def test_within_a_set_and_between_two_sets(seed):
    left, right = few_contents(20, seed), few_contents(15, seed)
    for other in (None, right):
        found, wanted = twins(left, other), all_pairs(left, other)
        assert (found.pairs, found.left.tolist(), found.right.tolist()) == wanted
        assert found.pairs > 0


def test_equal_images_of_one_label_are_no_pair():
    x = np.zeros((4, 2, 2, 1), dtype=np.uint8)
    assert twins((x, np.zeros(4, dtype=np.uint8))).pairs == 0
    found = twins((x, np.array([0, 0, 0, 1], dtype=np.uint8)))
    assert found.pairs == 3
    assert found.left.tolist() == [0, 1, 2, 3]


def test_a_content_whose_labels_agree_on_the_other_side_is_left_alone():
    """The left image of label 0 has only label 0 on the right: it is in no pair, the one of label 1 is."""
    x = np.zeros((2, 1, 1, 1), dtype=np.uint8)
    found = twins((x, np.array([0, 1], dtype=np.uint8)), (x[:1], np.array([0], dtype=np.uint8)))
    assert (found.pairs, found.left.tolist(), found.right.tolist()) == (1, [1], [0])
