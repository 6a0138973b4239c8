"""The seven properties of FA's training set (Proposition A.6) and the constants of its proofs, as numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from featscope.core.conditions import Condition, asks_at_most
from featscope.laws.clusters import ClusterBatch, ClusterLaw


def proof_epsilon(law: ClusterLaw, n: int) -> float:
    """ε of Lemma B.7 for a law and its number of training points."""
    return epsilon(law.k, law.d, n)


def epsilon(k: float, d: float, n: float) -> float:
    """ε of Lemma B.7: max{2 ln(n/k)/(√(n/k) − ln(n/k)), k²Δ/d, k²/n} with Δ = 4√d ln d."""
    share = n / k
    first = 2 * math.log(share) / (math.sqrt(share) - math.log(share))
    return max(first, k**2 * cross_bound(d) / d, k**2 / n)


def cross_bound(d: float) -> float:
    """Δ = 4√d ln d of Proposition A.6."""
    return 4 * math.sqrt(d) * math.log(d)


def failure_bound(law: ClusterLaw, n: int) -> float:
    """δ = 8 n² d^(−ln d / 2) + 2k (n/k)^(−ln(n/k)) of Proposition A.6."""
    share = math.log(n / law.k)
    return 8 * n**2 * math.exp(-(math.log(law.d) ** 2) / 2) + 2 * law.k * math.exp(-(share**2))


def properties(law: ClusterLaw, batch: ClusterBatch, distinct: bool) -> list[Condition]:
    """The seven properties of Proposition A.6 on one training set; ``distinct`` reads property 6 for i ≠ j
    only."""
    d, n, k = law.d, batch.x.shape[0], law.k
    root, delta = math.sqrt(d), cross_bound(d)
    mu = law.features(batch.x.shape[1], batch.x.dtype)
    same = batch.cluster[:, None] == batch.cluster[None, :]
    noise = batch.x.clone()
    noise[:, :k] -= law.alpha * mu[batch.cluster, :k]
    noise /= law.sigma
    # One large product; ⟨x_i, x_j⟩ follows from the noise's by α²⟨μ, μ⟩ and the cross terms.
    inner, crossed = _gram(batch._replace(x=noise)), noise @ mu.mT
    mixed = law.alpha * law.sigma * crossed[:, batch.cluster]
    gram = (
        law.sigma**2 * inner + mixed + mixed.mT + law.alpha**2 * (mu @ mu.mT)[batch.cluster][:, batch.cluster]
    )
    norms = inner.diagonal().sqrt().clone()
    inside = same & ~torch.eye(n, dtype=torch.bool) if distinct else same
    counts = torch.bincount(batch.cluster, minlength=k).double()
    spread = math.sqrt(2 * n / k) * math.log(n / k)
    return [
        asks_at_most("1", "| ‖ξ_i‖ − √d | ≤ 2 ln d", float((norms - root).abs().max()), 2 * math.log(d)),
        asks_at_most("2", "‖x_i‖ ≤ 3√d", float(gram.diagonal().max().sqrt()), 3 * root),
        asks_at_most("3", "|⟨ξ_i, ξ_j⟩| ≤ Δ for i ≠ j", float(inner.fill_diagonal_(0).abs().max()), delta),
        asks_at_most("4", "|⟨μ_j, ξ_i⟩| ≤ Δ", float(crossed.abs().max()), delta),
        asks_at_most(
            "5", "|⟨x_i, x_j⟩| ≤ Δ across clusters", float(gram.masked_fill(same, 0).abs().max()), delta
        ),
        Condition("6", "d/2 ≤ ⟨x_i, x_j⟩ ≤ 2d inside a cluster", *_widest(gram, inside, d)),
        asks_at_most("7", "| |I_j| − n/k | ≤ √(2n/k) ln(n/k)", float((counts - n / k).abs().max()), spread),
    ]


def _gram(batch: ClusterBatch, block: int = 256) -> Tensor:
    """X Xᵀ block by block: of two points of a compact copy the earlier one says how many coordinates
    matter."""
    x, n = batch.x, batch.x.shape[0]
    gram = x.new_empty(n, n)
    for low in range(0, n, block):
        high = min(low + block, n)
        width = batch.width(high)
        part = x[low:, :width] @ x[low:high, :width].mT
        gram[low:, low:high], gram[low:high, low:] = part, part.mT
    return gram


def _widest(gram: Tensor, inside: Tensor, d: int) -> tuple[float, float, bool]:
    """Property 6 as one number: the largest factor by which an inner product inside a cluster leaves d,
    against 2."""
    top = float(gram.masked_fill(~inside, d).max()) / d
    low = float(gram.masked_fill(~inside, d).min()) / d
    factor = max(top, 1 / max(low, 1e-9))
    return factor, 2.0, factor <= 2
