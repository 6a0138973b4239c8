"""Real labels in groups: how many, of which sizes, and the radius that averaging inside them predicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.images.groupings import Grouping, grouping
from featscope.laws.cluster_groups import predicted_radii


class LabelGroups(NamedTuple):
    """Groups of classes that lie inside two halves."""

    groups: Grouping
    halves: Grouping

    @property
    def count(self) -> int:
        """G."""
        return len(self.groups.parts)

    @property
    def of_half(self) -> Grouping:
        """The groups of each half, as a grouping of the group numbers."""
        half = [int(self.halves(torch.tensor(part[:1]))[0]) for part in self.groups.parts]
        first, second = (tuple(g for g, h in enumerate(half) if h == side) for side in (0, 1))
        return Grouping(parts=(first, second))

    def signs(self, dtype: torch.dtype) -> Tensor:
        """(G,) +1 for groups of the first half, −1 for the others."""
        first = torch.isin(torch.arange(self.count), torch.tensor(self.of_half.parts[0]))
        return torch.where(first, 1.0, -1.0).to(dtype)

    def law(self, y: Tensor) -> Tensor:
        """√((s₊ + s₋)/(s_own + s_rival)) for images of the classes ``y``: the predicted radius in units of
        that for two labels, with the halves' sizes s₊, s₋ and those of the own group and the largest rival.
        """
        sizes = torch.tensor([len(part) for part in self.groups.parts])
        return predicted_radii(sizes, self.signs(torch.float64), self.groups(y), int(sizes.sum()))


def label_groups(texts: Sequence[str], classes: int) -> list[LabelGroups]:
    """The groupings of these texts: the first is the two halves, no two have the same number of groups."""
    found = [grouping(text, classes) for text in texts]
    rule, remedy = "the first grouping must have two groups", "begin with halves"
    require(bool(found) and len(found[0].parts) == 2, rule, f"groupings={tuple(texts)}", remedy)
    halves = [set(part) for part in found[0].parts]
    inside = all(any(set(part) <= half for half in halves) for groups in found for part in groups.parts)
    require(inside, "groups must lie inside a half", f"groupings={tuple(texts)}", "do not mix the halves")
    covered = all(sum(map(len, groups.parts)) == classes for groups in found)
    require(
        covered, f"groups must cover the {classes} classes", f"groupings={tuple(texts)}", "name every class"
    )
    counts = [len(groups.parts) for groups in found]
    rule = "groupings must differ in their number of groups"
    require(len(set(counts)) == len(counts), rule, f"{counts}", "drop one")
    return [LabelGroups(groups, found[0]) for groups in found]


def median(values: Sequence[float]) -> float:
    """The median; 0 of nothing, where no radius was measured."""
    return float(torch.tensor(values, dtype=torch.float64).quantile(0.5)) if len(values) else 0.0


def slope(law: Sequence[float], radius: Sequence[float]) -> float:
    """The least-squares slope of log radius over log law: 1 where radii are proportional to the law, 0 where
    they do not depend on the labels; not a number where a radius is 0."""
    if len(law) < 2 or not all(r > 0 for r in radius):
        return math.nan
    x, y = [math.log(value) for value in law], [math.log(value) for value in radius]
    middle, height = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - middle) ** 2 for a in x)
    return sum((a - middle) * (b - height) for a, b in zip(x, y, strict=True)) / spread
