"""Two-layer networks of few neurons that are robust at the centres of FA's law, built by hand.

Neurons stand for groups of clusters of one class, ReLU(⟨Σ_{j∈g} μ*_j, x⟩ − c) with ⟨μ*_j, μ_l⟩ = 1{j = l},
the dual basis: μ_j/d where features are orthogonal. Two-sided networks have such neurons for both classes;
one-sided ones for one class only, against a constant (a neuron with weight 0), so that min(|J₊|, |J₋|) + 1
neurons suffice where one is kept for each cluster. For orthogonal features and groups of s clusters the radii
are √(d/(2s)), at c = 1 − 1/√2, and √(d/s)/2, at c = ½.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.nets.two_layer import TwoLayer

#: weight of the neurons of a one-sided network against its constant; the constant is worth 1/STEEP of a
#: neuron's range
STEEP = 1e4
Side = Literal["plus", "minus"]


def even_groups(members: Sequence[int], count: int) -> list[list[int]]:
    """The members in ``count`` groups whose sizes differ by one at most.

    >>> even_groups([0, 1, 2, 3, 4], 2)
    [[0, 1, 2], [3, 4]]
    """
    require(
        1 <= count <= len(members),
        "there are as many groups as members at most",
        f"{count} groups of {len(members)}",
        "ask for fewer",
    )
    short, longer = divmod(len(members), count)
    ends = [0]
    for place in range(count):
        ends.append(ends[-1] + short + (place < longer))
    return [list(members[low:high]) for low, high in pairwise(ends)]


def _neurons(features: Tensor, members: Tensor, count: int) -> Tensor:
    """(count, D): the summed dual features of each group."""
    dual = torch.linalg.pinv(features).mT
    return torch.stack([dual[group].sum(0) for group in even_groups(members.tolist(), count)])


def two_sided(features: Tensor, signs: Tensor, plus: int, minus: int, threshold: float) -> TwoLayer:
    """Σ_{groups of J₊} ReLU(⟨Σμ*, x⟩ − c) − Σ_{groups of J₋} ReLU(⟨Σμ*, x⟩ − c)."""
    sides = [
        _neurons(features, (signs * sign > 0).nonzero()[:, 0], count)
        for sign, count in ((1, plus), (-1, minus))
    ]
    w = torch.cat(sides)
    a = torch.cat([w.new_ones(plus), -w.new_ones(minus)])
    return TwoLayer(w, w.new_full((plus + minus,), -threshold), a)


def one_sided(features: Tensor, signs: Tensor, side: Side, count: int, threshold: float) -> TwoLayer:
    """The neurons of one class against a constant: f > 0 where they win (plus), or where they do not
    (minus)."""
    sign = 1.0 if side == "plus" else -1.0
    w = _neurons(features, (signs * sign > 0).nonzero()[:, 0], count)
    w = torch.cat([w, torch.zeros_like(w[:1])])
    b = torch.cat([w.new_full((count,), -threshold), w.new_ones(1)])
    a = sign * torch.cat([w.new_full((count,), STEEP), -w.new_ones(1)])
    return TwoLayer(w, b, a)
