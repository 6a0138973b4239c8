"""What the steps of FA's inductions (Lemmas B.7 to B.21, C.10 to C.21) speak of, measured on a state."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from featscope.core.losses import own
from featscope.dynamics.cluster_descent import Descent, hidden_values
from featscope.dynamics.cluster_observables import ClusterObservables
from featscope.nets import multiclass
from featscope.nets.multiclass import MultiClass

#: a logarithm beyond which its number is not written
LARGEST_LOG = 700.0


def binary_lemmas(watch: ClusterObservables, state: Descent, a: Tensor) -> dict[str, float]:
    """The 2-class network's quantities."""
    train = watch.train
    z = hidden_values(state.w, state.b, train)
    q = (train.y * (z.clamp(min=0) @ a)).double()
    mine = (train.y[:, None] * a[None, :]) > 0
    return _quantities(watch, state, z, q, -torch.nn.functional.softplus(q), mine)


def fine_lemmas(watch: ClusterObservables, state: Descent, h: int) -> dict[str, float]:
    """The k-class network's quantities, with the largest output of another class (Lemma C.17)."""
    train, net = watch.train, MultiClass(state.w, h)
    z = hidden_values(state.w, state.b, train)
    outputs = multiclass.from_hidden(net, z).double()
    others = outputs.scatter(-1, train.cluster[:, None], -torch.inf)
    slope = torch.logsumexp(others, -1) - torch.logsumexp(outputs, -1)
    owner = torch.arange(watch.law.k).repeat_interleave(h)
    mine = train.cluster[:, None] == owner[None, :]
    found = _quantities(watch, state, z, own(outputs, train.cluster), slope, mine)
    return {**found, "other_output": float(others.max())}


def _quantities(
    watch: ClusterObservables, state: Descent, z: Tensor, q: Tensor, slope: Tensor, mine: Tensor
) -> dict[str, float]:
    """``q`` are margins, ``slope`` is ln|ℓ'|, ``mine`` (n, N) says which neurons are a point's own."""
    law, cluster = watch.law, watch.train.cluster
    found = watch.coefficients(state)
    crossed = state.w @ watch.features.mT
    products = z - state.b
    noise = (products - law.alpha * crossed.mT[cluster]) / law.sigma
    explained = found.features.mT[cluster] + found.noise.mT
    hat = (explained * mine).sum(-1) / mine.sum(-1)
    unit = z.shape[0] / law.k * found.noise.mT  # (n/k) σ_{r,i}
    return {
        "feature_gap": float((crossed - found.features).abs().max()),
        "noise_gap": float((noise - found.noise.mT).abs().max()),
        "point_gap": float((products - explained).abs().max()),
        "hat_error": float((q - hat).abs().max()),
        "hat_gap_error": _spread(q - hat),
        "hat_gap": _spread(hat),
        "hat_gap_cluster": _largest_spread(hat, cluster),
        "slope_ratio_cluster": math.exp(min(_largest_spread(slope, cluster), LARGEST_LOG)),
        "margin_above": float((q[:, None] - 2 * unit)[mine].max()),
        "margin_below": float((unit / 2 - q[:, None])[mine].max()),
        "slope_above": float((slope[:, None] + unit / 2)[mine].max()),
        "slope_below": float((-slope[:, None] - 2 * unit)[mine].max()),
    }


def _spread(values: Tensor) -> float:
    return float(values.max() - values.min())


def _largest_spread(values: Tensor, cluster: Tensor) -> float:
    """The largest spread inside a cluster that has points."""
    return max(_spread(values[cluster == j]) for j in sorted(set(cluster.tolist())))
