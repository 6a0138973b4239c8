"""A certified lower bound of the ℓ2 radius of the binary read-out of FA's k-class network.

Take a point of class s with cluster c. Outputs are not negative, so the read-out can only flip where

    Σ_{j ∉ J_s} e^{F_j(x+δ)} ≥ e^{F_c(x+δ)} + |J_s| − 1.

With one neuron a class F_j = ReLU(z_j), and ‖δ‖² ≥ (1/κ) Σ_i (⟨w_i, δ⟩/‖w_i‖)², κ the largest eigenvalue of
the Gram matrix of the unit weights of c and of the rivals: moving z_i by t costs at least t²/(κ‖w_i‖²). How
far a budget of squared norm can push the two sides apart is then a knapsack. Budgets are cut into bins; each
share is rounded up to whole bins, and the rounding is paid for, so the bound is rigorous and approaches the
knapsack's optimum as the bins shrink. For nearly orthogonal weights κ is close to 1 and the bound is tight.
"""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.nets import multiclass
from featscope.nets.multiclass import MultiClass

#: Bins of the squared budget.
BINS = 600


def certified_radii(
    net: MultiClass, signs: Tensor, x: Tensor, y: Tensor, cluster: Tensor, above: Tensor, bins: int = BINS
) -> Tensor:
    """A radius below which no perturbation flips the read-out; 0 where it is wrong. Searched below ``above``,
    an attacked radius."""
    lower = torch.zeros_like(above)
    outputs = multiclass.logits(net, x)
    margin = y * multiclass.readout(outputs, signs)
    by_slope = _by_slope(net, signs, margin)
    if net.h > 1:
        return by_slope
    z = x @ net.w.mT
    right, own = (margin > 0) & above.isfinite(), y == signs[cluster]
    for sign in (1.0, -1.0):
        picked = (right & own & (y == sign)).nonzero()[:, 0]
        if len(picked):
            lower[picked] = _knapsack(net.w, signs, sign, cluster[picked], z[picked], above[picked], bins)
    # The inequality above needs c ∈ J_s. A label that differs from its cluster's class never occurs in the
    # law.
    return torch.where(right & ~own, by_slope, lower)


def _knapsack(
    w: Tensor, signs: Tensor, sign: float, cluster: Tensor, z: Tensor, above: Tensor, bins: int
) -> Tensor:
    """The bound at the points of one class, all clusters of it at once: their rivals are the same."""
    rivals = (signs != sign).nonzero()[:, 0].tolist()
    norms = torch.linalg.vector_norm(w, dim=-1)
    unit = w / norms.clamp(min=torch.finfo(w.dtype).tiny)[:, None]
    # At least 1, the diagonal, unless all weights are zero.
    each = {c: _largest_eigenvalue(unit[[c, *rivals]]).clamp(min=1.0) for c in set(cluster.tolist())}
    kappa = torch.stack([each[c] for c in cluster.tolist()])
    unit_budget = kappa * above**2 / bins
    # One bin more for each share pays for rounding it up.
    size = bins + len(rivals) + 1
    steps = (unit_budget[:, None] * torch.arange(size + 1, dtype=w.dtype)).sqrt()
    gain = z.new_zeros(z.shape[0], size + 1)
    for j in rivals:
        gain = _max_plus(gain, (z[:, j : j + 1] + norms[j] * steps).clamp(min=0).exp())
    own = z.gather(1, cluster[:, None])
    saved = -(own - norms[cluster][:, None] * steps).clamp(min=0).exp()
    best = _max_plus(gain, saved)
    enough = best >= int((signs == sign).sum()) - 1
    first = torch.where(enough.any(-1), enough.int().argmax(-1), size + 1)
    safe = (first - 1 - (len(rivals) + 1)).clamp(min=0, max=bins)
    radius: Tensor = (safe * unit_budget / kappa).sqrt()
    return radius


def _largest_eigenvalue(rows: Tensor) -> Tensor:
    """Of the rows' Gram matrix."""
    largest: Tensor = torch.linalg.eigvalsh(rows @ rows.mT)[-1]
    return largest


def _max_plus(left: Tensor, right: Tensor) -> Tensor:
    """(left ⊕ right)_b = max_{a ≤ b} left_{b−a} + right_a."""
    out = torch.full_like(left, -torch.inf)
    width = left.shape[-1]
    for a in range(width):
        torch.maximum(out[:, a:], left[:, : width - a] + right[:, a : a + 1], out=out[:, a:])
    return out


def _by_slope(net: MultiClass, signs: Tensor, margin: Tensor) -> Tensor:
    """The margin over the largest slope; a read-out that is constant never flips."""
    slope = _lipschitz(net, signs)
    bound: Tensor = (
        margin.clamp(min=0) / slope if slope > 0 else torch.where(margin > 0, torch.inf, 0.0).to(margin)
    )
    return bound


def _lipschitz(net: MultiClass, signs: Tensor) -> Tensor:
    """‖∇ read-out‖ is at most the largest distance from 0 of Σ_{J₊} π w − Σ_{J₋} π w with neurons on or off:
    max_{J₊} + max_{J₋} of (1/h)Σ_r ‖w_{j,r}‖."""
    sizes = torch.linalg.vector_norm(net.w, dim=-1).reshape(net.k, net.h).mean(-1)
    bound: Tensor = sizes[signs > 0].max() + sizes[signs < 0].max()
    return bound
