"""Gradient flow of FA's 2-class network with one or both layers trained, and how far it is from a KKT point
of the margin problem min ½‖θ‖² subject to q_i(θ) = y_i f(x_i) ≥ 1 (Lyu and Li 2020).

A neuron is one row (w_r, b_r) or (w_r, b_r, a_r). In these rows f is homogeneous of degree L = 1 with the
second layer fixed, and L = 2 with both layers trained. The multipliers are those of the loss, λ_i ∝ −ℓ'(q_i),
as in Lyu and Li's proof: θ is a KKT point up to scale if it is parallel to Σ λ_i ∇q_i = −n∇L, and if λ_i > 0
only where q_i is the least margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.laws.clusters import ClusterBatch
from featscope.nets.two_layer import logistic_slope


class KktMeasures(NamedTuple):
    """How far parameters are from a KKT point.

    ``stationarity`` is ‖θ/‖θ‖ + ∇L/‖∇L‖‖, ``slackness`` Σ λ_i (q_i/q_min − 1)/Σ λ_i (infinite before all
    points are right), and ``margin`` the normalised q_min/‖θ‖^L.
    """

    stationarity: float
    slackness: float
    margin: float

    @property
    def residual(self) -> float:
        """The larger of both conditions' errors."""
        return max(self.stationarity, self.slackness)


@dataclass(frozen=True)
class NeuronRows:
    """Networks whose neurons are rows; with ``fixed`` None the last entry of a row is its output weight."""

    train: ClusterBatch
    fixed: Tensor | None

    @property
    def degree(self) -> int:
        """L: f(cθ) = c^L f(θ)."""
        return 1 if self.fixed is not None else 2

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """First-layer weights with the bias last (N, D+1), and output weights (N,)."""
        return (rows, self.fixed) if self.fixed is not None else (rows[:, :-1], rows[:, -1])

    def start(self, directions: Tensor, signs: Tensor, scale: float) -> Tensor:
        """Small Gaussian weights without biases; trained output weights are balanced, |a_r| = ‖w_r‖."""
        w = torch.cat([scale * directions, directions.new_zeros(len(directions), 1)], 1)
        if self.fixed is not None:
            return w
        return torch.cat([w, (signs * torch.linalg.vector_norm(w, dim=-1))[:, None]], 1)

    def margins(self, rows: Tensor) -> Tensor:
        """(n,) q_i."""
        w, a = self.split(rows)
        return self.train.y * ((self.train.x @ w[:, :-1].mT + w[:, -1]).clamp(min=0) @ a)

    def direction(self, rows: Tensor) -> Tensor:
        """−∇L of the mean logistic loss."""
        w, a = self.split(rows)
        x, y = self.train.x, self.train.y
        z = x @ w[:, :-1].mT + w[:, -1]
        hidden = z.clamp(min=0)
        pull = logistic_slope(y * (hidden @ a)) * y / len(y)
        active = (pull[:, None] * (z >= 0) * a).mT  # (N, n)
        first = torch.cat([active @ x, active.sum(-1, keepdim=True)], 1)
        return first if self.fixed is not None else torch.cat([first, (hidden.mT @ pull)[:, None]], 1)

    def field(self, rows: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The direction as `cluster_flow` wants it; there are no coefficients to carry."""
        return torch.zeros_like(b), self.direction(rows), torch.zeros_like(b)

    def kkt(self, rows: Tensor) -> KktMeasures:
        """The errors of both KKT conditions, and the normalised margin."""
        q, descent = self.margins(rows), self.direction(rows)
        size, least = float(torch.linalg.vector_norm(rows)), float(q.min())
        unit = rows / size, descent / torch.linalg.vector_norm(descent)
        weights = torch.softmax(-torch.nn.functional.softplus(q), 0)  # ln|ℓ'| = −softplus(q)
        slack = float((weights * (q / least - 1)).sum()) if least > 0 else math.inf
        return KktMeasures(
            float(torch.linalg.vector_norm(unit[0] - unit[1])), slack, least / size**self.degree
        )

    def averaging(self, rows: Tensor, features: Tensor, signs: Tensor) -> tuple[float, float]:
        """Mean over neurons, by what they contribute, and least over neurons, of the cosine between a
        neuron's share in the span of the features and the sum of its class's features.

        1 is averaging; a neuron of one feature of s has 1/√s.
        """
        w, a = self.split(rows)
        parts = torch.nn.functional.normalize(w[:, :-1] @ torch.linalg.pinv(features), dim=-1)
        ideal = torch.nn.functional.normalize((a[:, None] * signs > 0).to(w), dim=-1)
        cosine = (parts * ideal).sum(-1)
        weight = a.abs() * torch.linalg.vector_norm(w, dim=-1)
        return float((weight * cosine).sum() / weight.sum()), float(cosine.min())
