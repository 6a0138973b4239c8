"""Partitions of the classes — first half against second, even against odd, any other — and subsets by
seed."""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.core.errors import BadInput, require
from featscope.core.frozen import Value
from featscope.core.streams import stream
from featscope.images.cifar100 import superclass_parts

LEFT_OUT = -1


class Grouping(Value):
    """Disjoint groups of classes: class c belongs to group g if c ∈ parts[g]; classes in no group are left
    out."""

    parts: tuple[tuple[int, ...], ...]

    def model_post_init(self, context: object) -> None:
        """Refuse empty and overlapping groups."""
        flat = [c for part in self.parts for c in part]
        require(
            len(self.parts) >= 2 and all(self.parts),
            "a grouping needs at least two groups, none empty",
            f"{self.parts}",
            "add one",
        )
        require(
            len(set(flat)) == len(flat),
            "groups must not share classes",
            f"{self.parts}",
            "name each class once",
        )
        require(min(flat) >= 0, "classes are numbered from 0", f"{self.parts}", "use 0, 1, 2, …")

    def __call__(self, y: Tensor) -> Tensor:
        """The group of each label, −1 where its class is left out."""
        top = max(int(y.max()) if y.numel() else 0, *(c for part in self.parts for c in part))
        table = torch.full((top + 1,), LEFT_OUT, dtype=torch.int64)
        for group, part in enumerate(self.parts):
            table[list(part)] = group
        return table.to(y.device)[y]

    def kept(self, y: Tensor) -> Tensor:
        """The indices of the labels whose class is in some group."""
        return (self(y) != LEFT_OUT).nonzero()[:, 0]

    def fine(self, coarse: int) -> tuple[int, ...]:
        """The classes of one group."""
        return self.parts[coarse]


def halves(classes: int = 10) -> Grouping:
    """The first half of the classes against the second."""
    require(classes >= 2, "halves need two classes", f"classes={classes}", "use more")
    middle = (classes + 1) // 2
    return Grouping(parts=(tuple(range(middle)), tuple(range(middle, classes))))


def parity(classes: int = 10) -> Grouping:
    """Even classes against odd ones."""
    require(classes >= 2, "parity needs two classes", f"classes={classes}", "use more")
    return Grouping(parts=(tuple(range(0, classes, 2)), tuple(range(1, classes, 2))))


def _superclasses(classes: int) -> tuple[tuple[int, ...], ...]:
    require(
        classes == 100, "superclasses are those of 100 classes", f"classes={classes}", "use the data cifar100"
    )
    return superclass_parts()


def superclasses(classes: int = 100) -> Grouping:
    """CIFAR-100's twenty superclasses."""
    return Grouping(parts=_superclasses(classes))


def superclass_halves(classes: int = 100) -> Grouping:
    """The first ten superclasses of CIFAR-100 against the last ten."""
    parts = _superclasses(classes)
    first, second = ((c for part in some for c in part) for some in (parts[:10], parts[10:]))
    return Grouping(parts=(tuple(sorted(first)), tuple(sorted(second))))


def each(classes: int = 10) -> Grouping:
    """Every class by itself."""
    return Grouping(parts=tuple((c,) for c in range(classes)))


_NAMED = {
    "halves": halves,
    "parity": parity,
    "each": each,
    "superclasses": superclasses,
    "superclass-halves": superclass_halves,
}


def grouping(text: str, classes: int = 10) -> Grouping:
    """Return a grouping by name or as text: ``halves``, ``parity``, ``each`` (every class by itself),
    ``superclasses`` and ``superclass-halves`` (CIFAR-100), or ``0,1,8|2,3``."""
    if text in _NAMED:
        return _NAMED[text](classes)
    try:
        parts = tuple(tuple(int(c) for c in part.split(",")) for part in text.split("|"))
    except ValueError:
        raise BadInput(
            "unknown grouping", text, "use halves, parity, each, or groups such as 0,1,8|2,3"
        ) from None
    made = Grouping(parts=parts)
    top = max(c for part in parts for c in part)
    require(top < classes, f"there are {classes} classes", f"class {top}", f"use 0 … {classes - 1}")
    return made


def draw_subset(y: Tensor, n: int, seed: int, name: str, balanced: bool = True) -> Tensor:
    """Draw ``n`` indices without replacement, sorted; a smaller n of the same seed is contained in a larger
    one.

    ``balanced`` takes classes in turn, so that their numbers differ by at most one as long as no class runs
    out.
    """
    require(1 <= n <= len(y), "a subset needs 1 … N images", f"n={n}, N={len(y)}", "change n")
    order = torch.randperm(len(y), generator=stream(seed, "subset", name))
    if balanced:
        labels = y[order]
        rank = torch.zeros_like(labels)
        for label in sorted(set(labels.tolist())):
            mine = labels == label
            rank[mine] = torch.arange(int(mine.sum()))
        order = order[torch.argsort(rank, stable=True)]
    return order[:n].sort().values
