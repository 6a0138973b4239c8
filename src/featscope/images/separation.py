"""The closest pair of images with different labels, exactly, over whole data sets, in ℓ∞ on bytes.

Some pair already attains the distance U. A pair is worth a look only if it could be closer, and one pixel p
with |a_p − b_p| ≥ U rules it out. For a threshold t, let high = {p : a_p ≥ t} and low = {p : a_p ≤ t − U}: if
the high set of one image meets the low set of the other, the pair is ruled out. Sets of 64 pixels are machine
words, so one AND tests 64 pixels of a pair; the words that rule out most come first, and only the pairs that
survive them all are measured byte by byte. What is ruled out is at least U apart, so the minimum is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from featscope.core.errors import require
from featscope.images.formats import Bytes

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

WORD = 64
#: the most words that a pair passes through before it is measured
_MOST_WORDS = 40
_THRESHOLDS = 6
_ROWS, _COLUMNS = 32, 8192
_SAMPLE = 600
_BASE = 400


class ClosestPair(NamedTuple):
    """The smallest distance (in 1/255), where it is attained, how many pairs there are and how many were
    measured in full."""

    distance: int
    left: int
    right: int
    pairs: int
    measured: int


class _Word(NamedTuple):
    """64 pixels against one threshold."""

    pixels: Ints
    threshold: int


def pair_distances(a: Bytes, b: Bytes) -> NDArray[np.uint8]:
    """ℓ∞ distances of corresponding rows."""
    gap: NDArray[np.uint8] = (np.maximum(a, b) - np.minimum(a, b)).max(-1)
    return gap


def _pack(flat: Bytes, word: _Word, bound: int) -> tuple[Words, Words]:
    """The high and the low set of each image over the word's pixels."""
    part = flat[:, word.pixels]
    sets = []
    for inside in (part >= word.threshold, part <= word.threshold - bound):
        bits = np.zeros((len(flat), WORD), dtype=bool)
        bits[:, : inside.shape[1]] = inside
        sets.append(np.packbits(bits, axis=1).view(np.uint64)[:, 0])
    return sets[0], sets[1]


