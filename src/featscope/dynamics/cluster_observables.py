"""What FA's lemmas speak of, measured on a state: margins, activation sets, loss-derivative ratios,
coefficients, cosines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from featscope.core.losses import CROSS_ENTROPY, own
from featscope.dynamics.cluster_descent import Decomposition, Descent, coefficients, hidden_values
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.nets import multiclass
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import logistic_loss

Observed = dict[str, Tensor | float]


def cosines(features: Tensor, w: Tensor) -> Tensor:
    """(k, N): cosine of feature μ_i with weight w_j, the entries of Figure 2."""
    return torch.nn.functional.normalize(features, dim=-1) @ torch.nn.functional.normalize(w, dim=-1).mT


def summarise_cosines(table: Tensor, same: Tensor) -> dict[str, float]:
    """Mean, least and largest entry where ``same``, and the largest absolute one elsewhere."""
    inside, outside = table[same], table[~same]
    return {
        "mean": float(inside.mean()),
        "min": float(inside.min()),
        "max": float(inside.max()),
        "other_max": float(outside.abs().max()),
    }


@dataclass(frozen=True)
class ClusterObservables:
    """Observables of one training run: the law, its training set, and the output weights or the number of
    neurons a class."""

    law: ClusterLaw
    train: ClusterBatch

    @cached_property
    def norms(self) -> Tensor:
        """‖ξ_i‖²."""
        return self.law.noise_norms(self.train)

    @cached_property
    def features(self) -> Tensor:
        """μ_j in the coordinates of the run."""
        return self.law.features(self.train.x.shape[1], self.train.x.dtype)

    def coefficients(self, state: Descent) -> Decomposition:
        """λ and σ."""
        return coefficients(self.law, self.train, self.norms, state.c)

    def deviation(self, w: Tensor, scale: float, owners: Tensor) -> Tensor:
        """√d · ‖w_r − λ Σ_{j owned by r} μ_j/‖μ_j‖²‖ for each neuron; ``owners`` (N, k) is 0/1."""
        gap: Tensor = torch.linalg.vector_norm(
            w - scale * (owners.to(w) @ self.features) / self.law.d, dim=-1
        )
        return math.sqrt(self.law.d) * gap

    def binary(self, state: Descent, a: Tensor) -> Observed:
        """The row of the 2-class network."""
        z = hidden_values(state.w, state.b, self.train)
        q = self.train.y * (z.clamp(min=0) @ a)
        mine = (self.train.y[:, None] * a[None, :]) > 0  # (n, N): the neuron's sign is the point's label
        owners = (self.law.signs().to(a)[None, :] * a[:, None]) > 0  # (N, k)
        found = self.coefficients(state)
        same = owners.mT
        cos = summarise_cosines(cosines(self.features, state.w), same)
        scale = float(found.features[owners].mean())
        slope = -torch.nn.functional.softplus(q)
        return {
            **self._shared(q, slope, z, mine, found, owners, scale),
            "loss": float(logistic_loss(q)),
            "deviation": float(self.deviation(state.w, scale, owners).max()),
            "bias": float(state.b.abs().max()),
            "train": float((q > 0).double().mean()),
            "other_active": float((z >= 0)[~mine].double().mean()),
            **{f"cosine_{key}": value for key, value in cos.items()},
        }

    def fine(self, state: Descent, h: int) -> Observed:
        """The row of the k-class network; the margin is F_{c(i)}(x_i) as in Lemma C.10."""
        net = MultiClass(state.w, h)
        z = hidden_values(state.w, state.b, self.train)
        outputs = multiclass.from_hidden(net, z)
        k = self.law.k
        owner = torch.arange(k).repeat_interleave(h)
        mine = self.train.cluster[:, None] == owner[None, :]
        owners = owner[:, None] == torch.arange(k)[None, :]
        found = self.coefficients(state)
        others = outputs.scatter(-1, self.train.cluster[:, None], -torch.inf)
        slope = torch.logsumexp(others, -1) - torch.logsumexp(outputs, -1)
        scale = float(found.features[owners].mean())
        table = cosines(self.features, net.equivalent())
        cos = summarise_cosines(table, torch.eye(k, dtype=torch.bool))
        return {
            **self._shared(own(outputs, self.train.cluster), slope, z, mine, found, owners, scale),
            "loss": float(CROSS_ENTROPY.value(outputs, self.train.cluster).mean()),
            "deviation": float(self.deviation(state.w, scale, owners).max()),
            "train": float((outputs.argmax(-1) == self.train.cluster).double().mean()),
            **{f"cosine_{key}": value for key, value in cos.items()},
        }

    def _shared(
        self,
        q: Tensor,
        slope: Tensor,
        z: Tensor,
        mine: Tensor,
        found: Decomposition,
        owners: Tensor,
        scale: float,
    ) -> Observed:
        # ``slope`` is ln|ℓ'|: the derivatives themselves underflow long before their ratio does.
        big, rest = found.features[owners], found.features[~owners]
        noise_own, noise_rest = found.noise.mT[mine], found.noise.mT[~mine]
        least = float(big.min())
        return {
            "margin_min": float(q.min()),
            "margin_max": float(q.max()),
            "slope_ratio": math.exp(min(float(slope.max() - slope.min()), 700.0)),
            "own_active": float((z >= 0)[mine].double().mean()),
            "lambda_min": least,
            "lambda_max": float(big.max()),
            "lambda_mean": scale,
            "lambda_ratio": float(big.max()) / least if least > 0 else -1.0,
            "lambda_other": float(rest.abs().max()),
            "lambda_other_top": float(rest.max()),
            "sigma_min": float(noise_own.min()),
            "sigma_max": float(noise_own.max()),
            "sigma_other": float(noise_rest.abs().max()),
            "sigma_other_top": float(noise_rest.max()),
        }
