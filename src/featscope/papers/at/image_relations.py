"""Who reads a reconstructed set: the network that it was made from, one of its first weights, or another.

AT §6.2 does not say it. Networks come in rounds: those of the first seeds have first weights of their own,
those of every later round the same first weights in the same order, and differ in training images and
batches. Each network makes sets, and each reads once in each relation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

READER_IS_REFERENCE, SAME_START, OTHER_START = "reader-is-reference", "same-start", "other-start"
#: relation → what it means for a network of some training that reads a set
RELATIONS: Mapping[str, str] = {
    READER_IS_REFERENCE: "the networks that the sets were made from read them",
    SAME_START: "networks of the same first weights and other images and batches read",
    OTHER_START: "networks of other first weights, images and batches read",
}


def by_start(seeds: Sequence[int], per_start: int) -> list[tuple[int, ...]]:
    """The seeds of each start: one of each round."""
    starts = len(seeds) // per_start
    return [tuple(seeds[start::starts]) for start in range(starts)]


def first_weights(seeds: Sequence[int], per_start: int) -> dict[int, int | None]:
    """For each seed the one whose first weights its network has; None: its own."""
    start_of = {seed: group[0] for group in by_start(seeds, per_start) for seed in group}
    return {seed: None if start_of[seed] == seed else start_of[seed] for seed in seeds}


def readers(seeds: Sequence[int], per_start: int) -> dict[int, dict[str, int]]:
    """For each seed that makes sets and each relation the seed of the networks that read them.

    `same-start`: the same start in the next round; `other-start`: the next start in the same round; after the
    last the first. Where every network has its own start, nobody is `same-start`.
    """
    starts = by_start(seeds, per_start)
    found: dict[int, dict[str, int]] = {}
    for i, group in enumerate(starts):
        following = starts[(i + 1) % len(starts)]
        for turn, seed in enumerate(group):
            found[seed] = {READER_IS_REFERENCE: seed}
            if per_start > 1:
                found[seed][SAME_START] = group[(turn + 1) % per_start]
            found[seed][OTHER_START] = following[turn]
    return {seed: found[seed] for seed in seeds}


def start_means(values: Sequence[float], per_start: int) -> list[float]:
    """The mean over the networks of each start, of values in the order of the seeds.

    Networks of one start share first weights and read each other, so that a start counts as one value of an
    interval.
    """
    starts = len(values) // per_start
    parts = [values[start::starts] for start in range(starts)]
    return [sum(part) / len(part) for part in parts]
