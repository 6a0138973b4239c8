"""Clusters in groups: labels between the two classes of FA's law and its k clusters.

Groups lie inside one class. Training on them averages inside a group (Theorem 4.5 for one group a class,
Theorem 4.7 for one cluster a group), and a read-out as two classes is then crossed where the own group's
output meets that of the largest rival: at √(d/(s_own + s_rival)) with the groups' sizes s, which is
√(dG/(2k)) for G groups of one size.
"""

from __future__ import annotations

import re

import torch
from scipy.cluster.vq import ClusterError, kmeans2
from torch import Tensor

from featscope.core.errors import BadInput, require
from featscope.core.frozen import Value
from featscope.core.settings import Sizes, setting
from featscope.laws.clusters import ClusterLaw

#: starts of k-means, of which the tightest is kept
STARTS = 5


class ClusterGroups(Value):
    """The sizes of the groups of each class; clusters are taken in the law's order."""

    plus: Sizes = setting(..., "sizes of the groups of label +1")
    minus: Sizes = setting(..., "sizes of the groups of label −1")

    @property
    def name(self) -> str:
        """Such as "4 v 4+4"."""
        return " v ".join("+".join(map(str, side)) for side in (self.plus, self.minus))

    @property
    def sizes(self) -> Tensor:
        """(G,) clusters of each group."""
        return torch.tensor([*self.plus, *self.minus])

    @property
    def count(self) -> int:
        """G."""
        return len(self.plus) + len(self.minus)

    def law(self, d: int) -> ClusterLaw:
        """FA's law with so many clusters."""
        return ClusterLaw(k=sum(self.plus) + sum(self.minus), d=d, positive=sum(self.plus))

    def of_cluster(self) -> Tensor:
        """(k,) the group of each cluster."""
        return torch.repeat_interleave(torch.arange(self.count), self.sizes)

    def signs(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """(G,): the class of each group."""
        return torch.tensor([1.0] * len(self.plus) + [-1.0] * len(self.minus), dtype=dtype)


def parse_groups(text: str) -> ClusterGroups:
    """The groups that a text such as "4 v 4+4" names.

    >>> parse_groups("4 v 4+4").count
    3
    """
    if re.fullmatch(r"\d+(\+\d+)* v \d+(\+\d+)*", text) is None:
        raise BadInput("groups are written as sizes of each class", repr(text), "write for example 4 v 4+4")
    plus, minus = (tuple(map(int, side.split("+"))) for side in text.split(" v "))
    return ClusterGroups(plus=plus, minus=minus)


def predicted_radii(sizes: Tensor, signs: Tensor, group: Tensor, d: int) -> Tensor:
    """(n,) √(d/(s_own + s_rival)) for points of these groups; the rival is the other class's largest."""
    sizes = sizes.double()
    largest = {sign: sizes[signs == sign].max() for sign in (1.0, -1.0)}
    rival = torch.where(signs[group] > 0, largest[-1.0], largest[1.0])
    return torch.sqrt(d / (sizes[group] + rival))


def flip_labels(group: Tensor, count: int, share: float, rng: torch.Generator) -> Tensor:
    """Labels of which a random ``share`` is replaced by another group, each equally likely."""
    require(0 <= share <= 1, "a share lies between 0 and 1", f"share={share}", "use for example 0.1")
    flipped = torch.rand(len(group), generator=rng) < share
    other = (group + torch.randint(1, count, (len(group),), generator=rng)) % count
    return torch.where(flipped, other, group)


def kmeans_labels(x: Tensor, y: Tensor, groups: ClusterGroups, rng: torch.Generator) -> Tensor:
    """Labels that nobody gave: k-means (k-means++ starts, the tightest kept) inside each class, as many means
    as the class has groups."""
    found = torch.zeros(len(y), dtype=torch.int64)
    for sign, first, count in ((1, 0, len(groups.plus)), (-1, len(groups.plus), len(groups.minus))):
        mine = (y * sign > 0).nonzero()[:, 0]
        found[mine] = first + _kmeans(x[mine], count, rng)
    return found


def _kmeans(x: Tensor, count: int, rng: torch.Generator) -> Tensor:
    points, best, least = x.double().numpy(), None, torch.inf
    for seed in torch.randint(0, 2**31 - 1, (STARTS,), generator=rng).tolist():
        try:
            means, labels = kmeans2(points, count, minit="++", missing="raise", seed=seed)
        except ClusterError:
            continue  # a mean lost all its points
        spread = float(((points - means[labels]) ** 2).sum())
        if spread < least:
            best, least = torch.from_numpy(labels).long(), spread
    if best is None:
        raise BadInput("k-means left a group empty from every start", f"{count} groups", "raise n")
    return best


def composition(label: Tensor, cluster: Tensor, groups: int, k: int) -> tuple[Tensor, Tensor]:
    """What labels mean: the group that most points of each cluster carry (k,), and the share that do."""
    table = torch.zeros(k, groups, dtype=torch.float64)
    table.index_put_((cluster, label), torch.ones(len(label), dtype=torch.float64), accumulate=True)
    most, of_cluster = table.max(-1)
    return of_cluster, most / table.sum(-1).clamp(min=1)