def _candidates(dimension: int, bound: int) -> list[_Word]:
    """Words of pixels spread over the image, for thresholds t with both sets possible: bound ≤ t ≤ 255."""
    order = np.arange(dimension)
    count = -(-dimension // WORD)
    levels = sorted({round(bound + (255 - bound) * (k + 0.5) / _THRESHOLDS) for k in range(_THRESHOLDS)})
    return [_Word(order[start::count], level) for level in levels for start in range(count)]


def _choose_words(a: Bytes, b: Bytes, opposite: NDArray[np.bool_], bound: int) -> list[_Word]:
    """Greedily the words that rule out most pairs of a sample."""
    left, right = opposite.nonzero()
    candidates = _candidates(a.shape[1], bound)
    packed = [(_pack(a, word, bound), _pack(b, word, bound)) for word in candidates]
    free = list(range(len(candidates)))
    chosen: list[_Word] = []
    while free and len(chosen) < _MOST_WORDS and len(left):
        # The first choice may look at a part of the sample: the pairs are many, and words differ much.
        some = slice(0, 20_000)
        meets = []
        for index in free:
            (high_a, low_a), (high_b, low_b) = packed[index]
            i, j = left[some], right[some]
            meets.append(int(np.count_nonzero((high_a[i] & low_b[j]) | (low_a[i] & high_b[j]))))
        best = int(np.argmax(meets))
        if meets[best] == 0:
            break
        index = free.pop(best)
        (high_a, low_a), (high_b, low_b) = packed[index]
        alive = ((high_a[left] & low_b[right]) | (low_a[left] & high_b[right])) == 0
        left, right = left[alive], right[alive]
        chosen.append(candidates[index])
    return chosen or candidates[:1]


class _Filter:
    """The words of both sides for a bound."""

    def __init__(self, a: Bytes, b: Bytes, words: list[_Word], bound: int) -> None:
        self.a = [_pack(a, word, bound) for word in words]
        self.b = self.a if b is a else [_pack(b, word, bound) for word in words]

    def survivors(self, rows: slice, columns: slice) -> tuple[Ints, Ints]:
        """The pairs of a block that no word rules out."""
        (high_a, low_a), (high_b, low_b) = self.a[0], self.b[0]
        met = high_a[rows, None] & low_b[None, columns]
        met |= low_a[rows, None] & high_b[None, columns]
        flat = np.flatnonzero(met.reshape(-1) == 0)
        width = met.shape[1]
        i, j = flat // width + rows.start, flat % width + columns.start
        for (high_a, low_a), (high_b, low_b) in zip(self.a[1:], self.b[1:], strict=True):
            if not len(i):
                break
            alive = ((high_a[i] & low_b[j]) | (low_a[i] & high_b[j])) == 0
            i, j = i[alive], j[alive]
        return i, j


def _column_ranges(label: int, starts: Ints, same: bool, size: int) -> list[tuple[int, int]]:
    """Where the other labels are in the sorted right side; within one set each pair is met once."""
    after = (int(starts[label + 1]), size)
    return [after] if same else [(0, int(starts[label])), after]


def _blocks(left_starts: Ints, right_starts: Ints, same: bool) -> Iterator[tuple[slice, slice]]:
    size = int(right_starts[-1])
    for label in range(len(left_starts) - 1):
        for low, high in _column_ranges(label, right_starts, same, size):
            for row in range(int(left_starts[label]), int(left_starts[label + 1]), _ROWS):
                rows = slice(row, min(row + _ROWS, int(left_starts[label + 1])))
                for column in range(low, high, _COLUMNS):
                    yield rows, slice(column, min(column + _COLUMNS, high))


def _starts(labels: Bytes, classes: int) -> Ints:
    counts = np.bincount(labels, minlength=classes)
    return np.concatenate([[0], np.cumsum(counts)])


def closest(
    left: tuple[Bytes, Bytes],
    right: tuple[Bytes, Bytes] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ClosestPair:
    """The closest pair of different labels between two sets of (images, labels), or within one set if
    ``right`` is None."""
    same = right is None
    a, y_a = _flat(left)
    b, y_b = (a, y_a) if right is None else _flat(right)
    require(
        a.shape[1] == b.shape[1],
        "both sets need images of one size",
        f"{a.shape[1]} and {b.shape[1]} bytes",
        "use one data set",
    )
    classes = int(max(y_a.max(initial=0), y_b.max(initial=0))) + 1
    order_a, order_b = np.argsort(y_a, kind="stable"), np.argsort(y_b, kind="stable")
    a, y_a = a[order_a], y_a[order_a]
    b, y_b = (a, y_a) if same else (b[order_b], y_b[order_b])
    found = _search(a, y_a, b, y_b, classes, same, progress)
    return found._replace(left=int(order_a[found.left]), right=int(order_b[found.right]))


def _flat(side: tuple[Bytes, Bytes]) -> tuple[Bytes, Bytes]:
    images, labels = side
    return np.asarray(images).reshape(len(images), -1), np.asarray(labels)


def _count_pairs(starts_a: Ints, starts_b: Ints, same: bool) -> int:
    a, b = np.diff(starts_a), np.diff(starts_b)
    total = int(a.sum()) * int(b.sum()) - int((a * b).sum())
    return total // 2 if same else total


def _some(y: Bytes, n: int, rng: np.random.Generator) -> Ints:
    """Sorted indices of a sample; labels stay sorted."""
    return np.sort(rng.choice(len(y), min(n, len(y)), replace=False))


def _all_pairs(a: Bytes, y_a: Bytes, b: Bytes, y_b: Bytes) -> ClosestPair:
    """Every pair, byte by byte."""
    best = ClosestPair(256, -1, -1, 0, 0)
    for i in range(len(a)):
        other = np.flatnonzero(y_b != y_a[i])
        if len(other):
            gaps = pair_distances(a[i], b[other])
            j = int(gaps.argmin())
            if gaps[j] < best.distance:
                best = ClosestPair(int(gaps[j]), i, int(other[j]), 0, 0)
    return best


def _search(
    a: Bytes, y_a: Bytes, b: Bytes, y_b: Bytes, classes: int, same: bool, progress: Callable[[int, int], None]
) -> ClosestPair:
    """Labels are sorted. A bound comes from a smaller sample of the same problem; then blocks are filtered
    and survivors measured."""
    starts_a, starts_b = _starts(y_a, classes), _starts(y_b, classes)
    pairs = _count_pairs(starts_a, starts_b, same)
    require(
        pairs > 0,
        "there is no pair of different labels",
        f"{len(a)} and {len(b)} images",
        "use more images or classes",
    )
    if max(len(a), len(b)) <= _BASE:
        return _all_pairs(a, y_a, b, y_b)._replace(pairs=pairs, measured=pairs)
    rng = np.random.default_rng(0)  # decides how fast the answer comes, not the answer
    best = _from_sample(a, y_a, b, y_b, classes, same, rng)
    measured, bound, filters = best.measured, 0, None
    blocks = list(_blocks(starts_a, starts_b, same))
    for number, (rows, columns) in enumerate(blocks):
        if best.distance == 0:
            break
        if filters is None or best.distance < bound:
            bound = best.distance
            i, j = _some(y_a, _SAMPLE, rng), _some(y_b, _SAMPLE, rng)
            words = _choose_words(a[i], b[j], y_a[i][:, None] != y_b[j][None, :], bound)
            filters = _Filter(a, b, words, bound)
        i, j = filters.survivors(rows, columns)
        measured += len(i)
        best = _measure(a, b, i, j, best)
        if number % 64 == 0:
            progress(number, len(blocks))
    progress(len(blocks), len(blocks))
    return best._replace(pairs=pairs, measured=measured)


def _from_sample(
    a: Bytes, y_a: Bytes, b: Bytes, y_b: Bytes, classes: int, same: bool, rng: np.random.Generator
) -> ClosestPair:
    """An attained distance: the answer for a quarter of each side, or, if that has one label only, the worst
    possible."""
    i = _some(y_a, max(len(a) // 4, _BASE // 2), rng)
    j = i if same else _some(y_b, max(len(b) // 4, _BASE // 2), rng)
    if not np.any(y_a[i][:, None] != np.unique(y_b[j])[None, :]):
        return ClosestPair(256, -1, -1, 0, 0)
    part = a[i]
    inner = _search(part, y_a[i], part if same else b[j], y_b[j], classes, same, lambda done, total: None)
    return inner._replace(left=int(i[inner.left]), right=int(j[inner.right]))


def _measure(a: Bytes, b: Bytes, i: Ints, j: Ints, best: ClosestPair, chunk: int = 2048) -> ClosestPair:
    for start in range(0, len(i), chunk):
        ii, jj = i[start : start + chunk], j[start : start + chunk]
        gaps = pair_distances(a[ii], b[jj])
        k = int(gaps.argmin())
        if gaps[k] < best.distance:
            best = best._replace(distance=int(gaps[k]), left=int(ii[k]), right=int(jj[k]))
    return best


def nearest_distances(
    queries: tuple[Bytes, Bytes], pool: tuple[Bytes, Bytes], pieces: int = 16
) -> NDArray[np.int64]:
    """For each query the exact ℓ∞ distance (in 1/255) to the nearest image of another label, abandoning what
    is already too far."""
    x, y = _flat(queries)
    z, labels = _flat(pool)
    splits = np.array_split(
        np.argsort(-z[:: max(len(z) // 2000, 1)].astype(np.float32).var(0), kind="stable"),
        min(pieces, z.shape[1]),
    )
    parts = [np.ascontiguousarray(z[:, part]) for part in splits]
    found = np.full(len(x), 256, dtype=np.int64)
    for q in range(len(x)):
        alive = np.flatnonzero(labels != y[q])
        require(len(alive) > 0, "there is no image of another label", f"label {y[q]}", "use more images")
        worst = np.zeros(len(alive), dtype=np.uint8)
        limit = int(pair_distances(x[q], z[alive[:: max(len(alive) // 64, 1)]]).min())
        for part, columns in zip(parts, splits, strict=True):
            worst = np.maximum(worst, pair_distances(x[q, columns], part[alive]))
            kept = worst <= limit
            alive, worst = alive[kept], worst[kept]
        found[q] = int(worst.min())
    return found
