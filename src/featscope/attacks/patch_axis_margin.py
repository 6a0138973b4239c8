"""Exact robustness of networks with one neuron a class along an axis, w_i = γ f_i (AT Propositions 3.1 and
3.2).

Different classes read different coordinates, so over the ℓ∞ ball the attacker lowers every coordinate of f_y
by ε and raises every coordinate of f_j by ε at once: min (F_y − F_j) = Σ_p σ̃(γ(⟨f_y, x_p⟩ − ε)) − Σ_p
σ̃(γ(⟨f_j, x_p⟩ + ε)).
"""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.core.losses import own, runner_up
from featscope.nets.activations import smoothed_relu


def worst_margins(
    along: Tensor, y: Tensor, gamma: float, eps: float, q: int, rho: float, raise_others: bool = True
) -> Tensor:
    """The smallest margin over the ball for each point; ``along`` is ⟨f_i, x_p⟩, (N, P, k).

    With ``raise_others`` False the attack only lowers F_y (the `own-logit` reading): the other outputs are
    those at the clean point.
    """
    lowered = smoothed_relu(gamma * (along - eps), q, rho).sum(-2)
    raised = smoothed_relu(gamma * (along + (eps if raise_others else 0.0)), q, rho).sum(-2)
    return own(lowered, y) - own(raised, runner_up(raised, y))


def outputs(along: Tensor, gamma: float, q: int, rho: float) -> Tensor:
    """F_i = Σ_p σ̃(γ⟨f_i, x_p⟩), (N, k)."""
    return torch.as_tensor(smoothed_relu(gamma * along, q, rho).sum(-2))
