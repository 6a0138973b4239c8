"""The orthogonal-noise recursion of FA's cluster model: descent without any vector of dimension d.

Lemmas 5.1 and 5.2 write the weights as w_r = w_r(0) + Σ_j λ_rj μ_j/‖μ_j‖² + Σ_i σ_ri ξ_i/‖ξ_i‖². Take the
noises of different points as orthogonal, ⟨ξ_i, ξ_a⟩ = 0, and ‖ξ_i‖² as d. Then a point of cluster j sees

    ⟨w_r, x_i⟩ = ⟨w_r(0), x_i⟩ + α ⟨w_r − w_r(0), μ_j⟩ + σ (Σ_l λ_rl ⟨ξ_i, μ_l⟩/d + σ_ri),
    ⟨w_r − w_r(0), μ_j⟩ = Σ_l cos(μ_j, μ_l) λ_rl + Σ_a σ_ra ⟨ξ_a, μ_j⟩/d,

and the update equations (2) and (3) close on λ and σ. What is left out is smaller than a pre-activation by
k/√(2nd), and smaller by √(k/n) than the products ⟨ξ_i, μ_l⟩, which are kept: they decide in the first steps
which neurons wake up. Measured against descent (`tests/dynamics/test_reduced.py`): λ is within 1 % of it at
any d if σ_w ∝ 1/d, and its error vanishes with d^−½ if σ_w ∝ d^−½.

There are g label groups of whole clusters, with h neurons each and the softmax of FA §4.2. With g = 2 this is
the 2-class network of §3.2 without its biases (their part in a pre-activation is smaller by 1/d), with g = k
the k-class network. Points of a cluster differ in their draw alone, so a followed point may stand for several
(``share``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.dynamics.trajectory import Step
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.nets.multiclass import MultiClass, cross_entropy_slope, from_hidden


def group_of_cluster(k: int, plus: int, groups: int) -> Tensor:
    """(k,): the label group of each cluster, in order; no group has clusters of both signs.

    J₊ is cut into about groups·|J₊|/k groups and J₋ into the others, as even as can be.
    """
    require(
        2 <= groups <= k,
        "label groups are at least 2, at most one a cluster",
        f"groups={groups}, k={k}",
        "change it",
    )
    first = min(max(math.floor(groups * plus / k + 0.5), 1, groups - (k - plus)), plus, groups - 1)
    left = torch.div(torch.arange(plus) * first, plus, rounding_mode="floor")
    right = torch.div(torch.arange(k - plus) * (groups - first), k - plus, rounding_mode="floor")
    return torch.cat([left, first + right])


class ReducedClusters(NamedTuple):
    """What the recursion needs of a draw: inner products of the first weights, and who is who.

    ``along`` (N, k) is ⟨w_r(0), μ_j⟩, ``across`` (N, f) is ⟨w_r(0), ξ_i⟩ and ``crossed`` (f, k) is
    ⟨ξ_i, μ_j⟩, for N = g·h neurons, group by group, and f followed points; ``cluster`` (f,) and ``share``
    (f,) say whose they are and for how many points each stands.
    """

    along: Tensor
    across: Tensor
    crossed: Tensor
    cluster: Tensor
    share: Tensor

    @staticmethod
    def of(law: ClusterLaw, train: ClusterBatch, features: Tensor, w: Tensor) -> ReducedClusters:
        """Reduce a training set and initial weights to their inner products; every point is followed."""
        noise = (train.x - law.alpha * features[train.cluster]) / law.sigma
        share = torch.ones(len(train.cluster), dtype=w.dtype)
        return ReducedClusters(w @ features.mT, w @ noise.mT, noise @ features.mT, train.cluster, share)

    @property
    def n(self) -> float:
        """All points that are stood for."""
        return float(self.share.sum())


class ReducedDescent(NamedTuple):
    """The state: C (N, f) of every followed point, summed over the steps."""

    c: Tensor


class ClusterReduction(NamedTuple):
    """A law, its reduced draw, the group of each cluster, and neurons a group."""

    law: ClusterLaw
    start: ReducedClusters
    groups: Tensor
    h: int

    def begin(self) -> ReducedDescent:
        """The state at step 0."""
        return ReducedDescent(torch.zeros_like(self.start.across))

    def cosines(self) -> Tensor:
        """(k, k): cos(μ_j, μ_l)."""
        law = self.law
        return (1 - law.cosine) * torch.eye(law.k, dtype=torch.float64) + law.cosine

    def features(self, state: ReducedDescent) -> Tensor:
        """λ (N, k), equation (2)."""
        owners = torch.nn.functional.one_hot(self.start.cluster, self.law.k).to(state.c)
        return self.law.alpha * self.law.d * ((state.c * self.start.share) @ owners)

    def noise(self, state: ReducedDescent) -> Tensor:
        """σ (N, f), equation (3)."""
        return self.law.sigma * self.law.d * state.c

    def at_centres(self, state: ReducedDescent) -> Tensor:
        """(N, k): ⟨w_r, μ_j⟩.

        Of the points that one stands for only their number is known, and the products of their noises with
        μ_j have independent signs: they sum up to the root of it.
        """
        met = (self.noise(state) * self.start.share.sqrt()) @ self.start.crossed
        return self.start.along + self.features(state) @ self.cosines() + met / self.law.d

    def hidden(self, state: ReducedDescent) -> Tensor:
        """(f, N): the pre-activations ⟨w_r, x_i⟩."""
        law, s = self.law, self.start
        own = s.across + self.noise(state) + self.features(state) @ s.crossed.mT / law.d
        return (law.alpha * self.at_centres(state)[:, s.cluster] + law.sigma * own).mT

    def outputs(self, state: ReducedDescent) -> Tensor:
        """(f, g): F_s of the followed points."""
        return from_hidden(MultiClass(state.c, self.h), self.hidden(state))

    def step(self, eta: float) -> Step[ReducedDescent]:
        """One step of descent: C_ri grows by (η/n)(1{own} − p_s)/h where the neuron is active."""
        labels, n = self.groups[self.start.cluster], self.start.n

        def step(state: ReducedDescent, t: int) -> ReducedDescent:
            z = self.hidden(state)
            slope = cross_entropy_slope(from_hidden(MultiClass(state.c, self.h), z), labels)
            pull = -slope.repeat_interleave(self.h, -1) / self.h * (z >= 0)
            return ReducedDescent(state.c + eta / n * pull.mT)

        return step

    def squared_norm(self, state: ReducedDescent, mixed: Tensor, init_weight: float) -> Tensor:
        """‖Σ_r ω_r w_r‖² for each row ω of ``mixed`` (…, N); first weights are taken as orthogonal, of norm
        σ_w√d."""
        law, s = self.law, self.start
        lam, c = mixed @ self.features(state), mixed @ state.c
        first = mixed @ (law.alpha * s.along[:, s.cluster] + law.sigma * s.across)
        grown = (lam @ self.cosines() * lam).sum(-1) / law.d + (c**2 * s.share).sum(-1) * law.sigma**2 * law.d
        return grown + 2 * (first * c * s.share).sum(-1) + (mixed**2).sum(-1) * init_weight**2 * law.d

    def feature_cosines(self, state: ReducedDescent, init_weight: float) -> Tensor:
        """(k, N): cosine of feature μ_j with neuron w_r, the entries of Figure 2."""
        every = torch.eye(state.c.shape[0], dtype=state.c.dtype)
        norms = self.squared_norm(state, every, init_weight).clamp(min=0).sqrt()
        return (self.at_centres(state) / (norms[:, None] * math.sqrt(self.law.d))).mT.nan_to_num()

    def radii(self, state: ReducedDescent, init_weight: float) -> Tensor:
        """(k,): how far the centre α μ_c of each cluster is from the nearest group of the other sign.

        The distance to the plane on which the neurons of the own group that are active at the centre meet all
        neurons of a rival group: exact where these and no others are active there. 0 where the centre is on
        the wrong side already.
        """
        k, h, groups = self.law.k, self.h, self.groups
        z = self.law.alpha * self.at_centres(state)
        member = torch.arange(int(groups.max()) + 1)[:, None] == torch.arange(len(z))[None, :] // h
        signs = self.law.signs()
        found = torch.full((k,), math.inf, dtype=torch.float64)
        for c in range(k):
            own = member[groups[c]] & (z[:, c] > 0)
            rivals = sorted(set(groups[signs != signs[c]].tolist()))
            mixed = (own.to(z) - member[rivals].to(z)) / h
            length = self.squared_norm(state, mixed, init_weight).clamp(min=0).sqrt()
            found[c] = ((mixed @ z[:, c]).clamp(min=0) / length).nan_to_num().min()
        return found


def averaged_radius(law: ClusterLaw, groups: Tensor) -> float:
    """√(d/(|s|+|t|)), the least over groups s, t of opposite sign: the radius of perfect averaging in groups.

    √(d/k) for two groups, √(d/2) for one cluster a group.
    """
    sizes, signs = torch.bincount(groups), law.signs()
    plus, minus = sizes[groups[signs > 0]].max(), sizes[groups[signs < 0]].max()
    return law.alpha * math.sqrt(law.d / int(plus + minus))
