"""How far a point of AT's law is from being turned inside the span of the features, from the coefficients
alone.

The attacker writes −ε along u_y and v_y and +ε along u_j and v_j on every patch (the perturbation that AT's
Theorem 4.3 and the bound on networks of one feature use): an explicit perturbation of ℓ∞ norm ε for features
along the axes, so the radius at which it turns the point is an upper bound of the ℓ∞ radius.
"""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.dynamics.patch_recursion import Coefficients, Latents
from featscope.nets.activations import smoothed_relu
from featscope.nets.patch_cnn import PatchNetSpec

BISECTIONS = 30


def span_margins(spec: PatchNetSpec, state: Coefficients, data: Latents, eps: Tensor) -> Tensor:
    """(n,): the least F_y − F_j over rivals j, each point perturbed for that rival, at its own radius."""
    xu, xv = data.coordinates()
    least = torch.full_like(eps, torch.inf)
    for rival in range(data.classes):
        towards = torch.nn.functional.one_hot(torch.full_like(data.y, rival), data.classes)
        shift = eps[:, None] * (towards - torch.nn.functional.one_hot(data.y, data.classes))
        z = torch.einsum("ngj,irj->ngir", xu + shift[:, None], state.u)
        z = z + torch.einsum("ngj,irj->ngir", xv + shift[:, None], state.v)
        outputs = (smoothed_relu(z, spec.q, spec.rho).sum(-1) * data.multiplicity[..., None]).sum(-2)
        margin = outputs.gather(-1, data.y[:, None])[:, 0] - outputs[:, rival]
        least = torch.where(data.y == rival, least, torch.minimum(least, margin))
    return least


def span_radii(spec: PatchNetSpec, state: Coefficients, data: Latents) -> Tensor:
    """(n,): the radius at which the perturbation turns each point, by halving [0, largest amplitude]; 0 where
    it is wrong already."""
    low = torch.zeros_like(data.amplitude[:, 0])
    right = span_margins(spec, state, data, low) > 0
    high = torch.where(right, data.amplitude.amax(-1), low)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        safe = right & (span_margins(spec, state, data, middle) > 0)
        low, high = torch.where(safe, middle, low), torch.where(safe, high, middle)
    return low


def feature_radius(amplitude: float, count: int, patches: int, q: int) -> float:
    """ε with count·(amplitude − ε)^q = patches·ε^q: a network of this feature alone, in the polynomial part
    of its activation, is robust at no larger radius."""
    return float(amplitude / (1 + (patches / count) ** (1 / q)))
