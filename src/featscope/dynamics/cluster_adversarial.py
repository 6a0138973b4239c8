"""Adversarial training of FA's 2-class network on the cluster law, several radii and seeds at once.

Every weight update is that of the logistic loss at perturbed points x + Δ, ‖Δ‖₂ ≤ ε. Descent and attack stay
in the span of the initial weights and the data, so the compact copy is the network, at any d.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from featscope.dynamics.trajectory import Step
from featscope.nets.two_layer import TwoLayer, input_gradient, point_coefficients

#: proof: −y(Σ₊μ − Σ₋μ), which looks at no network; one-step: along the gradient; pgd: ascent from a random
#: start; ramp: pgd whose radius grows over the first half of training
TrainingAttack = Literal["proof", "one-step", "pgd", "ramp"]


class Robustly(NamedTuple):
    """The state: weights (runs, N, D) and biases (runs, N)."""

    w: Tensor
    b: Tensor


class ClusterRuns(NamedTuple):
    """Points (runs, n, D), labels (runs, n), radii (runs,) and the features' direction Σ₊μ − Σ₋μ (D,)."""

    x: Tensor
    y: Tensor
    eps: Tensor
    direction: Tensor


def perturbation(
    net: TwoLayer, data: ClusterRuns, attack: TrainingAttack, share: float, steps: int, rng: torch.Generator
) -> Tensor:
    """Δ (runs, n, D) of length at most ``share`` · ε."""
    eps, y = share * data.eps[:, None, None], data.y[..., None]
    if attack == "proof":
        return -eps * y * normalize(data.direction, dim=-1)
    if attack == "one-step":
        return -eps * y * normalize(input_gradient(net, data.x)[1], dim=-1)
    delta = (
        0.5
        * eps
        * normalize(torch.randn(data.x.shape, generator=rng, dtype=torch.float64).to(data.x), dim=-1)
    )
    for _ in range(steps):
        slope = normalize(input_gradient(net, data.x + delta)[1], dim=-1)
        delta = delta - eps * (2.5 / steps) * y * slope
        size = torch.linalg.vector_norm(delta, dim=-1, keepdim=True)
        delta = delta * (eps / size.clamp(min=torch.finfo(size.dtype).tiny)).clamp(max=1.0)
    return delta


def adversarial_step(
    data: ClusterRuns,
    a: Tensor,
    eta: float,
    attack: TrainingAttack,
    attack_steps: int,
    ramp: int,
    rng: torch.Generator,
) -> Step[Robustly]:
    """θ ← θ − η ∇ mean ℓ(y f(x + Δ)); ``ramp`` is the number of steps over which a growing radius grows."""

    def step(state: Robustly, t: int) -> Robustly:
        net = TwoLayer(state.w, state.b, a)
        share = min(1.0, (t + 1) / ramp) if attack == "ramp" else 1.0
        x = data.x + perturbation(net, data, attack, share, attack_steps, rng)
        c, _ = point_coefficients(net, x, data.y)
        c = c / x.shape[-2]
        return Robustly(state.w + eta * (c @ x), state.b + eta * c.sum(-1))

    return step


def alignment(w: Tensor, a: Tensor, features: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
    """(runs,) means over neurons, by their norms, of the largest cosine with one feature of the own class and
    of the cosine with the sum of them, both in the features' span.

    Of s features a decoupled neuron has 1 and 1/√s, an averaging one 1/√s and 1.
    """
    parts = normalize(w @ torch.linalg.pinv(features), dim=-1)  # (runs, N, k)
    owners = (a[:, None] * signs > 0).to(w)
    single = torch.where(owners > 0, parts, -torch.inf).amax(-1)
    together = (parts * normalize(owners, dim=-1)).sum(-1)
    weight = torch.linalg.vector_norm(w, dim=-1)
    total = weight.sum(-1).clamp(min=torch.finfo(w.dtype).tiny)
    return (weight * single).sum(-1) / total, (weight * together).sum(-1) / total
