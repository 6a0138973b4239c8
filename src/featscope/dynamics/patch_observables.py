"""The quantities of AT that are read off the patch network's weights; all accept a leading axis of runs."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.losses import CROSS_ENTROPY, margin, own
from featscope.laws.patches import PatchBatch, PatchLaw
from featscope.nets.activations import smoothed_relu_slope
from featscope.nets.patch_cnn import PatchNet


class FeatureCorrelations(NamedTuple):
    """⟨w_ir, u_j⟩ and ⟨w_ir, v_j⟩, each (…, k, m, k)."""

    u: Tensor
    v: Tensor


def feature_correlations(w: Tensor, law: PatchLaw) -> FeatureCorrelations:
    """Weight-feature correlations; the diagonals are A and B, the rest C and D (Lemma D.2)."""
    u, v = law.features(w.dtype)
    return FeatureCorrelations(w @ u.mT, w @ v.mT)


def own_correlations(t: Tensor) -> Tensor:
    """The diagonal in (class, feature): A from ⟨w, u⟩, B from ⟨w, v⟩, (…, k, m)."""
    return torch.diagonal(t, dim1=-3, dim2=-1).mT


def cross_correlations(t: Tensor) -> Tensor:
    """max_r of C (or D) for each pair i ≠ j, in the order of (i, j), (…, k(k−1))."""
    k = t.shape[-1]
    pairs = ~torch.eye(k, dtype=torch.bool, device=t.device)
    return t.amax(-2)[..., pairs]


def orthogonal_part(w: Tensor, law: PatchLaw) -> Tensor:
    """P_F^⊥ w: what no feature sees."""
    u, v = law.features(w.dtype)
    return w - (w @ u.mT) @ u - (w @ v.mT) @ v


def noise_correlation_max(net: PatchNet, law: PatchLaw, batch: PatchBatch) -> Tensor:
    """max |⟨w_ir, ξ_p⟩| over neurons and training patches (Lemmas E.3, E.10)."""
    noise = noise_of(law, batch)
    return net.preactivations(noise).abs().flatten(-2).amax(-1)


def noise_update_rest(net: PatchNet, law: PatchLaw, batch: PatchBatch) -> Tensor:
    """Lemma E.4's remainder per unit of η: the largest part of the change of ⟨w_ir, ξ_p⟩ that the patch's own
    term does not explain.

    The own term is (1{y=i} − logit_i) σ̃'(⟨w_ir, x_p⟩) ⟨x_p, ξ_p⟩ / N.
    """
    noise = noise_of(law, batch)
    outputs, pull = net.weight_pullback(batch.x)
    cotangent = -CROSS_ENTROPY.grad(outputs, batch.y) / batch.y.shape[-1]
    slope = smoothed_relu_slope(net.preactivations(batch.x), net.q, net.rho)
    own_term = (batch.x * noise).sum(-1).flatten(-2)[..., None] * slope
    shape = (*batch.y.shape, batch.x.shape[-2], net.classes, net.w.shape[-2])
    own_term = own_term.view(shape) * cotangent[..., :, None, :, None]
    change = PatchNet(pull(cotangent), net.q, net.rho).preactivations(noise).view(shape)
    return (change - own_term).abs().flatten(-4).amax(-1)


class OwnOutputs(NamedTuple):
    """max F_y over the points, and the smallest ratio min F_y ÷ max F_y over the classes (Lemma E.5), (…)."""

    largest: Tensor
    ratio: Tensor


def own_outputs(net: PatchNet, x: Tensor, y: Tensor) -> OwnOutputs:
    """The spread of F_y within each class."""
    values = own(net(x), y)
    ratios = []
    for label in range(net.classes):
        mine = y == label
        high = torch.where(mine, values, torch.full_like(values, -torch.inf)).amax(-1)
        low = torch.where(mine, values, torch.full_like(values, torch.inf)).amin(-1)
        ratios.append(torch.where(mine.any(-1), low / high.clamp(min=1e-300), torch.ones_like(high)))
    return OwnOutputs(values.amax(-1), torch.stack(ratios).amin(0))


class FeatureOutputs(NamedTuple):
    """F at the points, and at the points with the features of one kind replaced by zero (Def. 4.1), each (…,
    N, k)."""

    whole: Tensor
    robust: Tensor
    non_robust: Tensor


def feature_outputs(net: PatchNet, batch: PatchBatch, noise: Tensor) -> FeatureOutputs:
    """The network is a sum over patches, and a patch is kept whole or is its ``noise`` alone: two passes make
    all three outputs."""
    kept, alone, robust = net.by_patch(batch.x), net.by_patch(noise), batch.robust[..., None]
    mixed = torch.where(robust, kept, alone), torch.where(robust, alone, kept)
    return FeatureOutputs(kept.sum(-2), *(outputs.sum(-2) for outputs in mixed))


def noise_of(law: PatchLaw, batch: PatchBatch) -> Tensor:
    """ξ_p: what is left of a patch without its feature."""
    return batch.x - law.signal(batch.y, batch.robust, batch.amplitude)


def share_right(outputs: Tensor, y: Tensor) -> Tensor:
    """Share of points with F_y > F_j for all j ≠ y, (…)."""
    return (margin(outputs, y) > 0).double().mean(-1)


def accuracy(net: PatchNet, x: Tensor, y: Tensor) -> Tensor:
    """The same of the network's outputs at x."""
    return share_right(net(x), y)


class Fit(NamedTuple):
    """Mean loss, mean 1 − logit_y and accuracy, (…)."""

    loss: Tensor
    residual: Tensor
    accuracy: Tensor


def fit_of(outputs: Tensor, y: Tensor) -> Fit:
    """How well outputs fit their labels."""
    residual = 1 - own(torch.softmax(outputs, -1), y)
    return Fit(CROSS_ENTROPY.value(outputs, y).mean(-1), residual.mean(-1), share_right(outputs, y))


def fit(net: PatchNet, x: Tensor, y: Tensor) -> Fit:
    """How well the network fits a batch."""
    return fit_of(net(x), y)
