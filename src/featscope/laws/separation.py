"""What no classifier can do: points of different labels whose ε-balls intersect, and the bound that a
matching of them proves.

If the balls around x_i and x_j (y_i ≠ y_j) share a point, no classifier is robust at both. Let x_e be a
fractional matching of such pairs: the robust points of any classifier are an independent set, so their number
is at most n − Σ x_e. The largest fractional matching is half the largest matching of the bipartite double
cover, for any number of classes; for two classes it is the maximum matching itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.spatial.distance import cdist
from torch import Tensor

from featscope.core.balls import ball


class ConflictMatching(NamedTuple):
    """Pairs (left, right) of a matching in the double cover, and the bound 1 − pairs/(2n) on any classifier's
    robust accuracy."""

    left: Tensor
    right: Tensor
    bound: float
    share: float


def distances(x: Tensor, norm: str) -> np.ndarray:
    """All pairwise distances of flattened points in the norm."""
    flat = x.reshape(x.shape[0], -1).double().numpy()
    p = ball(norm, 0.0).p
    if np.isinf(p):
        return np.asarray(cdist(flat, flat, "chebyshev"))
    return np.asarray(cdist(flat, flat, "minkowski", p=p))


def patch_distances(x: Tensor, norm: str) -> np.ndarray:
    """All pairwise distances of points (n, P, d) in the norm patch by patch: the largest over the patches."""
    return np.asarray(np.max([distances(x[:, p], norm) for p in range(x.shape[1])], axis=0))


def conflict(x: Tensor, y: Tensor, norm: str, eps: float) -> ConflictMatching:
    """Find the largest fractional matching of opposite-label pairs at distance ≤ 2ε; ``share`` is the share
    of such pairs."""
    labels = y.numpy()
    opposite = labels[:, None] != labels[None, :]
    meets = (distances(x, norm) <= 2 * eps) & opposite
    matched = maximum_bipartite_matching(csr_array(meets), perm_type="column")
    left = np.flatnonzero(matched >= 0)
    share = float(meets.sum() / max(opposite.sum(), 1))
    right = torch.as_tensor(matched[left].astype(np.int64))
    return ConflictMatching(torch.as_tensor(left), right, 1 - len(left) / (2 * len(labels)), share)
