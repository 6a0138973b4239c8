"""Identical images with different labels: how many pairs there are, and which images are in one.

Two such images are no distance apart, so a set that has them has separation 0 whatever the others are like.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from featscope.images.formats import Bytes


class Twins(NamedTuple):
    """Pairs of equal images with different labels, and the images of either side that are in one."""

    pairs: int
    left: NDArray[np.int64]
    right: NDArray[np.int64]


def _contents(images: Bytes) -> list[bytes]:
    """What tells images apart, in few bytes: no two contents with one SHA-256 are known."""
    return [hashlib.sha256(np.asarray(image).tobytes()).digest() for image in images]


def _labels(contents: Iterable[bytes], labels: Bytes) -> dict[bytes, Counter[int]]:
    found: dict[bytes, Counter[int]] = defaultdict(Counter)
    for content, label in zip(contents, labels, strict=True):
        found[content][int(label)] += 1
    return found


def twins(left: tuple[Bytes, Bytes], right: tuple[Bytes, Bytes] | None = None) -> Twins:
    """Between two sets of (images, labels), or within one if ``right`` is None."""
    contents = _contents(left[0])
    mine = _labels(contents, left[1])
    others = contents if right is None else _contents(right[0])
    theirs = mine if right is None else _labels(others, right[1])
    unlike = {
        content: sum(n * m for a, n in mine[content].items() for b, m in theirs[content].items() if a != b)
        for content in mine.keys() & theirs.keys()
    }
    met = {content for content, pairs in unlike.items() if pairs}
    total = sum(unlike.values())
    # An image is in a pair if the other side has its content with a label that is not its own.
    return Twins(
        total // 2 if right is None else total,
        _members(contents, left[1], theirs, met),
        _members(others, (left if right is None else right)[1], mine, met),
    )


def _members(
    contents: list[bytes], labels: Bytes, others: dict[bytes, Counter[int]], met: set[bytes]
) -> NDArray[np.int64]:
    return np.array(
        [
            place
            for place, (content, label) in enumerate(zip(contents, labels, strict=True))
            if content in met and set(others[content]) - {int(label)}
        ],
        dtype=np.int64,
    )
